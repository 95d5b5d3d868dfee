"""The standard error of an estimate of log p by draws that all examples share."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, hypot, isfinite, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_core.data import Outcome

#: What a model calls its estimates of log p by each quarter of the draws alone, in `Scores.values`.
QUARTERS = tuple(f"log_prob_by_quarter_{number}" for number in (1, 2, 3, 4))

#: With so many errors from 4 quarters, a normal interval covers as often as that of Student's t: t_3 / z at 95 %.
SMALL_SAMPLE = 3.182446 / 1.959964


def quarters_of(outcome: Outcome) -> list[float]:
    """Return log p of the target by each quarter of the draws, in nats; none if it is no such estimate."""
    return [outcome.values[name] for name in QUARTERS] if QUARTERS[0] in outcome.values else []


def sampling_error(whole: float, quarters: Sequence[float]) -> float:
    """Return the standard error of a score by all draws, given those by each quarter [4]; 0 if there are none.

    Examples share the draws, so errors of examples neither cancel nor add up in a known way: scores of whole cells
    are compared. The variance of a quarter is four times that of all draws. The logarithm of a mean is biased as
    well, the more the fewer draws: all of what quarters are off by is added. That is at least the bias left, if the
    bias falls by the root of the number of draws or faster.
    """
    if not quarters or not all(map(isfinite, [whole, *quarters])):
        return 0.0
    mean = fsum(quarters) / len(quarters)
    variance = fsum((one - mean) ** 2 for one in quarters) / (len(quarters) - 1)
    return hypot(SMALL_SAMPLE * sqrt(variance / len(quarters)), mean - whole)
