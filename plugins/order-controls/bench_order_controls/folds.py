"""Folds of digits over a random Latin square, in which two of digit, state and next state determine the third."""

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from random import Random

from bench_order_controls.control import OrderControl, Puzzle, shuffled
from bench_order_controls.needs import PREFIX, SUFFIX
from bench_order_controls.plugin import LatinFoldsConfig


class LatinFolds(OrderControl):
    """Folds: each state is looked up by its digit and the previous state, which is on its right in suffix folds.

    Digits and states carry their place, `place:digit`, counted from the left in the longest target. Shorter suffix
    folds have the last places, shorter prefix folds the first.
    """

    config: LatinFoldsConfig

    @cached_property
    def table(self) -> list[list[int]]:
        """The Latin square."""
        return latin_square(Random(f"{self.config.seed} square"), self.config.digits)

    @property
    def words(self) -> tuple[Sequence[str], Sequence[str]]:
        states = [f"{place}:{digit}" for place in range(self.config.most) for digit in range(self.config.digits)]
        return [*states, SUFFIX, PREFIX], states

    def puzzle(self, rng: Random, length: int) -> Puzzle:
        config = self.config
        digits = [int(config.digits * rng.random()) for _ in range(length)]
        is_suffix = rng.random() < 0.5 if config.direction == "either" else config.direction == "suffix"
        turn = -1 if is_suffix else 1
        states = [*accumulate(digits[::turn], lambda state, digit: self.table[digit][state])][::turn]
        first = config.most - length if is_suffix else 0
        numbers, target = (
            [f"{first + place}:{value}" for place, value in enumerate(row)] for row in (digits, states)
        )
        return Puzzle(" ".join([*numbers, SUFFIX if is_suffix else PREFIX]), target, [*range(length)][::turn])


def latin_square(rng: Random, side: int) -> list[list[int]]:
    """Return a random Latin square; unlike sums modulo `side`, it has no structure that could be learned."""
    rows: list[list[int]] = []
    while len(rows) < side:
        row: list[int] = []
        for column in range(side):
            free = [
                value
                for value in shuffled(rng, side)
                if value not in row and all(value != old[column] for old in rows)
            ]
            row += free[:1]
        rows += [row] if len(row) == side else []
    return rows
