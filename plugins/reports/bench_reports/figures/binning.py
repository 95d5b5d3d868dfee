"""Bins, boxes and places on an axis, of counted values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import ceil, floor, fsum
from typing import NamedTuple

from bench_reports.figures.distributions import Counts

FARTHEST = 1e300  #: from 0 on an axis, beyond which its margins and steps are no numbers


class Box(NamedTuple):
    """The quartiles of values, the farthest within 1.5 times their distance, and all beyond (Tukey, 1977)."""

    examples: int
    mean: float
    whisker_low: float
    first_quartile: float
    median: float
    third_quartile: float
    whisker_high: float
    beyond: tuple[float, ...]  # each value once


def size(counts: Counts) -> int:
    """Return how many examples there are."""
    return sum(count for _, count in counts)


def drawable(counts: Counts, log: bool) -> list[tuple[float, int]]:
    """Return the values that have a place on an axis."""
    return [(value, count) for value, count in counts if has_place(value, log)]


def has_place(value: float, log: bool) -> bool:
    """Return whether an axis can hold a value: it is finite, and above 0 where the axis is logarithmic."""
    return abs(value) <= FARTHEST and (value > 0 or not log)


def edges(values: Sequence[float], most: int, log: bool) -> list[float]:
    """Return the edges of at most `most` bins over drawable values, the last of which includes the greatest.

    Bins of whole numbers begin and end half-way between two, and none holds fewer numbers than one further down: no
    bar is low or high only by how the bins fall.
    """
    low, high = min(values), max(values)
    if all(value == int(value) for value in values):
        return [start - 0.5 for start in _starts(int(low), int(high) + 1, most, log)]
    if low == high:
        return [low - abs(low) / 2, high + abs(high) / 2]
    steps = [step / most for step in range(most + 1)]
    inner = [low * (high / low) ** step if log else low + (high - low) * step for step in steps]
    return [low, *inner[1:-1], high]


def _starts(low: int, end: int, most: int, log: bool) -> list[int]:
    """Return the whole numbers that bins begin with, and that after the last, down from which they are laid out."""
    if not log:
        width = ceil((end - low) / most)
        return [end - width * step for step in range(ceil((end - low) / width), -1, -1)]
    starts, ratio = [end], (end / low) ** (1 / most)
    while starts[0] > low:
        starts.insert(0, max(low, min(starts[0] - 1, floor(starts[0] / ratio))))
    return starts


def heights(counts: Counts, bins: Sequence[float]) -> list[int]:
    """Return how many examples are in each bin; one that ends where the next begins leaves that value to it."""
    found = [0] * (len(bins) - 1)
    for value, count in counts:
        found[min(bisect_right(bins, value), len(found)) - 1] += count
    return found


def box(counts: Counts) -> Box:
    """Return what a box shows of finite values."""
    values, n = [value for value, _ in counts], size(counts)
    ends = list(accumulate(count for _, count in counts))
    first, median, third = (_quantile(values, ends, share) for share in (0.25, 0.5, 0.75))
    reach = 1.5 * (third - first)
    near = [value for value in values if first - reach <= value <= third + reach]
    low, high = min([*near, first]), max([*near, third])
    mean = fsum(value * count for value, count in counts) / n
    return Box(n, mean, low, first, median, third, high, tuple(value for value in values if not low <= value <= high))


def _quantile(values: Sequence[float], ends: Sequence[int], share: float) -> float:
    """Return a quantile, linear between the two values that it falls between."""
    place = share * (ends[-1] - 1)
    below, above = (values[bisect_right(ends, index)] for index in (floor(place), ceil(place)))
    return below + (above - below) * (place - floor(place))
