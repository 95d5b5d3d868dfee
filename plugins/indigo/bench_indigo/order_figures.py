"""Figures of generation order: outputs as they grow word by word, with relative positions.

As in Figures 4 and 5 of Gu et al. (2019), each step shows the sequence so far with the new word in a box. A matrix
of items in generation order shows which item of each pair is on the left; each step adds a row and a column.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from bench_reports.api import (
    Block,
    FigureData,
    FigureKind,
    Heading,
    Picture,
    Series,
    Span,
    TableBlock,
    TableCell,
    join,
    seed_of,
    text_cell,
    visible,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from bench_reports.api import CellResult

LEFT, RIGHT = "<s>", "</s>"  # the boundaries
SIGNS = {-1: "−", 0: "0", 1: "+"}
COLOURS = {-1: "#9ecae1", 0: "#ffffff", 1: "#fdae6b"}
BOX = {"facecolor": "#c7e9c0", "edgecolor": "#238b45", "linewidth": 0.8}
MAX_WORDS = 30  # maximum number of words shown per output
MAX_WORD_CHARS = 24
FONT_SIZE = 8.0  # points
CHAR_WIDTH = 0.61 * FONT_SIZE / 72  # inches, in a monospace font
LINE, GAP, EDGE = 0.24, 0.14, 0.1  # inches: line height, space between words, margin


class GenerationStep(NamedTuple):
    """A word and its slot."""

    step: int
    word: str
    position: int  # place in the finished output
    slot: int  # index among the previous words
    sequence: tuple[str, ...]  # partial output with the new word, without boundaries


def order_picture(data: FigureData) -> Picture:
    """Return a series for each output of each group's first seed, with a row per step."""
    series, cut = [], []
    for names, cells in data.groups.items():
        shown = [*_samples(data, cells)]
        for number, words, order in shown:
            label = ", ".join(filter(None, (join(*names), f"example {number}")))
            series.append(Series(label, steps(words, order[:MAX_WORDS]), 1))
            if len(order) > MAX_WORDS:
                cut.append(f"{label}: the first {MAX_WORDS} of {len(order):,} words.")
        if not shown:
            first = min(cells, key=seed_of)
            data.leave_out(first, first.reason or "the run stores no output that its order figure may show")
    return Picture(data.figure, series, notes=[*LEGEND, *cut] if series else [])


LEGEND = (
    "Boxed: the word that a step inserts.",
    f"Squares: whether the row's item stands left ({SIGNS[-1]}) or right ({SIGNS[1]}) of the column's item; "
    "items are numbered in generation order.",
)


def _samples(data: FigureData, cells: Sequence[CellResult]) -> Iterator[tuple[int, list[str], list[int]]]:
    """Yield the id, words and order of each output that a figure selects and the run has stored."""
    ids = data.figure.examples
    samples = [
        sample for sample in data.run.info.get("samples") or () if any(sample["cell"] == cell.cell for cell in cells)
    ]
    known = [sample for sample in samples if _is_course(sample)]
    chosen = known if isinstance(ids, int) else [sample for sample in known if sample["id"] in ids]
    if isinstance(ids, int):
        chosen = sorted(known, key=lambda sample: len(sample["words"]) < 2)[:ids]
    for sample in chosen:
        yield sample["id"], sample["words"], sample["order"]


def _is_course(sample: Mapping[str, Any]) -> bool:
    """Return whether a sample, possibly from another plugin, has words and their order."""
    words, order = sample.get("words"), sample.get("order")
    if not (isinstance(words, list) and isinstance(order, list) and all(isinstance(word, str) for word in words)):
        return False
    return all(type(place) is int for place in order) and sorted(order) == [*range(len(words))]


def steps(words: Sequence[str], order: Sequence[int]) -> list[GenerationStep]:
    """Return the generation steps of an output, one per word in `order`."""
    course = []
    for turn, place in enumerate(order):
        done = sorted(order[: turn + 1])
        course.append(
            GenerationStep(turn + 1, words[place], place, done.index(place), tuple(words[each] for each in done))
        )
    return course


def items(course: Sequence[GenerationStep]) -> list[str]:
    """Return the boundaries, then the words in generation order."""
    return [LEFT, RIGHT, *(step.word for step in course)]


def relations(course: Sequence[GenerationStep]) -> list[list[int]]:
    """Return the relations of all items i and j: -1 if i stands left of j, 1 if it stands right of j, 0 if i = j."""
    stands = [-1, max((step.position for step in course), default=0) + 1, *(step.position for step in course)]
    return [[(place > other) - (place < other) for other in stands] for place in stands]


def course_tables(picture: Picture) -> list[Block]:
    """Return the label, steps and relations of each output."""
    return [
        block
        for series in picture.series
        for block in (
            Heading(series.label),
            _step_table(series.label, series.rows),
            _relation_table(series.label, series.rows),
        )
    ]


def _step_table(label: str, course: Sequence[GenerationStep]) -> TableBlock:
    rows = []
    for step in course:
        spans = [Span(plain(word)) for word in step.sequence]
        spans[step.slot] = replace(spans[step.slot], style="strong")
        sequence = TableCell([Span(LEFT), *spans, Span(RIGHT)])
        rows.append([text_cell(str(step.step)), text_cell(plain(step.word)), text_cell(str(step.slot)), sequence])
    return TableBlock("", f"{label}: steps", ["step", "word", "slot", "sequence"], rows, "left")


def _relation_table(label: str, course: Sequence[GenerationStep]) -> TableBlock:
    names = [f"{turn} {plain(item)}" for turn, item in enumerate(items(course))]
    rows = [
        [text_cell(name), *(text_cell(SIGNS[each], "sign") for each in row)]
        for name, row in zip(names, relations(course), strict=True)
    ]
    return TableBlock("", f"{label}: relations", ["", *map(str, range(len(names)))], rows)


def plain(word: str) -> str:
    """Return a word with visible characters, truncated if it is long."""
    shown = plain_label(word)
    return (shown if len(shown) <= MAX_WORD_CHARS else f"{shown[: MAX_WORD_CHARS - 1]}…") or "␣" * max(
        1, min(MAX_WORD_CHARS, len(word))
    )


def draw_courses(canvas: Canvas, picture: Picture) -> None:
    """Draw the outputs one below the other, each with its steps followed by its relations."""
    blocks = [_Block(series.label, series.rows) for series in picture.series]
    width, height = max(block.width for block in blocks), sum(block.height for block in blocks)
    canvas.set_layout_engine("none")
    canvas.set_size_inches(width, height)
    for block, top in zip(blocks, accumulate((block.height for block in blocks), initial=0.0), strict=False):
        block.draw(_Sheet(canvas, width, height, top))


class _Sheet:
    """A part of a canvas, with positions in inches from its top left corner."""

    def __init__(self, canvas: Canvas, width: float, height: float, top: float) -> None:
        self.canvas, self.width, self.height, self.top = canvas, width, height, top

    def text(self, text: str, left: float, base: float, **style: Any) -> None:
        about = {"family": "monospace", "size": FONT_SIZE, "parse_math": False, **style}
        self.canvas.text(left / self.width, 1 - (self.top + base) / self.height, text, **about)

    def box(self, left: float, base: float, width: float, height: float, **style: Any) -> None:
        """Draw a rectangle that starts slightly below a line of text."""
        from matplotlib.patches import Rectangle

        corner = left / self.width, 1 - (self.top + base + 0.06) / self.height
        self.canvas.add_artist(Rectangle(corner, width / self.width, height / self.height, **style))


class _Block:
    """The layout of an output in a figure."""

    def __init__(self, label: str, course: Sequence[GenerationStep]) -> None:
        self.label, self.course = plain_label(label), course
        self.lines = [[LEFT, RIGHT], *([LEFT, *map(plain, step.sequence), RIGHT] for step in course)]
        self.names = [f"{turn} {plain(item)}" for turn, item in enumerate(items(course))]
        self.margin = EDGE + max(map(text_width, self.names)) + GAP
        turns = text_width(str(len(course))) + 2 * GAP
        widths = [EDGE + turns + sum(text_width(word) + GAP for word in line) for line in self.lines]
        squares = self.margin + LINE * len(self.names)
        self.width = EDGE + max(*widths, squares, EDGE + text_width(self.label))
        self.height = LINE * (len(self.lines) + len(self.names) + 3.5)

    def draw(self, sheet: _Sheet) -> None:
        sheet.text(self.label, EDGE, LINE, weight="bold")
        for turn, line in enumerate(self.lines):
            self._draw_step(sheet, turn, line)
        top = LINE * (len(self.lines) + 2)
        for turn in range(len(self.names)):
            sheet.text(str(turn), self.margin + LINE * (turn + 0.5), top, ha="center")
        for turn, row in enumerate(relations(self.course), 1):
            sheet.text(self.names[turn - 1], EDGE, top + LINE * turn)
            for column, sign in enumerate(row):
                left = self.margin + LINE * column
                sheet.box(left, top + LINE * turn, LINE - 0.01, LINE - 0.01, facecolor=COLOURS[sign], linewidth=0)
                sheet.text(SIGNS[sign], left + LINE / 2, top + LINE * turn, ha="center")

    def _draw_step(self, sheet: _Sheet, turn: int, line: Sequence[str]) -> None:
        base = LINE * (turn + 2)
        sheet.text(str(turn), EDGE, base, color="0.4")
        left = EDGE + text_width(str(len(self.course))) + 2 * GAP
        for place, word in enumerate(line):
            if turn and place == self.course[turn - 1].slot + 1:
                sheet.box(left - 0.04, base, text_width(word) + 0.08, LINE - 0.04, **BOX)
            sheet.text(word, left, base)
            left += text_width(word) + GAP


def plain_label(label: str) -> str:
    """Return a label on one line, with visible characters only."""
    return re.sub(r"[\ufffe\uffff]", "�", visible(label))


def text_width(text: str) -> float:
    """Return the approximate width of a text in inches; East Asian wide characters count twice."""
    return CHAR_WIDTH * sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


ORDER = FigureKind(order_picture, draw_courses, course_tables, "Outputs of the first seed.")
