"""Hook implementations: write the report of a run, and keep its distributions and permutation tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core import hookimpl

if TYPE_CHECKING:
    from bench_core.runs.manifest import Remark
    from bench_core.runs.results import Run
    from bench_core.storage.store import Store


@hookimpl
def bench_report(run: Run, folder: Path) -> str:
    """Write the report of a run, unless it is there."""
    from bench_reports.render.written import report

    return report(run, folder)


@hookimpl
def bench_power(run: Run, seeds: int, differences: Mapping[str, float]) -> Sequence[Mapping[str, Any]]:
    """Return how many seeds the comparisons of a run would need."""
    from bench_reports.content.power_table import power_rows

    return power_rows(run, seeds, differences)


@hookimpl
def bench_run_written(run: Run, store: Store) -> None:
    """Keep the distributions that figures show, and do the permutation tests that tables ask for."""
    from bench_reports.figures.distributions import keep_distributions

    keep_distributions(run, store)
    if any(table.test == "permutation" for table in run.suite.tables):
        from bench_reports.content.permutation_tests import keep_permutations
        from bench_reports.content.tables import grids

        keep_permutations(run, grids(run), store)


@hookimpl
def bench_runs_merged(runs: Sequence[Run], merged: Run) -> None:
    """Keep the distributions and permutation tests of all runs; they belong to measurements, not to runs."""
    from bench_reports.figures.distributions import merge_distributions

    merge_distributions(runs, merged)
    if any(table.test == "permutation" for run in runs for table in run.suite.tables):
        from bench_reports.content.permutation_tests import permutations, write_permutations

        write_permutations(merged.folder, {name: one for run in runs for name, one in permutations(run).items()})


@hookimpl
def bench_run_imported(run: Run) -> None:
    """Check the distributions and permutation tests of a run."""
    from bench_reports.content.permutation_tests import permutations
    from bench_reports.figures.distributions import distributions

    distributions(run)
    permutations(run)


@hookimpl
def bench_run_verified(run: Run, store: Store | None) -> Sequence[Remark]:
    """Compare the distributions and permutation tests of a run with its measurements."""
    from bench_reports.verification.run import verify_run

    return [*verify_run(run, store)]


@hookimpl
def bench_report_verified(folder: Path, run: Run | None) -> Sequence[Remark]:
    """Compare the files of a report with each other, and with its run."""
    from bench_reports.verification.report import verify_report

    return [*verify_report(folder, run)]
