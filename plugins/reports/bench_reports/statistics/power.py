"""The number of seeds needed to detect a difference, by simulating possible experiments."""

from math import sqrt

import numpy as np

from bench_reports.statistics.estimate import Estimate
from bench_reports.statistics.tails import LEVEL, POWER, VariancePart, quantile, spreads

MAX_SEEDS = 1_000
PILOTS = 16  # possible true variances, given a pilot's estimate


def chance(difference: float, seeds: VariancePart, fixed: Estimate) -> float:
    """Return the probability of detecting a true difference with this variance of means over seeds.

    This variance has the degrees of freedom of the experiment's estimate. All other parts are taken from `fixed`.
    """
    from scipy.special import ndtr

    others = [(part.variance, quantile(part.freedom, LEVEL)) for part in (fixed.examples, fixed.error, fixed.floor)]
    rest = sum(variance for variance, _ in others)
    error = sqrt(seeds.variance + rest)
    if not error:
        return 1.0 if difference else 0.0
    estimated = seeds.variance * spreads(round(min(seeds.freedom, 1e5), 2)) ** 2
    weighted = estimated * quantile(seeds.freedom, LEVEL) + sum(variance * critical for variance, critical in others)
    halves = weighted / np.sqrt(estimated + rest)
    return float(np.mean(ndtr((abs(difference) - halves) / error)))


def seeds_needed(estimate: Estimate, seeds: int, difference: float, power: float = POWER) -> int | None:
    """Return how many seeds per side would detect a true `difference`, based on a pilot with `seeds` seeds per side.

    The pilot's variance over runs is an estimate: the power is averaged over possible true variances. None if no
    number of seeds suffices because there are too few examples, or if the pilot has a single seed.
    """
    if estimate.seeds is None or _power(estimate, seeds, difference, MAX_SEEDS) < power:
        return None
    low, high = 1, MAX_SEEDS  # low is too few, high is enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(estimate, seeds, difference, middle) >= power else (middle, high)
    return high


def _power(estimate: Estimate, seeds: int, difference: float, more: int) -> float:
    """Return the probability of detecting a difference with `more` seeds per side."""
    assert estimate.seeds is not None
    pilot = estimate.seeds.freedom
    ratios = spreads(round(min(pilot, 1e5), 2))
    ratios = ratios[:: max(1, len(ratios) // PILOTS)]
    variance, freedom = estimate.seeds.variance * seeds / more, pilot * (more - 1) / max(1, seeds - 1)
    return float(
        np.mean([chance(difference, VariancePart(variance / ratio**2, freedom), estimate) for ratio in ratios])
    )
