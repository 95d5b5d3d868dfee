"""How many digits the numbers of a table are worth: two of the usual standard error of their metric."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import floor, isfinite, log10, sqrt
from statistics import median

from bench_reports.content.grid import Column, Entry, Grid
from bench_reports.content.sorting import by_key

SIGNIFICANT = 2  # digits of a standard error
NORMAL = 2 * 1.96  # standard errors in the width of an interval


def with_digits(grid: Grid) -> Grid:
    """Return a table whose metrics have the digits that it declares, or those that their numbers are worth.

    All columns of a metric have as many as the one whose numbers are the surest.
    """
    if grid.table.of != "results":
        return grid
    digits = [(_metric(column), _digits(grid, place, column)) for place, column in enumerate(grid.columns)]
    known = by_key((metric, found) for metric, found in digits if found is not None)
    most = {metric: max(found) for metric, found in known.items()}
    columns = [
        replace(one, number=replace(one.number, digits=most.get(_metric(one), one.number.digits)))
        for one in grid.columns
    ]
    return replace(grid, columns=columns)


def _metric(column: Column) -> tuple[str, ...]:
    """Return what columns have in common that show the same metric."""
    return column.value, column.number.kind, column.number.signature, "ranks" if column.of == "ranks" else ""


def _digits(grid: Grid, place: int, column: Column) -> int | None:
    """Return the digits of a column; None if nothing is known of the errors of its numbers."""
    own, declared = column.number.digits, grid.table.digits
    given = declared.get(column.value) if isinstance(declared, dict) else declared
    if column.of == "ranks":
        return own
    if given is not None:
        return given
    errors = [error for error in _errors(row[place] for row in grid.entries) if error > 0 and isfinite(error)]
    return worth(errors, own) if errors else None


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
