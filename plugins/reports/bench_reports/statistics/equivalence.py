"""Our number beside a published one, by equivalence (Schuirmann, 1987).

Unless both are of the same examples, the published one is of another sample, whose error is that of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, TypeAlias

import numpy as np

from bench_reports.statistics.estimate import NONE, Estimate, Measured, contrast, together
from bench_reports.statistics.tails import LEVEL, Part

Verdict: TypeAlias = Literal["equivalent", "better", "worse", "different", "cannot tell"]


@dataclass(frozen=True)
class Printed:
    """A published mean, on the scale of tests."""

    mean: float
    deviation: float | None = None  # of trainings; None if it is not printed
    runs: int = 1  # trainings behind the mean
    exact: bool = False  # a count of data, say, that no training changes


@dataclass(frozen=True)
class Beside:
    """What is known of our mean less the published."""

    verdict: Verdict
    difference: Estimate | None  # None where nobody knows how far trainings differ
    seeds: int | None = None  # that would tell, if differences and deviations are what they seem


Samples: TypeAlias = tuple[Part, Part]  # what examples of both add to the variance over seeds, and their whole part
SAME: Samples = (NONE, NONE)  #: examples of both


def of_two_samples(ours: Measured, ratio: float = 1.0) -> Samples:
    """Return the error of two test sets: ours, and one of `1 / ratio` as many examples."""
    found = contrast([ours], [1.0])
    both = [Part(part.variance * (1 + ratio), part.freedom) for part in (found.examples, found.alone)]
    return both[0], both[1]


def beside(
    ours: Sequence[float],
    printed: Printed,
    tolerance: float | None,
    better: int,
    trained: bool = True,
    samples: Samples = SAME,
) -> Beside:
    """Compare our mean over seeds with a published one; a standard deviation that is not printed is taken as ours.

    Equivalent: the 90 % interval of the difference is within the tolerance. Better or worse (different, where neither
    direction is better): its 95 % interval is beyond it. `samples` are the errors of both test sets.
    """
    apart = float(np.mean(ours)) - printed.mean
    if printed.exact or not trained:
        found = Estimate(apart, NONE, NONE, NONE) if printed.exact else Estimate(apart, NONE, *samples)
        return Beside(verdict_of(found, tolerance, better), found)
    part = _variance(len(ours), _deviation(ours), printed)
    if part is None:
        return Beside("cannot tell", None)
    found = Estimate(apart, part, *samples)
    verdict = verdict_of(found, tolerance, better)
    seeds = _seeds_that_tell(found, ours, printed, tolerance) if verdict == "cannot tell" else None
    return Beside(verdict, found, seeds)


def verdict_of(found: Estimate, tolerance: float | None, better: int) -> Verdict:
    """Return what an estimated difference says, with at most 5 % of error for each verdict."""
    within = tolerance or 0.0
    if tolerance is not None and abs(found.value) + found.half_width(2 * LEVEL) <= tolerance:
        return "equivalent"
    if abs(found.value) - found.half_width() <= within:
        return "cannot tell"
    return "different" if not better else "better" if found.value * better > 0 else "worse"


def _deviation(ours: Sequence[float]) -> float | None:
    return float(np.std(ours, ddof=1)) if len(ours) > 1 else None


def _variance(count: int, ours: float | None, printed: Printed) -> Part | None:
    """Return the variance of a difference of means over trainings; a deviation not known is that of the other."""
    theirs = printed.deviation if printed.runs > 1 else None
    if ours is not None and theirs is not None:
        return together([Part(ours**2 / count, count - 1.0), Part(theirs**2 / printed.runs, printed.runs - 1.0)])
    known, freedom = (theirs, printed.runs - 1.0) if ours is None else (ours, count - 1.0)
    return None if known is None else Part(known**2 * (1 / count + 1 / printed.runs), freedom)


def _seeds_that_tell(found: Estimate, ours: Sequence[float], printed: Printed, tolerance: float | None) -> int | None:
    """Return the fewest seeds of some, in steps of about a fifth, that would tell; None if no number would."""
    spread = _deviation(ours)
    for count in sorted({ceil(2 ** (power / 4)) for power in range(4, 41)}):
        part = _variance(count, printed.deviation if spread is None else spread, printed)
        if part and count > len(ours) and verdict_of(replace(found, seeds=part), tolerance, 0) != "cannot tell":
            return count
    return None
