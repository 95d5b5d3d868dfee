"""How many digits the numbers of a table are worth: two of the usual standard error in their column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import floor, isfinite, log10, sqrt
from statistics import median

from bench_reports.content.grid import Column, Entry, Grid

SIGNIFICANT = 2  # digits of a standard error
NORMAL = 2 * 1.96  # standard errors in the width of an interval


def with_digits(grid: Grid) -> Grid:
    """Return a table whose columns have the digits that it declares, or those that its numbers are worth."""
    if grid.table.of != "results":
        return grid
    columns = [_column(grid, place, column) for place, column in enumerate(grid.columns)]
    return replace(grid, columns=columns)


def _column(grid: Grid, place: int, column: Column) -> Column:
    own, declared = column.number.digits, grid.table.digits
    given = declared.get(column.value) if isinstance(declared, dict) else declared
    if column.of == "ranks":
        digits = own
    elif given is not None:
        digits = given
    else:
        digits = worth([*_errors(row[place] for row in grid.entries)], own)
    return replace(column, number=replace(column.number, digits=digits))


def worth(errors: Iterable[float], own: int) -> int:
    """Return the digits after the point for numbers with these standard errors, at most a metric's own.

    Those are for its usual error, the median, so that a number that is sure by chance does not lengthen all others.
    """
    known = [error for error in errors if error > 0 and isfinite(error)]
    return max(0, min(own, SIGNIFICANT - 1 - floor(log10(median(known))))) if known else own


def _errors(entries: Iterable[Entry]) -> Iterator[float]:
    for entry in entries:
        if entry.interval:
            yield (entry.interval[1] - entry.interval[0]) / NORMAL
        elif entry.summary and entry.summary.std is not None:
            yield entry.summary.std / sqrt(entry.summary.n)
        yield entry.error
