"""Laws that what parts say has to keep; a suite or a Config may exempt a part from one, with a reason."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from bench_core.errors import Fault, PluginError
from bench_core.planning.stages import Stage
from bench_core.registry import configured


class BrokenLaw(PluginError):
    """What a part says breaks a law."""


@dataclass(frozen=True)
class Laws:
    """The laws of a stage but those from which its parts are exempt."""

    exempt: Collection[str] = ()

    def broken(self, law: str, text: Fault) -> None:
        """Raise PluginError with a text and the name of the law, unless the part is exempt from it."""
        if law not in self.exempt:
            raise BrokenLaw(f"{text} [{law}]")


def laws(stage: Stage) -> Laws:
    """Return the laws of a stage, but those from which the suite or the Configs of its parts exempt it."""
    kinds = ("task", "model", "decoder", "metric")
    own = (configured(kind, stage.settings[kind]).exempt() for kind in kinds if stage.settings.get(kind))
    return Laws({*stage.settings.get("exempt", ()), *(name for names in own for name in names)})
