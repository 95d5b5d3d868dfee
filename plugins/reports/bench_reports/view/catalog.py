"""All runs and reports of a folder, read again only when they change, and their page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from bench_core.errors import SuiteError
from bench_reports.content.environments import abridged
from bench_reports.view.finding import FoundFolders, find
from bench_reports.view.linking import ReportFiles, report_in, reports_of
from bench_reports.view.page import RenderedEntry, page, render_entry
from bench_reports.view.reading import PageEntry, damaged_entry, read_entry, read_report

Stamp: TypeAlias = tuple[object, ...]


@dataclass
class Catalog:
    """The runs and reports below a folder, with a page that is always up to date."""

    root: Path
    files: Mapping[str, Path] = field(default_factory=dict)  # linked files by address
    _known: dict[Path, tuple[Stamp, RenderedEntry]] = field(default_factory=dict)

    def page(self) -> str:
        """Return the page; raise SuiteError if there are no runs and no reports."""
        folders = find(self.root)
        if not folders.runs and not folders.reports:
            raise SuiteError(_nothing(self.root, folders))
        reports = [report_in(self.root, folder) for folder in folders.reports]
        entries = []
        for folder in folders.runs:
            of_run = reports_of(self.root / folder, reports)
            entries.append(self._render("run", folder, of_run, partial(read_entry, self.root, folder, of_run)))
        linked = {report.folder for shown in entries for report in shown.entry.reports}
        alone = [report for report in reports if report.folder not in linked]
        entries += [
            self._render("report", report.folder, [report], partial(read_report, self.root, report))
            for report in alone
        ]
        self._known = {shown.entry.folder: self._known[shown.entry.folder] for shown in entries}
        self.files = {
            report.address(file.as_posix()): self.root / report.folder / file
            for report in reports for file in report.files
        }  # fmt: skip
        return page(sorted(entries, key=_newest_first), [*_notes(folders)])

    @property
    def entries(self) -> Sequence[PageEntry]:
        """The entries of the last page."""
        return [shown.entry for _, shown in self._known.values()]

    def _render(
        self,
        kind: Literal["run", "report"],
        folder: Path,
        reports: Sequence[ReportFiles],
        read: Callable[[], PageEntry],
    ) -> RenderedEntry:
        """Return the rendered entry of a folder, read again only if its files or reports have changed."""
        stamp = (_stamp(self.root / folder), *((report.folder, tuple(report.files)) for report in reports))
        if folder not in self._known or self._known[folder][0] != stamp:
            try:
                self._known[folder] = stamp, render_entry(read())
            except Exception as error:  # any error in an entry; the others are still shown
                self._known[folder] = stamp, render_entry(damaged_entry(self.root, folder, kind, reports, error))
        return self._known[folder][1]


def _newest_first(shown: RenderedEntry) -> tuple[list[int], str]:
    """Return the sort key of entries: newest first, then entries without date by name."""
    date = shown.entry.date
    return [-ord(letter) for letter in date] if date else [0], shown.entry.name


def _stamp(folder: Path) -> Stamp:
    """Return names, times and sizes of the files in a folder, to detect changes."""
    files = []
    with suppress(OSError):  # it may just have been removed
        for path in sorted(folder.iterdir()):
            about = path.lstat()
            files.append((path.name, about.st_mtime_ns, about.st_size))
    return tuple(files)


def _nothing(root: Path, folders: FoundFolders) -> str:
    why = f" {' '.join(_notes(folders))}" if folders.links or folders.unreadable else ""
    return (
        f"{root}: no runs or reports found in this folder or below.{why} Choose a folder that `bench run` wrote to."
    )


def _notes(folders: FoundFolders) -> Iterator[str]:
    """Yield notes on the folders that were skipped."""
    if folders.links:
        yield f"{abridged([path.as_posix() for path in folders.links])}: links are not followed; view their targets."
    if folders.unreadable:
        yield f"{abridged([path.as_posix() for path in folders.unreadable])}: cannot be read."
