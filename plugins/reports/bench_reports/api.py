"""What plugins that add kinds of figures build on."""

from __future__ import annotations

from bench_core.runs.results import CellResult, Run
from bench_core.suites.cells import join
from bench_core.terminal import visible
from bench_reports.content.sorting import seed_of
from bench_reports.figures.figure_data import Draft, Picture, Series
from bench_reports.figures.kinds import FigureKind
from bench_reports.render.markup import Markup

__all__ = ["CellResult", "Draft", "FigureKind", "Markup", "Picture", "Run", "Series", "join", "seed_of", "visible"]
