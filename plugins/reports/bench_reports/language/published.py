"""Published numbers: the schema of `references/*.yaml` beside the suites."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, model_validator

from bench_core.errors import SuiteError
from bench_core.suites import yaml_source as located
from placed_settings import Located, Problems


class Strict(BaseModel):
    """A mapping of a file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Value(Strict):
    """A published number, with its standard deviation if the paper gives one."""

    mean: int | float | bool | str | list[int | float | bool | str]
    std: float | None = None
    runs: PositiveInt | None = None  #: trainings behind it, where not as many as behind the others of its table


class Tolerance(Strict):
    """How far numbers may be apart that are equal for all practical purposes."""

    within: NonNegativeFloat  #: in the unit of the numbers
    why: str = Field(min_length=1)  #: the reason for it


class Published(Strict):
    """A published table: rows to columns to values, which may be numbers, settings or text."""

    id: str
    place: str  #: where it stands in the paper, such as "Table 1"
    paper: str = ""  #: filled in from its file
    caption: str = ""
    unit: str | dict[str, str] = ""
    direction: dict[str, Literal["up", "down"]] = {}  #: which way a column is better
    corpus: str = ""  #: the data behind it
    note: str = ""
    runs: PositiveInt | None = None  #: trainings behind each mean
    examples: PositiveInt | None = None  #: of its test set, where it is known and not as large as ours
    tolerance: Tolerance | dict[str, Tolerance] | None = None  #: of all numbers, or by column
    rows: dict[str, dict[str, Value]]

    @model_validator(mode="after")
    def _tolerances_of_its_columns(self) -> Published:
        named = self.tolerance if isinstance(self.tolerance, dict) else {}
        if unknown := [name for name in named if name not in self.columns]:
            raise ValueError(f"'tolerance' names {unknown[0]!r}, which is no column of this table")
        return self

    def tolerance_of(self, column: str) -> Tolerance | None:
        """Return the tolerance of the numbers of one of its columns, if there is one."""
        return self.tolerance.get(column) if isinstance(self.tolerance, dict) else self.tolerance

    @property
    def columns(self) -> list[str]:
        """Return the names of its columns, in order of first appearance."""
        return list(dict.fromkeys(column for row in self.rows.values() for column in row))


class PublishedFile(Strict):
    """A file of published tables."""

    paper: str
    tables: list[Published]


def load_published(folder: Path, problems: Problems) -> dict[str, Published] | None:
    """Return the tables of every file in `folder`, by id; None after reporting problems in one of them."""
    found: dict[str, Published] = {}
    known = len(problems.found)
    for path in sorted(folder.glob("*.yaml")):
        try:
            source, file = _read(path, located.content(path))
        except SuiteError as error:
            for line in str(error).splitlines():
                problems.note(line)
            continue
        for number, table in enumerate(file.tables):
            if table.id in found:
                place = source.place(["tables", number, "id"])
                problems.note(f"{place}: the id {table.id!r} is used by another published table. Rename one.")
            found[table.id] = table.model_copy(update={"paper": file.paper})
    return found if len(problems.found) == known else None


@lru_cache(maxsize=64)  # the profiles of a suite, and the suites of a folder, share these files
def _read(path: Path, text: str) -> tuple[Located, PublishedFile]:
    source = located.parse(text, str(path))
    problems = Problems(source)
    file = problems.parsed(PublishedFile, source.data, ())
    if problems.found:
        raise SuiteError(problems.text())
    return source, file


def number(value: Any) -> float | None:
    """Return a published mean as a number, or None if it is not one."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def plain(tables: Mapping[str, Published]) -> dict[str, Any]:
    """Return tables as JSON data."""
    return {name: table.model_dump(mode="json", exclude_none=True) for name, table in tables.items()}
