"""Has the report of a run written, to a folder named after its suite, where bench-reports is installed."""

import hashlib
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from bench_core.errors import StoreError, SuiteError
from bench_core.optional import AUTHORS, REPORTS, installed_module, source
from bench_core.runs.manifest import read_manifest
from bench_core.runs.results import Run
from bench_core.runs.selecting import LEFT_OUT

INSTALL = f"install {source(REPORTS)}"
LONGEST = 40  # characters that changes add to a name
MOST_NAMES = 8  # of models in a sentence
LETTERS = 8  # of a digest in a name


def reported(run: Run, folder: Path) -> tuple[str, str]:
    """Write the report of a run to a folder, unless it is up to date.

    Returns the text for the terminal, and the path of the report, or how to get one.
    """
    if reports := installed_module(REPORTS, "for_core"):
        return reports.write_report(run, folder), str(folder / "report.md")
    from tabulate import tabulate

    table = tabulate(run.rows(), headers="keys")
    unchecked = unchecked_models(run)
    text = f"{table}\n\nContracts not checked: {unchecked}." if unchecked else table
    return text, f"not written: {INSTALL}; then: bench report {run.folder}"


def unchecked_models(run: Run) -> str:
    """Return which models were trained without a trial of their contracts, and why; empty if none was."""
    names = [name for name, about in (run.info.get("models") or {}).items() if about.get("unchecked")]
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}, since {AUTHORS} was not installed" if names else ""


def place(run: Run, out: Path) -> tuple[Path, str]:
    """Return the folder of the report of a run, and the reason if it is not that of its suite.

    Raises SuiteError if its label leads out of the folder of reports.
    """
    label = str(run.info.get("label") or run.suite.suite)
    asked = [str(one) for one in run.info.get("asked") or run.info.get("changes") or ()]
    name, reasons = label + _suffix(asked), [f"it was run with {', '.join(asked)}"] if asked else []
    kept = {"failed": "failed", "not run": "incomplete"}
    for status, word in kept.items():
        number = sum(one.status == status and one.reason != LEFT_OUT for one in run.cells)
        tasks = sum(
            about.get("status") == status and bool(about.get("reason")) for about in run.info["tasks"].values()
        )
        if number or tasks:
            name += f"-{word}"
            reasons.append(f"{number} cells {status}" if number else f"{tasks} tasks {status}")
            break
    if other := _other_suite(run, home(out, name)):
        stem = re.sub(r"[^A-Za-z0-9.-]+", "_", Path(run.info["file"]).stem)[:LONGEST]
        name += f"-{stem}-{_letters(run.info['file'])}"
        reasons.append(f"{other} has a suite of the same name")
    return home(out, name), " and ".join(reasons)


def identity(run: Run) -> dict[str, str]:
    """Return the file of the suite of a run, and a digest of its content and of the data that the run read."""
    content = [run.suite.model_dump(mode="json", by_alias=True), run.info.get("read")]
    return {"file": str(run.info.get("file") or ""), "made_of": _letters(json.dumps(content, sort_keys=True), 64)}


def _other_suite(run: Run, folder: Path) -> str:
    """Return the file of the suite whose report is in a folder, if it is another file of other content or data."""
    ours, theirs = identity(run), None
    with suppress(StoreError):
        theirs = read_manifest(folder).run
    known = theirs is not None and theirs.file and ours["file"]
    return (
        theirs.file if theirs and known and theirs.file != ours["file"] and theirs.made_of != ours["made_of"] else ""
    )


def home(out: Path, name: str) -> Path:
    """Return a folder of reports; raise SuiteError if it is outside of `out`."""
    folder = out / name
    if not folder.resolve().is_relative_to(out.resolve()):
        raise SuiteError(f"the report of {name!r} would lie outside of {out}. Rename the suite or its profile.")
    return folder


def _suffix(asked: Iterable[str]) -> str:
    """Return the unique suffix of a report name for changes of the suite; a long one has the ends of keys alone."""
    whole = "".join(f"+{one}" for one in asked)
    short = "".join(f"+{re.sub(r'^[^=]*[.]|^only=', '', one)}" for one in asked) if len(whole) > LONGEST else whole
    plain = re.sub(r"_*([=+,]|$)_*", r"\1", re.sub(r"[^A-Za-z0-9.,=+-]+", "_", short))[:LONGEST]
    return plain if plain == whole else f"{plain}-{_letters(whole)}"


def _letters(text: str, number: int = LETTERS) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:number]
