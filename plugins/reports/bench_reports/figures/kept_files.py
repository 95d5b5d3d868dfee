"""Files of a run for figures of per-example values, made from the store and merged with the run.

Each is a JSON-lines file with a record for each cell and quantity.
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

MAX_PROBLEM_CHARACTERS = 250


@dataclass(frozen=True)
class ExampleRecord(ABC):
    """Per-example data of one cell, or the reason why it is unknown."""

    cell: Axes
    reason: str = field(default="", kw_only=True)  # why nothing is known; empty otherwise

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name that distinguishes it from other records of the cell."""

    @property
    @abstractmethod
    def stage(self) -> str:
        """Return the stage whose artifact it is made from, as named by cells."""


T = TypeVar("T", bound=ExampleRecord)


@dataclass(frozen=True)
class KeptFile(Generic[T]):
    """A file of records for figures."""

    file: str
    record: type[T]
    is_needed: Callable[[Figure], bool]  # whether a figure shows its records
    make_records: Callable[[Run, Store], Iterator[T]]  # makes the records of a run from the store

    def read(self, run: Run) -> list[T]:
        """Return the records of a run, none without the file. Raise StoreError if it is damaged."""
        path = run.folder / self.file
        if not path.exists():
            return []
        try:
            return [parsed(self.record, line) for line in plain_file(path).splitlines()]
        except (OSError, ValueError) as error:
            why = " ".join(str(error).split())[:MAX_PROBLEM_CHARACTERS]
            raise StoreError(f"{run.folder}: {self.file} cannot be read ({why}). Run the suite again.") from None

    def write(self, path: Path, records: Iterable[T]) -> None:
        """Write one JSON line per record; infinite and undefined values become words."""
        path.write_text("".join(f"{_line(record)}\n" for record in records), encoding="utf-8")

    def keep(self, run: Run, store: Store) -> None:
        """Write the records that figures of a run need, unless the file exists."""
        if any(map(self.is_needed, language(run).figures)) and not (run.folder / self.file).exists():
            self.write(run.folder / self.file, self.make_records(run, store))

    def merge(self, runs: Sequence[Run], merged: Run) -> None:
        """Write the records of a merged run, copied from the runs that were merged where artifacts are the same."""
        if not any((run.folder / self.file).exists() for run in runs):
            return
        known: dict[Any, T] = {}
        for run in runs:
            keys = {identity(result.cell): result.artifacts for result in run.cells}
            for record in self.read(run):
                key = keys.get(identity(record.cell), {}).get(record.stage)
                known.setdefault((identity(record.cell), record.name, key), record)
        names = {identity(result.cell): result.artifacts for result in merged.cells}
        records = [
            record for (cell, _, key), record in known.items() if key and names.get(cell, {}).get(record.stage) == key
        ]
        places = {cell: place for place, cell in enumerate(names)}
        self.write(merged.folder / self.file, sorted(records, key=lambda record: places[identity(record.cell)]))

    def verify(self, run: Run, store: Store | None) -> Iterator[Remark]:
        """Yield a remark for each record that differs from the artifacts in the store."""
        known = self.read(run)
        if known and store is None:
            yield Remark(f"{run.folder / self.file}: the store is not available", wrong=False)
        elif known and store is not None:
            here = {(identity(record.cell), record.name): record for record in self.make_records(run, store)}
            for record in known:
                there = here.get((identity(record.cell), record.name))
                if there is None or (not there.reason and _line(there) != _line(record)):
                    name = f"{cell_name(record.cell)}: {record.name}"
                    yield Remark(f"{run.folder / self.file}: {name}: its values differ from those in the store")


def identity(cell: Mapping[str, object]) -> tuple[object, ...]:
    """Return the names of a cell on all axes."""
    return tuple(cell.get(axis) for axis in AXES)


def _line(record: ExampleRecord) -> str:
    return json.dumps(as_json(vars(record)), sort_keys=True, allow_nan=False)
