"""Draws figures as SVG and PDF: deterministic bytes, legible in black and white."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from math import ceil, nan
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_core.terminal import visible
from bench_reports.figures.figure_data import Picture, Series, has_place, kind_of
from bench_reports.figures.heatmap import Layout, draw_tiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 8.5,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,  # publishers refuse type 3
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "bench",
    "xtick.major.width": 0.6,
    "xtick.minor.pad": 5,  # so that names of minor ticks stand in line with those of major ones
    "ytick.major.width": 0.6,
    "ytick.minor.pad": 5,
}
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
# Those of Okabe and Ito (2008) but yellow, ordered so that neighbours differ in lightness too.
COLOURS = ("#0072b2", "#d55e00", "#000000", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">", "*", "p")
SHADES = ("0.85", "0.7", "0.55")  # of what all groups share
LETTER, HANDLE = 0.066, 0.68  # inches in a legend, of a usual letter and of what stands around a name

Artists: TypeAlias = list[Any]  # what a legend shows of each series


def draw(picture: Picture) -> dict[str, bytes]:
    """Return a figure as `svg` and as `pdf`; what a user has set in matplotlib does not matter."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    drawn = {}
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font of the PDF lacks, axes to the end of all numbers
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        canvas = Canvas(layout="constrained")
        brought = kind_of(picture.figure.kind)
        whole = brought.draw if brought else _matrix if picture.figure.kind == "heat" else _groups
        whole(canvas, picture)
        for kind, metadata in METADATA.items():
            file = BytesIO()
            canvas.savefig(file, format=kind, metadata=metadata)
            drawn[kind] = file.getvalue()
    return drawn


def _groups(canvas: Canvas, picture: Picture) -> None:
    """Draw one thing for each group, with a legend or with the names of boxes."""
    labels = _labels(picture)
    width, height = _size(picture, labels)
    canvas.set_size_inches(width, height)
    axes = canvas.add_subplot()
    axes.set(xlabel=_plain(picture.x_label, 0.8 * width), ylabel=_plain(picture.y_label, 0.8 * height))
    _scale(axes, picture)
    artists = DRAWERS[picture.figure.kind](axes, picture.series)
    if picture.figure.kind == "box":
        axes.set_yticks(range(1, len(labels) + 1), labels)
    elif any(labels):
        canvas.legend(artists, labels, loc="outside upper center", ncols=_columns(labels, width))


def _matrix(canvas: Canvas, picture: Picture) -> None:
    """Draw a heat map with what it shows above it."""
    layout = Layout(picture, LETTER)
    canvas.set_size_inches(layout.width, layout.height)
    axes = canvas.add_subplot()
    axes.set(xlabel=_plain(picture.x_label, 0.8 * layout.width), ylabel=_plain(picture.y_label, 0.8 * layout.height))
    axes.set_title(_plain(picture.title, 0.8 * layout.width), loc="left", fontsize=STYLE["axes.labelsize"])
    room = layout.room if layout.leaning else layout.tile
    columns = [_plain(name, room) for name in layout.columns]
    draw_tiles(axes, picture, layout, (columns, [_plain(name, layout.room) for name in layout.rows]))


def _plain(text: str, inches: float) -> str:
    """Return text that is drawn as it is, cut where it does not fit.

    Dollars begin no mathematics, and an SVG can hold every character.
    """
    shown, most = re.sub(r"[\ufffe\uffff]", "�", visible(text)), max(8, int(inches / LETTER))
    return (shown if len(shown) <= most else f"{shown[: most - 2]} …").replace("$", r"\$")


def _labels(picture: Picture) -> list[str]:
    """Return the names of the series as a legend shows them, or as the axis of boxes does."""
    width = picture.figure.width
    room = width / 2 if picture.figure.kind == "box" else width - HANDLE
    return [_plain(one.label, room) for one in picture.series]


def _size(picture: Picture, labels: Sequence[str]) -> tuple[float, float]:
    """Return width and height in inches, with room for boxes or for the rows of a legend."""
    width = picture.figure.width
    if picture.figure.kind == "box":
        return width, 0.7 + 0.3 * len(labels)
    return width, 0.55 * width + 0.18 * ceil(len(labels) / _columns(labels, width))


def _columns(labels: Sequence[str], width: float) -> int:
    """Return the most columns of a legend, filled one after the other, for which there is room."""
    for columns in range(len(labels), 1, -1):
        ends = [ceil(len(labels) * column / columns) for column in range(columns + 1)]
        longest = (max(map(len, labels[start:end])) for start, end in pairwise(ends))
        if sum(letters * LETTER + HANDLE for letters in longest) <= width:
            return columns
    return 1


def _scale(axes: Axes, picture: Picture) -> None:
    """Divide the axes; numbers are written out, rather than as powers of ten."""
    from matplotlib.ticker import LogFormatter, StrMethodFormatter

    axes.set(xscale=picture.figure.scales.x, yscale=picture.figure.scales.y)
    for axis, scale in ((axes.xaxis, picture.figure.scales.x), (axes.yaxis, picture.figure.scales.y)):
        if scale == "log":
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))


def _numbered(series: Sequence[Series]) -> Iterator[tuple[Series, int]]:
    """Yield each series with its turn, those that all groups share apart, so that these take no colour."""
    turns = [0, 0]
    for one in series:
        yield one, turns[one.shared]
        turns[one.shared] += 1


def _line(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}


def _marker(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def _histograms(axes: Axes, series: Sequence[Series]) -> Artists:
    artists: Artists = []
    for one, number in _numbered(series):
        edges, heights = [one.rows[0].low, *(bar.high for bar in one.rows)], [bar.percent for bar in one.rows]
        style = {"fill": True, "color": SHADES[number % len(SHADES)], "zorder": 0.8} if one.shared else _line(number)
        artists.append(axes.stairs(heights, edges, **style))
    lowest = min(bar.percent for one in series for bar in one.rows if bar.percent)
    axes.margins(x=0.02)
    axes.set_ylim(bottom=lowest / 2 if axes.get_yscale() == "log" else 0)
    return artists


def _curves(axes: Axes, series: Sequence[Series]) -> Artists:
    from matplotlib.ticker import MaxNLocator

    artists: Artists = []
    log = axes.get_yscale() == "log"
    if axes.get_xscale() == "linear":  # updates and epochs are whole
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    for one, number in _numbered(series):
        x = [point.x for point in one.rows]
        means = [point.mean if has_place(point.mean, log) else nan for point in one.rows]
        spreads = [_spread(point.std) or 0 for point in one.rows]
        (line,) = axes.plot(x, means, **(_marker(number) | _line(number)), markevery=ceil(len(x) / 12))
        if any(spreads):
            low, high = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.18, linewidth=0)
        artists.append(line)
    return artists


def _spread(std: float | None) -> float | None:
    return std if std is not None and has_place(std, False) else None


def _spots(axes: Axes, series: Sequence[Series]) -> Artists:
    artists: Artists = []
    for one, number in _numbered(series):
        (spot,) = one.rows
        style = {"linestyle": "", "elinewidth": 0.8, "capsize": 2, **_marker(number)}
        artists.append(axes.errorbar(spot.x, spot.y, _spread(spot.y_std), _spread(spot.x_std), **style))
    return artists


def _boxes(axes: Axes, series: Sequence[Series]) -> Artists:
    """Draw boxes with the first on top."""
    black = {"color": "black", "linewidth": 0.8}
    boxes = axes.bxp(
        [_statistics(one) for one in series],
        orientation="horizontal",
        patch_artist=True,
        showmeans=True,
        widths=0.55,
        boxprops={"edgecolor": "black", "linewidth": 0.8},
        medianprops={"color": COLOURS[1], "linewidth": 1.8},
        meanprops={"marker": "D", "markersize": 3.5, "markerfacecolor": "white", "markeredgecolor": "black"},
        flierprops={"marker": ".", "markersize": 3, "markerfacecolor": "0.4", "markeredgecolor": "none"},
        whiskerprops=black,
        capprops=black,
    )
    for one, patch in zip(series, boxes["boxes"], strict=True):
        patch.set_facecolor(SHADES[0] if one.shared else "white")
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    return list(boxes["boxes"])


def _statistics(one: Series) -> dict[str, Any]:
    (box,) = one.rows
    return {
        "whislo": box.whisker_low,
        "q1": box.first_quartile,
        "med": box.median,
        "q3": box.third_quartile,
        "whishi": box.whisker_high,
        "mean": box.mean,
        "fliers": box.beyond,
    }


DRAWERS: Mapping[str, Callable[[Axes, Sequence[Series]], Artists]] = {
    "histogram": _histograms,
    "line": _curves,
    "box": _boxes,
    "scatter": _spots,
}
