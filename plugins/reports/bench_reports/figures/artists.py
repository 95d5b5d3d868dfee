"""Draw the series of a panel: bins, lines, bars, boxes, points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, nan
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_reports.figures import style
from bench_reports.figures.figure_data import Picture, Series, has_place
from bench_reports.figures.limits import Cuts, cuts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_MARKS = 10  # marks on a line
MAX_SURVIVAL_MARKS = 6  # marks on a survival curve
GROUP_WIDTH = 0.8  # width of the bars at a name, relative to the distance between names
HALO = 1.9  # points of white around an error bar, to set it off from a dark bar
CUT: Mapping[str, Any] = {"marker": "+", "markersize": 7, "linestyle": "", "clip_on": False, "zorder": 3}

#: A series, and the number that selects its style
Numbered: TypeAlias = Sequence[tuple[Series, int]]
Artists: TypeAlias = list[Any]  # legend handles, one per series


def draw_histograms(axes: Axes, series: Numbered, picture: Picture) -> Artists:
    """Draw outlines; a histogram shared by all groups is filled with grey."""
    artists: Artists = []
    for histogram, number in series:
        edges = [histogram.rows[0].low, *(bar.high for bar in histogram.rows)]
        heights = [bar.percent for bar in histogram.rows]
        shade = {"fill": True, "color": style.SHADES[number % len(style.SHADES)], "zorder": 0.8}
        look = shade if histogram.shared else {**style.dash_style(number), "linewidth": 1.1}
        artists.append(axes.stairs(heights, edges, **look))
    return artists


def draw_lines(axes: Axes, series: Numbered, picture: Picture) -> Artists:
    """Draw lines with bands; a line of a single point has an error bar instead.

    Survival curves are steps, with a mark where outputs were truncated.
    """
    cuts, steps, artists = cuts_of(picture), picture.figure.kind == "survival", list[Any]()
    drawstyle = "steps-post" if steps else "default"
    for curve, number in series:
        xs = [place_on_x(picture, point.x) for point in curve.rows]
        means = _drawable(axes, xs, [point.mean for point in curve.rows])
        every = max(1, ceil(len(xs) / (MAX_SURVIVAL_MARKS if steps else MAX_MARKS)))
        start = (1 + number * every // 3 if steps else number) % every
        look = {**style.marker_style(number), **style.dash_style(number), "drawstyle": drawstyle}
        (line,) = axes.plot(xs, means, **look, markevery=(start, every), zorder=2.5)
        ends = _ends(axes, curve.rows, cuts)
        if not steps and sum(mean == mean for mean in means) == 1:
            _draw_error_bars(axes, xs, means, ends, style.colour(number))
        else:
            _draw_band(axes, xs, ends, style.colour(number), "post" if steps else None)
        cut = [(x, mean) for x, mean, point in zip(xs, means, curve.rows, strict=True) if steps and point.cut]
        if cut:
            (marks,) = axes.plot(*zip(*cut, strict=True), color=style.colour(number), **CUT)
            marks.set_in_layout(False)
        artists.append(line)
    return artists


def draw_bars(axes: Axes, series: Numbered, picture: Picture) -> Artists:
    """Draw bars side by side at each name, from 0, with a dash where there is no number."""
    cuts, artists = cuts_of(picture), list[Any]()
    count = len({number for _, number in series})
    width = GROUP_WIDTH / count
    for rank, (group, number) in enumerate(series):
        xs = [place_on_x(picture, point.x) + (rank + 0.5) * width - GROUP_WIDTH / 2 for point in group.rows]
        means = _drawable(axes, xs, [point.mean for point in group.rows])
        artists.append(axes.bar(xs, means, width, **style.hatch_style(number)))
        _draw_error_bars(axes, xs, means, _ends(axes, group.rows, cuts), "black", halo=True)
        for x, mean in zip(xs, means, strict=True):
            if mean != mean:
                look: dict[str, Any] = {"ha": "center", "size": style.SMALL, "color": "0.4"}
                axes.text(x, 0.02, "–", transform=axes.get_xaxis_transform(), **look)
    return artists


def draw_spots(axes: Axes, series: Numbered, picture: Picture) -> Artists:
    """Draw points with error bars in both directions, joined if the figure is a line."""
    cuts_x, cuts_y, artists = cuts_of(picture, "x"), cuts_of(picture, "y"), list[Any]()
    for group, number in series:
        joined = style.dash_style(number)["linestyle"] if picture.figure.kind == "line" else ""
        look = {"elinewidth": 0.6, **style.marker_style(number), "linestyle": joined, "zorder": 2.5}
        xs, ys = [spot.x for spot in group.rows], [spot.y for spot in group.rows]
        across = _distances(xs, [_cut(spot.x_low, spot.x_high, cuts_x) for spot in group.rows])
        along = _distances(ys, [_cut(spot.y_low, spot.y_high, cuts_y) for spot in group.rows])
        artists.append(axes.errorbar(xs, ys, along, across, **look)[0])
    axes.grid(visible=True, axis="both")
    return artists


def draw_boxes(axes: Axes, series: Numbered, picture: Picture) -> Artists:
    """Draw boxes, the first on top."""
    black = {"color": "black", "linewidth": 0.7}
    statistics = [
        {
            "whislo": box.whisker_low, "q1": box.first_quartile, "med": box.median, "q3": box.third_quartile,
            "whishi": box.whisker_high, "mean": box.mean, "fliers": box.beyond,
        }
        for group, _ in series
        for box in group.rows
    ]  # fmt: skip
    boxes = axes.bxp(
        statistics, orientation="horizontal", patch_artist=True, showmeans=True, widths=0.55,
        boxprops={"edgecolor": "black", "linewidth": 0.7}, medianprops={"color": style.COLOURS[2], "linewidth": 1.6},
        meanprops={"marker": "D", "markersize": 3, "markerfacecolor": "white", "markeredgecolor": "black"},
        flierprops={"marker": ".", "markersize": 2.5, "markerfacecolor": "0.4", "markeredgecolor": "none"},
        whiskerprops=black, capprops=black,
    )  # fmt: skip
    for (group, _), patch in zip(series, boxes["boxes"], strict=True):
        patch.set_facecolor(style.SHADES[0] if group.shared else "white")
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    return list(boxes["boxes"])


def place_on_x(picture: Picture, x: float | str) -> float:
    """Return the position of a number or a name on the x axis."""
    return float(picture.places.index(x)) if isinstance(x, str) else float(x)


def _drawable(axes: Axes, xs: Sequence[float], values: Sequence[float | None]) -> list[float]:
    """Return values, with nan in place of those that the axes cannot show."""
    log_x, log_y = axes.get_xscale() == "log", axes.get_yscale() == "log"
    pairs = zip(xs, values, strict=True)
    return [y if y is not None and has_place(y, log_y) and has_place(x, log_x) else nan for x, y in pairs]


def _ends(axes: Axes, points: Sequence[Any], cuts: Cuts) -> list[tuple[float, float]]:
    """Return the lower and upper ends of bands, cut to the limits in `cuts`; nan where there are no bands."""
    log, known = axes.get_yscale() == "log", (_cut(point.low, point.high, cuts) for point in points)
    return [
        (nan, nan) if low is None or high is None or not has_place(high, log) else (low, high) for low, high in known
    ]


def _cut(low: float | None, high: float | None, cuts: Cuts) -> tuple[float | None, float | None]:
    if low is None or high is None:
        return None, None
    return max(low, cuts.lowest), min(high, cuts.highest)


def _draw_band(axes: Axes, xs: Sequence[float], ends: Sequence[tuple[float, float]], face: str, step: Any) -> None:
    log = axes.get_xscale() == "log"
    known = [(x, *end) for x, end in zip(xs, ends, strict=True) if has_place(x, log)]
    if any(low == low for _, low, _ in known):
        places, lows, highs = zip(*known, strict=True)
        axes.fill_between(places, lows, highs, color=face, alpha=0.17, linewidth=0, step=step)


def _draw_error_bars(
    axes: Axes, xs: Sequence[float], means: Sequence[float], ends: Sequence[tuple[float, float]], ink: str,
    halo: bool = False,
) -> None:  # fmt: skip
    """Draw error bars below marks, or with a halo above bars."""
    from matplotlib.patheffects import withStroke

    every = zip(xs, means, ends, strict=True)
    known = [(x, mean, end) for x, mean, end in every if mean == mean and end[0] == end[0]]
    if known:
        places, intervals = [x for x, _, _ in known], [end for _, _, end in known]
        middles = [min(max(mean, low), high) for _, mean, (low, high) in known]  # a mean of logs is lower
        reach, order = _distances(middles, intervals), 3 if halo else 2.4
        drawn = axes.errorbar(
            places, middles, reach, linestyle="", color=ink, elinewidth=0.7, capthick=0.7, zorder=order
        )
        for part in (*drawn.lines[1], *drawn.lines[2]):
            part.set_path_effects([withStroke(linewidth=HALO, foreground="white")] if halo else [])


def _distances(
    means: Sequence[float], ends: Sequence[tuple[float | None, float | None]]
) -> tuple[list[float], list[float]] | None:
    """Return the lengths of error bars below and above means, nan where there are none; None if no mean has any."""
    if all(low is None for low, _ in ends):
        return None
    return (
        [nan if low is None else max(0.0, mean - low) for mean, (low, _) in zip(means, ends, strict=True)],
        [nan if high is None else max(0.0, high - mean) for mean, (_, high) in zip(means, ends, strict=True)],
    )


ARTISTS: Mapping[str, Callable[[Axes, Numbered, Picture], Artists]] = {
    "histogram": draw_histograms,
    "line": draw_lines,
    "survival": draw_lines,
    "bar": draw_bars,
    "box": draw_boxes,
    "scatter": draw_spots,
}
