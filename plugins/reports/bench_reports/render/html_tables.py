"""Tables of a page: text as HTML, and the numbers that a click sorts them by."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from jinja2.filters import do_mark_safe as as_html

from bench_core.terminal import visible
from bench_reports.content.claims import Judgement
from bench_reports.content.grid import Entry, Grid
from bench_reports.render.markup import Markup

NUMBER = re.compile(r"[−+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?(?![\w.:-])")


@dataclass(frozen=True)
class Cell:
    """What stands in a row under a heading."""

    html: str
    worth: float | None = None  # what it is sorted by; a cell without comes last
    look: str = ""  # a class of the style


@dataclass(frozen=True)
class Sheet:
    """A table of a page."""

    id: str
    caption: str
    headings: Sequence[str]  # as HTML
    rows: Sequence[tuple[str, Sequence[Cell]]]  # a label, as HTML, and what follows it
    side: str = "right"  # to which all columns but the first lean


def html_text(text: str) -> str:
    """Return text that a page shows as it is; what is written from right to left turns nothing around it."""
    escaped = html.escape(visible(text))
    alien = not text.isascii() and any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text)
    return f"<bdi>{escaped}</bdi>" if alien else escaped


HTML = Markup(html_text, '<small class="published">{}</small>', "<sup>{}</sup>", "<strong>{}</strong>")


def results(grid: Grid) -> Sheet:
    """Return a table of results: the words are those of every other format."""
    lines = HTML.table(grid)
    cells = [
        [_cell(text, _worth(entry), "" if entry.text else entry.status.replace(" ", "-")) for text, entry in pairs]
        for pairs in (zip(line[1:], row, strict=True) for line, row in zip(lines[1:], grid.entries, strict=True))
    ]
    return _sheet(f"table-{grid.table.id}", grid.table.caption or grid.table.id, lines, cells)


def differences(grid: Grid) -> Sheet | None:
    """Return what ours are less the published, with verdicts; None where none stand together."""
    if not (lines := HTML.differences(grid)):
        return None
    places = [place for place in range(len(grid.columns)) if any(row[place].comparison for row in grid.entries)]
    found = [[row[place].comparison for place in places] for row in grid.entries]
    cells = [
        [
            _cell(text, one.difference, one.verdict.replace(" ", "-")) if one else _cell(text)
            for text, one in zip(line[1:], row, strict=True)
        ]
        for line, row in zip(lines[1:], found, strict=True)
    ]
    return _sheet(f"beside-{grid.table.id}", f"{grid.table.id} beside the published", lines, cells)


def claims(judged: Iterable[Judgement]) -> Sheet:
    """Return what became of each claim, and by what it was judged."""
    lines, cells = [["claim", "verdict", "statement", "judged by"]], []
    for one in judged:
        lines.append([html_text(one.claim.id)])
        statement, expression = html_text(" ".join(one.claim.text.split())), html_text(one.claim.expression)
        verdict = _cell(html_text(one.verdict), look=one.verdict.partition(" (")[0].replace(" ", "-"))
        why = html_text(f"{one.why.rstrip('.')}.")
        cells.append([verdict, _cell(f"{statement} <code>{expression}</code>"), _cell(why)])
    return _sheet("claims", "What the suite claims, and what its numbers say of it", lines, cells, "left")


def together(several: Sequence[Mapping[str, Any]]) -> Sheet:
    """Return what cells were computed with: a column for each environment, with libraries and code."""
    flat = [dict(_flat(one)) for one in several]
    headings = ["", *(f"environment {place}" if len(flat) > 1 else "value" for place in range(1, len(flat) + 1))]
    keys = dict.fromkeys(key for one in flat for key in one)
    return plain(
        "environments",
        "What cells were computed with",
        [headings, *([key, *(one.get(key, "–") for one in flat)] for key in keys)],
        "left",
    )


def _flat(one: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in one.items():
        inside = value.items() if isinstance(value, Mapping) else ()
        yield from ((f"{key}: {name}", str(item)) for name, item in inside)
        if not isinstance(value, Mapping):
            yield key, str(value)


def plain(name: str, caption: str, lines: Sequence[Sequence[str]], side: str = "right") -> Sheet:
    """Return a table of plain text whose headings come first; columns of nothing but numbers are sorted as such."""
    columns = [_numbered(column) for column in zip(*lines[1:], strict=True)][1:]
    cells = [[column[place] for column in columns] for place in range(len(lines) - 1)]
    return _sheet(name, caption, [[html_text(word) for word in line] for line in lines], cells, side)


def number(text: str | None) -> float | None:
    """Return the number that a text is or begins with, such as `1,024` or `−0.5 %`; None where there is none."""
    found = NUMBER.match(text) if text else None
    return float(found[0].replace("−", "-").replace(",", "")) if found else None


def _numbered(column: Sequence[str]) -> list[Cell]:
    """Return a column of text with its numbers; with none where it holds other words too."""
    found = [number(word) for word in column]
    words = any(one is None and word not in ("", "–") for one, word in zip(found, column, strict=True))
    return [_cell(html_text(word), None if words else one) for one, word in zip(found, column, strict=True)]


def _worth(entry: Entry) -> float | None:
    if entry.text:
        return number(entry.text)
    return None if entry.summary is None or isnan(entry.summary.mean) else entry.summary.mean


def _cell(text: str, worth: float | None = None, look: str = "") -> Cell:
    return Cell(as_html(text), worth, look)


def _sheet(
    name: str, caption: str, lines: Sequence[Sequence[str]], cells: Sequence[Sequence[Cell]], side: str = "right"
) -> Sheet:
    """Return a table from its lines as HTML: of the first the headings, of the others the labels."""
    labels = [_breaking(line[0]) for line in lines[1:]]
    return Sheet(name, caption, [*map(_breaking, lines[0])], list(zip(labels, cells, strict=True)), side)


def _breaking(text: str) -> str:
    """Return HTML in which a line may end after a slash."""
    return as_html(re.sub("/(?!bdi>)", "/<wbr>", text))
