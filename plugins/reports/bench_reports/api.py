"""Public names for plugins that add kinds of figures or print tables."""

from typing import Any
from warnings import warn

from bench_core.runs.results import CellResult, Run
from bench_core.suites.cells import join
from bench_core.terminal import visible
from bench_reports.content.sorting import seed_of
from bench_reports.document import Block, Document, Heading, Span, TableBlock, TableCell, text_cell
from bench_reports.figures.figure_data import FigureData, FigureKind, Picture, Series

__all__ = [
    "Block",
    "CellResult",
    "FigureData",
    "FigureKind",
    "Heading",
    "Picture",
    "Run",
    "Series",
    "Span",
    "TableBlock",
    "TableCell",
    "join",
    "seed_of",
    "table_records",
    "tables_latex",
    "tables_text",
    "text_cell",
    "visible",
]  # fmt: skip


_RENAMED = {"Cell": "TableCell", "Table": "TableBlock"}  #: former names; removed in the next release


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    text = f"`{__name__}.{name}` is now called `{_RENAMED[name]}`; the next release removes the old name."
    warn(text, FutureWarning, stacklevel=2)
    return globals()[_RENAMED[name]]


def tables_text(run: Run, width: int) -> str:
    """Return the tables of a run with their notes, for a terminal of `width` columns."""
    from bench_reports.content.tables import grids
    from bench_reports.render.report_document import table_sections
    from bench_reports.render.terminal import terminal_text

    return terminal_text(Document("", [], table_sections(run, grids(run))), width)


def table_records(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Return, by table id, the numbers of each table with intervals and p-values, as in its CSV file."""
    from bench_reports.content.tables import grids
    from bench_reports.render.records import records

    return {grid.table.id: records(grid) for grid in grids(run)}


def tables_latex(run: Run) -> dict[str, str]:
    """Return, by table id, the LaTeX source of each table, as in the table files of a report."""
    from bench_reports.content.tables import grids
    from bench_reports.render.latex import table_files
    from bench_reports.render.report_document import table_sections

    return table_files(Document("", [], table_sections(run, grids(run))))
