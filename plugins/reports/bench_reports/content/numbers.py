"""Formatting and parsing of the numbers in a report, and the digits of a table: two significant ones of errors."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import floor, isfinite, isnan, log10, sqrt
from statistics import median

from bench_reports.content.grid import Column, Grid, GridEntry, PublishedComparison
from bench_reports.content.sorting import by_key
from bench_reports.language.published import Value
from bench_reports.language.published import number as published_number
from bench_reports.statistics.intervals import Summary

NUMBER = re.compile(r"[−+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?(?![\w.:-])")

STARS = ((0.01, "**"), (0.05, "*"))  #: marks of p-values below these
SIGNIFICANT = 2  # digits of a standard error
NORMAL = 2 * 1.96  # width of a 95 % interval in standard errors


def ours(entry: GridEntry, digits: int, spread: str = "std") -> str:
    """Return our value with its `spread`, or its status."""
    if entry.text:
        return entry.text
    if entry.summary is None:
        return "–" if entry.status == "none" else entry.status
    if spread == "std":
        return summary_text(entry.summary, digits)
    if spread == "interval" and entry.apart:
        return f"seeds: {', '.join(rounded(value, digits) for value in entry.apart)}"
    ends = [rounded(end, digits) for end in entry.interval or ()] if spread == "interval" else []
    return rounded(entry.summary.mean, digits) + (f" [{', '.join(ends)}]" if ends else "")


def summary_text(summary: Summary, digits: int) -> str:
    """Return mean and standard deviation, such as `12.35 ± 5.18`."""
    spread = "" if summary.std is None else f" ± {rounded(summary.std, digits)}"
    return rounded(summary.mean, digits) + spread


def comparison_text(comparison: PublishedComparison | None, digits: int) -> str:
    """Return a signed difference with its verdict, such as `+0.12 worse`; without verdict if not comparable."""
    if comparison is None:
        return "–"
    if comparison.verdict == "not comparable":
        return signed(comparison.difference, digits)
    more = f" ({comparison.seeds:,} seeds needed)" if comparison.seeds else ""
    return f"{signed(comparison.difference, digits)} {comparison.verdict}{more}"


def stars(p: float | None) -> str:
    """Return the stars of a p-value: two below 1 %, one below 5 %."""
    return "" if p is None else next((mark for below, mark in STARS if p < below), "")


def signed(value: float, digits: int) -> str:
    """Return a rounded number with its sign; no `+` if all digits are 0."""
    text = rounded(value, digits)
    return f"+{text}" if value > 0 and text.strip("0.") else text


def printed(value: Value, digits: int) -> str:
    """Return a published value with at least its published digits, or its text if it is not a number."""
    mean = published_number(value.mean)
    if mean is None:
        items = value.mean if isinstance(value.mean, list) else [value.mean]
        return ", ".join(str(item).lower() if isinstance(item, bool) else str(item) for item in items)
    digits = max(digits, _decimals(mean), _decimals(value.std or 0.0))
    return summary_text(Summary(mean, value.std, 1), digits)


def rounded(value: float, digits: int) -> str:
    """Return a number with `digits` decimal places; `–` for NaN."""
    if isnan(value):
        return "–"
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):.{digits}{'e' if abs(value) >= 1e10 else 'f'}}"
    return f"−{text}" if value < 0 and float(text) else text


def number(text: str | None) -> float | None:
    """Return the number at the start of a text, such as `1,024` or `−0.5 %`; None if there is none."""
    match = NUMBER.match(text) if text else None
    return float(match[0].replace("−", "-").replace(",", "")) if match else None


def _decimals(value: float) -> int:
    """Return the number of decimal places of a number."""
    return 0 if not isfinite(value) or value == int(value) else len(f"{value:.12f}".rstrip("0").partition(".")[2])


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
