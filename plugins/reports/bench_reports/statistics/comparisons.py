"""Compare the rows of a table: with the best row, with a baseline, or in all pairs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

from bench_reports.statistics.estimate import Estimate, Measured, contrast

Row: TypeAlias = Sequence[Measured]  # measurements to average: one for each test set


@dataclass(frozen=True)
class Comparison:
    """One row compared with another, by their indices."""

    first: int
    other: int
    estimate: Estimate  # first row less other
    p: float  # two-sided, of this comparison alone
    adjusted: float = 1.0  # corrected: at most 5 % of families contain a value wrongly below 5 %


def all_pairs(rows: Sequence[Row]) -> list[Comparison]:
    """Return the comparisons of all pairs, with Holm's correction over all of them."""
    return adjust([compared(rows, first, other) for first, other in combinations(range(len(rows)), 2)])


def with_baseline(rows: Sequence[Row], baseline: int) -> list[Comparison]:
    """Return the comparisons of a baseline, chosen beforehand, with every other row."""
    return adjust([compared(rows, baseline, other) for other in range(len(rows)) if other != baseline])


def with_best(rows: Sequence[Row], better: int) -> list[Comparison]:
    """Return the comparisons of the best row with every other row.

    The data select the best row, so the correction is over all pairs of rows, any of which could have been selected.
    """
    best = max(range(len(rows)), key=lambda place: better * sum(measurement.mean for measurement in rows[place]))
    return [
        comparison if comparison.first == best else _reverse(comparison)
        for comparison in all_pairs(rows)
        if best in (comparison.first, comparison.other)
    ]


def compared(rows: Sequence[Row], first: int, other: int) -> Comparison:
    """Return the comparison of two rows; both average over the same test sets, if there are several."""
    weights = [1 / len(rows[first])] * len(rows[first]) + [-1 / len(rows[other])] * len(rows[other])
    estimate = contrast([*rows[first], *rows[other]], weights)
    return Comparison(first, other, estimate, estimate.p())


def adjust(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return comparisons with p-values corrected for all of them."""
    corrected = holm([comparison.p for comparison in comparisons])
    return [replace(comparison, adjusted=p) for comparison, p in zip(comparisons, corrected, strict=True)]


def holm(values: Sequence[float], family: int = 0) -> list[float]:
    """Return p-values corrected for multiple tests (Holm, 1979).

    If they are part of a larger `family`, they are corrected for all of it.
    """
    corrected, highest, number = [0.0] * len(values), 0.0, max(family, len(values))
    for rank, place in enumerate(sorted(range(len(values)), key=lambda place: values[place])):
        highest = max(highest, min(1.0, (number - rank) * values[place]))
        corrected[place] = highest
    return corrected


def _reverse(comparison: Comparison) -> Comparison:
    return replace(comparison, first=comparison.other, other=comparison.first, estimate=comparison.estimate.negate())
