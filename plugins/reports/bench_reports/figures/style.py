"""Fonts, lines, colours and marks of figures, at print size."""

from pathlib import Path
from typing import Any

TEXT, SMALL = 8.0, 7.0  #: points: of labels and titles; of ticks, legends and names at lines
# Three colours and black from Tol (2021), whose lightness differs by at least 20, then three that colour-blind
# readers can tell from these and from each other; neighbours also differ in grey.
COLOURS = ("#004488", "#ddaa33", "#bb5566", "#000000", "#66ccee", "#776600", "#cc79a7")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">", "*", "p")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "oooo", "++++", "||||", "oo..", "**")
SHADES = ("0.85", "0.7", "0.55")  #: of series shared by all groups


def apply() -> None:
    """Make matplotlib draw figures for print, overriding all other settings."""
    import matplotlib

    matplotlib.rcdefaults()
    matplotlib.rc_file(Path(__file__).with_name("print.mplstyle"), use_default_template=False)


def colour(number: int) -> str:
    """Return the colour of a series by its number; neighbouring numbers also differ in lightness."""
    return COLOURS[number % len(COLOURS)]


def marker_style(number: int) -> dict[str, Any]:
    """Return the colour and the mark of a series; distinct for 77 series."""
    return {"color": colour(number), "marker": MARKERS[number % len(MARKERS)]}


def dash_style(number: int) -> dict[str, Any]:
    """Return the colour and the dashes of a series; distinct for 35 series."""
    return {"color": colour(number), "linestyle": DASHES[number % len(DASHES)]}


def hatch_style(number: int) -> dict[str, Any]:
    """Return the colour and the hatching of a bar; hatching is white on dark colours."""
    face = colour(number)
    line = "white" if lightness(face) < 0.5 else "black"
    return {"facecolor": face, "hatch": HATCHES[number % len(HATCHES)], "edgecolor": line, "linewidth": 0.5}


def lightness(face: str) -> float:
    """Return the lightness of a colour in a grey print, from 0 (black) to 1 (white)."""
    red, green, blue = (int(face[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


def ink(number: int) -> str:
    """Return the colour of a series, dark enough for text."""
    face = colour(number)
    share = min(1.0, 0.4 / max(lightness(face), 0.01))
    return "#" + "".join(f"{round(int(face[place : place + 2], 16) * share):02x}" for place in (1, 3, 5))
