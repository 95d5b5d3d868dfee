"""Draws heat maps: tiles with their numbers in them, so that neither colours nor a key to them need be read."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any

from bench_reports.content.numbers import rounded
from bench_reports.figures.binning import has_place

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bench_reports.figures.figure_data import Picture, Tile

ROW, HEAD = 0.36, 0.85  # inches of a row, and of what stands above and below
LABELS = 0.35  # of the width, at most, for the names of rows
EDGES = 0.4  # inches, of the width
LETTER = 0.6  # of a letter's size, its width
SMALLEST, USUAL = 2.0, 8.0  # points
PALEST, DARKEST = 0.08, 0.92  # of the scale of colours, on which nothing is white
DARK = 0.55  # of it, from where on letters are white
EMPTY = {"none": "–", "failed": "failed", "not run": "not run"}


class Layout:
    """How large a heat map is, in inches, and how its names are written."""

    def __init__(self, picture: Picture, letter: float) -> None:
        self.rows = [one.label for one in picture.series]
        self.columns = [tile.x for tile in picture.series[0].rows]
        self.width = picture.figure.width
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
    words = [[_words(tile, digits) for tile in one.rows] for one in picture.series]
    size = _size([text for line in words for text in line], layout)
    means = [tile.mean for one in picture.series for tile in one.rows if tile.mean is not None]
    shades = _Shades(means, logarithmic)
    for row, one in enumerate(picture.series):
        for column, tile in enumerate(one.rows):
            shade = None if tile.mean is None else shades.of(tile.mean)
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


class _Shades:
    """Places numbers between the palest colour and the darkest."""

    def __init__(self, values: Sequence[float], logarithmic: bool) -> None:
        self.logarithmic = logarithmic
        known = [self._along(value) for value in values if has_place(value, logarithmic)]
        self.low, self.high = (min(known), max(known)) if known else (0.0, 0.0)

    def of(self, value: float) -> float | None:
        """Return the place of a number on the scale of colours; None where it has none."""
        if not has_place(value, self.logarithmic):
            return None
        apart = self.high - self.low
        share = (self._along(value) - self.low) / apart if apart else 0.5
        return PALEST + (DARKEST - PALEST) * share

    def _along(self, value: float) -> float:
        return log(value) if self.logarithmic else value


def _words(tile: Tile, digits: int) -> str:
    """Return the mean, with the deviation below it, or why there is none."""
    if tile.mean is None:
        return EMPTY[tile.status]
    return rounded(tile.mean, digits) + ("" if tile.std is None else f"\n± {rounded(tile.std, digits)}")


def _size(words: Sequence[str], layout: Layout) -> float:
    """Return the size of letters at which every text fits into its tile, in points."""
    longest = max(len(line) for text in words for line in text.split("\n"))
    lines = max(text.count("\n") + 1 for text in words)
    wide, high = 72 * 0.9 * layout.tile / (LETTER * longest), 72 * 0.9 * ROW / (1.25 * lines)
    return max(SMALLEST, min(USUAL, wide, high))
