"""Writes a document as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import assert_never

from tabulate import tabulate

from bench_core.terminal import visible
from bench_reports import document as doc
from bench_reports.document import Block, Document, Markup
from bench_reports.render.fitting import pieces

WIDTH = 100  # characters of a line
GAP = 2  # characters between columns
PADDING = 2  # characters that a column is at least wider than its heading
SCREEN = "report.txt"  #: of a report: what a terminal shows of it

PLAIN = Markup(visible, {"strong": "*{}*", "raised": " {}", "small": "({})"})


def terminal_text(document: Document) -> str:
    """Return a document for a terminal, a blank line after each table and each list."""
    lines = [visible(document.title)] * bool(document.title) + _lines(document.opening)
    for section in document.shown("terminal"):
        lines += [*_heading(section.heading), *_lines(section.blocks)]
    return "\n".join(lines)


def notes_text(notes: Iterable[str]) -> str:
    """Return notes for a terminal."""
    return "\n".join(line for note in notes for line in _wrapped(visible(note)))


def _lines(blocks: Iterable[Block]) -> list[str]:
    return [line for block in blocks for line in _block(block)]


def _block(block: Block) -> list[str]:
    match block:
        case doc.Heading(text):
            return _heading(text)
        case doc.Paragraph(sentences):
            return [*map(PLAIN.line, sentences), ""]
        case doc.Facts(items):
            return _list(f"{name}: {text}" for name, text in items.items())
        case doc.Notes(items):
            return _list(items)
        case doc.Table():
            return _table(block)
        case doc.Figure():
            shown = f"Not drawn: {block.missing}" if block.missing else f"{block.folder}/{block.id}.svg"
            return [visible(shown), *_lines(block.details), *_list(block.notes.items)]
        case doc.Claims():
            return _table(block.table)
        case doc.Example():
            return _example(block)
        case doc.Files(paths, introduction):
            return [visible(" ".join([introduction, *paths])), ""]
        case doc.SideBySide():
            return []
    assert_never(block)


def _heading(text: str) -> list[str]:
    return wrap(visible(text), WIDTH, break_long_words=False)


def _list(items: Iterable[str]) -> list[str]:
    return [*(line for item in items for line in _wrapped(visible(item))), ""]


def _wrapped(text: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False) or [""]


def _table(table: doc.Table) -> list[str]:
    """Lay out a table, with what describes it above; all columns but the first are aligned to its side."""
    above = [visible(table.description)] if table.description else []
    found = [_columns(rows, table.side) for rows in _pieces(table)]
    return [*above, *"\n\n".join(found).split("\n"), *_list(table.notes.items if table.notes else ())]


def _pieces(table: doc.Table) -> Iterable[list[list[str]]]:
    """Yield the rows of tables that fit a line; of a table of text, the last column is wrapped instead."""
    rows = PLAIN.rows(table)
    if table.side == "right":
        return pieces(rows, WIDTH, GAP)
    padded = [[word + " " * PADDING for word in rows[0]], *rows[1:]]
    rest = sum(max(map(len, column)) + GAP for column in [*zip(*padded, strict=True)][:-1])
    return [[[*row[:-1], "\n".join(wrap(row[-1], max(30, WIDTH - rest))) or row[-1]] for row in rows]]


def _columns(rows: Sequence[Sequence[str]], side: doc.Side) -> str:
    sides, lines = ["left", *[side] * (len(rows[0]) - 1)], max(word.count("\n") for word in rows[0])
    head = ["\n" * (lines - word.count("\n")) + word for word in rows[0]]  # headings stand on the line below
    return str(tabulate(rows[1:], head, colalign=sides, disable_numparse=True))


def _example(example: doc.Example) -> list[str]:
    pairs = [*example.given.items(), *example.outputs]
    pairs += [(cell, step) for cell, steps in example.courses for step in steps]
    return [visible(example.name), *_list(f"{name}: {text}" for name, text in pairs)]
