"""Verification of this plugin's files in a run with the store: example files of figures, and permutation tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bench_core.errors import StoreError
from bench_core.runs.manifest import Remark
from bench_core.runs.results import Run
from bench_reports.content.permutation_tests import FILE as PERMUTATIONS
from bench_reports.content.permutation_tests import compared_entries, exchange_test, pair_name, permutations
from bench_reports.content.tables import grids
from bench_reports.figures.example_files import EXAMPLE_FILES

if TYPE_CHECKING:
    from bench_core.storage.store import Store


def verify_run(run: Run, store: Store | None) -> Iterator[Remark]:
    """Yield the example files of figures and the permutation tests that differ from the store."""
    try:
        for file in EXAMPLE_FILES:
            yield from file.verify(run, store)
        yield from _permutations(run, store)
    except StoreError as error:
        yield Remark(str(error))


def _permutations(run: Run, store: Store | None) -> Iterator[Remark]:
    stored = permutations(run)
    if stored and store is None:
        yield Remark(f"{run.folder / PERMUTATIONS}: the store is not available", wrong=False)
    elif stored and store is not None:
        for grid in grids(run):
            for ours, theirs, metric in compared_entries(grid) if grid.table.test == "permutation" else ():
                test = stored.get(pair_name(ours, theirs))
                p = test and exchange_test(run, store, metric, (ours, theirs), test.draws)
                if test and isinstance(p, float) and p != test.p:
                    where = f"{run.folder / PERMUTATIONS}: {grid.table.id}, {metric}"
                    yield Remark(f"{where}: p is {test.p}, but {p} from the examples in the store")
