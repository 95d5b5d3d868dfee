"""What the core calls where bench-reports is installed; imports the rest when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench_core.runs.results import Run


def write_report(run: Run, folder: Path) -> str:
    """Write the report of a run into a folder, unless it is up to date; return its text for the terminal."""
    from bench_reports.render.written import report

    return report(run, folder)


def run_html(run: Run) -> str:
    """Return the tables and claims of a run as HTML for a notebook, without scripts or anything beside it."""
    from bench_reports.render.notebook import notebook_html

    return notebook_html(run)


def power_rows(run: Run, seeds: int, differences: Mapping[str, float]) -> Sequence[Mapping[str, Any]]:
    """Return how many seeds the comparisons of a finished run would need to find differences, by metric.

    `seeds` are those that are planned. A row for each comparison, by the names of its columns.
    """
    from bench_reports.content.power_table import power_rows

    return power_rows(run, seeds, differences)


def decided(run: Run) -> bool:
    """Return whether the primary claims of a run are decided, at the level of its look; all, if none is primary."""
    from bench_reports.content.claims import decided

    return decided(run)
