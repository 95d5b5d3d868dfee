"""Keys of costs, shared by stages of equal cost, such as training runs that differ only in their seeds."""

from collections.abc import Mapping

from bench_core.planning.cache_keys import key_of
from bench_core.planning.stages import Stage

SEEDED = ("seed", "vmapped")  #: stage settings that contain seeds


class CostKeys:
    """The cost keys of the stages of a plan, each computed once."""

    def __init__(self, stages: Mapping[str, Stage]) -> None:
        self.stages = stages
        self._keys: dict[tuple[str, bool], str] = {}

    def of_record(self, stage: Stage) -> str:
        """Return the key of the cost of a stage, which is the same for all seeds."""
        return self._key(stage, speed=False)

    def of_speed(self, stage: Stage) -> str:
        """Return the key of the speed of a training stage of any length, or of a stage that depends on training."""
        return self._key(stage, speed=True)

    def _key(self, stage: Stage, speed: bool) -> str:
        request = (stage.key, speed)
        if request not in self._keys:
            settings = {name: value for name, value in stage.settings.items() if name not in SEEDED}
            settings["seeds"] = len(stage.settings.get("vmapped", ())) or 1
            if speed and (forecast := stage.about.forecaster):
                settings = {**forecast.without_length(settings)}
            inputs = {
                role: [kind, self._key(self.stages[key], speed) if key in self.stages else key]
                for role, (kind, key) in stage.inputs.items()
            }
            self._keys[request] = key_of({**stage.ingredients, "settings": settings, "inputs": inputs})
        return self._keys[request]
