"""All runs and reports of a folder, read again only when they change, and their page as HTML and compressed data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from jinja2 import Environment
from jinja2.filters import do_mark_safe as as_html

from bench_core.errors import SuiteError
from bench_core.terminal import count_of
from bench_reports.content.environments import abridged
from bench_reports.content.outputs import shortened
from bench_reports.render.html import asset, html_text, json_in_page, security_policy, templates
from bench_reports.view.finding import FoundFolders, find
from bench_reports.view.linking import ReportFiles, report_in, reports_of
from bench_reports.view.reading import PageEntry, damaged_entry, read_entry, read_report
from bench_reports.view.run_data import MAX_TEXT_CHARACTERS, MAX_TITLE_CHARACTERS, pack, run_data, summary

Stamp: TypeAlias = tuple[object, ...]
ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("state", "data", "numbers", "filters", "cells", "comparison", "curves", "outputs", "main")
MAX_REASONS = 20  # reasons per run in the list of runs


class RenderedEntry(NamedTuple):
    """An entry as rendered for the page, cached until its folder changes."""

    entry: PageEntry
    item: str  # HTML of the list item, without its index
    about: str  # JSON summary
    data: str  # compressed data


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


def render_entry(entry: PageEntry) -> RenderedEntry:
    """Return an entry as HTML and data."""
    item = _templates().get_template("run.html.j2").render(
        entry=entry, state=_state(entry), reasons=[*_reasons(entry)], reports=entry.reports
    )  # fmt: skip
    return RenderedEntry(entry, item, json_in_page(summary(entry)), pack(run_data(entry)) if entry.cells else "")


def page(entries: Sequence[RenderedEntry], notes: Sequence[str]) -> str:
    """Return the page of all entries; `notes` are about skipped folders."""
    style = asset("page.css") + asset("view.css", ASSETS)
    script = asset("words.js") + "".join(asset(f"{name}.js", ASSETS) for name in SCRIPTS)
    return _templates().get_template("view.html.j2").render(
        policy=security_policy(style, script), style=as_html(style), script=as_html(script),
        title=_counts(entries), entries=entries, notes=notes,
        about=as_html(f"[{','.join(shown.about for shown in entries)}]"),
    )  # fmt: skip


def _counts(entries: Sequence[RenderedEntry]) -> str:
    """Return the numbers of runs and reports in words."""
    runs = sum(shown.entry.kind == "run" for shown in entries)
    reports = len(entries) - runs + sum(len(shown.entry.reports) for shown in entries if shown.entry.kind == "run")
    return f"{count_of(runs, 'run')}, {count_of(reports, 'report')}"


def _state(entry: PageEntry) -> str:
    """Return the number of cells of a run, and of failed and missing cells."""
    if entry.problem:
        return "cannot be read"
    lacking = [f"{entry.counts[status]:,} {status}" for status in ("failed", "not run") if entry.counts.get(status)]
    return count_of(len(entry.cells), "cell") + (f", {', '.join(lacking)}" if lacking else "")


def _reasons(entry: PageEntry) -> Iterator[str]:
    """Yield why cells failed or did not run, most frequent reasons first."""
    for (status, reason), number in [*entry.reasons.items()][:MAX_REASONS]:
        yield f"{count_of(number, 'cell')} {status}: {reason or 'reason unknown'}"
    if len(entry.reasons) > MAX_REASONS:
        yield f"and {len(entry.reasons) - MAX_REASONS:,} more reasons, listed with the cells"


@cache
def _templates() -> Environment:
    return templates(
        ASSETS, text=lambda text: as_html(html_text(shortened(text, MAX_TEXT_CHARACTERS))), html=as_html,
        title=lambda text: shortened(text, MAX_TITLE_CHARACTERS),
    )  # fmt: skip
