"""Keys of costs: the same for stages that take equally long, such as trainings that differ in their seed alone."""

from collections.abc import Mapping

from bench_core.planning.cache_keys import key_of
from bench_core.planning.stages import Stage

SEEDED = ("seed", "together")  #: settings of stages that name seeds


class CostKeys:
    """The keys of the stages of a plan, each computed once."""

    def __init__(self, stages: Mapping[str, Stage]) -> None:
        self.stages = stages
        self._known: dict[tuple[str, bool], str] = {}

    def of_record(self, stage: Stage) -> str:
        """Return the key of what a stage costs: that of all seeds."""
        return self._key(stage, speed=False)

    def of_speed(self, stage: Stage) -> str:
        """Return the key of how fast a training is, however many updates it has; or of a stage that reads one."""
        return self._key(stage, speed=True)

    def _key(self, stage: Stage, speed: bool) -> str:
        known = (stage.key, speed)
        if known not in self._known:
            own = {name: value for name, value in stage.settings.items() if name not in SEEDED}
            own["seeds"] = len(stage.settings.get("together", ())) or 1
            if speed and (forecast := stage.about.forecaster):
                own = {**forecast.without_length(own)}
            inputs = {role: self._upstream(*name, speed) for role, name in stage.inputs.items()}
            self._known[known] = key_of({**stage.ingredients, "settings": own, "inputs": inputs})
        return self._known[known]

    def _upstream(self, kind: str, key: str, speed: bool) -> list[str]:
        found = self.stages.get(key)
        return [kind, key if found is None else self._key(found, speed)]
