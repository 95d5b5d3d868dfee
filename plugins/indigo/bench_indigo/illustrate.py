"""The order in which one output was generated, step by step, as Markdown and as a drawing.

Both show what Figures 4 and 5 of Gu et al. (2019) do: after each step the sequence so far with the new word in its
slot, and the relations of all items in the order of generation, which only ever grow by a row and a column.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench_core import SuiteError
from bench_indigo.trajectory import positions

LEFT, RIGHT = "<s>", "</s>"  #: the boundaries, which are there before any word
SIGNS = {-1: "−", 0: "0", 1: "+"}


@dataclass(frozen=True)
class Step:
    """One word and where it went."""

    word: str
    slot: int  # before which word of what was there, counted from 0
    sequence: list[str]  # so far, the word included, without boundaries

    @property
    def between(self) -> tuple[str, str]:
        """Return the neighbours that the word came between."""
        bounded = [LEFT, *self.sequence, RIGHT]
        return bounded[self.slot], bounded[self.slot + 2]


@dataclass(frozen=True)
class Course:
    """A whole generation."""

    steps: list[Step]
    items: list[str]  # boundaries, then words as they were generated
    relations: list[list[int]]  # [i][j]: -1 where item i stands left of item j, 1 right of it, 0 where they are one


def course(tokens: Sequence[str], actions: Sequence[int], position_first: bool = False) -> Course:
    """Follow a hypothesis, whose tokens are given as text; raise SuiteError where its actions tell no order.

    Whether it chose positions before words is a setting of its model, which actions alone do not tell.
    """
    places = positions(len(tokens), actions, position_first)
    if places is None:
        raise SuiteError(
            f"{len(actions)} actions do not tell the order of {len(tokens)} tokens: give a word and a slot for each, "
            "or as many actions as tokens."
        )
    steps = []
    for turn, place in enumerate(places):
        done = sorted(places[: turn + 1])
        steps.append(Step(tokens[place], done.index(place), [tokens[each] for each in done]))
    stands = [-1, len(tokens), *places]
    relations = [[(one > other) - (one < other) for other in stands] for one in stands]
    return Course(steps, [LEFT, RIGHT, *(tokens[place] for place in places)], relations)


def markdown(tokens: Sequence[str], actions: Sequence[int], position_first: bool = False) -> str:
    """Return two tables: the steps, and the relations of what was generated."""
    found = course(tokens, actions, position_first)
    steps = [
        [str(turn), _marked(step.word), str(step.slot), " ⟨ ⟩ ".join(map(_plain, step.between)), _sequence(step)]
        for turn, step in enumerate(found.steps, 1)
    ]
    names = [f"{turn} {_plain(item)}" for turn, item in enumerate(found.items)]
    signs = [[name, *(SIGNS[each] for each in row)] for name, row in zip(names, found.relations, strict=True)]
    return "\n".join(
        [
            *_table(["step", "word", "slot", "between", "sequence"], steps),
            "",
            "A row stands left (−) or right (+) of a column.",
            "",
            *_table(["", *names], signs),
            "",
        ]
    )


def _sequence(step: Step) -> str:
    words = [*map(_plain, step.sequence)]
    words[step.slot] = _marked(step.sequence[step.slot])
    return " ".join([_plain(LEFT), *words, _plain(RIGHT)])


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _marked(word: str) -> str:
    return f"**{_plain(word)}**"


def _plain(text: str) -> str:
    """Return text that Markdown takes for nothing else."""
    return re.sub(r"([\\`*_{}\[\]()#+!|~<>&$-])", r"\\\1", _seen(text))


def _seen(text: str) -> str:
    """Return text without line breaks and signs that control, of which nothing could be seen, or drawn."""
    visible = (" " if sign.isspace() else sign for sign in text)
    shown = "".join(sign if unicodedata.category(sign) not in ("Cc", "Cs", "Cn", "Co") else "�" for sign in visible)
    return shown if shown.strip() else "␣" * max(1, len(shown))


SIZE, LINE, GAP = 14, 26, 12  # pixels of letters, of a line, around boxes
COLOURS = {-1: "#9ecae1", 0: "#ffffff", 1: "#fdae6b"}
STYLE = "font:14px monospace;fill:#222222"


def svg(tokens: Sequence[str], actions: Sequence[int], position_first: bool = False) -> str:
    """Return the steps, one below the other, and the relations below them, as one drawing."""
    found = course(tokens, actions, position_first)
    parts, widest = _steps(found.steps)
    top = LINE * (len(found.steps) + 2)
    table, wide = _relations(found, top)
    width, height = max(widest, wide), top + LINE * (len(found.items) + 1) + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    )
    title = f"<title>{escape(' '.join(map(_seen, tokens)))}</title>"
    back = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, title, back, *parts, *table, "</svg>", ""])


def _steps(steps: Sequence[Step]) -> tuple[list[str], int]:
    """Return each sequence as words in a line, the new one in a box, and the width that they take."""
    parts, widest = [], 0
    first = Step("", -1, [])
    for turn, step in enumerate([first, *steps]):
        left, base = GAP, LINE * (turn + 1)
        for place, word in enumerate([f"{turn}", LEFT, *step.sequence, RIGHT]):
            wide = _width(word)
            if step.slot >= 0 and place == step.slot + 2:
                box = f'x="{left - 4}" y="{base - SIZE - 2}" width="{wide + 8}" height="{SIZE + 8}"'
                parts.append(f'<rect {box} rx="3" fill="#c7e9c0" stroke="#238b45"/>')
            parts.append(_text(word, left, base))
            left += wide + GAP
        widest = max(widest, left)
    return parts, widest


def _relations(found: Course, top: int) -> tuple[list[str], int]:
    """Return a square for each pair of items, below `top`, and the width that they take."""
    margin = GAP + max(_width(f"{turn} {item}") for turn, item in enumerate(found.items)) + GAP
    parts = [_text(str(turn), margin + LINE * turn + LINE // 2, top, "middle") for turn in range(len(found.items))]
    for turn, (item, row) in enumerate(zip(found.items, found.relations, strict=True)):
        base = top + LINE * (turn + 1)
        parts.append(_text(f"{turn} {item}", GAP, base))
        for column, sign in enumerate(row):
            left = margin + LINE * column
            box = f'x="{left}" y="{base - SIZE - 4}" width="{LINE - 1}" height="{LINE - 1}"'
            parts.append(f'<rect {box} fill="{COLOURS[sign]}"/>')
            parts.append(_text(SIGNS[sign], left + LINE // 2, base, "middle"))
    return parts, margin + LINE * len(found.items) + GAP


def _text(text: str, left: int, base: int, anchor: str = "start") -> str:
    where = f'x="{left}" y="{base}" text-anchor="{anchor}"'
    return f'<text {where} style="{STYLE}">{escape(_seen(text))}</text>'


def _width(text: str) -> int:
    """Return about how many pixels wide text is; signs of East Asia are twice as wide as letters."""
    wide = sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in _seen(text))
    return round(0.6 * SIZE * wide)
