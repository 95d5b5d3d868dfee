"""Standard errors of Monte Carlo estimates of log p.

A model that estimates all probabilities from the same samples reports estimates from quarters of the samples. A model
with separate samples per target reports a second estimate. If targets are a sample, as usual, their variance includes
the errors of the estimates; if they are the whole population, such as word types, errors add in quadrature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import exp, fsum, hypot, isfinite, log, log1p, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_core.data import Prediction

#: Names in `Scores.values` of the estimates of log p from one quarter of the samples each.
QUARTERS = tuple(f"log_prob_by_quarter_{number}" for number in (1, 2, 3, 4))

#: Name in `Scores.values` of a second estimate of log p from as many new samples, in nats.
AGAIN = "log_prob_again"

#: Factor of standard errors from 4 numbers, so that the normal 95 % interval equals the interval of Student's t.
SMALL_SAMPLE = 3.182446 / 1.959964

#: Maximum ratio of the last two decreases of a bias when samples are doubled, for extrapolation.
MAX_DECAY_RATIO = 0.95


def estimates_of(prediction: Prediction, of: Callable[[float], float] = float) -> list[float]:
    """Return `of(log p)` for each quarter of the samples, and its mean over all pairs of quarters [5], to 8 digits.

    Returns an empty list if the model reports no quarters. log p is in nats.
    """
    if QUARTERS[0] not in prediction.values:
        return []
    quarters = [prediction.values[name] for name in QUARTERS]
    halves = [of(_log_mean(*pair)) for pair in combinations(quarters, 2)]
    return [float(f"{number:.8g}") for number in (*map(of, quarters), fsum(halves) / len(halves))]


def sampling_error(whole: float, estimates: Sequence[float]) -> float:
    """Return the standard error of a score from all samples, given scores from `estimates_of` [5]; 0 without them.

    Targets share the samples, so their errors are dependent; therefore, scores of all targets are compared. The error
    combines two terms, because the logarithm of a mean is also biased:

    - the standard error of four independent scores, each from a quarter of the samples;
    - the difference between scores from quarters and from all samples or, if larger, the remaining bias, extrapolated
      with the ratio of the last two decreases. If the bias is proportional to 1 / samples, a third of the difference
      remains; if rare samples dominate it, more than the difference remains.
    """
    if not all(map(isfinite, [whole, *estimates])) or not estimates:
        return 0.0
    *quarters, halves = estimates
    mean = fsum(quarters) / len(quarters)
    variance = fsum((quarter - mean) ** 2 for quarter in quarters) / (len(quarters) - 1)
    return hypot(SMALL_SAMPLE * sqrt(variance / len(quarters)), _bias(abs(mean - halves), abs(halves - whole)))


def _bias(before: float, last: float) -> float:
    """Return a bias, given its decreases at two successive doublings of the samples."""
    share = min(MAX_DECAY_RATIO, last / before) if before else 0.0
    return max(before + last, last * share / (1 - share))


def _log_mean(a: float, b: float) -> float:
    """Return ln((e^a + e^b) / 2)."""
    return max(a, b) + log1p(exp(-abs(a - b))) - log(2)
