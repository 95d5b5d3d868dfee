"""The files of reports that a page links to, and their addresses."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from bench_reports.view.finding import manifest_of

FOLDER = Path("files")  #: folder of a page's linked files
PLACES = ("", "tables", "figures", "costs")  # folders of a report
SUFFIXES = (".html", ".md", ".txt", ".tex", ".csv", ".json", ".svg", ".pdf", ".png")


@dataclass(frozen=True)
class ReportFiles:
    """The folder of a report."""

    folder: Path  # relative to the viewed folder
    run: str = ""  # name of its run
    digest: str | None = None  # digest of the run's manifest
    files: Sequence[Path] = field(default_factory=list)  # relative to its folder

    def address(self, file: str) -> str:
        """Return the address of a file of the report, relative to the page."""
        return quote(os.fsencode((FOLDER / self.folder / file).as_posix()))

    @property
    def pages(self) -> Mapping[str, str]:
        """The addresses of the readable files, by link text."""
        texts = {"report.html": "report", "report.md": "Markdown", "report.tex": "LaTeX", "costs.html": "costs"}
        return {word: self.address(name) for name, word in texts.items() if Path(name) in self.files}

    def kinds(self, place: str) -> Mapping[str, Mapping[str, str]]:
        """Return the addresses of the tables or figures in a folder, by name and file type."""
        addresses: dict[str, dict[str, str]] = {}
        for file in self.files:
            if file.parent.as_posix() == place:
                addresses.setdefault(file.stem, {})[file.suffix[1:]] = self.address(file.as_posix())
        return addresses


def report_in(root: Path, folder: Path) -> ReportFiles:
    """Return a report with its regular files that have a known suffix."""
    manifest = manifest_of(root / folder)
    run = manifest.run if manifest else None
    files = [file for place in PLACES for file in _files(root / folder, place)]
    return ReportFiles(folder, run.name if run else "", run.digest if run else None, files)


def reports_of(run: Path, reports: Sequence[ReportFiles]) -> list[ReportFiles]:
    """Return the reports of the run in a folder, matched by digest, or by name if a digest is missing."""
    manifest, name = manifest_of(run), run.resolve().name
    return [
        report for report in reports
        if (report.digest in manifest.digests if manifest and report.digest is not None else report.run == name)
    ]  # fmt: skip


def _files(report: Path, place: str) -> list[Path]:
    """Return the regular files in a folder of a report; none if it is a link or unreadable."""
    if (report / place).is_symlink() or not (report / place).is_dir():
        return []
    try:
        names = [entry.name for entry in os.scandir(report / place) if entry.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return [Path(place, name) for name in sorted(names, key=_natural) if Path(name).suffix in SUFFIXES]


def _natural(name: str) -> list[tuple[int, str]]:
    """Return the natural sort key of a name, which sorts `table-10` after `table-9`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]
