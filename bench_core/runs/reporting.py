"""Writes the report of a run with bench-reports, if installed, to a folder named after its suite."""

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
MAX_SUFFIX = 40  # limit for the characters that changes add to a name
MAX_NAMES = 8  # limit for model names in a message
DIGEST_CHARACTERS = 8  # length of digests in names


def reported(run: Run, folder: Path) -> tuple[str, str]:
    """Write the report of a run to a folder, unless it is up to date.

    Returns the text for the terminal, and the path of the report or advice on how to get a report.
    """
    if reports := installed_module(REPORTS, "for_core"):
        return reports.write_report(run, folder), str(folder / "report.md")
    from tabulate import tabulate

    table = tabulate(run.rows(), headers="keys")
    unchecked = unchecked_models(run)
    text = f"{table}\n\nContracts not checked: {unchecked}." if unchecked else table
    return text, f"not written: {INSTALL}; then: bench report {run.folder}"


def unchecked_models(run: Run) -> str:
    """Return a note about models whose contracts were not tested, with the reason; "" if all were tested."""
    names = [name for name, about in (run.info.get("models") or {}).items() if about.get("unchecked")]
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES])}{more}, since {AUTHORS} was not installed" if names else ""


def place(run: Run, out: Path) -> tuple[Path, str]:
    """Return the folder for the report of a run, and the reason if it is not the default folder of the suite.

    Raises SuiteError if the label of the run leads out of the folder of reports.
    """
    label = str(run.info.get("label") or run.suite.suite)
    changes = [str(change) for change in run.info.get("asked") or run.info.get("changes") or ()]
    name, reasons = label + _suffix(changes), [f"it was run with {', '.join(changes)}"] if changes else []
    unprepared = [about.get("status") for about in run.info["tasks"].values() if about.get("reason")]
    for status, word in {"failed": "failed", "not run": "incomplete"}.items():
        number = sum(cell.status == status and cell.reason != LEFT_OUT for cell in run.cells)
        tasks = unprepared.count(status)
        if number or tasks:
            name += f"-{word}"
            reasons.append(f"{number} cells {status}" if number else f"{tasks} tasks {status}")
            break
    if other := _other_suite(run, home(out, name)):
        stem = re.sub(r"[^A-Za-z0-9.-]+", "_", Path(run.info["file"]).stem)[:MAX_SUFFIX]
        name += f"-{stem}-{_digest(run.info['file'])}"
        reasons.append(f"{other} has a suite of the same name")
    return home(out, name), " and ".join(reasons)


def identity(run: Run) -> dict[str, str]:
    """Return the suite file of a run, and a digest of its content and the data that the run read."""
    content = [run.suite.model_dump(mode="json", by_alias=True), run.info.get("read")]
    return {"file": str(run.info.get("file") or ""), "made_of": _digest(json.dumps(content, sort_keys=True), 64)}


def _other_suite(run: Run, folder: Path) -> str:
    """Return the suite file of the report in a folder; "" if the file, or its content and data, are the same."""
    ours, theirs = identity(run), None
    with suppress(StoreError):
        theirs = read_manifest(folder).run
    if not theirs or not ours["file"] or theirs.file == ours["file"] or theirs.made_of == ours["made_of"]:
        return ""
    return theirs.file


def home(out: Path, name: str) -> Path:
    """Return the report folder with this name; raise SuiteError if it is outside of `out`."""
    folder = out / name
    if not folder.resolve().is_relative_to(out.resolve()):
        raise SuiteError(f"the report of {name!r} would be outside of {out}. Rename the suite or its profile.")
    return folder


def _suffix(changes: Iterable[str]) -> str:
    """Return a unique suffix of a report's name for changes to the suite; long keys are abbreviated."""
    whole = short = "".join(f"+{item}" for item in changes)
    if len(whole) > MAX_SUFFIX:
        short = "".join(f"+{re.sub(r'^[^=]*[.]|^only=', '', item)}" for item in changes)
    plain = re.sub(r"_*([=+,]|$)_*", r"\1", re.sub(r"[^A-Za-z0-9.,=+-]+", "_", short))[:MAX_SUFFIX]
    return plain if plain == whole else f"{plain}-{_digest(whole)}"


def _digest(text: str, characters: int = DIGEST_CHARACTERS) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:characters]
