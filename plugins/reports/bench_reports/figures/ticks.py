"""The ticks of an axis: their places, and their numbers, written out rather than as powers of ten."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, log10
from typing import Any

from matplotlib.ticker import Formatter, LogFormatter, LogLocator, MaxNLocator

from bench_reports.figures.style import SMALL
from bench_reports.figures.tick_text import FROM, TO, tick_text

STEPS = [1, 2, 2.5, 5, 10]  #: between ticks, times powers of ten
MIN_LOG_RATIO = 5.0  # ratio of the ends of an axis from which on ticks are at powers of ten
TICK_GAP = 3.0  #: points between the numbers of two ticks
DIGIT, LINE = 0.64, 1.2  # relative to the font size: the width of a digit, the height of a line


class Numbers(Formatter):
    """Writes as many digits as neighbouring ticks need to differ, and powers of ten for all ticks or for none."""

    axis: Any  # set by matplotlib

    def __call__(self, x: float, pos: int | None = None) -> str:
        return tick_text(x)

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        low, high = sorted(self.axis.get_view_interval())
        shown = [tick for tick in values if low <= tick <= high]
        digits, plain = digits_of(shown), all(tick == 0 or FROM <= abs(tick) < TO for tick in shown)
        texts = [tick_text(tick, digits, powers=not plain) for tick in values]
        return thin_out(_places(self.axis, values), texts, _lies(self.axis))


class Between(LogFormatter):
    """Writes numbers between powers of ten if an axis shows few powers of ten."""

    axis: Any  # set by matplotlib

    def __call__(self, x: float, pos: int | None = None) -> str:
        return tick_text(x) if super().__call__(x, pos) else ""

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        axis, texts = self.axis, super().format_ticks([*values])
        major = [*map(float, axis.get_majorticklocs())]
        occupied = [*zip(_places(axis, major), axis.get_major_formatter().format_ticks(major), strict=True)]
        return beside(occupied, _places(axis, values), texts, _lies(axis))


class Decades(LogLocator):
    """Puts ticks at powers of ten, or at even steps if the axis is too short for powers of ten."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        low, high = sorted((vmin, vmax))
        if 0 < low < high < MIN_LOG_RATIO * low:
            return MaxNLocator("auto", steps=STEPS).tick_values(low, high)
        return super().tick_values(vmin, vmax)


def _lies(axis: Any) -> bool:
    return axis is axis.axes.xaxis


def _places(axis: Any, values: Sequence[float]) -> list[float]:
    """Return the positions of ticks along an axis, in points."""
    box = axis.axes.bbox
    length = (box.width if _lies(axis) else box.height) * 72 / axis.axes.figure.dpi
    places = axis.get_transform().transform([*axis.get_view_interval(), *values])
    low, high = places[:2]
    return [float((place - low) / (high - low) * length) if high > low else 0.0 for place in places[2:]]


def thin_out(places: Sequence[float], texts: Sequence[str], along: bool) -> list[str]:
    """Return the texts of ticks; if they would touch, keep only every second text, every third, and so on."""
    for step in range(1, len(texts) + 1):
        shown = [(place, text) for place, text in zip(places[::step], texts[::step], strict=True) if text]
        if not any(_touch(tick, other, along) for tick, other in pairwise(shown)):
            return [text if not turn % step else "" for turn, text in enumerate(texts)]
    return [*texts]


def beside(
    occupied: Sequence[tuple[float, str]], places: Sequence[float], texts: Sequence[str], along: bool
) -> list[str]:
    """Return the texts of ticks, empty for those that would touch an occupied or an earlier place."""
    shown, result = [tick for tick in occupied if tick[1]], list[str]()
    for tick in zip(places, texts, strict=True):
        free = bool(tick[1]) and not any(_touch(tick, other, along) for other in shown)
        shown += [tick] if free else []
        result.append(tick[1] if free else "")
    return result


def _touch(tick: tuple[float, str], other: tuple[float, str], along: bool) -> bool:
    """Return whether the texts of two ticks, each centred on its tick, touch."""
    needed = DIGIT * SMALL * (len(tick[1]) + len(other[1])) / 2 + TICK_GAP if along else LINE * SMALL
    return abs(tick[0] - other[0]) < needed


def digits_of(ticks: Sequence[float]) -> int:
    """Return the number of digits that distinguish neighbouring ticks."""
    steps = [abs(after - before) for before, after in pairwise(sorted(ticks)) if after != before]
    largest = max(map(abs, ticks), default=0.0)
    if not steps or largest / min(steps) > 1e14:
        return 6
    return max(6, ceil(log10(largest / min(steps))) + 1)
