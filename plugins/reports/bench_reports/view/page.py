"""The page of `bench view`: a list of runs as HTML, and compressed data, which scripts unpack on demand."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment
from jinja2.filters import do_mark_safe as as_html

from bench_core.terminal import count_of
from bench_reports.content.outputs import shortened
from bench_reports.render.html import asset, html_text, json_in_page, security_policy, templates
from bench_reports.view.reading import PageEntry
from bench_reports.view.run_data import MAX_TEXT_CHARACTERS, MAX_TITLE_CHARACTERS, pack, run_data, summary

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("state", "data", "numbers", "filters", "cells", "comparison", "curves", "outputs", "main")
MAX_REASONS = 20  # reasons per run in the list of runs


class RenderedEntry(NamedTuple):
    """An entry as rendered for the page, cached until its folder changes."""

    entry: PageEntry
    item: str  # HTML of the list item, without its index
    about: str  # JSON summary
    data: str  # compressed data


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
