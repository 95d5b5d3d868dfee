"""Digits of the numbers in a table: two significant digits of the median standard error of their metric."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import floor, isfinite, log10, sqrt
from statistics import median

from bench_reports.content.grid import Column, Grid, GridEntry
from bench_reports.content.sorting import by_key

SIGNIFICANT = 2  # digits of a standard error
NORMAL = 2 * 1.96  # width of a 95 % interval in standard errors


def with_digits(grid: Grid) -> Grid:
    """Return a table with the declared digits, or digits derived from standard errors.

    All columns of a metric have the digits of its most precise column.
    """
    if grid.table.of != "results":
        return grid
    digits = [(_metric(column), _digits(grid, place, column)) for place, column in enumerate(grid.columns)]
    by_metric = by_key((metric, count) for metric, count in digits if count is not None)
    most = {metric: max(counts) for metric, counts in by_metric.items()}
    columns = [
        replace(column, number=replace(column.number, digits=most.get(_metric(column), column.number.digits)))
        for column in grid.columns
    ]
    return replace(grid, columns=columns)


def _metric(column: Column) -> tuple[str, ...]:
    """Return the key of columns that show the same metric."""
    return column.value, column.number.kind, column.number.signature, "ranks" if column.of == "ranks" else ""


def _digits(grid: Grid, place: int, column: Column) -> int | None:
    """Return the digits of a column; None if its standard errors are unknown."""
    default, declared = column.number.digits, grid.table.digits
    digits = declared.get(column.value) if isinstance(declared, dict) else declared
    if column.of == "ranks":
        return default
    if digits is not None:
        return digits
    errors = [error for error in _errors(row[place] for row in grid.entries) if error > 0 and isfinite(error)]
    return worth(errors, default) if errors else None


def worth(errors: Iterable[float], default: int) -> int:
    """Return the decimal places for numbers with these standard errors, at most the metric's `default`.

    They follow the median error, so that one small error does not lengthen all numbers.
    """
    positive = [error for error in errors if error > 0 and isfinite(error)]
    return max(0, min(default, SIGNIFICANT - 1 - floor(log10(median(positive))))) if positive else default


def _errors(entries: Iterable[GridEntry]) -> Iterator[float]:
    for entry in entries:
        if entry.interval:
            yield (entry.interval[1] - entry.interval[0]) / NORMAL
        elif entry.summary and entry.summary.std is not None:
            yield entry.summary.std / sqrt(entry.summary.n)
        yield entry.error
