"""Name the series of a figure: at the ends of lines or at points where the names fit, otherwise in a legend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_core.terminal import visible
from bench_reports.figures.placing import Box, Position, along, beside_points, spread_out
from bench_reports.figures.style import SMALL, TEXT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

LETTER = 0.57 * TEXT / 72  #: inches of an average character of a label
NARROW = 0.56 * SMALL / 72  #: inches of an average character of a legend or at a tick
HANDLE, LEADING = 0.45, 0.148  #: inches in a legend: around a name, and of a line
NAME_OFFSET = 4.0  # points from the end of a line to its name
RIGHT_EDGE = 0.9  # share of the width of an axis beyond which a line counts as ending at the right
MAX_NAME_WIDTH = 0.34  # share of the width of a figure, for names of lines
RADIUS = 3.2  # points of a mark and the space around it
MAX_SHIFT = 1.5  # heights of a name, from the end of its line

#: The end of a line, or a point, in pixels; its name, and the colour of the name
End: TypeAlias = tuple[Position, str, str]
#: The points of a line in data coordinates; its name, and the colour of the name
Line: TypeAlias = tuple[Sequence[Position], str, str]


def plain(text: str, inches: float, letter: float = LETTER) -> str:
    """Return text to be drawn verbatim, truncated at its end if it does not fit.

    Dollar signs start no mathematics; characters that SVG cannot hold are replaced.
    """
    return _escape_dollars(_at_end(_sanitize(text), _letters(inches, letter)))


def distinct(names: Sequence[str], inches: float, letter: float = LETTER) -> list[str]:
    """Return names as `plain` does, kept distinct by truncating them at the end or elsewhere, or by numbers."""
    shown, most = [_sanitize(name) for name in names], _letters(inches, letter)
    long = [name for name in shown if len(name) > most]
    start = len([*takewhile(lambda letters: len({*letters}) == 1, zip(*long, strict=False))])
    for cut in (_at_end, _in_the_middle, _at_start, lambda name, most: _at_end(f"…{name[start:]}", most)):
        shortened = [cut(name, most) if len(name) > most else name for name in shown]
        if len({*shortened}) == len({*shown}):
            return [*map(_escape_dollars, shortened)]
    return [_escape_dollars(_at_end(f"{turn} {name}", most)) for turn, name in enumerate(shown, 1)]


def _sanitize(text: str) -> str:
    return re.sub(r"[\ufffe\uffff]", "�", visible(text))


def _escape_dollars(text: str) -> str:
    return text.replace("$", r"\$")


def _letters(inches: float, letter: float) -> int:
    return max(8, int(inches / letter))


def _at_end(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _in_the_middle(text: str, most: int) -> str:
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[-end:]}"


def _at_start(text: str, most: int) -> str:
    return f"…{text[1 - most :]}"


def fitting(canvas: Canvas, names: Sequence[str], inches: float, size: float) -> list[str]:
    """Return names as `distinct` does, none wider than `inches`, measured by their rendered widths."""
    room = inches
    while True:
        shortened = distinct(names, room)
        widest = max((_size(canvas, name, size)[0] for name in shortened), default=0.0)
        if widest <= inches * canvas.dpi or room < inches / 3:
            return shortened
        room *= 0.95


def wrap_label(text: str, inches: float) -> str:
    """Return the label of a y axis, in two lines if it is longer than the axis."""
    lines = wrap(visible(text), _letters(inches, LETTER)) or [""]
    return "\n".join(plain(line, inches) for line in [lines[0], " ".join(lines[1:])] if line)


def name_ends(canvas: Canvas, axes: Axes, lines: Sequence[Line]) -> bool:
    """Write the names of lines at their ends, and return True; if they do not fit, write nothing and return False.

    Names of lines that end at the right are placed next to the axes, in the order of the lines; others inside.
    """
    canvas.draw_without_rendering()
    frame = axes.get_window_extent()
    drawn = [([_pixels(axes, place) for place in places], name, ink) for places, name, ink in lines]
    right = [(way[-1], name, ink) for way, name, ink in drawn if way[-1][0] >= frame.x0 + RIGHT_EDGE * frame.width]
    early = [(way[-1], name, ink) for way, name, ink in drawn if way[-1][0] < frame.x0 + RIGHT_EDGE * frame.width]
    heights = _heights(canvas, right, frame)
    ways = [box for way, _, _ in drawn for box in along(way, RADIUS * canvas.dpi / 72, RADIUS / 2 * canvas.dpi / 72)]
    corners = _corners(canvas, early, frame, ways)
    if heights is None or None in corners:
        return False
    for height, (_, name, ink) in zip(heights, right, strict=True):
        place = 1.0, (height - frame.y0) / frame.height
        text = axes.annotate(name, place, (NAME_OFFSET, 0), "axes fraction", "offset points", annotation_clip=False)
        text.set(size=SMALL, color=ink, va="center")
    _write_within(axes, early, corners, frame)
    return True


def _heights(canvas: Canvas, ends: Sequence[End], frame: Any) -> list[float] | None:
    """Return the heights of names next to the axes; None if they do not fit."""
    if not ends:
        return []
    sizes = [_size(canvas, name) for _, name, _ in ends]
    height = 1.12 * max(size[1] for size in sizes)
    heights = spread_out([y for (_, y), _, _ in ends], height, frame.y0 + height / 2, frame.y1)
    if heights is None or max(size[0] for size in sizes) > MAX_NAME_WIDTH * canvas.bbox.width:
        return None
    near = all(abs(place - y) <= MAX_SHIFT * height for place, ((_, y), _, _) in zip(heights, ends, strict=True))
    return heights if near else None


def name_points(
    canvas: Canvas, axes: Axes, points: Sequence[tuple[Position, str, str]], ways: Sequence[Sequence[Position]],
    some: bool = False,
) -> bool:  # fmt: skip
    """Write names next to points, and return True; if not all fit, write nothing and return False.

    Names avoid `ways`, such as lines between points and error bars. With `some`, they may overlap `ways` if every
    name then has a place; otherwise, only names that have a place are written.
    """
    axes.margins(x=0.1, y=0.1)
    canvas.draw_without_rendering()
    ends = [(_pixels(axes, place), name, ink) for place, name, ink in points]
    frame, radius = axes.get_window_extent(), RADIUS / 2 * canvas.dpi / 72
    drawn = [box for way in ways for box in along([_pixels(axes, place) for place in way], 2 * radius, radius / 2)]
    corners = _corners(canvas, ends, frame, drawn)
    if None in corners and not some:
        return False
    if None in corners and None not in (crossing := _corners(canvas, ends, frame, ())):
        corners = crossing
    _write_within(axes, ends, corners, frame)
    return True


def _corners(canvas: Canvas, ends: Sequence[End], frame: Any, obstacles: Sequence[Box]) -> list[Position | None]:
    sizes = [_size(canvas, name) for _, name, _ in ends]
    bounds = Box(frame.x0, frame.y0, frame.x1, frame.y1)
    line_ends = {end for end, _, _ in ends}
    others = [box for box in obstacles if not any(box.overlaps(Box(x, y, x + 1, y + 1)) for x, y in line_ends)]
    return beside_points([end for end, _, _ in ends], sizes, bounds, RADIUS * canvas.dpi / 72, others)


def _write_within(axes: Axes, ends: Sequence[End], corners: Sequence[Position | None], frame: Any) -> None:
    for corner, (_, name, ink) in zip(corners, ends, strict=True):
        if corner is None:
            continue
        place = (corner[0] - frame.x0) / frame.width, (corner[1] - frame.y0) / frame.height
        axes.annotate(name, place, xycoords="axes fraction", size=SMALL, color=ink, va="bottom", in_layout=False)


def _pixels(axes: Axes, place: Position) -> Position:
    x, y = axes.transData.transform(place)
    return float(x), float(y)


def _size(canvas: Canvas, name: str, points: float = SMALL) -> Position:
    """Return the width and height of a name in pixels."""
    text = canvas.text(0, 0, name, size=points)
    box = text.get_window_extent()
    text.remove()
    return float(box.width), float(box.height)


def add_legend(canvas: Canvas, artists: Sequence[Any], labels: Sequence[str]) -> None:
    """Add a legend above the panels, and increase the height of the figure by the legend's height."""
    width, height = canvas.get_size_inches()
    columns = columns_of(labels, width)
    canvas.set_size_inches(width, height + LEADING * ceil(len(labels) / columns) + 0.05)
    canvas.legend(artists, labels, loc="outside upper center", ncols=columns)


def columns_of(labels: Sequence[str], width: float) -> int:
    """Return the number of columns that makes a legend as low as possible; columns are filled one after the other."""
    for columns in range(len(labels), 1, -1):
        rows = ceil(len(labels) / columns)
        longest = (max(map(len, labels[start : start + rows])) for start in range(0, len(labels), rows))
        if sum(letters * NARROW + HANDLE for letters in longest) <= width:
            return ceil(len(labels) / rows)
    return 1
