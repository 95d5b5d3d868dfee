"""Right orders as a predicate: some tokens of a target must not be generated before others.

A need (i, S) is met by an order that generates at least one of the places S before place i. An order is right if it
meets all needs of its target. S is an integer whose bit j stands for place j, so that needs fit into `Batch.extras`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from operator import eq
from typing import NamedTuple, TypeAlias

SUFFIX, PREFIX = "<suffix>", "<prefix>"  #: the last word of the source of a fold
SIDE = 4  #: rows, columns and boxes of a sudoku
CELLS = range(SIDE * SIDE)


class Need(NamedTuple):
    """A place, and a set of places as bits, of which at least one must be generated before it."""

    place: int
    before: int


Needs: TypeAlias = Sequence[Need]
Rule: TypeAlias = Callable[[str, Sequence[str]], Needs]  # text of a source, tokens of its target -> needs


def bits(places: Iterable[int]) -> int:
    """Return a set of places as an integer."""
    return sum(1 << place for place in {*places})


def chain(places: Sequence[int]) -> list[Need]:
    """Return needs by which the third of `places` and all later ones come one after the other.

    The first token can be copied from the source and the second follows from the source as easily, so both may come
    at any time, but the second before the third.
    """
    return [Need(place, bits([before])) for before, place in pairwise(places[1:])]


def fold_needs(source: str, target: Sequence[str]) -> Needs:
    """Return the needs of a fold: suffix folds go from right to left, prefix folds from left to right."""
    return chain(range(len(target))[:: -1 if source.endswith(SUFFIX) else 1])


def star_needs(source: str, target: Sequence[str]) -> Needs:
    """Return the needs of a path in a star graph, which goes back from the goal."""
    return chain(range(len(target))[::-1])


def sudoku_needs(source: str, target: Sequence[str]) -> Needs:
    """Return the needs of empty cells: each other value must stand in the cell's row, column or box before."""
    clues, cells = cell_values(source.split()), cell_values(target)
    places = {cell: place for place, cell in enumerate(cells)}
    return [
        Need(places[cell], bits(places[peer] for peer in peers(cell) if cells.get(peer) == other))
        for cell, value in cells.items()
        for other in range(SIDE)
        if other != value and all(clues.get(peer) != other for peer in peers(cell))
    ]


def cell_values(words: Sequence[str]) -> Mapping[int, int]:
    """Return the value of each cell, given words `cell:value`."""
    return {int(cell): int(value) for cell, value in (word.split(":") for word in words)}


@cache
def peers(cell: int) -> Sequence[int]:
    """Return the other cells in the row, column or box of a cell."""
    return [other for other in CELLS if other != cell and any(map(eq, _areas(cell), _areas(other)))]


def _areas(cell: int) -> tuple[int, int, tuple[int, int]]:
    """Return the row, column and box of a cell."""
    row, column = divmod(cell, SIDE)
    return row, column, (row // 2, column // 2)


#: The rule of each task, by name.
RULES: Mapping[str, Rule] = {"latin-folds": fold_needs, "star-graphs": star_needs, "small-sudoku": sudoku_needs}


def is_right(needs: Needs, order: Sequence[int]) -> bool:
    """Return whether an order, a permutation of places, meets all needs."""
    turns = {place: turn for turn, place in enumerate(order)}
    return all(any(need.before >> place & 1 for place in order[: turns[need.place]]) for need in needs)
