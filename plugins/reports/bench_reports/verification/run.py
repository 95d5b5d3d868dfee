"""Compares what this plugin adds to a run with the store: distributions and permutation tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bench_core.errors import StoreError
from bench_core.runs.manifest import Remark
from bench_core.runs.results import Run
from bench_core.runs.selecting import cell_name
from bench_reports.content.permutation_tests import FILE as PERMUTATIONS
from bench_reports.content.permutation_tests import compared, exchange_test, pair_name, permutations
from bench_reports.content.tables import grids
from bench_reports.figures.distributions import FILE as DISTRIBUTIONS
from bench_reports.figures.distributions import distributions, identity, stored_distributions

if TYPE_CHECKING:
    from bench_core.storage.store import Store


def verify_run(run: Run, store: Store | None) -> Iterator[Remark]:
    """Yield where distributions and permutation tests are not those of the measurements of a run."""
    try:
        yield from _distributions(run, store)
        yield from _permutations(run, store)
    except StoreError as error:
        yield Remark(str(error))


def _distributions(run: Run, store: Store | None) -> Iterator[Remark]:
    known = distributions(run)
    if known and store is None:
        yield Remark(f"{run.folder / DISTRIBUTIONS}: the store is not here", wrong=False)
    elif known and store is not None:
        here = {(identity(one.cell), one.metric): one for one in stored_distributions(run, store)}
        for one in known:
            there = here.get((identity(one.cell), one.metric))
            if there is None or (
                not there.reason and repr([*map(tuple, there.counts)]) != repr([*map(tuple, one.counts)])
            ):
                name = f"{cell_name(one.cell)}: {one.metric}"
                yield Remark(f"{run.folder / DISTRIBUTIONS}: {name}: its values are not those in the store")


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
