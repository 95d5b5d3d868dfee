"""Comparison of our number with a published number, by equivalence tests (Schuirmann, 1987).

Unless both are measured on the same examples, the published number is from another sample; its error is taken to be
that of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, TypeAlias

import numpy as np

from bench_reports.statistics.estimate import NONE, Estimate, Measured, contrast, together
from bench_reports.statistics.tails import LEVEL, VariancePart

Verdict: TypeAlias = Literal["equivalent", "better", "worse", "different", "cannot tell"]


@dataclass(frozen=True)
class Printed:
    """A published mean, on the scale of tests."""

    mean: float
    deviation: float | None = None  # standard deviation over training runs; None if it is not published
    runs: int = 1  # number of training runs behind the mean
    exact: bool = False  # whether it is independent of training, such as a count in the data


@dataclass(frozen=True)
class EquivalenceResult:
    """The verdict on our mean minus the published mean, and the difference itself."""

    verdict: Verdict
    difference: Estimate | None  # None if the variance over training runs is unknown
    seeds: int | None = None  # number of seeds that would decide, if differences and deviations are what they seem


Samples: TypeAlias = tuple[
    VariancePart, VariancePart
]  # variance due to the examples of both: the part that is added to the seeds' variance, and the whole
SAME: Samples = (NONE, NONE)  #: both are on the same examples


def of_two_samples(ours: Measured, ratio: float = 1.0) -> Samples:
    """Return the error of two test sets: ours, and one with `1 / ratio` times as many examples."""
    estimate = contrast([ours], [1.0])
    both = [VariancePart(part.variance * (1 + ratio), part.freedom) for part in (estimate.examples, estimate.alone)]
    return both[0], both[1]


def beside(
    ours: Sequence[float],
    printed: Printed,
    tolerance: float | None,
    better: int,
    trained: bool = True,
    samples: Samples = SAME,
) -> EquivalenceResult:
    """Compare our mean over seeds with a published mean; an unpublished standard deviation is assumed to equal ours.

    Equivalent: the 90 % interval of the difference is within the tolerance. Better or worse (different, if neither
    direction is better): its 95 % interval is outside the tolerance. `samples` are the errors of both test sets.
    """
    difference = float(np.mean(ours)) - printed.mean
    if printed.exact or not trained:
        estimate = Estimate(difference, NONE, NONE, NONE) if printed.exact else Estimate(difference, NONE, *samples)
        return EquivalenceResult(verdict_of(estimate, tolerance, better), estimate)
    part = _variance(len(ours), _deviation(ours), printed)
    if part is None:
        return EquivalenceResult("cannot tell", None)
    estimate = Estimate(difference, part, *samples)
    verdict = verdict_of(estimate, tolerance, better)
    seeds = _seeds_that_tell(estimate, ours, printed, tolerance) if verdict == "cannot tell" else None
    return EquivalenceResult(verdict, estimate, seeds)


def verdict_of(estimate: Estimate, tolerance: float | None, better: int) -> Verdict:
    """Return the verdict on an estimated difference; each verdict is wrong with probability 5 % at most."""
    within = tolerance or 0.0
    if tolerance is not None and abs(estimate.value) + estimate.half_width(2 * LEVEL) <= tolerance:
        return "equivalent"
    if abs(estimate.value) - estimate.half_width() <= within:
        return "cannot tell"
    return "different" if not better else "better" if estimate.value * better > 0 else "worse"


def _deviation(ours: Sequence[float]) -> float | None:
    return float(np.std(ours, ddof=1)) if len(ours) > 1 else None


def _variance(count: int, ours: float | None, printed: Printed) -> VariancePart | None:
    """Return the variance of a difference of means over training runs; an unknown deviation is set to the other."""
    theirs = printed.deviation if printed.runs > 1 else None
    if ours is not None and theirs is not None:
        return together(
            [VariancePart(ours**2 / count, count - 1.0), VariancePart(theirs**2 / printed.runs, printed.runs - 1.0)]
        )
    known, freedom = (theirs, printed.runs - 1.0) if ours is None else (ours, count - 1.0)
    return None if known is None else VariancePart(known**2 * (1 / count + 1 / printed.runs), freedom)


def _seeds_that_tell(
    estimate: Estimate, ours: Sequence[float], printed: Printed, tolerance: float | None
) -> int | None:
    """Return the smallest number of seeds that would decide, in steps of about a fifth; None if no number would."""
    spread = _deviation(ours)
    for count in sorted({ceil(2 ** (power / 4)) for power in range(4, 41)}):
        part = _variance(count, printed.deviation if spread is None else spread, printed)
        if part and count > len(ours) and verdict_of(replace(estimate, seeds=part), tolerance, 0) != "cannot tell":
            return count
    return None
