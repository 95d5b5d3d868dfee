"""Runs the permutation tests that tables ask for, and stores their p-values in the run folder.

The examples to exchange are in the store; a report is made from a run alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bench_core.errors import StoreError
from bench_core.runs.results import Run, plain_file
from bench_reports.content.contrasts import contrast
from bench_reports.content.example_diff import StoredExamples, tried
from bench_reports.content.grid import Entry, Grid, Test
from bench_reports.content.significance import marked
from bench_reports.content.sorting import by_key, seed_of
from bench_reports.language.of_suite import language
from bench_reports.statistics.comparisons import holm
from bench_reports.statistics.permutation import DRAWS

if TYPE_CHECKING:
    from bench_core.storage.store import Store

FILE = "permutations.json"  # in the folder of a run
MARGIN = 40  # exchanges for each pair of rows, so that Holm's correction leaves values below 5 %


class Exchanged(BaseModel):
    """What a permutation test said of two numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    p: float = Field(ge=0, le=1)
    draws: int = Field(ge=1)  # how many exchanges it is of


def permutations(run: Run) -> Mapping[str, Exchanged]:
    """Return the permutation tests that a run keeps, by `pair_name`; raise StoreError if they are damaged."""
    path = run.folder / FILE
    if not any(table.test == "permutation" for table in language(run).tables) or not path.exists():
        return {}
    try:
        return TypeAdapter(dict[str, Exchanged]).validate_json(plain_file(path))
    except (OSError, ValueError) as error:
        text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        why = " ".join(str(text).split())
        raise StoreError(f"{run.folder}: {FILE} cannot be read ({why}). Delete it, or run the suite again.") from None


def write_permutations(folder: Path, found: Mapping[str, Exchanged]) -> None:
    """Leave permutation tests in the folder of a run, if there are any."""
    if found:
        tests = {name: one.model_dump() for name, one in sorted(found.items())}
        (folder / FILE).write_text(json.dumps(tests, indent=1) + "\n", encoding="utf-8")


def exchanged(run: Run, grid: Grid) -> Grid:
    """Return a table with the permutation tests of its numbers; with a note, as it is, where the run lacks some."""
    known = permutations(run)
    names = [pair_name(ours, theirs) for ours, theirs, _ in compared(grid)]
    lacking = sum(name not in known for name in names)
    if lacking:
        text = f"No permutation tests: the run keeps {len(names) - lacking:,} of the {len(names):,} that it takes."
        return replace(grid, notes=[*grid.notes, text])
    return marked(grid, [*_corrected(grid, [known[name] for name in names])])


def _corrected(grid: Grid, found: Sequence[Exchanged]) -> Iterator[Test]:
    """Yield the tests of a table with the p-values of exchanges, corrected in each column.

    The best of a column could have been any of its rows, so all pairs of them count.
    """
    groups = by_key((test.first, (test, one)) for test, one in zip(grid.tests, found, strict=True))
    for (row, column), pairs in groups.items():
        number = len(pairs) if grid.table.baseline else len(pairs) * (len(pairs) + 1) // 2
        alone = len(grid.entries[row][column].keys) == 1  # else the detectable difference is of other trainings, too
        for (test, one), p in zip(pairs, holm([one.p for _, one in pairs], number), strict=True):
            detectable = test.detectable if alone else 0.0
            yield replace(test, p=one.p, adjusted=p, exchanges=one.draws, detectable=detectable)


def pair_name(ours: Entry, theirs: Entry) -> str:
    """Return what stands for two numbers, whichever comes first: made of the keys of their measurements."""
    return sha256(json.dumps(sorted([[*ours.keys], [*theirs.keys]])).encode()).hexdigest()[:32]


def compared(grid: Grid) -> Iterator[tuple[Entry, Entry, str]]:
    """Yield the best of each column, every other that it is compared with, and their metric."""
    for test in grid.tests:
        (row, column), (other, _) = test.first, test.other
        yield grid.entries[row][column], grid.entries[other][column], grid.columns[column].value


def keep_permutations(run: Run, filled: Iterable[Grid], store: Store) -> dict[str, str]:
    """Do the permutation tests that the tables of a run ask for, and leave what they say in its folder.

    Returns why some could not be done, by what they are of. What was there of other numbers stays.
    """
    found, reasons = dict(permutations(run)), {}
    for grid in filled:
        if grid.table.test != "permutation":
            continue
        number = max(DRAWS, MARGIN * len(grid.rows) * (len(grid.rows) - 1) // 2)
        for ours, theirs, metric in compared(grid):
            name = pair_name(ours, theirs)
            if name in found and found[name].draws >= number:
                continue
            p = exchange_test(run, store, metric, (ours, theirs), number)
            if isinstance(p, str):
                reasons[f"{grid.table.id}, {metric}"] = p
            else:
                found[name] = Exchanged(p=p, draws=number)
    write_permutations(run.folder, found)
    return reasons


def exchange_test(run: Run, store: Store, metric: str, entries: Sequence[Entry], draws: int) -> float | str:
    """Return the p-value of two numbers of a table over their cells seed by seed, or why there is none."""
    known = {one.artifacts.get(f"measure/{metric}", ""): one for one in run.cells}
    ours, theirs = ([known[key] for key in entry.keys] for entry in entries)
    seeds = [[seed_of(one) for one in side] for side in (ours, theirs)]
    if seeds[0] != seeds[1]:
        return f"they have different seeds: {', '.join(map(str, seeds[0]))} and {', '.join(map(str, seeds[1]))}"
    found = tried(StoredExamples(store), contrast(metric, [*zip(ours, theirs, strict=True)]))
    return found if isinstance(found, str) else found.p_value(draws)
