"""Mean and standard deviation over seeds, and rounding of p-values."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Mean and spread of some values."""

    mean: float  # nan if there are no values, or if they have no mean
    std: float | None  # of the sample, n - 1; None if there is only one value, or an infinite or undefined one
    n: int


def summary(values: Sequence[float]) -> Summary:
    """Return the mean and the standard deviation of `values`, neither of which leaves any value out.

    One inf makes the mean inf; inf beside -inf, or a nan, makes it nan.
    """
    n = len(values)
    if not n:
        return Summary(math.nan, None, 0)
    spread = n > 1 and all(map(math.isfinite, values))
    return Summary(float(statistics.mean(values)), float(statistics.stdev(values)) if spread else None, n)


def rounded(p: float | None) -> float | None:
    """Return a p-value with the three digits that count; those behind them differ from machine to machine."""
    return None if p is None else float(f"{p:.3g}")
