"""Draw figures as SVG and PDF: deterministic bytes, legible in print, in grey, and for colour-blind readers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain, count, pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

from bench_reports.figures import style
from bench_reports.figures.artists import ARTISTS, draw_spots
from bench_reports.figures.figure_data import Picture, Series, kind_of
from bench_reports.figures.heatmap import HeatmapLayout, draw_tiles
from bench_reports.figures.limits import set_limits
from bench_reports.figures.naming import (
    HANDLE,
    NARROW,
    add_legend,
    distinct,
    fitting,
    name_ends,
    name_points,
    plain,
    wrap_label,
)
from bench_reports.figures.scales import set_places, set_scales, set_ticks, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
ASPECT, MAX_HEIGHT = 0.64, 3.0  # a panel's height relative to its width, and its maximum height in inches
MIN_WIDTH, MIN_HEIGHT = 1.55, 1.3  # inches of a panel next to others
LEFT, BETWEEN = 0.55, 0.12  # inches to the left of panels, and between two
CURVED = ("line", "survival")


def draw(picture: Picture) -> dict[str, bytes]:
    """Return a figure as `svg` and as `pdf`, independent of the user's matplotlib settings."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    drawn = {}
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # characters that the PDF font lacks, axes up to the largest floats
        style.apply()
        canvas = Canvas(layout="constrained")
        canvas_drawer(picture)(canvas, picture)
        for kind, metadata in METADATA.items():
            file = BytesIO()
            canvas.savefig(file, format=kind, metadata=metadata)
            drawn[kind] = file.getvalue()
    return drawn


def canvas_drawer(picture: Picture) -> Callable[[Canvas, Picture], None]:
    """Return the function that draws a figure of this kind on an empty canvas."""
    special = {"heat": _draw_matrix, "box": _draw_boxes}
    plugin_kind = kind_of(picture.figure.kind)
    return plugin_kind.draw if plugin_kind else special.get(picture.figure.kind, _draw_panels)


def _draw_panels(canvas: Canvas, picture: Picture) -> None:
    """Draw a panel for each title, with shared axes, and name the series where the names fit."""
    panels, artists = _panels(canvas, picture), dict[tuple[str, bool], Any]()
    numbers = _numbers(picture.series)
    # lines of such rows are drawn as spots, too
    spots = any(hasattr(row, "y") for group in picture.series for row in group.rows[:1])
    draw_series = draw_spots if spots else ARTISTS[picture.figure.kind]
    room = (picture.figure.inches - LEFT) / _columns(picture) - BETWEEN
    titles = dict(zip(panels, fitting(canvas, [*panels], room, style.TEXT), strict=True))
    for title, axes in panels.items():
        in_panel = [series for series in picture.series if series.panel == title]
        set_scales(axes, picture)
        if picture.figure.panels:
            axes.set_title(titles[title])
        drawn = draw_series(axes, [(series, numbers[series.label, series.shared]) for series in in_panel], picture)
        artists.update(
            {(series.label, series.shared): artist for series, artist in zip(in_panel, drawn, strict=True)}
        )
    set_limits(panels[picture.panels[0]], picture)
    _divide_x(canvas, picture, [*panels.values()])
    if not _name_series(canvas, picture, [*panels.values()], numbers, artists):
        order = sorted(artists, key=lambda name: (name[1], numbers[name]))
        names = distinct([label for label, _ in order], 0.88 * (picture.figure.inches - HANDLE), NARROW)
        add_legend(canvas, [artists[name] for name in order], names)


def _panels(canvas: Canvas, picture: Picture) -> dict[str, Axes]:
    """Return the axes of each panel; only the outer axes are labelled."""
    figure, titles = picture.figure, picture.panels
    columns = _columns(picture)
    rows = ceil(len(titles) / columns)
    width = figure.inches / columns
    height = min(MAX_HEIGHT, max(MIN_HEIGHT, ASPECT * width)) if rows * columns == 1 else max(MIN_HEIGHT, 0.8 * width)
    canvas.set_size_inches(figure.inches, rows * height + (0.2 if figure.panels else 0))
    grid = canvas.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    places = [*grid.flat]
    for place in places[len(titles) :]:
        place.remove()
    for place in places[max(0, len(titles) - columns) : len(titles)]:
        place.xaxis.set_tick_params(labelbottom=True)
    x_label, y_label = plain(picture.x_label, figure.inches), wrap_label(picture.y_label, 0.9 * rows * height)
    if len(titles) == 1:
        places[0].set(xlabel=x_label, ylabel=y_label)
    else:
        canvas.supxlabel(x_label, size=style.TEXT)
        canvas.supylabel(y_label, size=style.TEXT)
    return dict(zip(titles, places, strict=False))


def _columns(picture: Picture) -> int:
    """Return the number of panels side by side, such that rows are about equally long."""
    number, most = len(picture.panels), max(1, int(picture.figure.inches / MIN_WIDTH))
    return ceil(number / ceil(number / most))


def _numbers(series: Sequence[Series]) -> dict[tuple[str, bool], int]:
    """Return the number of each series by its name, the same in all panels; shared series are counted separately."""
    turns = (count(), count())
    return {name: next(turns[name[1]]) for name in dict.fromkeys((group.label, group.shared) for group in series)}


def _divide_x(canvas: Canvas, picture: Picture, panels: Sequence[Axes]) -> None:
    """Set the ticks of the x axis: names, numbers from the suite, or whole numbers."""
    inches = 0.85 * picture.figure.inches / _columns(picture)
    if picture.places:
        names = distinct(picture.places, 1.3, NARROW)
        higher = max(set_places(axes, names, inches) for axes in panels)
        canvas.set_size_inches(picture.figure.inches, canvas.get_size_inches()[1] + higher)
    elif picture.ticks:
        for axes in panels:
            set_ticks(axes, picture.ticks, inches)
    elif picture.figure.history or picture.figure.kind == "survival":
        for axes in panels:
            if axes.get_xscale() == "linear":
                whole_numbers(axes.xaxis)


def _name_series(
    canvas: Canvas, picture: Picture, panels: Sequence[Axes],
    numbers: Mapping[tuple[str, bool], int], artists: Mapping[tuple[str, bool], Any],
) -> bool:  # fmt: skip
    """Write the names of series, or of points, next to them; return whether no legend is needed."""
    figure, needless = picture.figure, len(numbers) == 1
    spots = [*_spot_names(picture, numbers)]
    if len(panels) == 1 and spots and (figure.points or not needless):
        ways = [*_spot_ways(panels[0], picture)]
        has_names = _has_point_names(picture)
        named = name_points(canvas, panels[0], spots, ways, some=has_names)
        return needless or (named and not has_names)
    if len(panels) == 1 and figure.kind in CURVED and not needless:
        known = [(way, name) for name, artist in artists.items() if (way := _line_points(artist))]
        ends = [(way, plain(name[0], figure.inches), style.ink(numbers[name])) for way, name in known]
        return bool(ends) and name_ends(canvas, panels[0], ends)
    return needless


def _spot_names(
    picture: Picture, numbers: Mapping[tuple[str, bool], int]
) -> Iterator[tuple[tuple[float, float], str, str]]:
    """Yield the points of a scatter plot, named by their points or else by their series."""
    has_names = _has_point_names(picture)
    spots = [(group, spot) for group in picture.series for spot in group.rows if hasattr(spot, "point")]
    names = [spot.point if has_names else group.label for group, spot in spots]
    for (group, spot), name in zip(spots, distinct(names, 0.4 * picture.figure.inches), strict=True):
        yield (spot.x, spot.y), name, style.ink(numbers[group.label, group.shared])


def _has_point_names(picture: Picture) -> bool:
    """Return whether points have different names."""
    return len({getattr(spot, "point", "") for group in picture.series for spot in group.rows}) > 1


def _spot_ways(axes: Axes, picture: Picture) -> Iterator[list[tuple[float, float]]]:
    """Yield the lines between points, and their error bars, as far as the axes show them."""
    (left, _), (bottom, _) = axes.get_xlim(), axes.get_ylim()
    for group in picture.series:
        if picture.figure.kind == "line":
            yield [(spot.x, spot.y) for spot in group.rows]
        for spot in group.rows:
            if spot.y_low is not None:
                yield [(spot.x, max(spot.y_low, bottom)), (spot.x, spot.y_high)]
            if spot.x_low is not None:
                yield [(max(spot.x_low, left), spot.y), (spot.x_high, spot.y)]


def _line_points(line: Any) -> list[tuple[float, float]]:
    """Return the points of a drawn line, including the corners of its steps."""
    xs, ys = line.get_xdata(), line.get_ydata()
    places = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True) if y == y]
    if line.get_drawstyle() != "steps-post":
        return places
    corners = ([(x, y), (next_x, y)] for (x, y), (next_x, _) in pairwise(places))
    return [*chain.from_iterable(corners), *places[-1:]]


def _draw_boxes(canvas: Canvas, picture: Picture) -> None:
    """Draw boxes below each other, with their names."""
    width = picture.figure.inches
    canvas.set_size_inches(width, 0.6 + 0.24 * len(picture.series))
    axes = canvas.add_subplot()
    axes.set(xlabel=plain(picture.x_label, 0.8 * width))
    set_scales(axes, picture)
    ARTISTS["box"](axes, [(group, 0) for group in picture.series], picture)
    names = distinct([group.label for group in picture.series], width / 2, NARROW)
    axes.set_yticks(range(1, len(names) + 1), names)


def _draw_matrix(canvas: Canvas, picture: Picture) -> None:
    """Draw a heat map, with the name of its metric above."""
    layout = HeatmapLayout(picture, NARROW)
    canvas.set_size_inches(layout.width, layout.height)
    axes = canvas.add_subplot()
    axes.set(
        xlabel=plain(picture.x_label, 0.8 * layout.width), ylabel=wrap_label(picture.y_label, 0.8 * layout.height)
    )
    axes.set_title(plain(picture.title, 0.8 * layout.width), loc="left", fontsize=style.TEXT)
    room = layout.room if layout.leaning else layout.tile
    columns, rows = distinct(layout.columns, room, NARROW), distinct(layout.rows, layout.room, NARROW)
    draw_tiles(axes, picture, layout, (columns, rows))
