"""Public names for plugins that add kinds of figures."""

from __future__ import annotations

from bench_core.runs.results import CellResult, Run
from bench_core.suites.cells import join
from bench_core.terminal import visible
from bench_reports.content.sorting import seed_of
from bench_reports.document import Block, Cell, Heading, Span, Table, text_cell
from bench_reports.figures.figure_data import FigureData, FigureKind, Picture, Series

__all__ = [
    "Block", "Cell", "CellResult", "FigureData", "FigureKind", "Heading", "Picture", "Run", "Series", "Span", "Table",
    "join", "seed_of", "text_cell", "visible",
]  # fmt: skip
