"""How many seeds a difference would need, by simulation of the experiments that could be done."""

from math import sqrt

import numpy as np

from bench_reports.statistics.estimate import Estimate
from bench_reports.statistics.tails import LEVEL, POWER, Part, quantile, spreads

MOST_SEEDS = 1_000
PILOTS = 16  # true variances that a pilot's estimate may stand for


def chance(difference: float, seeds: Part, fixed: Estimate) -> float:
    """Return how often a true difference is found with this variance of means over seeds.

    Its degrees of freedom are those with which an experiment will estimate it. All other parts are those of `fixed`.
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


def seeds_needed(found: Estimate, seeds: int, difference: float, power: float = POWER) -> int | None:
    """Return how many seeds of each side would find a true `difference`, by a pilot of so many seeds each.

    The pilot's variance of trainings is an estimate: the power is the mean over what the true one may be. None where
    no number of seeds would do, as the examples are too few, or where the pilot has a single seed.
    """
    if found.seeds is None or _power(found, seeds, difference, MOST_SEEDS) < power:
        return None
    low, high = 1, MOST_SEEDS  # one is too few, the other is enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(found, seeds, difference, middle) >= power else (middle, high)
    return high


def _power(found: Estimate, seeds: int, difference: float, more: int) -> float:
    """Return the probability that a difference is found with `more` seeds of each side."""
    assert found.seeds is not None
    pilot = found.seeds.freedom
    ratios = spreads(round(min(pilot, 1e5), 2))
    ratios = ratios[:: max(1, len(ratios) // PILOTS)]
    variance, freedom = found.seeds.variance * seeds / more, pilot * (more - 1) / max(1, seeds - 1)
    return float(np.mean([chance(difference, Part(variance / ratio**2, freedom), found) for ratio in ratios]))
