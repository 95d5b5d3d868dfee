"""Published numbers: the schema of `references/*.yaml`, next to the suites."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, model_validator

from bench_core.errors import SuiteError
from bench_core.suites import yaml_source as located
from placed_settings import Located, Problems


class PublishedModel(BaseModel):
    """A mapping in a file of published numbers; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Value(PublishedModel):
    """A published number, with its standard deviation if the paper gives one."""

    mean: int | float | bool | str | list[int | float | bool | str]
    std: float | None = None
    runs: PositiveInt | None = None  #: number of training runs, if it differs from the table's `runs`


class Tolerance(PublishedModel):
    """The largest difference at which numbers count as equal for all practical purposes."""

    within: NonNegativeFloat  #: in the unit of the numbers
    why: str = Field(min_length=1)  #: the reason for this tolerance


class Published(PublishedModel):
    """A published table: rows to columns to values, which may be numbers, settings or text."""

    id: str
    place: str  #: its place in the paper, such as "Table 1"
    paper: str = ""  #: filled in from its file
    caption: str = ""
    unit: str | dict[str, str] = ""
    direction: dict[str, Literal["up", "down"]] = {}  #: the better direction of a column
    corpus: str = ""  #: the corpus behind the numbers
    note: str = ""
    runs: PositiveInt | None = None  #: number of training runs behind each mean
    examples: PositiveInt | None = None  #: size of its test set, if it is known and differs from ours
    tolerance: Tolerance | dict[str, Tolerance] | None = None  #: for all numbers, or by column
    rows: dict[str, dict[str, Value]]

    @model_validator(mode="after")
    def _tolerances_of_its_columns(self) -> Self:
        named = self.tolerance if isinstance(self.tolerance, dict) else {}
        if unknown := [name for name in named if name not in self.columns]:
            raise ValueError(f"'tolerance' names {unknown[0]!r}, which is not a column of this table")
        return self

    def tolerance_of(self, column: str) -> Tolerance | None:
        """Return the tolerance of a column, if it has one."""
        return self.tolerance.get(column) if isinstance(self.tolerance, dict) else self.tolerance

    @property
    def columns(self) -> list[str]:
        """Return the names of its columns, in order of first appearance."""
        return list(dict.fromkeys(column for row in self.rows.values() for column in row))


class PublishedFile(PublishedModel):
    """A file of published tables."""

    paper: str
    tables: list[Published]


def load_published(folder: Path, problems: Problems) -> dict[str, Published] | None:
    """Return the tables of every file in `folder` by id; None after reporting problems."""
    tables: dict[str, Published] = {}
    known = len(problems.messages)
    for path in sorted(folder.glob("*.yaml")):
        try:
            source, file = _read(path, located.content(path))
        except SuiteError as error:
            for line in str(error).splitlines():
                problems.note(line)
            continue
        for number, table in enumerate(file.tables):
            if table.id in tables:
                place = source.place(["tables", number, "id"])
                problems.note(f"{place}: the id {table.id!r} is used by another published table. Rename one.")
            tables[table.id] = table.model_copy(update={"paper": file.paper})
    return tables if len(problems.messages) == known else None


@lru_cache(maxsize=64)  # the profiles of a suite, and the suites of a folder, share these files
def _read(path: Path, text: str) -> tuple[Located, PublishedFile]:
    source = located.parse(text, str(path))
    problems = Problems(source)
    file = problems.parsed(PublishedFile, source.data, ())
    if problems.messages:
        raise SuiteError(problems.text())
    return source, file


def number(value: Any) -> float | None:
    """Return a published mean as a number, or None if it is not numeric."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def plain(tables: Mapping[str, Published]) -> dict[str, Any]:
    """Return tables as JSON data."""
    return {name: table.model_dump(mode="json", exclude_none=True) for name, table in tables.items()}
