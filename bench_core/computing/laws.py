"""Laws that the results of parts must obey; a suite or a Config may exempt a part from one, with a reason."""

from collections.abc import Collection
from dataclasses import dataclass

from bench_core.config import Config
from bench_core.errors import Fault, PluginError
from bench_core.planning.stages import Stage
from bench_core.registry import configured

KINDS = ("task", "decoder", "metric")  #: of the parts that the settings of decoding, scoring and measuring name


class BrokenLaw(PluginError):
    """A result of a part breaks a law."""


@dataclass(frozen=True)
class Laws:
    """The laws that apply to a stage: all but those from which its parts are exempt."""

    exempt: Collection[str] = ()

    def broken(self, law: str, text: Fault) -> None:
        """Raise PluginError with a text and the name of the law, unless the part is exempt from it."""
        if law not in self.exempt:
            raise BrokenLaw(f"{text} [{law}]")


def laws(stage: Stage, *more: Config) -> Laws:
    """Return the laws of a stage, except those from which the suite or a Config (own, or in `more`) exempts it."""
    own = (configured(kind, stage.settings[kind]) for kind in KINDS if stage.settings.get(kind))
    exempt = (law for config in (*own, *more) for law in config.exempt())
    return Laws({*stage.settings.get("exempt", ()), *exempt})
