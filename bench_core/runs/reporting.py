"""Reports of finished runs, by whatever is installed to write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench_core.registry import hook

if TYPE_CHECKING:
    from bench_core.runs.results import Run

INSTALL = "install bench-reports (in a checkout: pip install ./plugins/reports)"


def reported(run: Run, folder: Path) -> tuple[str, str]:
    """Write the report of a run into a folder, unless it is there.

    Returns what to show on a screen, and where the report is, or how to have one.
    """
    text: str | None = hook().bench_report(run=run, folder=folder)
    if text is not None:
        return text, str(folder / "report.md")
    from tabulate import tabulate

    return tabulate(run.rows(), headers="keys"), f"not written: {INSTALL}; then: bench report {run.folder}"
