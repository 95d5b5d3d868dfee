"""The axes of a figure: their scales, ticks and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import radians, sin
from typing import TYPE_CHECKING, Any

from bench_reports.figures.style import SMALL
from bench_reports.figures.tick_text import EXACT, tick_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from bench_reports.figures.figure_data import Picture

MAX_TICKS = 9  # ticks at numbers from the suite
LEANING, CLOSE = 35, 0.2  # degrees of names too long to be horizontal; inches per name below which they are upright
TICK_GAP = 3.0  # points between the numbers of two ticks


def set_scales(axes: Axes, picture: Picture) -> None:
    """Set the scale of both axes, with numbers written out rather than as powers of ten."""
    from matplotlib.ticker import MaxNLocator

    from bench_reports.figures.ticks import STEPS, Between, Decades, Numbers

    scales = picture.figure.scales
    axes.set(xscale=scales.x, yscale=scales.y)
    for axis, scale in ((axes.xaxis, scales.x), (axes.yaxis, scales.y)):
        axis.set_major_formatter(Numbers())
        axis.set_major_locator(Decades() if scale == "log" else MaxNLocator("auto", steps=STEPS))
        if scale == "log":
            axis.set_minor_formatter(Between(minor_thresholds=(1.5, 0.5)))


def whole_numbers(axis: Axis) -> None:
    """Put the ticks of a linear axis at whole numbers, such as updates."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))


def set_places(axes: Axes, names: Sequence[str], inches: float) -> float:
    """Write names below an axis: side by side if they fit, else slanted, else upright and smaller.

    Returns the extra height in inches of names that are not horizontal.
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
    """Put ticks at the numbers from the suite, if there are few and their texts do not touch."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    drawable = [number for number in numbers if axes.get_xscale() == "linear" or number > 0]
    if not drawable or len(drawable) > MAX_TICKS:
        return
    texts = [tick_text(number, EXACT) for number in drawable]
    labels = [axes.text(0, 0, text, size=SMALL) for text in texts]
    widths = [_inches(label) for label in labels]
    for label in labels:
        label.remove()
    across = axes.transData + axes.transAxes.inverted()
    ends = across.transform([(number, axes.get_ylim()[1]) for number in drawable])
    gaps = [inches * (after[0] - before[0]) for before, after in pairwise(ends)]
    needed = [sum(pair) / 2 + TICK_GAP / 72 for pair in pairwise(widths)]
    if all(gap >= need for gap, need in zip(gaps, needed, strict=True)):
        axes.xaxis.set_major_locator(FixedLocator(drawable))
        axes.xaxis.set_major_formatter(FixedFormatter(texts))
        axes.xaxis.set_minor_locator(NullLocator())


def _inches(label: Any) -> float:
    """Return the width of a text in inches."""
    return float(label.get_window_extent().width) / float(label.get_figure(root=True).dpi)
