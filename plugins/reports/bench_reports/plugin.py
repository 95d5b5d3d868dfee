"""What reports add to runs: the report itself, and the permutation tests that its tables ask for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench_core import hookimpl

if TYPE_CHECKING:
    from bench_core.runs.results import Run
    from bench_core.storage.store import Store

supports = (1, 1)


@hookimpl
def bench_report(run: Run, folder: Path) -> str:
    """Write the report of a run, unless it is there."""
    from bench_reports.render.written import report

    return report(run, folder)


@hookimpl
def bench_run_written(run: Run, store: Store) -> None:
    """Do the permutation tests that tables ask for."""
    if any(table.test == "permutation" for table in run.suite.tables):
        from bench_reports.content.permutation_tests import keep_permutations

        keep_permutations(run, store)


@hookimpl
def bench_runs_merged(runs: Sequence[Run], folder: Path) -> None:
    """Keep the permutation tests of all runs; they are of numbers, whatever run these came from."""
    if any(table.test == "permutation" for run in runs for table in run.suite.tables):
        from bench_reports.statistics.permutation_cache import permutations, write_permutations

        write_permutations(folder, {name: one for run in runs for name, one in permutations(run).items()})
