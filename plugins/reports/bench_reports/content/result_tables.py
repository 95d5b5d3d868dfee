"""Tables of results, and of their differences from published numbers, as blocks of a document."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from math import isnan
from typing import TypeAlias

from bench_core.runs.results import Run
from bench_core.suites.cells import join
from bench_core.suites.schema import Table as TableSchema
from bench_reports.content.grid import Column, Entry, Grid, Names
from bench_reports.content.numbers import judged, number, ours, printed
from bench_reports.content.page import footnotes, rules
from bench_reports.document import Cell, Notes, Span, Table, TableFile, text_cell

Cells: TypeAlias = Sequence[Sequence[Cell]]


def results_table(run: Run, grid: Grid) -> Table:
    """Return a table of results, with published numbers beside ours."""
    table, digits = grid.table, [column.number.digits for column in grid.columns]
    marks = {reason: f"[{place}]" for place, reason in enumerate(grid.reasons, 1)}
    cells = [[_cell(*pair, marks) for pair in zip(entries, digits, strict=True)] for entries in grid.entries]
    file = TableFile(table.id, f"tab:{table.id}", ": ".join(filter(None, [table.id, table.caption])))
    caption = table.caption or table.id
    return _table(grid, f"table-{table.id}", caption, grid.columns, cells, Notes(footnotes(run, grid)), file)


def differences_table(run: Run, grid: Grid, file_name: str = "") -> Table | None:
    """Return what ours are less the published, and verdicts; None where none stand together."""
    if not (places := _compared(grid)):
        return None
    name, columns = grid.table.id, [grid.columns[place] for place in places]
    cells = [[_difference(entries[place], grid.columns[place]) for place in places] for entries in grid.entries]
    caption = f"{name} beside the published"
    file = TableFile(file_name or f"{name}-published", f"tab:{name}:published", caption)
    return _table(grid, f"beside-{name}", caption, columns, cells, Notes(rules(run, grid)), file)


def files_of_differences(grids: Iterable[Grid]) -> dict[str, str]:
    """Return by the ids of tables what files of their differences are called: as no other file is."""
    filled = [*grids]
    ids, found = {grid.table.id for grid in filled}, dict[str, str]()
    for one in (grid.table.id for grid in filled if _compared(grid)):
        name = f"{one}-published"
        while name in ids or name in found.values():  # of another table, as ids may end so
            name += "-published"
        found[one] = name
    return found


def _compared(grid: Grid) -> list[int]:
    """Return the places of the columns in which ours and the published stand together."""
    return [place for place in range(len(grid.columns)) if any(row[place].comparison for row in grid.entries)]


def _table(
    grid: Grid, name: str, caption: str, columns: Sequence[Column], cells: Cells, notes: Notes, file: TableFile
) -> Table:
    rows = [[text_cell(row.label), *line] for row, line in zip(grid.rows, cells, strict=True)]
    headings, groups = [grid.corner, *(column.heading for column in columns)], _groups(grid.table, columns)
    return Table(name, caption, headings, rows, notes=notes, groups=groups, file=file)


def _cell(entry: Entry, digits: int, footnotes: Mapping[str, str]) -> Cell:
    """Return our number with its marks, and the published one beside it."""
    marks = [] if entry.complete or entry.summary is None else [f"†{entry.summary.n}/{entry.seeds}"]
    marks += [footnotes[reason] for reason in entry.reasons[:1]]
    spans = [Span(ours(entry, digits), "strong" if entry.best else "")]
    spans += [Span(" ".join(marks), "raised", joined=True)] if marks else []
    spans += [Span(printed(entry.published, 0 if entry.text else digits), "small")] if entry.published else []
    return Cell(spans, _value(entry), "" if entry.text else entry.status)


def _value(entry: Entry) -> float | None:
    """Return the number of an entry, unrounded."""
    if entry.text:
        return number(entry.text)
    return None if entry.summary is None or isnan(entry.summary.mean) else entry.summary.mean


def _difference(entry: Entry, column: Column) -> Cell:
    found = entry.comparison
    spans = [Span(judged(found, column.number.digits))]
    return Cell(spans, found.difference, found.verdict) if found else Cell(spans)


def _groups(table: TableSchema, columns: Sequence[Column]) -> list[tuple[str, list[str]]]:
    """Put what neighbouring headings have in common above them; return nothing where no two have anything."""
    groups = []
    for names, members in groupby(_divided(table, columns), lambda one: one[0]):
        same = list(members)
        shared = names if len(same) > 1 else ()
        groups.append((join(*shared), [leaf if shared else column.heading for _, leaf, column in same]))
    return groups if any(text for text, _ in groups) else []


def _divided(table: TableSchema, columns: Sequence[Column]) -> list[tuple[Names, str, Column]]:
    """Return of each column all names but the last, the last with its mark, and the column.

    A heading that only the published table has is divided where it begins as one of ours.
    """
    known = {_names(table, column) for column in columns if column.names is not None} - {()}
    found = []
    for column in columns:
        names = _beginning(column.label, known) if column.names is None else _names(table, column)
        begin = join(*names) + "/" * bool(names)
        found.append((names, column.heading.removeprefix(begin), column))
    return found


def _names(table: TableSchema, column: Column) -> Names:
    """Return all but the last of the names that a label was joined from; where it has no axes, its text up to `/`."""
    if table.of != "results":
        return tuple(filter(None, [column.label.rpartition("/")[0]]))
    names = tuple(filter(None, column.names or ()))
    return names[:-1] if column.label == join(*names) else names


def _beginning(label: str, known: Collection[Names]) -> Names:
    """Return the longest of the groups that a label begins with."""
    found = (names for names in known if label.startswith(join(*names) + "/"))
    return max(found, key=lambda names: (len(join(*names)), names), default=())
