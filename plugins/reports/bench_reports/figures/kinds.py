"""Kinds of figures that plugins add to those of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_core.registry import hook

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from bench_reports.document import Block
    from bench_reports.figures.figure_data import Draft, Picture


@dataclass(frozen=True)
class FigureKind:
    """How figures of a kind are made from a run, drawn, and told in words; what `bench_figure` returns."""

    make: Callable[[Draft], Picture]
    draw: Callable[[Canvas, Picture], None]  # on an empty canvas, whose size it sets
    details: Callable[[Picture], Sequence[Block]]  # such as headings and tables
    seeds: str  # which seeds are shown, for the notes below a figure


def kind_of(name: str) -> FigureKind | None:
    """Return a kind that some plugin brings."""
    found: FigureKind | None = hook().bench_figure(kind=name)
    return found
