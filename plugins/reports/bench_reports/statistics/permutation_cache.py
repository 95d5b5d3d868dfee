"""Permutation tests that a run keeps: a report is made from a run alone, which has no examples to exchange.

`content.permutation_tests` does them while the store is at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bench_core.errors import StoreError
from bench_core.runs.results import Run
from bench_reports.content.grid import Entry, Grid
from bench_reports.statistics.significance import marked

FILE = "permutations.json"  # in the folder of a run
LARGEST = 2**26  # bytes of the file


class Exchanged(BaseModel):
    """What a permutation test said of two numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    p: float = Field(ge=0, le=1)
    draws: int = Field(ge=1)  # how many exchanges it is of


def permutations(run: Run) -> Mapping[str, Exchanged]:
    """Return the permutation tests that a run keeps, by `couple_name`; raise StoreError if they are damaged."""
    path = run.folder / FILE
    if not any(table.test == "permutation" for table in run.suite.tables) or not path.exists():
        return {}
    try:
        return TypeAdapter(dict[str, Exchanged]).validate_json(_content(path))
    except (OSError, ValueError) as error:
        told = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        why = " ".join(str(told).split())
        raise StoreError(f"{run.folder}: {FILE} cannot be read ({why}). Delete it, or run the suite again.") from None


def write_permutations(folder: Path, found: Mapping[str, Exchanged]) -> None:
    """Leave permutation tests in the folder of a run, if there are any."""
    if found:
        told = {name: one.model_dump() for name, one in sorted(found.items())}
        (folder / FILE).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def exchanged(run: Run, grid: Grid) -> Grid:
    """Return a table with the permutation tests of its numbers; with a note, as it is, where the run lacks some."""
    known = permutations(run)
    names = [couple_name(ours, theirs) for ours, theirs, _ in compared(grid)]
    lacking = sum(name not in known for name in names)
    if lacking:
        text = f"No permutation tests: the run keeps {len(names) - lacking:,} of the {len(names):,} that it takes."
        return replace(grid, notes=[*grid.notes, text])
    tests = []
    for test, name in zip(grid.tests, names, strict=True):
        row, column = test.best
        alone = len(grid.entries[row][column].keys) == 1  # else its error is also that of other trainings
        error = test.error if alone else 0.0
        tests.append(replace(test, p=known[name].p, exchanges=known[name].draws, error=error))
    return marked(grid, tests)


def couple_name(ours: Entry, theirs: Entry) -> str:
    """Return what stands for two numbers, whichever comes first: made of the keys of their measurements."""
    return sha256(json.dumps(sorted([[*ours.keys], [*theirs.keys]])).encode()).hexdigest()[:32]


def _content(path: Path) -> bytes:
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise ValueError(f"it is no file, or has more than {LARGEST:,} bytes")
    return path.read_bytes()


def compared(grid: Grid) -> Iterator[tuple[Entry, Entry, str]]:
    """Yield the best of each column, every other that it is compared with, and their metric."""
    for test in grid.tests:
        (row, column), (other, _) = test.best, test.other
        yield grid.entries[row][column], grid.entries[other][column], grid.columns[column].value
