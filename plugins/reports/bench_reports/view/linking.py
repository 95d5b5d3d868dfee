"""The files of reports that a page links to, and the addresses of these."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from bench_reports.view.finding import manifest_of

FOLDER = Path("files")  #: of a page: what it links to is below
PLACES = ("", "tables", "figures", "costs")  # of a report: where its files are
SUFFIXES = (".html", ".md", ".txt", ".tex", ".csv", ".json", ".svg", ".pdf", ".png")


@dataclass(frozen=True)
class Report:
    """The folder of a report."""

    folder: Path  # below the folder that is viewed
    run: str = ""  # the name of its run
    digest: str | None = None  # of the manifest of its run
    files: Sequence[Path] = field(default_factory=list)  # in its folder

    def address(self, file: str) -> str:
        """Return the address of a file of the report, as seen from the page."""
        return quote(os.fsencode((FOLDER / self.folder / file).as_posix()))

    @property
    def pages(self) -> Mapping[str, str]:
        """The addresses of what can be read as it is, by what it is."""
        known = {"report.html": "report", "report.md": "Markdown", "report.tex": "LaTeX", "costs.html": "costs"}
        return {word: self.address(name) for name, word in known.items() if Path(name) in self.files}

    def kinds(self, place: str) -> Mapping[str, Mapping[str, str]]:
        """Return the addresses of its tables, or its figures, by name and by kind of file."""
        found: dict[str, dict[str, str]] = {}
        for file in self.files:
            if file.parent.as_posix() == place:
                found.setdefault(file.stem, {})[file.suffix[1:]] = self.address(file.as_posix())
        return found


def report_in(root: Path, folder: Path) -> Report:
    """Return a report with its files: plain ones with a known suffix, in the places where reports have them."""
    manifest = manifest_of(root / folder)
    run = manifest.run if manifest else None
    files = [file for place in PLACES for file in _files(root / folder, place)]
    return Report(folder, run.name if run else "", run.digest if run else None, files)


def reports_of(run: Path, reports: Sequence[Report]) -> list[Report]:
    """Return the reports of the run in a folder; by their names alone only where one of them has no digest."""
    manifest, name = manifest_of(run), run.resolve().name
    return [
        one for one in reports
        if (one.digest in manifest.digests if manifest and one.digest is not None else one.run == name)
    ]  # fmt: skip


def _files(report: Path, place: str) -> list[Path]:
    """Return the plain files in one of the places; none if it is a link, or cannot be read."""
    if (report / place).is_symlink() or not (report / place).is_dir():
        return []
    try:
        names = [entry.name for entry in os.scandir(report / place) if entry.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return [Path(place, name) for name in sorted(names, key=_natural) if Path(name).suffix in SUFFIXES]


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what names are sorted by, so that `table-10` comes after `table-9`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]
