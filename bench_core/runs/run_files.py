"""The schemas of the files of a run, which are validated when read, because runs may be untrusted."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, GetPydanticSchema

from bench_core.probe import Finding
from bench_core.storage.file_formats import Open, Plain, SampleOutput
from bench_core.suites.cells import Cell


@dataclass(frozen=True)
class CellFinding(Finding):
    """The finding of a probe on a cell, with the suite's names for its metrics."""

    measured: Mapping[str, str] = field(default_factory=dict)


def as_mapping(shape: type, mapping: Callable[[Any], Mapping[str, Any]]) -> GetPydanticSchema:
    """Return an annotation with which a mapping is validated as a dataclass."""
    return GetPydanticSchema(lambda _, handler: handler(Annotated[shape, AfterValidator(mapping)]))


Axes: TypeAlias = Annotated[Mapping[str, Any], as_mapping(Cell, lambda cell: cell.axes)]
Probes: TypeAlias = Mapping[str, Annotated[Mapping[str, Any], as_mapping(CellFinding, asdict)]]


class CellSample(SampleOutput):
    """A sample output with its cell."""

    cell: dict[str, str | int | None]


class Environment(Open):
    """An environment in which cells were computed."""

    __pydantic_extra__: dict[str, Plain]
    libraries: dict[str, str] = {}
    code: dict[str, str] = {}
    process: dict[str, str] = {}


class TaskEntry(Open):
    """The entry of a task in run.json."""

    corpus: str | dict[str, str] | None = None
    vocabulary: int = 0
    notice: str | None = None
    entropy: float | None = None
    embedded: bool | None = None
    restricted: str = ""
    statistics: dict[str, dict[str, float | int | None]] = {}
    overlap: dict[str, dict[str, int]] = {}
    texts: dict[str, dict[str, int | str]] = {}
    status: str = ""
    reason: str = ""


class ModelEntry(Open):
    """The entry of a model in run.json."""

    parameters: int | None = None
    one_system: bool = False
    unchecked: bool = False  # contracts were not tested: see `contract_marks`


class Info(Open):
    """The schema of run.json; files of older versions have fewer keys."""

    format: int = 1
    suite: str = ""
    profile: str | None = None
    label: str = ""
    file: str = ""
    title: str = ""
    source: str = ""
    changes: list[str] = []
    environment: Environment = Environment()
    environments: list[Environment] = []
    read: dict[Literal["tasks", "models"], dict[str, dict[str, Any]]] = {}
    tasks: dict[str, TaskEntry] = {}
    models: dict[str, ModelEntry] = {}
    samples: list[CellSample] = []
    observed: dict[str, dict[str, str]] = {}
