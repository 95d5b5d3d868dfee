"""Compares what this plugin adds to a run with the store: files of single examples, and permutation tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bench_core.errors import StoreError
from bench_core.runs.manifest import Remark
from bench_core.runs.results import Run
from bench_reports.content.permutation_tests import FILE as PERMUTATIONS
from bench_reports.content.permutation_tests import compared, exchange_test, pair_name, permutations
from bench_reports.content.tables import grids
from bench_reports.figures.example_files import EXAMPLE_FILES

if TYPE_CHECKING:
    from bench_core.storage.store import Store


def verify_run(run: Run, store: Store | None) -> Iterator[Remark]:
    """Yield where what figures show of examples, and permutation tests, are not those of the store."""
    try:
        for file in EXAMPLE_FILES:
            yield from file.verify(run, store)
        yield from _permutations(run, store)
    except StoreError as error:
        yield Remark(str(error))


def _permutations(run: Run, store: Store | None) -> Iterator[Remark]:
    known = permutations(run)
    if known and store is None:
        yield Remark(f"{run.folder / PERMUTATIONS}: the store is not here", wrong=False)
    elif known and store is not None:
        for grid in grids(run):
            for ours, theirs, metric in compared(grid) if grid.table.test == "permutation" else ():
                told = known.get(pair_name(ours, theirs))
                p = told and exchange_test(run, store, metric, (ours, theirs), told.draws)
                if told and isinstance(p, float) and p != told.p:
                    where = f"{run.folder / PERMUTATIONS}: {grid.table.id}, {metric}"
                    yield Remark(f"{where}: p is {told.p}, and {p} by the examples in the store")
