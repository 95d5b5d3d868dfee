"""All runs and reports of a folder, read once and again when they change, and the page over them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from bench_core.errors import SuiteError
from bench_reports.content.environments import abridged
from bench_reports.view.finding import Findings, find
from bench_reports.view.linking import Report, report_in, reports_of
from bench_reports.view.page import Shown, page, shown
from bench_reports.view.reading import Entry, damaged, read_entry, read_report

Stamp: TypeAlias = tuple[object, ...]


@dataclass
class Catalog:
    """The runs and reports below a folder; the page over them is up to date whenever it is asked for."""

    root: Path
    files: Mapping[str, Path] = field(default_factory=dict)  # that the page links to, by address
    _known: dict[Path, tuple[Stamp, Shown]] = field(default_factory=dict)

    def page(self) -> str:
        """Return the page; raise SuiteError if there is no run and no report."""
        found = find(self.root)
        if not found.runs and not found.reports:
            raise SuiteError(_nothing(self.root, found))
        reports = [report_in(self.root, folder) for folder in found.reports]
        entries = []
        for folder in found.runs:
            its = reports_of(self.root / folder, reports)
            entries.append(self._shown("run", folder, its, partial(read_entry, self.root, folder, its)))
        linked = {report.folder for one in entries for report in one.entry.reports}
        alone = [one for one in reports if one.folder not in linked]
        entries += [self._shown("report", one.folder, [one], partial(read_report, self.root, one)) for one in alone]
        self._known = {one.entry.folder: self._known[one.entry.folder] for one in entries}
        self.files = {
            report.address(file.as_posix()): self.root / report.folder / file
            for report in reports for file in report.files
        }  # fmt: skip
        return page(sorted(entries, key=_newest_first), [*_notes(found)])

    @property
    def entries(self) -> Sequence[Entry]:
        """What the last page was about."""
        return [one.entry for _, one in self._known.values()]

    def _shown(
        self, kind: Literal["run", "report"], folder: Path, reports: Sequence[Report], read: Callable[[], Entry]
    ) -> Shown:
        """Return what is shown of a folder; it is read again only if files in it or its reports have changed."""
        stamp = (_stamp(self.root / folder), *((one.folder, tuple(one.files)) for one in reports))
        if folder not in self._known or self._known[folder][0] != stamp:
            try:
                self._known[folder] = stamp, shown(read())
            except Exception as error:  # whatever is wrong with one, the others are shown
                self._known[folder] = stamp, shown(damaged(self.root, folder, kind, reports, error))
        return self._known[folder][1]


def _newest_first(one: Shown) -> tuple[list[int], str]:
    """Return what entries are sorted by: dates backwards, then those without one by their names."""
    date = one.entry.date
    return [-ord(letter) for letter in date] if date else [0], one.entry.name


def _stamp(folder: Path) -> Stamp:
    """Return what changes when a file directly in a folder does."""
    found = []
    with suppress(OSError):  # it is just being removed
        for path in sorted(folder.iterdir()):
            about = path.lstat()
            found.append((path.name, about.st_mtime_ns, about.st_size))
    return tuple(found)


def _nothing(root: Path, found: Findings) -> str:
    why = f" {' '.join(_notes(found))}" if found.links or found.unreadable else ""
    return f"{root}: there is no run and no report in it or below.{why} Name a folder that `bench run` wrote into."


def _notes(found: Findings) -> Iterator[str]:
    """Say which folders were not looked at."""
    if found.links:
        yield f"{abridged([one.as_posix() for one in found.links])}: links are not followed; view what they point to."
    if found.unreadable:
        yield f"{abridged([one.as_posix() for one in found.unreadable])}: cannot be read."
