"""Mean over seeds of a metric, and what a band or an error bar shows of its variation."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, sqrt
from typing import Literal, NamedTuple

from bench_core.runs.results import Number
from bench_reports.statistics.intervals import summary

LEVEL = 0.95  #: of the interval of a mean over seeds
RANGES = {"%": (0.0, 100.0), "tokens": (0.0, inf)}  #: in which metrics with such a unit lie


class Estimate(NamedTuple):
    """The mean of a metric over seeds, its standard deviation, and the ends of its band or error bar, if any."""

    mean: float
    std: float | None
    low: float | None
    high: float | None
    seeds: int


def estimate(values: Sequence[float], number: Number, spread: Literal["interval", "std", "none"]) -> Estimate:
    """Return the mean over seeds with what the `spread` of a figure asks for, within the range of the metric.

    A single seed has no spread, nor have values of which one is infinite or undefined.
    """
    found = summary(values)
    ends = interval(values) if spread == "interval" else None
    if spread == "std" and found.std is not None:
        ends = found.mean - found.std, found.mean + found.std
    low, high = within(ends, values, number) if ends else (None, None)
    return Estimate(found.mean, found.std, low, high, found.n)


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the interval of the mean over seeds, by Student's t; None for one seed, or infinite values."""
    found = summary(values)
    if found.std is None or not isfinite(found.mean):
        return None
    from scipy.special import stdtrit

    reach = float(stdtrit(found.n - 1, (1 + LEVEL) / 2)) * found.std / sqrt(found.n)
    return found.mean - reach, found.mean + reach


def within(ends: tuple[float, float], values: Sequence[float], number: Number) -> tuple[float, float]:
    """Return the ends of an interval within the range of a metric; a side on which values lie beyond is open."""
    lowest, highest = RANGES.get(number.unit, (-inf, inf))
    low, high = ends
    return (
        max(low, lowest) if min(values) >= lowest else low,
        min(high, highest) if max(values) <= highest else high,
    )
