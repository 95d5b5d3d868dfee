"""Where the axes of a figure begin and end."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from bench_core.runs.results import Number
from bench_reports.figures.estimates import RANGES
from bench_reports.figures.figure_data import Picture, has_place

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEYOND = 0.04  # of its length, by which an axis goes beyond the range of a metric


def set_limits(axes: Axes, picture: Picture) -> None:
    """Set where the axes end, once all panels that share them are drawn."""
    kind, log = picture.figure.kind, axes.get_yscale() == "log"
    if kind == "histogram":
        lowest = min(bar.percent for one in picture.series for bar in one.rows if bar.percent)
        axes.margins(x=0.02)
        axes.set_ylim(bottom=lowest / 2 if log else 0)
    elif kind == "survival":
        last = max(point.x for one in picture.series for point in one.rows)
        axes.set_xlim(*((1, max(last, 2)) if axes.get_xscale() == "log" else (0, max(last, 1))))
        if not log:
            axes.set_ylim(0, 104)
    if kind in ("line", "survival", "bar") and not picture.figure.points:
        if (floor := floor_of(picture)) > -inf:
            axes.set_ylim(bottom=floor)
        elif kind != "survival" and not log:
            _stay_in_range(axes, picture)


def floor_of(picture: Picture) -> float:
    """Return where a logarithmic y axis ends if a band goes down to 0: a little below the least value drawn."""
    points = [point for one in picture.series for point in one.rows]
    positive = [value for point in points for value in (point.mean, point.low) if has_place(value, log=True)]
    ends_below = any(point.low is not None and point.low <= 0 for point in points)
    return min(positive) / 2 if picture.figure.scales.y == "log" and positive and ends_below else -inf


def _stay_in_range(axes: Axes, picture: Picture) -> None:
    """Let the y axis end a little beyond the range of its metric, where that has one and all values are in it."""
    number = picture.numbers.get(picture.figure.y, Number())
    lowest, highest = RANGES.get(number.unit, (-inf, inf))
    means = [row.mean for one in picture.series for row in one.rows]
    values = [float(mean) for mean in means if mean is not None and has_place(mean, log=False)]
    low, high = axes.get_ylim()
    if lowest == 0 and values and min(values) == max(values) == 0:
        low, high = 0.0, 1.0
    reach = BEYOND * (min(high, highest) - max(low, lowest))
    low = max(low, lowest - reach) if min(values, default=0.0) >= lowest else low
    high = min(high, highest + reach) if max(values, default=0.0) <= highest else high
    axes.set_ylim(low, high)
