"""Write a document as plain text for a terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import assert_never

from tabulate import tabulate

from bench_core.terminal import visible
from bench_reports import document as doc
from bench_reports.document import Block, Document, Markup
from bench_reports.render.fitting import PADDING, pieces

LINE_CHARACTERS = 100  # characters per line
GAP = 2  # characters between columns
SCREEN = "report.txt"  #: the file of a report with its terminal text

TERMINAL = Markup(visible, {"strong": "*{}*", "raised": " {}", "small": "({})"})


def terminal_text(document: Document, width: int = LINE_CHARACTERS) -> str:
    """Return a document for a terminal of this width, with a blank line after each table and each list."""
    screen = Screen(width)
    lines = [visible(document.title)] * bool(document.title) + screen.lines(document.prompt)
    for section in document.sections_for("terminal"):
        lines += [*screen.heading(section.heading), *screen.lines(section.blocks)]
    return "\n".join(lines)


def notes_text(notes: Iterable[str], width: int = LINE_CHARACTERS) -> str:
    """Return notes for a terminal of this width."""
    return "\n".join(line for note in notes for line in Screen(width).note_lines(visible(note)))


@dataclass(frozen=True)
class Screen:
    """A terminal with lines of `width` characters."""

    width: int

    def lines(self, blocks: Iterable[Block]) -> list[str]:
        """Return the lines of blocks."""
        return [line for block in blocks for line in self._block(block)]

    def _block(self, block: Block) -> list[str]:
        match block:
            case doc.Heading(text):
                return self.heading(text)
            case doc.Paragraph(sentences):
                return [*map(TERMINAL.line, sentences), ""]
            case doc.Facts(items):
                return self._list(f"{name}: {text}" for name, text in items.items())
            case doc.Notes(items):
                return self._list(items)
            case doc.TableBlock():
                return self._table(block)
            case doc.FigureBlock():
                shown = f"Not drawn: {block.missing}" if block.missing else f"{block.folder}/{block.id}.svg"
                return [visible(shown), *self.lines(block.details), *self._list(block.notes.items)]
            case doc.Claims():
                return self._table(block.table)
            case doc.ExampleBlock():
                return self._example(block)
            case doc.FileList(paths, introduction):
                return [visible(" ".join([introduction, *paths])), ""]
            case doc.SideBySide():
                return []
        assert_never(block)

    def heading(self, text: str) -> list[str]:
        """Return the lines of a heading."""
        return wrap(visible(text), self.width, break_long_words=False)

    def _list(self, items: Iterable[str]) -> list[str]:
        return [*(line for item in items for line in self.note_lines(visible(item))), ""]

    def note_lines(self, text: str) -> list[str]:
        """Return the lines of a note."""
        return wrap(text, self.width, initial_indent="  ", subsequent_indent="    ", break_long_words=False) or [""]

    def _table(self, table: doc.TableBlock) -> list[str]:
        """Lay out a table below its description; all columns except the first use its alignment."""
        above = [visible(table.description)] if table.description else []
        tables = [_columns(rows, table.side) for rows in self._pieces(table)]
        return [*above, *"\n\n".join(tables).split("\n"), *self._list(table.notes.items if table.notes else ())]

    def _pieces(self, table: doc.TableBlock) -> Iterable[list[list[str]]]:
        """Yield the rows of tables that fit a line; in a table of text, the last column is wrapped instead."""
        rows = TERMINAL.rows(table)
        if table.side == "right":
            return pieces(rows, self.width, GAP)
        padded = [[word + " " * PADDING for word in rows[0]], *rows[1:]]
        rest = sum(max(map(len, column)) + GAP for column in [*zip(*padded, strict=True)][:-1])
        return [[[*row[:-1], "\n".join(wrap(row[-1], max(30, self.width - rest))) or row[-1]] for row in rows]]

    def _example(self, example: doc.ExampleBlock) -> list[str]:
        pairs = [*example.given.items(), *example.outputs]
        pairs += [(cell, step) for cell, steps in example.courses for step in steps]
        return [visible(example.name), *self._list(f"{name}: {text}" for name, text in pairs)]


def _columns(rows: Sequence[Sequence[str]], side: doc.Side) -> str:
    sides, lines = ["left", *[side] * (len(rows[0]) - 1)], max(word.count("\n") for word in rows[0])
    head = ["\n" * (lines - word.count("\n")) + word for word in rows[0]]  # headings are bottom-aligned
    return str(tabulate(rows[1:], head, colalign=sides, disable_numparse=True))
