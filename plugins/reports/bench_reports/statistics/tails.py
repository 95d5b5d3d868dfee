"""Critical values, p-values and detectable differences of estimates whose variance has several parts."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import fsum, inf, isfinite, log10, sqrt
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

LEVEL = 0.05  #: level of tests; intervals have probability 1 - LEVEL
POWER = 0.8  #: probability with which a detectable difference is detected
MIN_P_VALUE = 1e-12  #: smallest p-value: 1,000 replicates carry no information about smaller tails
MAX_FREEDOM = 1e9  # degrees of freedom; practically infinite
FAR = 1e30  # standard errors; their cube is finite


class VariancePart(NamedTuple):
    """A variance, and the degrees of freedom of its estimate."""

    variance: float
    freedom: float = inf


def _weighted_error(parts: Sequence[VariancePart], multiple: Callable[[float], float]) -> float:
    """Return the error times the mean of `multiple` at each part's degrees of freedom, weighted by its variance."""
    total = fsum(variance for variance, _ in parts)
    return fsum(v * multiple(freedom) for v, freedom in parts if v) / sqrt(total) if total else 0.0


def critical_width(parts: Sequence[VariancePart], level: float) -> float:
    """Return an error times its critical value."""
    return _weighted_error(parts, lambda freedom: quantile(freedom, level))


def p_above(parts: Sequence[VariancePart], skewed: tuple[float, float], distance: float) -> float:
    """Return the one-sided p-value of the statement that a number is above 0, if its estimate is `distance`."""
    total = fsum(variance for variance, _ in parts)
    if not distance or not total:
        return 0.5 if not distance else MIN_P_VALUE / 2 if distance > 0 else 1 - MIN_P_VALUE / 2
    error = sqrt(total)
    straight = straightened(max(-FAR, min(distance / error, FAR)), skewness_of(skewed, total))
    tail = max(_level(parts, abs(straight) * error), MIN_P_VALUE) / 2
    return tail if straight > 0 else 1 - tail


def skewness_of(skewed: tuple[float, float], total: float) -> float:
    """Return the skewness of a sum, given the skewness and variance of one part; the other parts are symmetric.

    By chance, a few training runs may vary less than their examples explain; the part never exceeds the whole.
    """
    skewness, variance = skewed
    return float(skewness * min(1.0, variance / total) ** 1.5)


def _level(parts: Sequence[VariancePart], distance: float) -> float:
    """Return the level at which the half-width of an interval without skewness is `distance`."""
    if critical_width(parts, MIN_P_VALUE) <= distance:
        return MIN_P_VALUE
    total = fsum(variance for variance, _ in parts)
    if (freedom := next((freedom for variance, freedom in parts if variance == total), None)) is not None:
        from scipy.special import stdtr

        return float(2 * stdtr(min(freedom, MAX_FREEDOM), -distance / sqrt(total)))
    from scipy.optimize import brentq

    if critical_width(parts, 1 - 1e-9) >= distance:
        return 1.0
    level = brentq(
        lambda exponent: critical_width(parts, 10**exponent) - distance, log10(MIN_P_VALUE), log10(1 - 1e-9)
    )
    return float(10**level)


def reach(parts: Sequence[VariancePart], skewed: tuple[float, float], level: float) -> tuple[float, float]:
    """Return how far a test at `level` extends below an estimate, and (negative) above it."""
    total = fsum(variance for variance, _ in parts)
    if not total:
        return 0.0, 0.0
    error = sqrt(total)
    critical, skewness = critical_width(parts, level) / error, skewness_of(skewed, total)
    return bent(critical, skewness) * error, bent(-critical, skewness) * error


def straightened(t: float, skewness: float) -> float:
    """Return Student's statistic, transformed so that it keeps its distribution even if the mean is skewed.

    The transformation is monotone, t + g t^2 / 3 + g^2 t^3 / 27 + g / 6 (Hall, 1992: On the removal of skewness by
    transformation), with the skewness g of the mean.
    """
    return t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6


def bent(straight: float, skewness: float) -> float:
    """Return the inverse of `straightened`."""
    if abs(skewness) < 1e-6:
        return straight
    return 3 / skewness * (float(np.cbrt(1 + skewness * (straight - skewness / 6))) - 1)


def detectable(parts: Sequence[VariancePart], power: float) -> float:
    """Return the true difference that a test detects with the given power."""
    return _weighted_error(parts, lambda freedom: _multiple(freedom, power))


def quantile(freedom: float, level: float) -> float:
    """Return the two-sided critical value of Student's t."""
    from scipy.special import stdtrit

    return float(-stdtrit(min(freedom, MAX_FREEDOM), level / 2))


@lru_cache(maxsize=1024)
def spreads(freedom: float) -> Array:
    """Return equally probable ratios of an estimated standard deviation to the true one."""
    if freedom > 1e4:
        return np.ones(1)
    from scipy.special import chdtri

    ratios: Array = np.sqrt(chdtri(freedom, (np.arange(64) + 0.5) / 64) / freedom)
    return ratios


def _multiple(freedom: float, power: float) -> float:
    """Return the multiple of an estimated error that is detected with the given power, interpolated on a grid."""
    if not isfinite(freedom) or freedom >= GRID[-1]:
        return _multiple_on_grid(inf, power)
    place = log10(max(freedom, GRID[0]))
    low, high = next((a, b) for a, b in pairwise(GRID) if log10(b) >= place)
    left, right = _multiple_on_grid(low, power), _multiple_on_grid(high, power)
    return left + (right - left) * (place - log10(low)) / (log10(high) - log10(low))


GRID = [1 / 2, *(10 ** (place / 16) for place in range(65))]  # degrees of freedom


@lru_cache(maxsize=1024)
def _multiple_on_grid(freedom: float, power: float) -> float:
    """Return m with mean P(detected) = power, for a true difference of m estimated errors.

    The mean is over two experiments: a pilot that provides the estimated error, and the experiment itself.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    pilot, experiment, critical = spreads(freedom)[:, None], spreads(freedom)[None], quantile(freedom, LEVEL)
    return float(brentq(lambda m: ndtr(m * pilot - critical * experiment).mean() - power, 0.0, 1e4))
