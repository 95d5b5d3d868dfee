"""Write a document as Markdown (`report.md`)."""

import html
import re
from collections.abc import Iterable, Sequence
from math import inf
from typing import assert_never

from tabulate import tabulate

from bench_core.terminal import visible
from bench_reports import document as doc
from bench_reports.document import Block, Document, DocumentSection, Markup
from bench_reports.render.fitting import pieces

MAX_LINE_CHARACTERS = 150  # characters per line of a table of results
WRAPPED = 24  # characters beyond which a cell is wrapped


def markdown_report(document: Document) -> str:
    """Return a document as Markdown, with a blank line before each block."""
    sections = [*map(_section, document.sections_for("markdown"))]
    return f"# {markdown(document.title)}\n" + _blocks(document.prompt) + "".join(sections)


def markdown(text: str) -> str:
    """Return text that Markdown shows verbatim, even in a table or at the start of a line."""
    return re.sub(r"^(\d*)([.)+-])(?=[ -]|$)", r"\1\\\2", _inside(text))


def _inside(text: str) -> str:
    """Return text that Markdown shows verbatim within a line."""
    return re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", html.escape(visible(text), quote=False))


MARKDOWN = Markup(
    markdown,
    {"strong": "**{}**", "raised": "<sup>{}</sup>", "small": "<sub>{}</sub>", "code": "<code>{}</code>"},
    "[{text}](<{link}>)",
    _inside,
)


def _section(section: DocumentSection) -> str:
    return f"\n## {markdown(section.heading)}\n{_blocks(section.blocks)}"


def _blocks(blocks: Iterable[Block]) -> str:
    return "".join(map(_block, blocks))


def _block(block: Block) -> str:
    match block:
        case doc.Heading(text):
            return f"\n### {markdown(text)}\n"
        case doc.Paragraph(sentences):
            return "\n" + "".join(f"{MARKDOWN.line(sentence)}\n" for sentence in sentences)
        case doc.Facts(items):
            return _list([f"{name}: {text}" for name, text in items.items()])
        case doc.Notes(items):
            return _list(items) if items else ""
        case doc.TableBlock():
            return _table(block)
        case doc.FigureBlock():
            return _figure(block)
        case doc.Claims():
            return _table(block.table)
        case doc.ExampleBlock():
            return _example(block)
        case doc.FileList() | doc.SideBySide():
            return ""
    assert_never(block)


def _list(items: Iterable[str]) -> str:
    return "\n" + "".join(f"- {markdown(item)}\n" for item in items)


def _table(table: doc.TableBlock) -> str:
    """Return a table with its notes, the description first; all columns except the first use its alignment."""
    rows, width = MARKDOWN.rows(table, "<br>"), MAX_LINE_CHARACTERS if table.file else inf
    tables = [_pipes(piece, table.side) for piece in pieces(rows, width, len(" | "), WRAPPED)]
    notes = [table.description] * bool(table.description) + [*(table.notes.items if table.notes else ())]
    return "\n" + "\n".join(tables) + (_list(notes) if notes else "")


def _pipes(rows: Sequence[Sequence[str]], side: doc.Side) -> str:
    sides = ["left", *[side] * (len(rows[0]) - 1)]
    return f"{tabulate(rows[1:], rows[0], tablefmt='pipe', colalign=sides, disable_numparse=True)}\n"


def _figure(figure: doc.FigureBlock) -> str:
    if figure.missing:
        return f"\nNot drawn: {markdown(figure.missing)}\n" + _block(figure.notes)
    image = f"\n![{markdown(figure.caption)}]({figure.folder}/{figure.id}.svg)\n"
    return image + _blocks(figure.details) + _block(figure.notes)


def _example(example: doc.ExampleBlock) -> str:
    """Return the inputs of an example, a table of its outputs, and the growth of some outputs."""
    given = "\n" * bool(example.given)
    given += "".join(f"- {markdown(name)}: {markdown(text)}\n" for name, text in example.given.items())
    rows = [[doc.text_cell(cell), doc.text_cell(output)] for cell, output in example.outputs]
    outputs = _table(doc.TableBlock("", "", ["cell", "output"], rows, "left"))
    courses = [
        f"\n{markdown(cell)}, word by word:\n\n" + "".join(f"1. {markdown(step)}\n" for step in steps)
        for cell, steps in example.courses
    ]
    return f"\n### {markdown(example.name)}\n{given}{outputs}{''.join(courses)}"
