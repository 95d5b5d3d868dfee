"""Writes the page: a list of runs as HTML, and the data of each that the scripts unpack when they show it."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment
from jinja2.filters import do_mark_safe as as_html

from bench_core.terminal import counted
from bench_reports.content.outputs import shortened
from bench_reports.render.html import asset, html_text, json_in_page, security_policy, templates
from bench_reports.view.reading import Entry
from bench_reports.view.run_data import LONGEST, TITLE, packed, run_data, summary

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("state", "data", "numbers", "filters", "cells", "comparison", "curves", "outputs", "main")
MOST_REASONS = 20  # that the list of runs shows of each run


class Shown(NamedTuple):
    """An entry in the form in which the page holds it: made once, and again only when its folder changes."""

    entry: Entry
    item: str  # of the list of runs, as HTML, but for its place
    about: str  # what the page knows at once, as JSON
    data: str  # what is unpacked when it is shown


def shown(entry: Entry) -> Shown:
    """Return an entry as HTML and data."""
    item = _templates().get_template("run.html.j2").render(
        entry=entry, state=_state(entry), reasons=[*_reasons(entry)], reports=entry.reports
    )  # fmt: skip
    return Shown(entry, item, json_in_page(summary(entry)), packed(run_data(entry)) if entry.cells else "")


def page(entries: Sequence[Shown], notes: Sequence[str]) -> str:
    """Return the page over all entries; `notes` tell what was not looked at."""
    style = asset("page.css") + asset("view.css", ASSETS)
    script = asset("words.js") + "".join(asset(f"{name}.js", ASSETS) for name in SCRIPTS)
    return _templates().get_template("view.html.j2").render(
        policy=security_policy(style, script), style=as_html(style), script=as_html(script),
        title=_counts(entries), entries=entries, notes=notes,
        about=as_html(f"[{','.join(one.about for one in entries)}]"),
    )  # fmt: skip


def _counts(entries: Sequence[Shown]) -> str:
    """Say how many runs and reports there are."""
    runs = sum(one.entry.kind == "run" for one in entries)
    reports = len(entries) - runs + sum(len(one.entry.reports) for one in entries if one.entry.kind == "run")
    return f"{counted(runs, 'run')}, {counted(reports, 'report')}"


def _state(entry: Entry) -> str:
    """Say how complete a run is."""
    if entry.problem:
        return "cannot be read"
    lacking = [f"{entry.counts[status]:,} {status}" for status in ("failed", "not run") if entry.counts.get(status)]
    return counted(len(entry.cells), "cell") + (f", {', '.join(lacking)}" if lacking else "")


def _reasons(entry: Entry) -> Iterator[str]:
    """Yield why cells failed or did not run, and how many; the rarest of too many reasons are left out."""
    for (status, reason), number in [*entry.reasons.items()][:MOST_REASONS]:
        yield f"{counted(number, 'cell')} {status}: {reason or 'no reason is known'}"
    if len(entry.reasons) > MOST_REASONS:
        yield f"and {len(entry.reasons) - MOST_REASONS:,} more reasons: see the cells"


@cache
def _templates() -> Environment:
    return templates(
        ASSETS, text=lambda text: as_html(html_text(shortened(text, LONGEST))), html=as_html,
        title=lambda text: shortened(text, TITLE),
    )  # fmt: skip
