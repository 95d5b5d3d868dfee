"""Writes the report of a run through the `bench_report` hook, to a folder named after its suite."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from bench_core.errors import SuiteError
from bench_core.registry import hook
from bench_core.runs.results import Run

INSTALL = "install bench-reports (in a checkout: pip install ./plugins/reports)"
LONGEST = 100  # characters that changes add to a name


def reported(run: Run, folder: Path) -> tuple[str, str]:
    """Write the report of a run to a folder, unless it is up to date.

    Returns the text for the terminal, and the path of the report, or how to get one.
    """
    text: str | None = hook().bench_report(run=run, folder=folder)
    if text is not None:
        return text, str(folder / "report.md")
    from tabulate import tabulate

    return tabulate(run.rows(), headers="keys"), f"not written: {INSTALL}; then: bench report {run.folder}"


def place(run: Run, out: Path) -> tuple[Path, str]:
    """Return the folder of the report of a run, and the reason if it is not that of its suite.

    Raises SuiteError if its label leads out of the folder of reports.
    """
    label = str(run.info.get("label") or run.suite.suite)
    asked = [str(one) for one in run.info.get("asked") or run.info.get("changes") or ()]
    name, reasons = label + _suffix(asked), [f"it was run with {', '.join(asked)}"] if asked else []
    kept = {"failed": "failed", "not run": "incomplete"}
    for status, word in kept.items():
        number = sum(one.status == status for one in run.cells)
        tasks = sum(about.get("status") == status for about in run.info["tasks"].values())
        if number or tasks:
            name += f"-{word}"
            reasons.append(f"{number} cells {status}" if number else f"{tasks} tasks {status}")
            break
    return home(out, name), " and ".join(reasons)


def home(out: Path, name: str) -> Path:
    """Return a folder of reports; raise SuiteError if it is outside of `out`."""
    folder = out / name
    if not folder.resolve().is_relative_to(out.resolve()):
        raise SuiteError(f"the report of {name!r} would lie outside of {out}. Rename the suite or its profile.")
    return folder


def _suffix(asked: Iterable[str]) -> str:
    """Return the unique suffix of a report name for changes of the suite."""
    whole = "".join(f"+{one}" for one in asked)
    plain = re.sub(r"_*([=+,]|$)_*", r"\1", re.sub(r"[^A-Za-z0-9.,=+-]+", "_", whole))[:LONGEST]
    return plain if plain == whole else f"{plain}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
