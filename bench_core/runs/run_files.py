"""The schemas of the files of a run; validated on reading, as a run may come from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, GetPydanticSchema

from bench_core.probe import Finding
from bench_core.storage.file_formats import Open, Plain, Sample
from bench_core.suites.cells import Cell


@dataclass(frozen=True)
class CellFinding(Finding):
    """What a probe found of a cell, with the suite's names of the metrics that it is about."""

    measured: Mapping[str, str] = field(default_factory=dict)


def as_mapping(shape: type, mapping: Callable[[Any], Mapping[str, Any]]) -> GetPydanticSchema:
    """Annotate a mapping that is checked as the fields of a dataclass."""
    return GetPydanticSchema(lambda _, handler: handler(Annotated[shape, AfterValidator(mapping)]))


Axes: TypeAlias = Annotated[Mapping[str, Any], as_mapping(Cell, lambda cell: cell.axes)]
Probes: TypeAlias = Mapping[str, Annotated[Mapping[str, Any], as_mapping(CellFinding, asdict)]]


class CellSample(Sample):
    """An output, and the cell that it is of."""

    cell: dict[str, str | int | None]


class Environment(Open):
    """What cells were computed with."""

    __pydantic_extra__: dict[str, Plain]
    libraries: dict[str, str] = {}
    code: dict[str, str] = {}


class TaskEntry(Open):
    """What a run tells of a task."""

    corpus: str | None = None
    vocabulary: int = 0
    notice: str | None = None
    entropy: float | None = None
    embedded: bool | None = None
    statistics: dict[str, dict[str, float | int | None]] = {}
    status: str = ""
    reason: str = ""


class ModelEntry(Open):
    """What a run tells of a model."""

    parameters: int | None = None


class Info(Open):
    """What a run tells of itself; those of older versions tell less."""

    suite: str = ""
    profile: str | None = None
    label: str = ""
    title: str = ""
    source: str = ""
    changes: list[str] = []
    environment: Environment = Environment()
    environments: list[Environment] = []
    read: dict[Literal["tasks", "models"], dict[str, dict[str, Any]]] = {}
    tasks: dict[str, TaskEntry] = {}
    models: dict[str, ModelEntry] = {}
    samples: list[CellSample] = []
