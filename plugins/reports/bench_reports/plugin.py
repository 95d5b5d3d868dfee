"""Hook implementations: write the report of a run, and keep what its figures and permutation tests need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core import hookimpl

if TYPE_CHECKING:
    from bench_core.runs.manifest import Remark
    from bench_core.runs.results import Run
    from bench_core.storage.store import Store
    from bench_core.suites.expressions import Term


@hookimpl
def bench_report(run: Run, folder: Path) -> str:
    """Write the report of a run, unless it is there."""
    from bench_reports.render.written import report

    return report(run, folder)


@hookimpl
def bench_run_html(run: Run) -> str:
    """Return the tables and claims of a run as HTML for a notebook."""
    from bench_reports.render.notebook import notebook_html

    return notebook_html(run)


@hookimpl
def bench_claim_proved(term: Term, bounds: Mapping[str, tuple[float, float]]) -> bool | None:
    """Return whether a claim is true, or false, whatever is measured."""
    from bench_reports.statistics.claim_proofs import truth

    return truth(term, bounds)


@hookimpl
def bench_power(run: Run, seeds: int, differences: Mapping[str, float]) -> Sequence[Mapping[str, Any]]:
    """Return how many seeds the comparisons of a run would need."""
    from bench_reports.content.power_table import power_rows

    return power_rows(run, seeds, differences)


@hookimpl
def bench_decided(run: Run) -> bool:
    """Return whether the primary claims of a run are decided; all claims, if none is primary."""
    from bench_reports.content.claim_families import decided
    from bench_reports.content.claims import judge

    return decided(judge(run))


@hookimpl
def bench_run_written(run: Run, store: Store) -> None:
    """Keep what figures show of single examples, and do the permutation tests that tables ask for."""
    from bench_reports.figures.example_files import EXAMPLE_FILES

    for one in EXAMPLE_FILES:
        one.keep(run, store)
    if any(table.test == "permutation" for table in run.suite.tables):
        from bench_reports.content.permutation_tests import keep_permutations
        from bench_reports.content.tables import grids

        keep_permutations(run, grids(run), store)


@hookimpl
def bench_runs_merged(runs: Sequence[Run], merged: Run) -> None:
    """Merge what figures show of single examples, and permutation tests; they belong to stages, not to runs."""
    from bench_reports.figures.example_files import EXAMPLE_FILES

    for file in EXAMPLE_FILES:
        file.merge(runs, merged)
    if any(table.test == "permutation" for run in runs for table in run.suite.tables):
        from bench_reports.content.permutation_tests import permutations, write_permutations

        write_permutations(merged.folder, {name: one for run in runs for name, one in permutations(run).items()})


@hookimpl
def bench_run_imported(run: Run) -> None:
    """Check what a run keeps for figures of single examples, and its permutation tests."""
    from bench_reports.content.permutation_tests import permutations
    from bench_reports.figures.example_files import EXAMPLE_FILES

    for one in EXAMPLE_FILES:
        one.read(run)
    permutations(run)


@hookimpl
def bench_run_verified(run: Run, store: Store | None) -> Sequence[Remark]:
    """Compare what a run keeps for figures, and its permutation tests, with the store."""
    from bench_reports.verification.run import verify_run

    return [*verify_run(run, store)]


@hookimpl
def bench_report_verified(folder: Path, run: Run | None) -> Sequence[Remark]:
    """Compare the files of a report with each other, and with its run."""
    from bench_reports.verification.report import verify_report

    return [*verify_report(folder, run)]
