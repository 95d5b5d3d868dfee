"""Skips writing a report that is already up to date, and shows it from its last text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from bench_core.files import digest
from bench_core.registry import hook
from bench_core.runs.results import Run

REPORTED = "reported.json"  #: of a run: what its last report was like
CODE = (".py", ".j2", ".css", ".js")


def report(run: Run, folder: Path) -> str:
    """Write the report of a run unless it is there, and return what to show of it on a screen."""
    if (text := shown(run, folder)) is None:
        from bench_reports.render.report import screen, write_report

        files, text = write_report(run, folder), screen(run)
        note(run, folder, files, text)
    return text


def note(run: Run, folder: Path, files: Iterable[Path], screen: str) -> None:
    """Leave in a run what its report is like, and what was shown of it on a screen."""
    digests = {path.relative_to(folder).as_posix(): digest(path) for path in files}
    record = {"code": _code(), "files": digests, "screen": screen}
    (run.folder / REPORTED).write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")


def shown(run: Run, folder: Path) -> str | None:
    """Return what is shown on a screen of the report in a folder; None unless it is just what would be written."""
    try:
        record = json.loads((run.folder / REPORTED).read_text(encoding="utf-8"))
        files = record["files"].items()
        same = record["code"] == _code() and all(digest(folder / name) == one for name, one in files)
        return str(record["screen"]) if same else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


@cache
def _code() -> str:
    """Return the digest of all that reports are written by: this package, the core, and what plugins draw."""
    drawing = (one.function.__module__.partition(".")[0] for one in hook().bench_figure.get_hookimpls())
    whole = hashlib.sha256()
    for name in sorted({"bench_core", "bench_reports", *drawing}):
        spec = find_spec(name)
        home = Path(spec.origin or "").parent if spec else Path(name)
        for path in sorted(path for path in home.rglob("*") if path.suffix in CODE):
            whole.update(f"{name}/{path.relative_to(home).as_posix()}\n".encode() + path.read_bytes())
    return whole.hexdigest()
