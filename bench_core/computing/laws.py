"""Laws for the results of parts; a suite or Config may exempt a part from a law, with a reason."""

from collections.abc import Collection
from dataclasses import dataclass

from bench_core.config import Config
from bench_core.errors import Fault, PluginError
from bench_core.planning.stages import Stage
from bench_core.registry import configured

KINDS = ("task", "decoder", "metric")  #: part kinds in the settings of decoding, scoring and measuring


class BrokenLaw(PluginError):
    """A result of a part violates a law."""


@dataclass(frozen=True)
class Laws:
    """The laws that apply to a stage: all except `exempt`."""

    exempt: Collection[str] = ()

    def broken(self, law: str, text: Fault) -> None:
        """Raise BrokenLaw with a text and the law's name, unless the part is exempt from it."""
        if law not in self.exempt:
            raise BrokenLaw(f"{text} [{law}]")


def laws(stage: Stage, *more: Config) -> Laws:
    """Return the laws of a stage, minus exemptions declared by the suite, the stage's Configs and `more` Configs."""
    configs = (configured(kind, stage.settings[kind]) for kind in KINDS if stage.settings.get(kind))
    exempt = (law for config in (*configs, *more) for law in config.exempt())
    return Laws({*stage.settings.get("exempt", ()), *exempt})
