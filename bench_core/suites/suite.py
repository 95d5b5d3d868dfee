"""A loaded suite: names resolved, settings parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bench_core.config import Config, DecoderConfig, MetricConfig, ModelConfig, ProbeConfig, TaskConfig
from bench_core.suites.grids import ModelGrid, origins
from bench_core.suites.schema import Exemption, Hardware, Limits, Skip
from bench_core.suites.training import TrainingBase
from placed_settings import Unreadable


@dataclass(frozen=True)
class Entry:
    """A model of a suite, with its settings and training settings."""

    config: ModelConfig
    training: TrainingBase
    by_task: Mapping[str, Entry] = field(default_factory=dict)  # task -> the model with different settings

    def at(self, task: str) -> Entry:
        """Return the model as configured for a task."""
        return self.by_task.get(task, self)

    @property
    def all(self) -> list[Entry]:
        """Return all configurations of the model."""
        return [self, *self.by_task.values()]


@dataclass(frozen=True)
class Suite:
    """A loaded suite; the keys of mappings are the names in the suite."""

    name: str
    profile: str | None
    title: str
    source: str
    tasks: Mapping[str, TaskConfig]
    models: Mapping[str, Entry]
    decoders: Mapping[str, DecoderConfig]
    metrics: Mapping[str, MetricConfig]
    probes: Mapping[str, ProbeConfig]
    seeds: Sequence[int]
    splits: Sequence[str]
    limits: Limits
    hardware: Mapping[str, Hardware]
    skip: Sequence[Skip]
    labels: Mapping[str, str] = field(default_factory=dict)  # display names in tables and figures
    quote: bool | Sequence[str] = ()  # tasks whose texts may be quoted; True: all, False: none
    exempt: Sequence[Exemption] = ()
    samples: int = 3  # outputs per cell that reports may show
    grids: Mapping[str, ModelGrid] = field(default_factory=dict)  # model name -> its grid
    sections: Mapping[str, Any] = field(default_factory=dict)  # key of a plugin -> value; without invalid sections
    effective: Mapping[str, Any] = field(default_factory=dict)  # the file with profile and `--set` applied
    changes: Sequence[str] = ()  # keys changed by `--set`
    asked: Sequence[str] = ()  # all changes of the suite: KEY=VALUE
    notes: Sequence[str] = ()  # references to names that `--set` removes
    folder: Path = Path()  # folder of the suite file, the first base of relative paths
    file: str = ""  # the suite file, relative to the working directory

    def parts(self, name: str) -> Iterator[Config]:
        """Yield the Configs of all tasks, models, decoders and metrics with this name."""
        for section in (self.tasks, self.decoders, self.metrics):
            if name in section:
                yield section[name]
        if name in self.models:
            yield from (entry.config for entry in self.models[name].all)

    @cached_property
    def origins(self) -> Mapping[str, str]:
        """Return a mapping from combinations to their grids, by name."""
        return origins(self.grids)

    @property
    def label(self) -> str:
        """Return the name of the reports, such as `strlm/table-1-small`."""
        return f"{self.name}-{self.profile}" if self.profile else self.name


class _Partial(Suite):
    """A suite with invalid sections, which raise Unreadable."""

    def __getattr__(self, name: str) -> Any:
        raise Unreadable(name)


def partial_suite(sections: Mapping[str, Any], invalid: Set[str]) -> Suite:
    """Return a suite with these valid sections; reading an `invalid` section raises Unreadable."""
    if not invalid:
        return Suite(**sections)
    absent: dict[str, Any] = dict.fromkeys(invalid)
    suite = _Partial(**sections, **absent)
    for name in invalid:
        del suite.__dict__[name]
    return suite
