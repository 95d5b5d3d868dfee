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
    """A model of a suite: its settings and its training."""

    config: ModelConfig
    training: TrainingBase
    by_task: Mapping[str, Entry] = field(default_factory=dict)  # what it is on the tasks for which it is another

    def at(self, task: str) -> Entry:
        """Return the model as configured for a task."""
        return self.by_task.get(task, self)

    @property
    def all(self) -> list[Entry]:
        """Return all its configurations."""
        return [self, *self.by_task.values()]


@dataclass(frozen=True)
class Suite:
    """A loaded suite; mappings are by the names of the suite."""

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
    labels: Mapping[str, str] = field(default_factory=dict)  # words for names, in tables and figures
    quote: bool | Sequence[str] = ()  # tasks whose texts are shown although their corpus forbids it; False: none
    exempt: Sequence[Exemption] = ()  # laws that are not asked of its parts
    samples: int = 3  # per cell, that reports may show
    grids: Mapping[str, ModelGrid] = field(default_factory=dict)  # by the names of models that stand for several
    sections: Mapping[str, Any] = field(default_factory=dict)  # of plugins, by key; invalid ones are missing
    effective: Mapping[str, Any] = field(default_factory=dict)  # as written, with profile and settings applied
    changes: Sequence[str] = ()  # keys that `--set` gave another value
    asked: Sequence[str] = ()  # all that is not as the suite says: KEY=VALUE each
    notes: Sequence[str] = ()  # where it names what `--set` removes
    folder: Path = Path()  # that of its file, from which its paths are followed first
    file: str = ""  # its file, as seen from the working directory

    def parts(self, name: str) -> Iterator[Config]:
        """Yield the Configs of tasks, models, decoders and metrics of a name."""
        for section in (self.tasks, self.decoders, self.metrics):
            if name in section:
                yield section[name]
        if name in self.models:
            yield from (entry.config for entry in self.models[name].all)

    @cached_property
    def origins(self) -> Mapping[str, str]:
        """Return the grid of each combination, by name."""
        return origins(self.grids)

    @property
    def label(self) -> str:
        """Return the name of its reports, such as `strlm/table-1-small`."""
        return f"{self.name}-{self.profile}" if self.profile else self.name


class _Partial(Suite):
    """A suite some of whose sections are invalid, and so unreadable."""

    def __getattr__(self, name: str) -> Any:
        raise Unreadable(name)


def partial_suite(sections: Mapping[str, Any], invalid: Set[str]) -> Suite:
    """Return a suite from its valid sections; reading one of `invalid` raises Unreadable."""
    if not invalid:
        return Suite(**sections)
    absent: dict[str, Any] = dict.fromkeys(invalid)
    found = _Partial(**sections, **absent)
    for name in invalid:
        del found.__dict__[name]
    return found
