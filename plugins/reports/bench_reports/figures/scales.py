"""The axes of a figure: their scales, ticks and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, log10, radians, sin
from typing import TYPE_CHECKING, Any

from bench_reports.figures.style import SMALL
from bench_reports.figures.tick_text import EXACT, FROM, TO, tick_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from bench_reports.figures.figure_data import Picture

STEPS = [1, 2, 2.5, 5, 10]  # between ticks, times powers of ten
SHORT = 5.0  # a logarithmic axis whose ends are nearer than by this factor
MOST_TICKS = 9  # at the numbers that a suite gives
LEANING, CLOSE = 35, 0.2  # degrees of names too long to stand side by side; inches where these would overlap
ROOM = 3.0  # points between the numbers of two ticks
DIGIT, LINE = 0.64, 1.2  # of the size of letters: the width of a digit, the height of a line


def set_scales(axes: Axes, picture: Picture) -> None:
    """Set the scale of both axes, and write their numbers out rather than as powers of ten."""
    scales = picture.figure.scales
    axes.set(xscale=scales.x, yscale=scales.y)
    for axis, scale in ((axes.xaxis, scales.x), (axes.yaxis, scales.y)):
        _write_numbers(axis, scale == "log")


def _write_numbers(axis: Axis, log: bool) -> None:
    from matplotlib.ticker import Formatter, LogFormatter, LogLocator, MaxNLocator

    class Numbers(Formatter):
        """Writes as many digits as neighbouring ticks need to differ, and powers of ten for all ticks or for none."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return tick_text(x)

        def format_ticks(self, values: Sequence[float]) -> list[str]:
            low, high = sorted(axis.get_view_interval())
            shown = [tick for tick in values if low <= tick <= high]
            digits, plain = digits_of(shown), all(tick == 0 or FROM <= abs(tick) < TO for tick in shown)
            texts = [tick_text(tick, digits, powers=not plain) for tick in values]
            return thinned(_places(axis, values), texts, _lies(axis))

    class Between(LogFormatter):
        """Writes numbers between powers of ten where an axis holds few of these."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return tick_text(x) if super().__call__(x, pos) else ""

        def format_ticks(self, values: Sequence[float]) -> list[str]:
            along, texts, major = (
                _lies(axis),
                super().format_ticks([*values]),
                [*map(float, axis.get_majorticklocs())],
            )
            taken = [*zip(_places(axis, major), axis.get_major_formatter().format_ticks(major), strict=True)]
            return beside(taken, _places(axis, values), texts, along)

    class Decades(LogLocator):
        """Puts ticks at powers of ten; on a short axis, which holds few of these, at steps of one size."""

        def tick_values(self, vmin: float, vmax: float) -> Any:
            low, high = sorted((vmin, vmax))
            if 0 < low < high < SHORT * low:
                return MaxNLocator("auto", steps=STEPS).tick_values(low, high)
            return super().tick_values(vmin, vmax)

    axis.set_major_formatter(Numbers())
    if log:
        axis.set_major_locator(Decades())
        axis.set_minor_formatter(Between(minor_thresholds=(1.5, 0.5)))
    else:
        axis.set_major_locator(MaxNLocator("auto", steps=STEPS))


def _lies(axis: Axis) -> bool:
    return axis is axis.axes.xaxis


def _places(axis: Axis, values: Sequence[float]) -> list[float]:
    """Return where ticks stand along an axis, in points."""
    box = axis.axes.bbox
    length = (box.width if _lies(axis) else box.height) * 72 / axis.axes.figure.dpi
    places = axis.get_transform().transform([*axis.get_view_interval(), *values])
    low, high = places[:2]
    return [float((place - low) / (high - low) * length) if high > low else 0.0 for place in places[2:]]


def thinned(places: Sequence[float], texts: Sequence[str], along: bool) -> list[str]:
    """Return the texts of ticks, where they would touch only those of every second, or third, and so on."""
    for step in range(1, len(texts) + 1):
        kept = [(place, text) for place, text in zip(places[::step], texts[::step], strict=True) if text]
        if not any(_touch(one, other, along) for one, other in pairwise(kept)):
            return [text if not turn % step else "" for turn, text in enumerate(texts)]
    return [*texts]


def beside(
    taken: Sequence[tuple[float, str]], places: Sequence[float], texts: Sequence[str], along: bool
) -> list[str]:
    """Return the texts of ticks, those empty that would touch one that is taken, or one before them."""
    kept, found = [one for one in taken if one[1]], list[str]()
    for one in zip(places, texts, strict=True):
        free = bool(one[1]) and not any(_touch(one, other, along) for other in kept)
        kept += [one] if free else []
        found.append(one[1] if free else "")
    return found


def _touch(one: tuple[float, str], other: tuple[float, str], along: bool) -> bool:
    """Return whether two texts at ticks, centred there, are nearer than they may be."""
    needed = DIGIT * SMALL * (len(one[1]) + len(other[1])) / 2 + ROOM if along else LINE * SMALL
    return abs(one[0] - other[0]) < needed


def digits_of(ticks: Sequence[float]) -> int:
    """Return how many digits tell neighbouring ticks apart."""
    steps = [abs(after - before) for before, after in pairwise(sorted(ticks)) if after != before]
    largest = max(map(abs, ticks), default=0.0)
    if not steps or largest / min(steps) > 1e14:
        return 6
    return max(6, ceil(log10(largest / min(steps))) + 1)


def whole_numbers(axis: Axis) -> None:
    """Let the ticks of a linear axis stand at whole numbers, such as updates."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))


def set_places(axes: Axes, names: Sequence[str], inches: float) -> float:
    """Write names below an axis: side by side where they fit, else leaning, else upright, in smaller type at last.

    Returns by how many inches the names that do not lie stand higher.
    """
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    widest, slot = max((_inches(label) for label in axes.get_xticklabels()), default=0.0), inches / max(1, len(names))
    if widest * 1.15 <= slot:
        return 0.0
    angle = LEANING if slot > CLOSE else 90
    look: dict[str, Any] = {"rotation": angle, "ha": "right", "rotation_mode": "anchor"}
    if angle == 90:
        look |= {"va": "center", "size": min(SMALL, 72 * slot)}
    axes.set_xticks(range(len(names)), names, **look)
    return widest * sin(radians(angle))


def set_ticks(axes: Axes, numbers: Sequence[float], inches: float) -> None:
    """Let ticks stand at the numbers that a suite gives, if they are few and their texts do not touch."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    drawable = [number for number in numbers if axes.get_xscale() == "linear" or number > 0]
    if not drawable or len(drawable) > MOST_TICKS:
        return
    texts = [tick_text(number, EXACT) for number in drawable]
    labels = [axes.text(0, 0, text, size=SMALL) for text in texts]
    widths = [_inches(label) for label in labels]
    for label in labels:
        label.remove()
    across = axes.transData + axes.transAxes.inverted()
    ends = across.transform([(number, axes.get_ylim()[1]) for number in drawable])
    gaps = [inches * (after[0] - before[0]) for before, after in pairwise(ends)]
    needed = [sum(pair) / 2 + ROOM / 72 for pair in pairwise(widths)]
    if all(gap >= need for gap, need in zip(gaps, needed, strict=True)):
        axes.xaxis.set_major_locator(FixedLocator(drawable))
        axes.xaxis.set_major_formatter(FixedFormatter(texts))
        axes.xaxis.set_minor_locator(NullLocator())


def _inches(label: Any) -> float:
    """Return how wide a text is."""
    return float(label.get_window_extent().width) / float(label.get_figure(root=True).dpi)
