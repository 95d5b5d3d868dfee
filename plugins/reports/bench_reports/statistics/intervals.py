"""Mean and standard deviation over seeds, and rounding of p-values."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of some values."""

    mean: float  # nan without values, or if they have no mean
    std: float | None  # sample standard deviation (n - 1); None with fewer than two values or if any is not finite
    n: int


def summary(values: Sequence[float]) -> Summary:
    """Return the mean and the standard deviation of all `values`.

    One inf makes the mean inf; inf and -inf together, or a nan, make it nan.
    """
    n = len(values)
    if not n:
        return Summary(math.nan, None, 0)
    spread = n > 1 and all(map(math.isfinite, values))
    return Summary(float(statistics.mean(values)), float(statistics.stdev(values)) if spread else None, n)


def rounded(p: float | None) -> float | None:
    """Return a p-value rounded to three significant digits; further digits differ between machines."""
    return None if p is None else float(f"{p:.3g}")
