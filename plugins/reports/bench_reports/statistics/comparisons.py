"""Comparisons of the rows of a table: with the best, with a baseline, or of all pairs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

from bench_reports.statistics.estimate import Estimate, Measured, contrast

Row: TypeAlias = Sequence[Measured]  # what is averaged: measurements of several test sets, or a single one


@dataclass(frozen=True)
class Comparison:
    """One row against another, by their places."""

    one: int
    other: int
    estimate: Estimate  # of one less other
    p: float  # two-sided, of this comparison alone
    adjusted: float = 1.0  # in at most 5 % of families, any of these is wrongly below 5 %


def all_pairs(rows: Sequence[Row]) -> list[Comparison]:
    """Return the comparisons of all pairs, with Holm's correction over all of them."""
    return adjusted([compared(rows, one, other) for one, other in combinations(range(len(rows)), 2)])


def with_baseline(rows: Sequence[Row], baseline: int) -> list[Comparison]:
    """Return the comparisons of a row that was chosen beforehand with every other."""
    return adjusted([compared(rows, baseline, one) for one in range(len(rows)) if one != baseline])


def with_best(rows: Sequence[Row], better: int) -> list[Comparison]:
    """Return the comparisons of the best row with every other.

    The best is picked by the data, so the correction is over all pairs of rows, any of which could have been picked.
    """
    best = max(range(len(rows)), key=lambda place: better * sum(one.mean for one in rows[place]))
    return [one if one.one == best else _reversed(one) for one in all_pairs(rows) if best in (one.one, one.other)]


def compared(rows: Sequence[Row], one: int, other: int) -> Comparison:
    """Return the comparison of two rows; those that average over several test sets have the same ones."""
    weights = [1 / len(rows[one])] * len(rows[one]) + [-1 / len(rows[other])] * len(rows[other])
    found = contrast([*rows[one], *rows[other]], weights)
    return Comparison(one, other, found, found.p())


def adjusted(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return comparisons with p-values that hold for all of them together."""
    found = holm([one.p for one in comparisons])
    return [replace(one, adjusted=p) for one, p in zip(comparisons, found, strict=True)]


def holm(values: Sequence[float], family: int = 0) -> list[float]:
    """Return p-values that hold for all of them together (Holm, 1979).

    If they are only some of a larger `family`, they hold for all of it.
    """
    found, highest, number = [0.0] * len(values), 0.0, max(family, len(values))
    for rank, place in enumerate(sorted(range(len(values)), key=lambda place: values[place])):
        highest = max(highest, min(1.0, (number - rank) * values[place]))
        found[place] = highest
    return found


def _reversed(found: Comparison) -> Comparison:
    return replace(found, one=found.other, other=found.one, estimate=found.estimate.reversed())
