"""Permutation tests that tables ask for, done where the examples are at hand, which is the store."""

from __future__ import annotations

from collections.abc import Sequence

from bench_core.runs.results import Run
from bench_core.storage.store import Store
from bench_reports.content.grid import Entry
from bench_reports.content.sorting import seed_of
from bench_reports.content.tables import grids
from bench_reports.diff.example_diff import Shelf, tried
from bench_reports.statistics.paired import Couple, contrast
from bench_reports.statistics.permutation import DRAWS
from bench_reports.statistics.permutation_cache import (
    Exchanged,
    compared,
    couple_name,
    permutations,
    write_permutations,
)

MARGIN = 40  # exchanges for each comparison of a table, so that Holm's correction leaves values below 5 %


def keep_permutations(run: Run, store: Store) -> dict[str, str]:
    """Do the permutation tests that the tables of a run ask for, and leave what they say in its folder.

    Returns why some could not be done, by what they are of. What was there of other numbers stays.
    """
    found, reasons = dict(permutations(run)), {}
    for grid in grids(run):
        if grid.table.test != "permutation":
            continue
        number = max(DRAWS, MARGIN * len(grid.tests))
        for ours, theirs, metric in compared(grid):
            name = couple_name(ours, theirs)
            if name in found and found[name].draws >= number:
                continue
            p = _p_value(run, Shelf(store), metric, (ours, theirs), number)
            if isinstance(p, str):
                reasons[f"{grid.table.id}, {metric}"] = p
            else:
                found[name] = Exchanged(p=p, draws=number)
    write_permutations(run.folder, found)
    return reasons


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
