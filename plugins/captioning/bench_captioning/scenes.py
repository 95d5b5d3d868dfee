"""Generated scenes: two to four coloured shapes with positions, and five captions from a grammar.

Numbers come from `random.Random.random`, which is the same in all versions of Python.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from random import Random
from typing import TypeVar

from bench_captioning.settings import Scenes
from bench_text.api import SPLITS

T = TypeVar("T")

SIZES = ("small", "large")
COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")
SHAPES = ("circle", "square", "triangle", "cross")
SIDE = 3  # cells on a side
NUMBERS = {2: "two", 3: "three", 4: "four"}
CAPTIONS = 5  # of each scene
JITTER = 0.04  # of the side, in either direction
HEIGHTS, WIDTHS = ("top", "", "bottom"), ("left", "", "right")
SAYINGS = {  # of a relation
    "left": ("to the left of", "left of"),
    "right": ("to the right of", "right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
}


@dataclass(frozen=True)
class Thing:
    """A shape in one of nine cells."""

    size: str
    colour: str
    shape: str
    row: int
    column: int

    def __str__(self) -> str:
        return f"{self.size} {self.colour} {self.shape} at {self.row + 1}/{self.column + 1}"

    @property
    def place(self) -> str:
        """Return where it is, in words."""
        corner = " ".join(filter(None, (HEIGHTS[self.row], WIDTHS[self.column])))
        return f"at the {corner}" if corner else "in the middle"


@dataclass(frozen=True)
class Scene:
    """Things in different cells, no two of the same colour and shape."""

    things: tuple[Thing, ...]
    offsets: tuple[tuple[float, float], ...]  # of each from the middle of its cell: down, and to the right
    shade: int  # of the grey behind them
    captions: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.things))


@cache
def scenes(settings: Scenes) -> Mapping[str, Sequence[Scene]]:
    """Return the scenes of each split; the same things never stand in the same cells twice, in any of them."""
    seen: set[frozenset[Thing]] = set()
    tenth = max(2, settings.images // 10)
    return {
        split: _distinct(Random(f"{settings.seed}/{split}"), settings.images if split == "train" else tenth, seen)
        for split in SPLITS
    }


def _distinct(random: Random, number: int, seen: set[frozenset[Thing]]) -> list[Scene]:
    found: list[Scene] = []
    while len(found) < number:
        scene = _scene(random)
        if frozenset(scene.things) not in seen:
            seen.add(frozenset(scene.things))
            found.append(scene)
    return found


def _scene(random: Random) -> Scene:
    number = 2 + int(random.random() * 3)
    cells = _chosen(random, [(row, column) for row in range(SIDE) for column in range(SIDE)], number)
    kinds = _chosen(random, [(colour, shape) for colour in COLOURS for shape in SHAPES], number)
    things = tuple(Thing(_one(random, SIZES), *kind, *cell) for kind, cell in zip(kinds, cells, strict=True))
    offsets = tuple(((2 * random.random() - 1) * JITTER, (2 * random.random() - 1) * JITTER) for _ in things)
    shade = 190 + int(random.random() * 60)
    return Scene(things, offsets, shade, _captions(random, things))


def _captions(random: Random, things: Sequence[Thing]) -> tuple[str, ...]:
    """Draw captions until there are enough different ones."""
    found: dict[str, None] = {}
    while len(found) < CAPTIONS:
        said = _said(random, things)
        found[f"{said[0].upper()}{said[1:]}."] = None
    return tuple(found)


def _said(random: Random, things: Sequence[Thing]) -> str:
    kind = random.random()
    if kind < 0.6:
        one, other = _one(random, list(permutations(things, 2)))
        first, second = _phrase(random, one), _phrase(random, other)
        relation = _one(random, SAYINGS[_one(random, list(relations(one, other)))])
        return _one(random, ("{0} is {1} {2}", "there is {0} {1} {2}", "{0} {1} {2}")).format(first, relation, second)
    thing = _one(random, things)
    phrase, place, number = _phrase(random, thing), thing.place, NUMBERS[len(things)]
    if kind < 0.8:
        return _one(random, ("{0} is {1}", "there is {0} {1}")).format(phrase, place)
    if kind < 0.9:
        return _one(random, ("{0} shapes, one of them {1}", "{0} shapes with {1} {2}")).format(number, phrase, place)
    phrases = [_phrase(random, each) for each in things]
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def relations(one: Thing, other: Thing) -> Iterator[str]:
    """Yield how one thing stands to another: at least one relation, as they are in different cells."""
    if one.column != other.column:
        yield "left" if one.column < other.column else "right"
    if one.row != other.row:
        yield "above" if one.row < other.row else "below"


def _phrase(random: Random, thing: Thing) -> str:
    """Name a thing by colour and shape, half of the time by its size too."""
    words = [thing.colour, thing.shape]
    if random.random() < 0.5:
        words.insert(0, thing.size)
    return f"{'an' if words[0] == 'orange' else 'a'} {' '.join(words)}"


def _one(random: Random, choices: Sequence[T]) -> T:
    return choices[int(random.random() * len(choices))]


def _chosen(random: Random, choices: list[T], number: int) -> list[T]:
    """Draw different ones."""
    left = [*choices]
    return [left.pop(int(random.random() * len(left))) for _ in range(number)]
