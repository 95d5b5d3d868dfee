"""Differences between all pairs of rows of a table, corrected over all pairs in a column."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import exp
from typing import Any

from bench_core.runs.results import Run
from bench_reports.content.grid import Column, Grid, Row
from bench_reports.content.labels import TableLabels
from bench_reports.content.numbers import rounded, signed, stars
from bench_reports.content.result_tables import JOINED, file_of, levels
from bench_reports.content.sorting import by_key
from bench_reports.document import Notes, Span, TableBlock, TableCell, text_cell
from bench_reports.statistics.comparisons import Comparison, all_pairs
from bench_reports.statistics.measurements import printed

MEANING = (
    "Differences (on a log scale ratios, ×) with 95 % intervals; * p < 0.05, ** p < 0.01, Holm-corrected over all "
    "pairs in a column."
)


@dataclass(frozen=True)
class RowPair:
    """Two rows of a column and their test."""

    row: Row
    other: Row
    column: Column
    test: Comparison

    @property
    def difference(self) -> float:
        """The first minus the second number, or their ratio on a log scale."""
        value = self.test.estimate.value
        return exp(value) if self.column.number.scale == "log" else value

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the difference."""
        return printed(self.column.number.scale, self.test.estimate.interval())

    @property
    def text(self) -> str:
        """The difference with its interval and stars, such as `+1.2 [0.3, 2.1]*`."""
        digits, logarithmic = self.column.number.digits, self.column.number.scale == "log"
        digits = max(digits, 3) if logarithmic else digits
        value = f"{rounded(self.difference, digits)}×" if logarithmic else signed(self.difference, digits)
        low, high = (rounded(end, digits) for end in self.interval)
        return f"{value} [{low}, {high}]{stars(self.test.adjusted)}"

    def record(self) -> dict[str, Any]:
        """Return the pair as JSON data."""
        low, high = self.interval
        about = {"row": self.row.label, "other": self.other.label, "column": self.column.label}
        numbers = {"difference": self.difference, "low": low, "high": high}
        return {**about, "value": self.column.value, **numbers, "p": self.test.p, "adjusted": self.test.adjusted}


def pairs_of(grid: Grid) -> Iterator[RowPair]:
    """Yield the comparisons of all pairs of rows with the same examples, if the table has `pairs`."""
    for place, column in enumerate(grid.columns if grid.table.pairs else ()):
        entries = [(row, entries[place]) for row, entries in zip(grid.rows, grid.entries, strict=True)]
        alike = by_key((entry.sample, (row, measured)) for row, entry in entries if (measured := entry.measured))
        for members in alike.values():
            for test in all_pairs([measured for _, measured in members]):
                row, other = (members[at][0] for at in (test.first, test.other))
                if test.estimate.varies:
                    yield RowPair(row, other, column, test)


def pairs_table(run: Run, grid: Grid) -> TableBlock | None:
    """Return the differences between all pairs of rows as a table; None if there are no comparisons."""
    pairs = {(pair.row.label, pair.other.label, id(pair.column)): pair for pair in pairs_of(grid)}
    columns = [column for column in grid.columns if any(key[2] == id(column) for key in pairs)]
    if not pairs:
        return None
    above, leaves = levels([column.shown or (column.heading,) for column in columns])
    rows = []
    for row, other in combinations(grid.rows, 2):
        cells = [pairs.get((row.label, other.label, id(column))) for column in columns]
        if any(cells):
            rows.append([text_cell(f"{_name(row)} − {_name(other)}"), *map(_cell, cells)])
    name, caption = grid.table.id, f"{grid.table.caption or grid.table.id}: all pairs"
    file = file_of(run, grid.table, f"{name}-pairs", caption, ())
    return TableBlock(
        f"pairs-{name}", f"{name}: all pairs", [TableLabels.of(run, grid.table).corner(), *leaves], rows,
        notes=Notes([MEANING]), above=[["", *level] for level in above], file=file,
    )  # fmt: skip


def _name(row: Row) -> str:
    return JOINED.join(row.shown) or row.label


def _cell(pair: RowPair | None) -> TableCell:
    if pair is None:
        return text_cell("–")
    return TableCell([Span(pair.text)], pair.difference)  # not bold, as plain text would write bold as another star
