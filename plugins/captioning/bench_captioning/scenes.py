"""Generated scenes: two to four coloured shapes with positions, and five captions from a grammar.

Random numbers come from `random.Random.random`, which is the same in all versions of Python.
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

THING_SIZES = ("small", "large")
COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")
SHAPES = ("circle", "square", "triangle", "cross")
SIDE = 3  # cells per row and column
NUMBERS = {2: "two", 3: "three", 4: "four"}
CAPTIONS_PER_SCENE = 5
JITTER = 0.04  # maximum offset from the middle of a cell, as a fraction of the image width
HEIGHTS, WIDTHS = ("top", "", "bottom"), ("left", "", "right")
RELATION_PHRASES = {
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
        """Describe the position in words."""
        corner = " ".join(filter(None, (HEIGHTS[self.row], WIDTHS[self.column])))
        return f"at the {corner}" if corner else "in the middle"


@dataclass(frozen=True)
class Scene:
    """Things in different cells, with unique combinations of colour and shape."""

    things: tuple[Thing, ...]
    offsets: tuple[tuple[float, float], ...]  # down and right, from the middle of each thing's cell
    shade: int  # grey level of the background
    captions: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.things))


@cache
def scenes(settings: Scenes) -> Mapping[str, Sequence[Scene]]:
    """Return the scenes of each split; no two scenes have the same things in the same cells."""
    seen: set[frozenset[Thing]] = set()
    tenth = max(2, settings.images // 10)
    return {
        split: _distinct(Random(f"{settings.seed}/{split}"), settings.images if split == "train" else tenth, seen)
        for split in SPLITS
    }


def _distinct(random: Random, number: int, seen: set[frozenset[Thing]]) -> list[Scene]:
    result: list[Scene] = []
    while len(result) < number:
        scene = _scene(random)
        if frozenset(scene.things) not in seen:
            seen.add(frozenset(scene.things))
            result.append(scene)
    return result


def _scene(random: Random) -> Scene:
    number = 2 + int(random.random() * 3)
    cells = _sample(random, [(row, column) for row in range(SIDE) for column in range(SIDE)], number)
    kinds = _sample(random, [(colour, shape) for colour in COLOURS for shape in SHAPES], number)
    things = tuple(Thing(_choose(random, THING_SIZES), *kind, *cell) for kind, cell in zip(kinds, cells, strict=True))
    offsets = tuple(((2 * random.random() - 1) * JITTER, (2 * random.random() - 1) * JITTER) for _ in things)
    shade = 190 + int(random.random() * 60)
    return Scene(things, offsets, shade, _captions(random, things))


def _captions(random: Random, things: Sequence[Thing]) -> tuple[str, ...]:
    """Sample captions until there are enough different ones."""
    captions: dict[str, None] = {}
    while len(captions) < CAPTIONS_PER_SCENE:
        caption = _caption(random, things)
        captions[f"{caption[0].upper()}{caption[1:]}."] = None
    return tuple(captions)


def _caption(random: Random, things: Sequence[Thing]) -> str:
    kind = random.random()
    if kind < 0.6:
        thing_a, thing_b = _choose(random, list(permutations(things, 2)))
        first, second = _phrase(random, thing_a), _phrase(random, thing_b)
        relation = _choose(random, RELATION_PHRASES[_choose(random, list(relations(thing_a, thing_b)))])
        return _choose(random, ("{0} is {1} {2}", "there is {0} {1} {2}", "{0} {1} {2}")).format(
            first, relation, second
        )
    thing = _choose(random, things)
    phrase, place, number = _phrase(random, thing), thing.place, NUMBERS[len(things)]
    if kind < 0.8:
        return _choose(random, ("{0} is {1}", "there is {0} {1}")).format(phrase, place)
    if kind < 0.9:
        return _choose(random, ("{0} shapes, one of them {1}", "{0} shapes with {1} {2}")).format(
            number, phrase, place
        )
    phrases = [_phrase(random, each) for each in things]
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def relations(first: Thing, second: Thing) -> Iterator[str]:
    """Yield the relations of one thing to another: at least one, since they are in different cells."""
    if first.column != second.column:
        yield "left" if first.column < second.column else "right"
    if first.row != second.row:
        yield "above" if first.row < second.row else "below"


def _phrase(random: Random, thing: Thing) -> str:
    """Describe a thing by colour and shape, half of the time also by size."""
    words = [thing.colour, thing.shape]
    if random.random() < 0.5:
        words.insert(0, thing.size)
    return f"{'an' if words[0] == 'orange' else 'a'} {' '.join(words)}"


def _choose(random: Random, choices: Sequence[T]) -> T:
    return choices[int(random.random() * len(choices))]


def _sample(random: Random, choices: list[T], number: int) -> list[T]:
    """Sample without replacement."""
    left = [*choices]
    return [left.pop(int(random.random() * len(left))) for _ in range(number)]
