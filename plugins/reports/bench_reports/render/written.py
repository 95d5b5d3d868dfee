"""Skip writing a report that is already up to date, and show its stored text."""

from pathlib import Path
from shutil import get_terminal_size

from bench_core.errors import StoreError
from bench_core.runs.manifest import problems, read_manifest
from bench_core.runs.results import Run
from bench_reports.render.code import code_digest
from bench_reports.render.terminal import LINE_CHARACTERS, SCREEN

MIN_WIDTH = 40  # characters per line


def report(run: Run, folder: Path) -> str:
    """Write the report of a run unless it is up to date, and return its text for a terminal.

    The text is a file of the report, and is laid out again only for a narrow terminal.
    """
    from bench_reports.render.report import write_report  # drawing is slow to import

    if not is_up_to_date(run, folder):
        write_report(run, folder)
    if (columns := get_terminal_size((LINE_CHARACTERS, 24)).columns) < LINE_CHARACTERS:
        from bench_reports.render.report import screen

        return screen(run, max(columns, MIN_WIDTH))
    return (folder / SCREEN).read_text(encoding="utf-8")


def is_up_to_date(run: Run, folder: Path) -> bool:
    """Return whether a folder has the complete report of a run, as the current code would write it."""
    try:
        named, ours = read_manifest(folder), read_manifest(run.folder)
        same = named.run is not None and named.run.digest == ours.digest and named.code == code_digest()
        return same and not any(remark.wrong for remark in problems(folder))
    except (StoreError, OSError):
        return False
