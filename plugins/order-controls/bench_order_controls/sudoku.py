"""Sudokus of four rows, columns and boxes that can be solved by excluding values, one cell after the other."""

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random

from bench_order_controls.control import OrderControl, Puzzle, shuffled
from bench_order_controls.needs import CELLS, SIDE, peers
from bench_order_controls.plugin import SudokuConfig


class SmallSudoku(OrderControl):
    """A source has the values of some cells, `cell:value`; a target has the others, in reading order.

    In a right order, each value is the only one that is not among the values of its row, column and box so far.
    """

    config: SudokuConfig

    @property
    def words(self) -> tuple[Sequence[str], Sequence[str]]:
        words = [f"{cell}:{value}" for cell in CELLS for value in range(SIDE)]
        return words, words

    def puzzle(self, rng: Random, length: int) -> Puzzle:
        while True:
            grid = grids()[int(len(grids()) * rng.random())]
            emptied = empty(rng, grid, length)
            if len(emptied) == length:
                break
        source = [f"{cell}:{grid[cell]}" for cell in CELLS if cell not in emptied]
        places = {cell: place for place, cell in enumerate(sorted(emptied))}
        order = [places[cell] for cell in solution_order(grid, emptied)]
        return Puzzle(" ".join(source), [f"{cell}:{grid[cell]}" for cell in places], order)


def empty(rng: Random, grid: Sequence[int], number: int) -> list[int]:
    """Return up to `number` cells to empty one after the other, each determined by the cells that are still full."""
    emptied: list[int] = []
    full = {*CELLS}
    while len(emptied) < number:
        mixed = (cell for cell in shuffled(rng, len(CELLS)) if cell in full)
        cell = next((cell for cell in mixed if _is_determined(grid, cell, full)), None)
        if cell is None:
            break
        emptied.append(cell)
        full.remove(cell)
    return emptied


def solution_order(grid: Sequence[int], emptied: Sequence[int]) -> list[int]:
    """Return a right order of the empty cells: always the first determined cell in reading order."""
    order: list[int] = []
    while len(order) < len(emptied):
        full = {*CELLS} - {*emptied} | {*order}
        order.append(min(cell for cell in emptied if cell not in full and _is_determined(grid, cell, full)))
    return order


def _is_determined(grid: Sequence[int], cell: int, full: set[int]) -> bool:
    return len({grid[peer] for peer in peers(cell) if peer in full}) == SIDE - 1


@cache
def grids() -> list[tuple[int, ...]]:
    """Return all 288 complete grids."""
    return [*_complete(())]


def _complete(grid: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all complete grids with these first cells."""
    cell = len(grid)
    if cell == len(CELLS):
        yield grid
        return
    for value in range(SIDE):
        if all(grid[peer] != value for peer in peers(cell) if peer < cell):
            yield from _complete((*grid, value))
