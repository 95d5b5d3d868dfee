"""The ends of the axes of a figure, and where bands and error bars are cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

from bench_core.runs.results import Score
from bench_reports.figures.error_bars import INTERVAL_NAMES, RANGES
from bench_reports.figures.figure_data import Picture, has_place

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OVERSHOOT = 0.04  # share of its length by which an axis extends beyond the bound of a metric
MIN_CUT_RATIO = 2.0  # median interval lengths beyond all means at which intervals are cut
TIMES, LONG = 10.0, 1e3  # on a log axis: factor beyond all means, and factor that makes an interval unusually long
AXES: Sequence[Literal["x", "y"]] = ("x", "y")
CUT = "Intervals that extend far beyond all means are cut at the end of the axis; their ends are in the CSV."


class Cuts(NamedTuple):
    """The ends of an axis that cuts intervals, and how far these are drawn; infinite where nothing is cut."""

    low: float = -inf
    high: float = inf
    lowest: float = -inf
    highest: float = inf

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Return the ends of the axis, None where they depend on what is drawn."""
        return self.low if self.low > -inf else None, self.high if self.high < inf else None


def set_limits(axes: Axes, picture: Picture) -> None:
    """Set the ends of the axes, once all panels that share them are drawn."""
    kind, log = picture.figure.kind, axes.get_yscale() == "log"
    if kind == "histogram":
        lowest = min(bar.percent for group in picture.series for bar in group.rows if bar.percent)
        axes.margins(x=0.02)
        axes.set_ylim(bottom=lowest / 2 if log else 0)
    elif kind == "survival":
        last = max(point.x for group in picture.series for point in group.rows)  # starts before the first token
        axes.set_xlim(*((1, 1.05 * max(last, 2)) if axes.get_xscale() == "log" else (0, 1.02 * max(last, 1))))
        if not log:
            axes.set_ylim(0, 104)
    axes.set_xlim(*cuts_of(picture, "x").ends)
    axes.set_ylim(*cuts_of(picture, "y").ends)
    if kind in ("line", "bar") and not picture.figure.points and not log:
        _stay_in_range(axes, picture)


def cuts_of(picture: Picture, axis: Literal["x", "y"] = "y") -> Cuts:
    """Return where an axis cuts intervals: far beyond all means, and above 0 if it is logarithmic."""
    log, known = getattr(picture.figure.scales, axis) == "log", [*_intervals(picture, axis)]
    pairs = [ends for _, ends in known if ends]
    nearest = [min(max(mean, ends[0]), ends[1]) for mean, ends in known if ends]  # moved into the intervals
    means = [mean for mean in (*nearest, *(mean for mean, _ in known)) if has_place(mean, log)]
    if not means or not pairs:
        return Cuts()
    least, most = min(low for low, _ in pairs), max(high for _, high in pairs)
    if log:
        drawn = [(near, *ends) for near, ends in zip(nearest, pairs, strict=True) if has_place(near, log)]
        ratios = [max(high / near, near / low if low > 0 else 1.0) for near, low, high in drawn]
        reach = TIMES * max([ratio for ratio in ratios if ratio < LONG], default=1.0)
        low, high = min(means) / reach, max(means) * reach
        if least <= 0:
            low = min(value for value in (*means, *chain(*pairs)) if value >= low) / 2
        beyond = low / reach, high * reach
    else:
        reach = max(map(abs, means)) + MIN_CUT_RATIO * median(high - low for low, high in pairs)
        low, high = min(means) - reach, max(means) + reach
        beyond = low - reach, high + reach
    return Cuts(low if least < low else -inf, high if most > high else inf, *beyond)


def _intervals(picture: Picture, axis: str) -> Iterator[tuple[float, tuple[float, float] | None]]:
    """Yield the means on an axis, each with the ends of its interval, if it has one."""
    shown = picture.series if picture.figure.kind in INTERVAL_NAMES else ()
    for row in (row for group in shown for row in group.rows):
        spot = hasattr(row, "x_low")
        name = f"{axis}_" if spot else ""
        mean = getattr(row, axis if spot else "mean", None)
        if mean is not None and (spot or axis == "y"):
            low, high = getattr(row, f"{name}low"), getattr(row, f"{name}high")
            yield mean, None if low is None or high is None else (low, high)


def cut_note(picture: Picture) -> Iterator[str]:
    """Yield a note if an interval is cut."""
    if any(end is not None for axis in AXES for end in cuts_of(picture, axis).ends):
        yield CUT


def _stay_in_range(axes: Axes, picture: Picture) -> None:
    """Extend the y axis at most slightly beyond 0, or beyond 100 % of a share, unless something is drawn there."""
    _, highest = RANGES.get(picture.numbers.get(picture.figure.y, Score()).scale, (0.0, inf))
    rows = [row for group in picture.series for row in group.rows]
    values = (value for row in rows for value in (row.mean, row.low, row.high))
    drawn = [float(value) for value in values if value is not None and has_place(value, log=False)]
    if not drawn:
        return
    low, high = (0.0, 1.0) if min(drawn) == max(drawn) == 0 else axes.get_ylim()
    reach = OVERSHOOT * (min(high, highest) - max(low, 0.0))
    bottom = max(low, -reach) if min(drawn) >= 0 else low
    axes.set_ylim(bottom, min(high, highest + reach) if max(drawn) <= highest else high)
