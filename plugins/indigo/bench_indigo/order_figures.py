"""Figures of generation order: outputs as they grew word by word, with relative positions.

As Figures 4 and 5 of Gu et al. (2019), each step shows the sequence so far with the new word in a box, and a matrix
shows on which side of each other the items stand, numbered as they came; it only ever grows by a row and a column.
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
    Cell,
    FigureData,
    FigureKind,
    Heading,
    Picture,
    Series,
    Span,
    Table,
    join,
    seed_of,
    text_cell,
    visible,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from bench_reports.api import CellResult

LEFT, RIGHT = "<s>", "</s>"  # the boundaries, which are there before any word
SIGNS = {-1: "−", 0: "0", 1: "+"}
COLOURS = {-1: "#9ecae1", 0: "#ffffff", 1: "#fdae6b"}
BOX = {"facecolor": "#c7e9c0", "edgecolor": "#238b45", "linewidth": 0.8}
MOST = 30  # words of an output that are shown, the first to be generated
LONGEST = 24  # signs of a word
SIZE = 8.0  # points of letters
LETTER = 0.61 * SIZE / 72  # inches of a letter, all as wide as each other
LINE, GAP, EDGE = 0.24, 0.14, 0.1  # inches of a line, between words, and around all


class Step(NamedTuple):
    """One word and where it went."""

    step: int
    word: str
    position: int  # in the whole output
    slot: int  # before which word of what was there
    sequence: tuple[str, ...]  # so far, the word included, without boundaries


def order_picture(data: FigureData) -> Picture:
    """Return a series for each output of the first seed of each group, with a row for each step."""
    series, cut = [], []
    for names, cells in data.groups.items():
        shown = [*_shown(data, cells)]
        for number, words, order in shown:
            label = ", ".join(filter(None, (join(*names), f"example {number}")))
            series.append(Series(label, steps(words, order[:MOST]), 1))
            if len(order) > MOST:
                cut.append(f"{label}: the first {MOST} of {len(order):,} words.")
        if not shown:
            first = min(cells, key=seed_of)
            data.leave_out(first, first.reason or "the run keeps no output of it that may be shown in its order")
    return Picture(data.figure, series, notes=[*LEGEND, *cut] if series else [])


LEGEND = (
    "Boxed: the word that a step puts into the sequence.",
    f"Squares: whether the item of a row stands left ({SIGNS[-1]}) or right ({SIGNS[1]}) of that of a column; "
    "items are numbered as they were generated.",
)


def _shown(data: FigureData, cells: Sequence[CellResult]) -> Iterator[tuple[int, list[str], list[int]]]:
    """Yield id, words and order of the outputs that a figure asks for, as far as the run tells them."""
    ids = data.figure.examples
    samples = [one for one in data.run.info.get("samples") or () if any(one["cell"] == cell.cell for cell in cells)]
    known = [one for one in samples if _is_course(one)]
    chosen = known if isinstance(ids, int) else [one for one in known if one["id"] in ids]
    if isinstance(ids, int):
        chosen = sorted(known, key=lambda one: len(one["words"]) < 2)[:ids]
    for one in chosen:
        yield one["id"], one["words"], one["order"]


def _is_course(sample: Mapping[str, Any]) -> bool:
    """Return whether a sample, which may come from elsewhere, tells the order of its words."""
    words, order = sample.get("words"), sample.get("order")
    if not (isinstance(words, list) and isinstance(order, list) and all(isinstance(word, str) for word in words)):
        return False
    return all(type(place) is int for place in order) and sorted(order) == [*range(len(words))]


def steps(words: Sequence[str], order: Sequence[int]) -> list[Step]:
    """Follow the words of an output in their order, as far as that goes."""
    found = []
    for turn, place in enumerate(order):
        done = sorted(order[: turn + 1])
        found.append(Step(turn + 1, words[place], place, done.index(place), tuple(words[each] for each in done)))
    return found


def items(course: Sequence[Step]) -> list[str]:
    """Return the boundaries, then the words as they were generated."""
    return [LEFT, RIGHT, *(step.word for step in course)]


def relations(course: Sequence[Step]) -> list[list[int]]:
    """Return for all items i and j: -1 where i stands left of j, 1 right of it, 0 where they are one."""
    stands = [-1, max((step.position for step in course), default=0) + 1, *(step.position for step in course)]
    return [[(one > other) - (one < other) for other in stands] for one in stands]


def course_tables(picture: Picture) -> list[Block]:
    """Return the label of each output, its steps and its relations."""
    return [
        block
        for one in picture.series
        for block in (Heading(one.label), _step_table(one.label, one.rows), _relation_table(one.label, one.rows))
    ]


def _step_table(label: str, course: Sequence[Step]) -> Table:
    rows = []
    for step in course:
        spans = [Span(plain(word)) for word in step.sequence]
        spans[step.slot] = replace(spans[step.slot], style="strong")
        sequence = Cell([Span(LEFT), *spans, Span(RIGHT)])
        rows.append([text_cell(str(step.step)), text_cell(plain(step.word)), text_cell(str(step.slot)), sequence])
    return Table("", f"{label}: steps", ["step", "word", "slot", "sequence"], rows, "left")


def _relation_table(label: str, course: Sequence[Step]) -> Table:
    names = [f"{turn} {plain(item)}" for turn, item in enumerate(items(course))]
    rows = [
        [text_cell(name), *(text_cell(SIGNS[each], "sign") for each in row)]
        for name, row in zip(names, relations(course), strict=True)
    ]
    return Table("", f"{label}: relations", ["", *map(str, range(len(names)))], rows)


def plain(word: str) -> str:
    """Return a word with something to be seen in it, cut where it is very long."""
    shown = plain_label(word)
    return (shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…") or "␣" * max(1, min(LONGEST, len(word)))


def draw_courses(canvas: Canvas, picture: Picture) -> None:
    """Draw the outputs below each other, each as its steps with the relations below them."""
    blocks = [_Block(one.label, one.rows) for one in picture.series]
    width, height = max(block.width for block in blocks), sum(block.height for block in blocks)
    canvas.set_layout_engine("none")
    canvas.set_size_inches(width, height)
    for block, top in zip(blocks, accumulate((block.height for block in blocks), initial=0.0), strict=False):
        block.draw(_Sheet(canvas, width, height, top))


class _Sheet:
    """A part of a canvas, measured in inches from its left and its top."""

    def __init__(self, canvas: Canvas, width: float, height: float, top: float) -> None:
        self.canvas, self.width, self.height, self.top = canvas, width, height, top

    def text(self, text: str, left: float, base: float, **style: Any) -> None:
        about = {"family": "monospace", "size": SIZE, "parse_math": False, **style}
        self.canvas.text(left / self.width, 1 - (self.top + base) / self.height, text, **about)

    def box(self, left: float, base: float, width: float, height: float, **style: Any) -> None:
        """Draw a rectangle from a little below a line of text upwards."""
        from matplotlib.patches import Rectangle

        corner = left / self.width, 1 - (self.top + base + 0.06) / self.height
        self.canvas.add_artist(Rectangle(corner, width / self.width, height / self.height, **style))


class _Block:
    """One output: how large it is, and what stands where."""

    def __init__(self, label: str, course: Sequence[Step]) -> None:
        self.label, self.course = plain_label(label), course
        self.lines = [[LEFT, RIGHT], *([LEFT, *map(plain, step.sequence), RIGHT] for step in course)]
        self.names = [f"{turn} {plain(item)}" for turn, item in enumerate(items(course))]
        self.margin = EDGE + max(map(wide, self.names)) + GAP
        turns = wide(str(len(course))) + 2 * GAP
        widths = [EDGE + turns + sum(wide(word) + GAP for word in line) for line in self.lines]
        squares = self.margin + LINE * len(self.names)
        self.width = EDGE + max(*widths, squares, EDGE + wide(self.label))
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
        left = EDGE + wide(str(len(self.course))) + 2 * GAP
        for place, word in enumerate(line):
            if turn and place == self.course[turn - 1].slot + 1:
                sheet.box(left - 0.04, base, wide(word) + 0.08, LINE - 0.04, **BOX)
            sheet.text(word, left, base)
            left += wide(word) + GAP


def plain_label(label: str) -> str:
    """Return a label on one line, of which all can be seen."""
    return re.sub(r"[\ufffe\uffff]", "�", visible(label))


def wide(text: str) -> float:
    """Return about how many inches wide text is; signs of East Asia are twice as wide as letters."""
    return LETTER * sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


ORDER = FigureKind(order_picture, draw_courses, course_tables, "Outputs of the first seed.")
