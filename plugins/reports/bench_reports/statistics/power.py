"""How many seeds a difference would need."""

from __future__ import annotations

from math import fsum, sqrt

import numpy as np

from bench_reports.statistics.estimate import NONE, POWER, Estimate, Part, spreads

MOST_SEEDS = 1_000


def chance(difference: float, seeds: Part, examples: Part) -> float:
    """Return how often a true difference is found if these variances are the true ones.

    The degrees of freedom are those with which an experiment will estimate them.
    """
    from scipy.special import ndtr

    error = sqrt(seeds.variance + examples.variance)
    if not error:
        return 1.0 if difference else 0.0
    ratios = spreads(round(min(seeds.freedom, 1e5), 2))
    halves = [Estimate(0.0, Part(seeds.variance * s**2, seeds.freedom), examples, NONE).half_width() for s in ratios]
    return float(np.mean(ndtr((difference - np.array(halves)) / error)))


def seeds_needed(found: Estimate, seeds: int, difference: float, power: float = POWER) -> int | None:
    """Return how many seeds of each side would find a true `difference`, by a pilot of so many seeds each.

    The pilot's variance of trainings is an estimate. The power is the mean over what may be the true one, so that
    it holds on average over pilots. None where no number of seeds would do (the examples are too few), or where
    the pilot has a single seed.
    """
    if found.seeds is None:
        return None
    if not _reaches(found, seeds, difference, MOST_SEEDS, power):
        return None
    low, high = 1, MOST_SEEDS  # one does not, the other does
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reaches(found, seeds, difference, middle, power) else (middle, high)
    return high


def _reaches(found: Estimate, seeds: int, difference: float, more: int, power: float) -> bool:
    assert found.seeds is not None
    freedom = found.seeds.freedom * (more - 1) / max(1, seeds - 1)
    ratios = spreads(round(min(found.seeds.freedom, 1e5), 2))
    chances = [
        chance(difference, Part(found.seeds.variance * seeds / more / ratio**2, freedom), found.examples)
        for ratio in ratios[:: max(1, len(ratios) // 16)]
    ]
    return fsum(chances) / len(chances) >= power
