"""Differences of all pairs of rows of a table, corrected for all pairs of a column together."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import exp
from typing import Any

from bench_core.runs.results import Run
from bench_reports.content.grid import Column, Grid, Row
from bench_reports.content.labels import Labels
from bench_reports.content.numbers import rounded, signed, stars
from bench_reports.content.result_tables import JOINED, file_of, levels
from bench_reports.content.sorting import by_key
from bench_reports.document import Cell, Notes, Span, Table, text_cell
from bench_reports.statistics.comparisons import Comparison, all_pairs
from bench_reports.statistics.measurements import printed

MEANING = (
    "Differences, or on a logarithmic scale ratios (×), with 95 % intervals; * p < 0.05, ** p < 0.01, Holm-corrected "
    "for all pairs of a column."
)


@dataclass(frozen=True)
class Pair:
    """Two rows in a column, and what a test says of them."""

    one: Row
    other: Row
    column: Column
    found: Comparison

    @property
    def difference(self) -> float:
        """Return the first less the second, or their ratio on a logarithmic scale."""
        value = self.found.estimate.value
        return exp(value) if self.column.number.scale == "log" else value

    @property
    def interval(self) -> tuple[float, float]:
        """Return its 95 % interval."""
        return printed(self.column.number.scale, self.found.estimate.interval())

    @property
    def text(self) -> str:
        """Return difference, interval and marks of its p-value, such as `+1.2 [0.3, 2.1]*`."""
        digits, logarithmic = self.column.number.digits, self.column.number.scale == "log"
        digits = max(digits, 3) if logarithmic else digits
        value = f"{rounded(self.difference, digits)}×" if logarithmic else signed(self.difference, digits)
        low, high = (rounded(end, digits) for end in self.interval)
        return f"{value} [{low}, {high}]{stars(self.found.adjusted)}"

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        low, high = self.interval
        about = {"row": self.one.label, "other": self.other.label, "column": self.column.label}
        numbers = {"difference": self.difference, "low": low, "high": high}
        return {**about, "value": self.column.value, **numbers, "p": self.found.p, "adjusted": self.found.adjusted}


def pairs_of(grid: Grid) -> Iterator[Pair]:
    """Yield the comparisons of all pairs of rows of the same examples, if a table asks for them."""
    for place, column in enumerate(grid.columns if grid.table.pairs else ()):
        entries = [(row, entries[place]) for row, entries in zip(grid.rows, grid.entries, strict=True)]
        alike = by_key((entry.sample, (row, own)) for row, entry in entries if (own := entry.measured))
        for known in alike.values():
            for found in all_pairs([own for _, own in known]):
                one, other = (known[at][0] for at in (found.one, found.other))
                if found.estimate.varies:
                    yield Pair(one, other, column, found)


def pairs_table(run: Run, grid: Grid) -> Table | None:
    """Return the differences of all pairs of rows as a table; None where nothing is compared."""
    found = {(pair.one.label, pair.other.label, id(pair.column)): pair for pair in pairs_of(grid)}
    columns = [column for column in grid.columns if any(key[2] == id(column) for key in found)]
    if not found:
        return None
    above, leaves = levels([column.shown or (column.heading,) for column in columns])
    rows = []
    for one, other in combinations(grid.rows, 2):
        cells = [found.get((one.label, other.label, id(column))) for column in columns]
        if any(cells):
            rows.append([text_cell(f"{_name(one)} − {_name(other)}"), *map(_cell, cells)])
    name, caption = grid.table.id, f"{grid.table.caption or grid.table.id}: all pairs"
    file = file_of(run, grid.table, f"{name}-pairs", caption, ())
    return Table(
        f"pairs-{name}", f"{name}: all pairs", [Labels.of(run, grid.table).corner(), *leaves], rows,
        notes=Notes([MEANING]), above=[["", *level] for level in above], file=file,
    )  # fmt: skip


def _name(row: Row) -> str:
    return JOINED.join(row.shown) or row.label


def _cell(pair: Pair | None) -> Cell:
    if pair is None:
        return text_cell("–")
    return Cell([Span(pair.text)], pair.difference)  # not bold, which in plain text is another star
