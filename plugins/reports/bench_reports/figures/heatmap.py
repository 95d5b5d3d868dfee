"""Heat maps: their data from a run, their layout and their drawing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isfinite, log
from typing import TYPE_CHECKING, Any

from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Number
from bench_reports.content.numbers import rounded
from bench_reports.content.sorting import applicable, why_missing
from bench_reports.figures.figure_data import (
    FigureData,
    Picture,
    Series,
    Tile,
    has_place,
    one_of_each_seed,
    with_unit,
)  # fmt: skip
from bench_reports.figures.naming import NARROW
from bench_reports.statistics.intervals import summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW, HEAD = 0.36, 0.85  # inches of a row, and of what stands above and below
LABELS = 0.35  # of the width, at most, for the names of rows
EDGES = 0.4  # inches, of the width
LETTER = 0.6  # of a letter's size, its width
SMALLEST, READABLE, USUAL = 2.0, 5.0, 8.0  # points
SHORTENED = "Numbers are shortened to be read at this size; all digits, and deviations over seeds, are in the CSV."
PALEST, DARKEST = 0.08, 0.92  # of the scale of colours, on which nothing is white
DARK = 0.55  # of it, from where on letters are white


def heat_picture(data: FigureData) -> Picture:
    """Return a series for each row, a tile in it for each column; raise SuiteError where two groups share a place."""
    figure = data.figure
    if figure.value not in data.run.suite.metrics:
        raise SuiteError(f"the run does not measure {figure.value}.")
    number = data.number(figure.value)
    groups = {place: one_of_each_seed(own) for place, own in data.grouped(data.cells, [figure.x, figure.y]).items()}
    ranks = [data.order(figure.sides[text]) for text in (figure.x, figure.y)]
    columns, rows = (sorted({place[way] for place in groups}, key=ranks[way].__getitem__) for way in (0, 1))
    tiles = {place: _tile(data, figure.called(place[0]), cells) for place, cells in groups.items()}
    of_rows = {row: [tiles.get((column, row), Tile(figure.called(column))) for column in columns] for row in rows}
    series = [Series(figure.called(row), own, max(tile.seeds for tile in own)) for row, own in of_rows.items()]
    series = series if any(one.seeds for one in series) else []
    notes, title = [*_notes(series, figure.scale == "log")], with_unit(figure.called(figure.value), number)
    x, y = data.axis_label("x"), data.axis_label("y")
    picture = Picture(figure, series, x, y, {figure.value: number}, notes, title=title)
    if series and _writing(series, number.digits, Layout(picture, NARROW))[0] is not _words:
        picture = replace(picture, notes=[*notes, SHORTENED])
    return picture


def _tile(data: FigureData, column: str, cells: Sequence[CellResult]) -> Tile:
    """Average over seeds, and note those without a number."""
    metric, values, missing = data.figure.value, list[float](), list[CellResult]()
    for one in applicable(data.run, cells, metric):
        value = one.numbers.get(metric, Number()).value
        if value is not None:
            values.append(value)
        else:
            data.leave_out(one, why_missing(one, metric))
            missing.append(one)
    if values:
        found = summary(values)
        return Tile(column, found.mean, found.std, found.n, "done")
    failed = any(one.status == "failed" for one in missing)
    return Tile(column, status="failed" if failed else "not run" if missing else "none")


def _notes(series: Sequence[Series], logarithmic: bool) -> Iterator[str]:
    """Yield what colours mean, and what readers must know of places without a number, or without a colour."""
    yield f"The darker, the higher{', by the logarithm' if logarithmic else ''}."
    tiles = [tile for one in series for tile in one.rows]
    lacking = sum(tile.status == "none" for tile in tiles)
    if lacking:
        yield f"–: {lacking:,} of {len(tiles):,} places have no cell that tells it."
    white = [tile for tile in tiles if tile.mean is not None and not has_place(tile.mean, logarithmic)]
    if white:
        why = "infinite, undefined, or not above 0" if logarithmic else "infinite or undefined"
        yield f"{len(white):,} of {len(tiles):,} places have a number without a colour ({why})."


class Layout:
    """How large a heat map is, in inches, and how its names are written."""

    def __init__(self, picture: Picture, letter: float) -> None:
        self.rows = [one.label for one in picture.series]
        self.columns = [tile.x for tile in picture.series[0].rows]
        self.width = picture.figure.inches
        self.room = LABELS * self.width  # for the name of a row, or of a column that leans
        side = min(self.room, letter * max(map(len, self.rows)))
        self.tile = (self.width - side - EDGES) / len(self.columns)
        longest = letter * max(map(len, self.columns))
        self.leaning = longest > self.tile
        self.height = HEAD + ROW * len(self.rows) + (0.75 * min(self.room, longest) if self.leaning else 0)


def draw_tiles(axes: Axes, picture: Picture, layout: Layout, names: tuple[Sequence[str], Sequence[str]]) -> None:
    """Draw a matrix with its first row on top; `names` are those of columns and rows as they are to be drawn."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    colours, logarithmic = colormaps["Blues"], picture.figure.scale == "log"
    digits = picture.numbers[picture.figure.value].digits
    write, size = _writing(picture.series, digits, layout)
    words = [[write(tile, digits) for tile in one.rows] for one in picture.series]
    means = [tile.mean for one in picture.series for tile in one.rows if tile.mean is not None]
    place = _shades(means, logarithmic)
    for row, one in enumerate(picture.series):
        for column, tile in enumerate(one.rows):
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
    """Return what places numbers between the palest colour and the darkest; None for one that has no place there."""
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
    """Return the mean, with the deviation below it, or why there is none."""
    if tile.mean is None:
        return "–" if tile.status == "none" else tile.status
    return rounded(tile.mean, digits) + ("" if tile.std is None else f"\n± {rounded(tile.std, digits)}")


def _mean_alone(tile: Tile, digits: int) -> str:
    return _words(tile._replace(std=None), digits)


def _two_digits(tile: Tile, digits: int) -> str:
    """Return the mean as a whole number or with two digits that count, whichever is shorter, or why there is none."""
    if tile.mean is None or not isfinite(tile.mean):
        return _mean_alone(tile, digits)
    short = re.sub(r"e([+-])0*", lambda sign: f"e{sign[1].strip('+')}", f"{tile.mean:.2g}").replace("-", "−")
    whole = rounded(tile.mean, 0) if abs(tile.mean) >= 100 else short
    return min(_mean_alone(tile, digits), whole, short, key=len)


def _writing(series: Sequence[Series], digits: int, layout: Layout) -> tuple[Callable[[Tile, int], str], float]:
    """Return how numbers are written to be legible, in full, without deviations or shortened, and their size."""
    for write in (_words, _mean_alone, _two_digits):
        size = _size([write(tile, digits) for one in series for tile in one.rows], layout)
        if size >= READABLE:
            break
    return write, size


def _size(words: Sequence[str], layout: Layout) -> float:
    """Return the size of letters at which every text fits into its tile, in points."""
    longest = max(len(line) for text in words for line in text.split("\n"))
    lines = max(text.count("\n") + 1 for text in words)
    wide, high = 72 * 0.9 * layout.tile / (LETTER * longest), 72 * 0.9 * ROW / (1.25 * lines)
    return max(SMALLEST, min(USUAL, wide, high))
