"""Functions that the core calls if bench-reports is installed; each imports its implementation when called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench_core.runs.results import Run


def write_report(run: Run, folder: Path) -> str:
    """Write the report of a run to a folder, unless it is up to date; return its text for the terminal."""
    from bench_reports.render.written import report

    return report(run, folder)


def run_html(run: Run) -> str:
    """Return the tables and claims of a run as self-contained HTML for a notebook, without scripts."""
    from bench_reports.render.notebook import notebook_html

    return notebook_html(run)


def power_rows(run: Run, seeds: int, differences: Mapping[str, float]) -> Sequence[Mapping[str, Any]]:
    """Return a row for each comparison in a finished run, with the number of seeds that the comparison needs.

    `seeds` is the planned number of seeds, `differences` the difference to detect for each metric. Rows are by column
    name.
    """
    from bench_reports.content.power_table import power_rows

    return power_rows(run, seeds, differences)


def decided(run: Run) -> bool:
    """Return whether a run's primary claims, or all claims if none is primary, are decided at the run's level."""
    from bench_reports.content.claims import are_decided

    return are_decided(run)
