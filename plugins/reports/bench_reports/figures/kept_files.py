"""Files in the folder of a run for figures of single examples, made from the store and merged with the run.

Each is a file of JSON lines, one for a cell and what a figure shows of it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bench_core.errors import StoreError
from bench_core.runs.manifest import Remark
from bench_core.runs.results import Axes, Run, as_json, plain_file
from bench_core.runs.selecting import cell_name
from bench_core.storage.file_formats import parsed
from bench_core.suites.axes import AXES
from bench_reports.language.figure_schema import Figure
from bench_reports.language.of_suite import language

if TYPE_CHECKING:
    from bench_core.storage.store import Store

LONGEST = 250  # characters of what is wrong with a file


@dataclass(frozen=True)
class Record(ABC):
    """What is known of the examples of one cell, or why it is not."""

    cell: Axes
    reason: str = field(default="", kw_only=True)  # why nothing is known; empty if something is

    @property
    @abstractmethod
    def name(self) -> str:
        """Return what tells it from other records of the cell."""

    @property
    @abstractmethod
    def stage(self) -> str:
        """Return the stage from whose artifact it is made, as cells name it."""


T = TypeVar("T", bound=Record)


@dataclass(frozen=True)
class KeptFile(Generic[T]):
    """A file of records that figures show."""

    file: str
    record: type[T]
    needed: Callable[[Figure], bool]  # whether a figure shows its records
    stored: Callable[[Run, Store], Iterator[T]]  # the records of a run, from the artifacts in the store

    def read(self, run: Run) -> list[T]:
        """Return the records of a run; a run without the file has none. Raise StoreError if it is damaged."""
        path = run.folder / self.file
        if not path.exists():
            return []
        try:
            return [parsed(self.record, line) for line in plain_file(path).splitlines()]
        except (OSError, ValueError) as error:
            why = " ".join(str(error).split())[:LONGEST]
            raise StoreError(f"{run.folder}: {self.file} cannot be read ({why}). Run the suite again.") from None

    def write(self, path: Path, found: Iterable[T]) -> None:
        """Write one JSON line a record; infinite and undefined values become words."""
        path.write_text("".join(f"{_line(one)}\n" for one in found), encoding="utf-8")

    def keep(self, run: Run, store: Store) -> None:
        """Write the records that figures of a run show, unless they are there."""
        if any(map(self.needed, language(run).figures)) and not (run.folder / self.file).exists():
            self.write(run.folder / self.file, self.stored(run, store))

    def merge(self, runs: Sequence[Run], merged: Run) -> None:
        """Write the records of a merged run: those of the same artifacts in the runs that it was made from."""
        if not any((run.folder / self.file).exists() for run in runs):
            return
        known: dict[Any, T] = {}
        for run in runs:
            keys = {identity(one.cell): one.artifacts for one in run.cells}
            for one in self.read(run):
                key = keys.get(identity(one.cell), {}).get(one.stage)
                known.setdefault((identity(one.cell), one.name, key), one)
        names = {identity(one.cell): one.artifacts for one in merged.cells}
        found = [one for (cell, _, key), one in known.items() if key and names.get(cell, {}).get(one.stage) == key]
        places = {cell: place for place, cell in enumerate(names)}
        self.write(merged.folder / self.file, sorted(found, key=lambda one: places[identity(one.cell)]))

    def verify(self, run: Run, store: Store | None) -> Iterator[Remark]:
        """Yield where the records of a run are not those of the artifacts in the store."""
        known = self.read(run)
        if known and store is None:
            yield Remark(f"{run.folder / self.file}: the store is not here", wrong=False)
        elif known and store is not None:
            here = {(identity(one.cell), one.name): one for one in self.stored(run, store)}
            for one in known:
                there = here.get((identity(one.cell), one.name))
                if there is None or (not there.reason and _line(there) != _line(one)):
                    name = f"{cell_name(one.cell)}: {one.name}"
                    yield Remark(f"{run.folder / self.file}: {name}: its values are not those in the store")


def identity(cell: Mapping[str, object]) -> tuple[object, ...]:
    """Return the names of a cell on all axes."""
    return tuple(cell.get(axis) for axis in AXES)


def _line(record: Record) -> str:
    return json.dumps(_plain(vars(record)), sort_keys=True, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return as_json(value) if isinstance(value, float) else value
