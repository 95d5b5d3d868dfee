"""Permutation tests of tables: done where the examples are at hand, which is the store, and kept with the run.

A report is made from a run alone, which has draws for the bootstrap but not what each example contributes. So the
p-values of a table with `test: permutation` are worked out once, by `keep_permutations`, and read from then on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bench_core.errors import StoreError
from bench_core.reporting.contrasts import Couple, contrast
from bench_core.reporting.entries import Entry, Grid
from bench_core.reporting.evidence import Shelf, tried
from bench_core.reporting.order import seed_of
from bench_core.reporting.permutation import DRAWS
from bench_core.reporting.significance import marked
from bench_core.runs.results import Run
from bench_core.storage.store import Store

FILE = "permutations.json"  # in the folder of a run
MARGIN = 40  # exchanges for each comparison of a table, so that Holm's correction leaves values below 5 %
LARGEST = 2**26  # bytes of the file


class Exchanged(BaseModel):
    """What a permutation test said of two numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    p: float = Field(ge=0, le=1)
    draws: int = Field(ge=1)  # how many exchanges it is of


def keep_permutations(run: Run, store: Store) -> dict[str, str]:
    """Do the permutation tests that the tables of a run ask for, and leave what they say in its folder.

    Returns why some could not be done, by what they are of. What was there of other numbers stays.
    """
    from bench_core.reporting.tables import grids

    found, reasons = dict(permutations(run)), {}
    for grid in grids(run):
        if grid.table.test != "permutation":
            continue
        number = max(DRAWS, MARGIN * len(grid.tests))
        for ours, theirs, metric in _compared(grid):
            name = couple_name(ours, theirs)
            if name in found and found[name].draws >= number:
                continue
            p = _p_value(run, Shelf(store), metric, (ours, theirs), number)
            if isinstance(p, str):
                reasons[f"{grid.table.id}, {metric}"] = p
            else:
                found[name] = Exchanged(p=p, draws=number)
    if found:
        told = {name: one.model_dump() for name, one in sorted(found.items())}
        (run.folder / FILE).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return reasons


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


def exchanged(run: Run, grid: Grid) -> Grid:
    """Return a table with the permutation tests of its numbers; with a note, as it is, where the run lacks some."""
    known = permutations(run)
    names = [couple_name(ours, theirs) for ours, theirs, _ in _compared(grid)]
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


def _compared(grid: Grid) -> Iterator[tuple[Entry, Entry, str]]:
    """Yield the best of each column, every other that it is compared with, and their metric."""
    for test in grid.tests:
        (row, column), (other, _) = test.best, test.other
        yield grid.entries[row][column], grid.entries[other][column], grid.columns[column].value


def _p_value(run: Run, shelf: Shelf, metric: str, entries: Sequence[Entry], draws: int) -> float | str:
    """Return the p-value of two numbers of a table, or why there is none."""
    couples = _couples(run, metric, entries)
    if isinstance(couples, str):
        return couples
    found = tried(shelf, contrast(metric, couples))
    return found if isinstance(found, str) else found.p_value(draws)


def _couples(run: Run, metric: str, entries: Sequence[Entry]) -> list[Couple] | str:
    """Return the cells behind two numbers seed by seed, or why they cannot be set side by side."""
    known = {one.artifacts.get(f"measure/{metric}", ""): one for one in run.cells}
    ours, theirs = ([known[key] for key in entry.keys] for entry in entries)
    seeds = [[seed_of(one) for one in side] for side in (ours, theirs)]
    if seeds[0] != seeds[1]:
        return f"they have different seeds: {', '.join(map(str, seeds[0]))} and {', '.join(map(str, seeds[1]))}"
    return [*zip(ours, theirs, strict=True)]
