"""Tables of plain text, as blocks of a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench_reports.content.numbers import number
from bench_reports.document import Cell, Side, Span, Table, text_cell


def text_table(name: str, caption: str, lines: Sequence[Sequence[str]], side: Side = "right") -> Table:
    """Return a table of text whose headings come first; columns of nothing but numbers can be sorted as such."""
    labels = [text_cell(line[0]) for line in lines[1:]]
    columns = [_column(column) for column in zip(*lines[1:], strict=True)][1:]
    rows = [[label, *(column[place] for column in columns)] for place, label in enumerate(labels)]
    return Table(name, caption, lines[0], rows, side)


def environment_table(environments: Sequence[Mapping[str, Any]]) -> Table:
    """Return what cells were computed with: a column for each environment, with libraries and code."""
    flat = [dict(_flat(one)) for one in environments]
    headings = ["", *(f"environment {place}" if len(flat) > 1 else "value" for place in range(1, len(flat) + 1))]
    keys = dict.fromkeys(key for one in flat for key in one)
    rows = [[key, *(one.get(key, "–") for one in flat)] for key in keys]
    return text_table("environments", "What cells were computed with", [headings, *rows], "left")


def _flat(one: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in one.items():
        inside = value.items() if isinstance(value, Mapping) else ()
        yield from ((f"{key}: {name}", str(item)) for name, item in inside)
        if not isinstance(value, Mapping):
            yield key, str(value)


def _column(column: Sequence[str]) -> list[Cell]:
    """Return a column of text with its numbers; with none where it holds other words too."""
    found = [number(word) for word in column]
    mixed = any(one is None and word not in ("", "–") for one, word in zip(found, column, strict=True))
    return [Cell([Span(word)], None if mixed else one) for one, word in zip(found, column, strict=True)]
