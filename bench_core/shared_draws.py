"""The standard error of estimates of log p by sampling.

A model that estimates the probability of every target by a mean over the same draws reports it by quarters of them.
One that has other draws for each target reports it once more: where targets are a sample, as most are, their scatter
contains the error of each; where they are all there are, as types of words, errors of targets add in quadrature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import exp, fsum, hypot, isfinite, log, log1p, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_core.data import Outcome

#: What a model calls its estimates of log p by each quarter of the draws alone, in `Scores.values`.
QUARTERS = tuple(f"log_prob_by_quarter_{number}" for number in (1, 2, 3, 4))

#: What a model calls log p by further draws of the same number, where each target has its own; in nats.
AGAIN = "log_prob_again"

#: Of errors from 4 numbers: with it, the normal interval is that of Student's t at 95 %.
SMALL_SAMPLE = 3.182446 / 1.959964

#: The slowest that a bias is taken to fall: by so much of what it fell when draws were doubled before.
SLOWEST = 0.95


def estimates_of(outcome: Outcome, of: Callable[[float], float] = float) -> list[float]:
    """Return `of` log p of a target by each quarter of the draws, and its mean by any two of them [5], in 8 digits.

    Returns nothing if the model reports no quarters. log p is in nats.
    """
    if QUARTERS[0] not in outcome.values:
        return []
    quarters = [outcome.values[name] for name in QUARTERS]
    halves = [of(_log_mean(*pair)) for pair in combinations(quarters, 2)]
    return [float(f"{number:.8g}") for number in (*map(of, quarters), fsum(halves) / len(halves))]


def sampling_error(whole: float, estimates: Sequence[float]) -> float:
    """Return the standard error of a score by all draws, given those by `estimates_of` [5]; 0 if there are none.

    Targets share the draws, so that their errors neither cancel nor add up in a known way: whole scores are compared.
    The error has two parts, as a logarithm of a mean is biased, too:

    - the standard error of four independent scores, each by a quarter of the draws;
    - what the score by all draws is less than those by quarters; or what it would still fall by for ever, if each
      doubling of the draws lowered the bias by the same share as the last one, where that is more. A bias that falls
      in proportion to the draws has a third of the former left; one of rare draws that decide, more than the former.
    """
    if not all(map(isfinite, [whole, *estimates])) or not estimates:
        return 0.0
    *quarters, halves = estimates
    mean = fsum(quarters) / len(quarters)
    variance = fsum((one - mean) ** 2 for one in quarters) / (len(quarters) - 1)
    return hypot(SMALL_SAMPLE * sqrt(variance / len(quarters)), _bias(abs(mean - halves), abs(halves - whole)))


def _bias(before: float, last: float) -> float:
    """Return a bias from how far it fell when draws were doubled once, and once more."""
    share = min(SLOWEST, last / before) if before else 0.0
    return max(before + last, last * share / (1 - share))


def _log_mean(one: float, other: float) -> float:
    """Return ln((e^one + e^other) / 2)."""
    apart = abs(one - other)
    return max(one, other) + log1p(exp(-apart)) - log(2)
