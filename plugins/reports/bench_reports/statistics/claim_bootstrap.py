"""Evaluates the expressions of claims on bootstrap replicates over seeds and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench_core.storage.bootstrap_replicates import DRAWS, Draws
from bench_core.suites.expressions import Query, Term

Vector: TypeAlias = NDArray[Any]  # [1 + D], of numbers or truths: first the seeds as they are, then each draw


@lru_cache(maxsize=8)
def drawn_seeds(count: int) -> NDArray[np.intp]:
    """Return which of `count` seeds each draw takes [1 + D, S]; the first takes each once.

    The raw stream of the generator is the same in every release of numpy. One seed leaves nothing to draw.
    """
    draws = np.random.PCG64(0).random_raw((DRAWS if count > 1 else 0) * count).reshape(-1, count) % count
    found = np.vstack([np.arange(count), draws.astype(np.intp)])
    found.flags.writeable = False  # all that ask share it
    return found


def resampled_of(values: Mapping[Query, Sequence[float]], draws: Mapping[Query, Sequence[Draws | None]]) -> Resampled:
    """Return values by seed, to be drawn from by seeds and, where the draws of all examples are known, by those."""
    count = len(next(iter(values.values()), ()))
    known = {query: [one for one in some if one is not None] for query, some in draws.items()}
    if not known or not all(len(some) == count for some in known.values()):
        return Resampled(values, drawn_seeds(count))
    alone = np.zeros((1 + DRAWS, 1), dtype=np.intp)
    seeds = drawn_seeds(count) if count > 1 else alone
    return Resampled(values, seeds, {query: np.stack(some) for query, some in known.items()})


@dataclass
class Resampled:
    """Values by seed, and the draws that all of them share."""

    values: Mapping[Query, Sequence[float]]  # in the order of the seeds
    seeds: NDArray[np.intp]  # [1 + D, S]
    examples: Mapping[Query, Draws] = field(default_factory=dict)  # [S, D], the scores of drawn examples
    undefined: list[str] = field(default_factory=list)  # what was compared and is no number

    def holds(self, claim: Term) -> tuple[bool, float | None]:
        """Return whether a claim is true of the seeds as they are, and the share of the draws in which it is."""
        with np.errstate(all="ignore"):
            truths = self._vector(claim)
        return bool(truths[0]), float(truths[1:].mean()) if len(truths) > 1 else None

    def drawn(self, query: Query) -> NDArray[np.float64]:
        """Return the numbers behind a value in each draw [1 + D, S]: the one place where a value is resampled."""
        found: NDArray[np.float64] = np.asarray(self.values[query], dtype=np.float64)[self.seeds]
        if query in self.examples:
            found[1:] = self.examples[query][self.seeds[1:], np.arange(DRAWS)[:, None]]
        return found

    def _vector(self, term: Term) -> Vector:
        if term.operation == "number":
            return np.full(len(self.seeds), term.number)
        if term.query:
            return _mean(self.drawn(term.query))
        if term.operation in OF_SEEDS:
            (value,) = term.parts
            assert value.query
            return OF_SEEDS[term.operation](self.drawn(value.query))
        parts = [self._vector(part) for part in term.parts]
        if term.operation in COMPARED:
            names = zip(term.parts, parts, strict=True)
            self.undefined += [str(part) for part, vector in names if np.isnan(vector[0])]
        return OPERATIONS[term.operation](parts)


def _mean(numbers: NDArray[np.float64]) -> Vector:
    """Return the mean along the last axis; rounding does not lead it out of the range of its numbers."""
    mean: Vector = np.clip(numbers.mean(-1), numbers.min(-1), numbers.max(-1))
    return mean


def _std(numbers: NDArray[np.float64]) -> Vector:
    """Return the standard deviation of a sample along the last axis; nan of a single number."""
    squares = (numbers - _mean(numbers)[..., None]) ** 2
    std: Vector = np.sqrt(squares.sum(-1) / np.float64(numbers.shape[-1] - 1))
    return std


def _across(function: Callable[[NDArray[np.float64]], Vector]) -> Callable[[Sequence[Vector]], Vector]:
    return lambda parts: function(np.stack(parts, -1))


FUNCTIONS: Mapping[str, Callable[[NDArray[np.float64]], Vector]] = {
    "mean": _mean,
    "std": _std,
    "min": lambda numbers: numbers.min(-1),
    "max": lambda numbers: numbers.max(-1),
}
OF_SEEDS = {f"{name} of seeds": function for name, function in FUNCTIONS.items()}
COMPARED: Mapping[str, Callable[[Sequence[Vector]], Vector]] = {
    "<": lambda parts: np.less(*parts),
    "<=": lambda parts: np.less_equal(*parts),
    ">": lambda parts: np.greater(*parts),
    ">=": lambda parts: np.greater_equal(*parts),
    "==": lambda parts: np.equal(*parts),
    "!=": lambda parts: np.not_equal(*parts) & ~np.isnan(parts).any(0),
}
OPERATIONS: Mapping[str, Callable[[Sequence[Vector]], Vector]] = {
    **COMPARED,
    **{name: _across(function) for name, function in FUNCTIONS.items()},
    "+": lambda parts: np.add(*parts),
    "-": lambda parts: np.subtract(*parts),
    "*": lambda parts: np.multiply(*parts),
    "/": lambda parts: np.divide(*parts),
    "**": lambda parts: np.power(*parts),
    "negative": lambda parts: np.negative(*parts),
    "abs": lambda parts: np.abs(*parts),
    "not": lambda parts: np.logical_not(*parts),
    "and": np.logical_and.reduce,
    "all": np.logical_and.reduce,
    "or": np.logical_or.reduce,
    "any": np.logical_or.reduce,
}
