"""Heat maps: their data from a run, their layout and their drawing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isfinite, log
from typing import TYPE_CHECKING, Any

from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Score
from bench_reports.content.numbers import rounded
from bench_reports.content.sorting import applicable, why_missing
from bench_reports.figures.figure_data import (
    FigureData,
    Picture,
    Series,
    Tile,
    check_unique_seeds,
    has_place,
    with_unit,
)  # fmt: skip
from bench_reports.figures.naming import NARROW
from bench_reports.statistics.intervals import summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW, HEAD = 0.36, 0.85  # inches of a row, and above and below all rows
MAX_LABEL_SHARE = 0.35  # share of the width for the names of rows
EDGES = 0.4  # inches of the width
LETTER = 0.6  # width of a character relative to its size
MIN_SIZE, MIN_LEGIBLE_SIZE, MAX_SIZE = 2.0, 5.0, 8.0  # points
SHORTENED = "Numbers are shortened to be legible; all digits, and standard deviations over seeds, are in the CSV."
PALEST, DARKEST = 0.08, 0.92  # shades of the colour scale that are used; none is white
DARK = 0.55  # shade of the colour scale from which on text is white


def heat_picture(data: FigureData) -> Picture:
    """Return a series for each row, with a tile for each column; raise SuiteError where two groups share a place."""
    figure = data.figure
    if figure.value not in data.run.suite.metrics:
        raise SuiteError(f"the run does not measure {figure.value}.")
    number = data.number(figure.value)
    groups = {
        place: check_unique_seeds(cells) for place, cells in data.group(data.cells, [figure.x, figure.y]).items()
    }
    ranks = [data.order(figure.sides[text]) for text in (figure.x, figure.y)]
    columns, rows = (sorted({place[way] for place in groups}, key=ranks[way].__getitem__) for way in (0, 1))
    tiles = {place: _tile(data, figure.label_of(place[0]), cells) for place, cells in groups.items()}
    of_rows = {row: [tiles.get((column, row), Tile(figure.label_of(column))) for column in columns] for row in rows}
    series = [
        Series(figure.label_of(row), row_tiles, max(tile.seeds for tile in row_tiles))
        for row, row_tiles in of_rows.items()
    ]
    series = series if any(row.seeds for row in series) else []
    notes, title = [*_notes(series, figure.scale == "log")], with_unit(figure.label_of(figure.value), number)
    x, y = data.axis_label("x"), data.axis_label("y")
    picture = Picture(figure, series, x, y, {figure.value: number}, notes, title=title)
    if series and _writing(series, number.digits, HeatmapLayout(picture, NARROW))[0] is not _words:
        picture = replace(picture, notes=[*notes, SHORTENED])
    return picture


def _tile(data: FigureData, column: str, cells: Sequence[CellResult]) -> Tile:
    """Return the mean over seeds, and note cells without a number."""
    metric, values, missing = data.figure.value, list[float](), list[CellResult]()
    for result in applicable(data.run, cells, metric):
        value = result.numbers.get(metric, Score()).value
        if value is not None:
            values.append(value)
        else:
            data.leave_out(result, why_missing(result, metric))
            missing.append(result)
    if values:
        moments = summary(values)
        return Tile(column, moments.mean, moments.std, moments.n, "done")
    failed = any(result.status == "failed" for result in missing)
    return Tile(column, status="failed" if failed else "not run" if missing else "none")


def _notes(series: Sequence[Series], logarithmic: bool) -> Iterator[str]:
    """Yield notes on the colours, and on tiles without a number or without a colour."""
    yield f"Darker tiles have higher values{' (log scale)' if logarithmic else ''}."
    tiles = [tile for row in series for tile in row.rows]
    missing = sum(tile.status == "none" for tile in tiles)
    if missing:
        yield f"–: {missing:,} of {len(tiles):,} tiles have no cell with this metric."
    white = [tile for tile in tiles if tile.mean is not None and not has_place(tile.mean, logarithmic)]
    if white:
        why = "infinite, undefined, or not above 0" if logarithmic else "infinite or undefined"
        yield f"{len(white):,} of {len(tiles):,} tiles have a number but no colour ({why})."


class HeatmapLayout:
    """The size of a heat map in inches, and the layout of its names."""

    def __init__(self, picture: Picture, letter: float) -> None:
        self.rows = [row.label for row in picture.series]
        self.columns = [tile.x for tile in picture.series[0].rows]
        self.width = picture.figure.inches
        self.room = MAX_LABEL_SHARE * self.width  # inches for the name of a row, or of a slanted column
        side = min(self.room, letter * max(map(len, self.rows)))
        self.tile = (self.width - side - EDGES) / len(self.columns)
        longest = letter * max(map(len, self.columns))
        self.leaning = longest > self.tile
        self.height = HEAD + ROW * len(self.rows) + (0.75 * min(self.room, longest) if self.leaning else 0)


def draw_tiles(
    axes: Axes, picture: Picture, layout: HeatmapLayout, names: tuple[Sequence[str], Sequence[str]]
) -> None:
    """Draw a matrix with its first row on top; `names` are the column and row names as they are drawn."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    colours, logarithmic = colormaps["Blues"], picture.figure.scale == "log"
    digits = picture.numbers[picture.figure.value].digits
    write, size = _writing(picture.series, digits, layout)
    words = [[write(tile, digits) for tile in series.rows] for series in picture.series]
    means = [tile.mean for series in picture.series for tile in series.rows if tile.mean is not None]
    place = _shades(means, logarithmic)
    for row, series in enumerate(picture.series):
        for column, tile in enumerate(series.rows):
            shade = None if tile.mean is None else place(tile.mean)
            face = "white" if shade is None else colours(shade)
            ink = "0.4" if tile.mean is None else ("white" if shade is not None and shade > DARK else "black")
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=face, edgecolor="0.8", linewidth=0.5))
            axes.text(column, row, words[row][column], size=size, color=ink, ha="center", va="center")
    axes.set(xlim=(-0.5, len(names[0]) - 0.5), ylim=(len(names[1]) - 0.5, -0.5))
    lean: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if layout.leaning else {}
    axes.set_xticks(range(len(names[0])), names[0], **lean)
    axes.set_yticks(range(len(names[1])), names[1])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _shades(values: Sequence[float], logarithmic: bool) -> Callable[[float], float | None]:
    """Return a function from numbers to shades between the palest and the darkest; None for numbers off the scale."""
    along: Callable[[float], float] = log if logarithmic else float
    known = [along(value) for value in values if has_place(value, logarithmic)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)

    def shade(value: float) -> float | None:
        if not has_place(value, logarithmic):
            return None
        share = (along(value) - low) / (high - low) if high > low else 0.5
        return PALEST + (DARKEST - PALEST) * share

    return shade


def _words(tile: Tile, digits: int) -> str:
    """Return the mean with the standard deviation below it, or the status of a tile without a number."""
    if tile.mean is None:
        return "–" if tile.status == "none" else tile.status
    return rounded(tile.mean, digits) + ("" if tile.std is None else f"\n± {rounded(tile.std, digits)}")


def _mean_alone(tile: Tile, digits: int) -> str:
    return _words(tile._replace(std=None), digits)


def _two_digits(tile: Tile, digits: int) -> str:
    """Return the mean as a whole number or with two significant digits, whichever is shorter, or the status."""
    if tile.mean is None or not isfinite(tile.mean):
        return _mean_alone(tile, digits)
    short = re.sub(r"e([+-])0*", lambda sign: f"e{sign[1].strip('+')}", f"{tile.mean + 0.0:.2g}").replace("-", "−")
    whole = rounded(tile.mean, 0) if abs(tile.mean) >= 100 else short
    return min(_mean_alone(tile, digits), whole, short, key=len)


def _writing(
    series: Sequence[Series], digits: int, layout: HeatmapLayout
) -> tuple[Callable[[Tile, int], str], float]:
    """Return the function that writes numbers legibly (in full, without deviations, or shortened), and their size."""
    for write in (_words, _mean_alone, _two_digits):
        size = _size([write(tile, digits) for row in series for tile in row.rows], layout)
        if size >= MIN_LEGIBLE_SIZE:
            break
    return write, size


def _size(words: Sequence[str], layout: HeatmapLayout) -> float:
    """Return the font size in points at which every text fits into its tile."""
    longest = max(len(line) for text in words for line in text.split("\n"))
    lines = max(text.count("\n") + 1 for text in words)
    wide, high = 72 * 0.9 * layout.tile / (LETTER * longest), 72 * 0.9 * ROW / (1.25 * lines)
    return max(MIN_SIZE, min(MAX_SIZE, wide, high))
