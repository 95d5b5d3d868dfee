"""The block length of the block bootstrap, estimated from the data."""

from math import ceil, log10, sqrt

import numpy as np
from numpy.typing import NDArray


def block_length(series: NDArray[np.float64]) -> int:
    """Return the block length estimated from the correlations of `series` [N], the contributions of examples.

    For the circular block bootstrap: Politis and White (2004), corrected by Patton, Politis and White (2009).
    """
    count = len(series)
    if count < 2 or not np.isfinite(series).all():
        return 1
    series = np.ldexp(series, -int(np.frexp(np.abs(series).max())[1]))  # avoids overflow of squares
    covariances = _covariances(series, min(count - 1, ceil(sqrt(count)) + max(5, ceil(log10(count)))))
    if not covariances[0]:
        return 1
    last = _last_correlated(covariances, count)
    lags = np.arange(-2 * last, 2 * last + 1) if last else np.zeros(1, dtype=np.int64)
    lags = np.abs(lags[np.abs(lags) < len(covariances)])
    weighted = np.minimum(1.0, 2 * (1 - lags / max(1, 2 * last))) * covariances[lags]  # a flat-top window
    slope, height = float((weighted * lags).sum()), float(weighted.sum())
    if height <= 0:
        return 1
    length = (2 * slope**2 / (4 / 3 * height**2)) ** (1 / 3) * count ** (1 / 3)
    return int(min(max(1, ceil(length)), ceil(min(3 * sqrt(count), count / 3))))


def _covariances(series: NDArray[np.float64], lags: int) -> NDArray[np.float64]:
    centered = series - series.mean()
    return np.array(
        [float(centered[: len(centered) - lag] @ centered[lag:]) / len(centered) for lag in range(lags + 1)]
    )


def _last_correlated(covariances: NDArray[np.float64], count: int) -> int:
    """Return the lag after which several consecutive correlations are insignificant."""
    within = np.abs(covariances / covariances[0]) < 2 * sqrt(log10(count) / count)
    quiet, lags = max(5, ceil(log10(count))), len(covariances) - 1
    return next((lag for lag in range(lags - quiet + 1) if within[lag + 1 : lag + 1 + quiet].all()), lags)
