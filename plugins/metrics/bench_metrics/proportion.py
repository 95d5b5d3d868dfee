"""The confidence interval of a proportion."""

from __future__ import annotations

from scipy.special import betaincinv


def clopper_pearson(k: int, n: int, level: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson (1934) for k of n, in percent; it holds its level at every rate."""
    tail = (1 - level) / 2
    low = betaincinv(k, n - k + 1, tail) if k else 0
    high = betaincinv(k + 1, n - k, 1 - tail) if k < n else 1
    return 100 * float(low), 100 * float(high)
