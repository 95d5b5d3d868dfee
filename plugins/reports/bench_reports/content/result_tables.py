"""Document tables of results and of their differences from published numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import TypeAlias

from bench_core.runs.results import Run
from bench_reports.content.grid import Column, Grid, GridEntry, Names
from bench_reports.content.labels import TableLabels
from bench_reports.content.numbers import comparison_text, number, ours, printed, signed, stars
from bench_reports.content.table_notes import content, details, footnotes, rules
from bench_reports.document import Notes, Span, TableBlock, TableCell, TableFile, text_cell
from bench_reports.language.figure_schema import WIDTHS
from bench_reports.language.schema import Table as TableSchema

Cells: TypeAlias = Sequence[Sequence[TableCell]]
JOINED = ", "  # between the names of a row
BESIDE = " beside the published"  #: follows the id of a table in the heading of its differences


def results_table(run: Run, grid: Grid) -> TableBlock:
    """Return a table of results, with published numbers next to ours."""
    table, digits = grid.table, [column.number.digits for column in grid.columns]
    marks = {reason: f"[{place}]" for place, reason in enumerate(grid.reasons, 1)}
    cells = [
        [_cell(entry, number, table, marks) for entry, number in zip(entries, digits, strict=True)]
        for entries in grid.entries
    ]
    file = file_of(run, table, table.id, table.caption or table.id, details(run, grid))
    notes = Notes(footnotes(run, grid))
    block = _table(run, grid, f"table-{table.id}", table.caption or table.id, grid.columns, cells, notes, file)
    return replace(block, description=content(run, grid))


def file_of(run: Run, table: TableSchema, name: str, caption: str, remarks: Sequence[str]) -> TableFile:
    """Return the file of a table; its label names the suite, because a paper may include tables of several suites."""
    width = WIDTHS.get(str(table.width)) or float(table.width)
    label = f"tab:{run.info.get('label') or run.suite.suite}:{name}"
    return TableFile(name, label, caption, width, table.width == "column", remarks)


def differences_table(run: Run, grid: Grid, file_name: str = "") -> TableBlock | None:
    """Return a table of differences, ours minus published, with verdicts; None if nothing is comparable."""
    if not (places := _comparable_columns(grid)):
        return None
    name, columns = grid.table.id, [grid.columns[place] for place in places]
    cells = [[_difference(entries[place], grid.columns[place]) for place in places] for entries in grid.entries]
    caption = f"{grid.table.caption or name}: differences from the published numbers"
    file = file_of(run, grid.table, file_name or f"{name}-published", caption, ())
    return _table(run, grid, f"beside-{name}", f"{name}{BESIDE}", columns, cells, Notes(rules(run, grid)), file)


def files_of_differences(grids: Iterable[Grid]) -> dict[str, str]:
    """Return unique file names for the differences of tables, by table id."""
    filled = [*grids]
    ids, names = {grid.table.id for grid in filled}, dict[str, str]()
    for table_id in (grid.table.id for grid in filled if _comparable_columns(grid)):
        name = f"{table_id}-published"
        while name in ids or name in names.values():  # another table may have this id
            name += "-published"
        names[table_id] = name
    return names


def _comparable_columns(grid: Grid) -> list[int]:
    """Return the indices of the columns that compare our numbers with published numbers."""
    return [place for place in range(len(grid.columns)) if any(row[place].comparison for row in grid.entries)]


def _table(
    run: Run,
    grid: Grid,
    name: str,
    caption: str,
    columns: Sequence[Column],
    cells: Cells,
    notes: Notes,
    file: TableFile,
) -> TableBlock:
    """Return a table with row and column labels, transposed if the declaration says so."""
    parts = [row.shown or (row.label,) for row in grid.rows]
    headings = [column.shown or (column.heading,) for column in columns]
    corner, lines = TableLabels.of(run, grid.table).corner(), [[*row] for row in cells]
    if grid.table.transpose:
        parts, headings = headings, parts
        lines = [[*column] for column in zip(*lines, strict=True)]
    above, leaves = levels(headings)
    rows = [[text_cell(JOINED.join(part)), *line] for part, line in zip(parts, lines, strict=True)]
    return TableBlock(
        name, caption, [corner, *leaves], rows, notes=notes, above=[["", *level] for level in above],
        within=[(JOINED.join(part[:-1]), part[-1]) for part in parts], file=file,
    )  # fmt: skip


def levels(headings: Sequence[Names]) -> tuple[list[list[str]], list[str]]:
    """Return the headings above the column headings, the widest first, and the column headings."""
    depth = max(map(len, headings), default=1)
    padded = [[*[""] * (depth - len(names)), *names] for names in headings]
    return [[names[level] for names in padded] for level in range(depth - 1)], [names[-1] for names in padded]


def _cell(entry: GridEntry, digits: int, table: TableSchema, footnotes: Mapping[str, str]) -> TableCell:
    """Return our number with its marks, its difference from the baseline, and the published number."""
    marks = [] if entry.complete or entry.summary is None else [f"†{entry.summary.n}/{entry.seeds}"]
    marks += [footnotes[reason] for reason in entry.reasons[:1]]
    if table.baseline and entry.change is None and (mark := stars(entry.p)):
        marks.append(mark)
    spans = [Span(ours(entry, digits, table.spread), "strong" if entry.best else "")]
    spans += [Span(" ".join(marks), "raised", joined=True)] if marks else []
    if entry.change is not None and not isnan(entry.change):
        spans.append(Span(f"({signed(entry.change, digits)}{stars(entry.p)})"))
    spans += [Span(printed(entry.published, 0 if entry.text else digits), "small")] if entry.published else []
    return TableCell(spans, _value(entry), "" if entry.text else entry.status)


def _value(entry: GridEntry) -> float | None:
    """Return the unrounded number of an entry."""
    if entry.text:
        return number(entry.text)
    return None if entry.summary is None or isnan(entry.summary.mean) else entry.summary.mean


def _difference(entry: GridEntry, column: Column) -> TableCell:
    comparison = entry.comparison
    spans = [Span(comparison_text(comparison, column.number.digits))]
    return TableCell(spans, comparison.difference, comparison.verdict) if comparison else TableCell(spans)
