"""Where the axes of a figure begin and end, and where bands and error bars are cut."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from bench_core.runs.results import Number
from bench_reports.figures.error_bars import RANGES
from bench_reports.figures.figure_data import Picture, has_place

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEYOND = 0.04  # of its length, by which an axis goes beyond what cannot be exceeded
FAR, TIMES = 5.0, 1e3  # beyond all means, in units of the largest of them, or on a log axis by a factor
CUT = "An interval that goes far beyond all means is cut at the end of the axis; its ends are in the CSV."


class Cuts(NamedTuple):
    """Where bands and error bars are cut; infinite if all of them fit on the axis."""

    low: float = -inf
    high: float = inf


def set_limits(axes: Axes, picture: Picture) -> None:
    """Set where the axes end, once all panels that share them are drawn."""
    kind, log = picture.figure.kind, axes.get_yscale() == "log"
    if kind == "histogram":
        lowest = min(bar.percent for one in picture.series for bar in one.rows if bar.percent)
        axes.margins(x=0.02)
        axes.set_ylim(bottom=lowest / 2 if log else 0)
    elif kind == "survival":
        _show_lengths(axes, picture)
        if not log:
            axes.set_ylim(0, 104)
    if kind in ("line", "survival", "bar") and not picture.figure.points:
        low, high = cuts_of(picture)
        axes.set_ylim(bottom=low if low > -inf else None, top=high if high < inf else None)
        if kind != "survival" and not log:
            _stay_in_range(axes, picture)


def _show_lengths(axes: Axes, picture: Picture) -> None:
    """Let the x axis of survival curves begin before the first token and end with the last."""
    last = max(point.x for one in picture.series for point in one.rows)
    axes.set_xlim(*((1, max(last, 2)) if axes.get_xscale() == "log" else (0, max(last, 1))))


def cuts_of(picture: Picture) -> Cuts:
    """Return where bands and error bars are cut: far beyond all means, and above 0 on a logarithmic axis."""
    log, rows = picture.figure.scales.y == "log", [row for one in picture.series for row in one.rows]
    means = [row.mean for row in rows if has_place(getattr(row, "mean", None), log)]
    known = [row for row in rows if getattr(row, "low", None) is not None]
    ends = [end for row in known for end in (row.low, row.high)]
    means += [near for row in known if has_place(near := min(max(row.mean, row.low), row.high), log)]
    if not means or not ends:
        return Cuts()
    reach = FAR * max(map(abs, means))
    lowest, highest = (min(means) / TIMES, max(means) * TIMES) if log else (min(means) - reach, max(means) + reach)
    if log and min(ends) <= 0:
        lowest = min(value for value in (*means, *ends) if value >= lowest) / 2
    return Cuts(lowest if min(ends) < lowest else -inf, highest if max(ends) > highest else inf)


def cut_note(picture: Picture) -> Iterator[str]:
    """Say that some interval is cut, if one is."""
    if picture.figure.kind in ("line", "bar") and cuts_of(picture) != Cuts():
        yield CUT


def _stay_in_range(axes: Axes, picture: Picture) -> None:
    """Let the y axis go beyond 0, or beyond the whole of a share, by a little at most, if nothing drawn does more."""
    number = picture.numbers.get(picture.figure.y, Number())
    _, highest = RANGES.get(number.scale, (0.0, inf))
    drawn = [
        float(value)
        for one in picture.series
        for row in one.rows
        for value in (row.mean, row.low, row.high)
        if value is not None and has_place(value, log=False)
    ]
    if not drawn:
        return
    low, high = (0.0, 1.0) if min(drawn) == max(drawn) == 0 else axes.get_ylim()
    reach = BEYOND * (min(high, highest) - max(low, 0.0))
    axes.set_ylim(
        max(low, -reach) if min(drawn) >= 0 else low,
        min(high, highest + reach) if max(drawn) <= highest else high,
    )
