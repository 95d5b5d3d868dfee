"""Data classes of a filled table: rows, columns, entries and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench_core.runs.results import CellResult, Score
from bench_reports.language.published import Published, Value
from bench_reports.language.schema import Table
from bench_reports.statistics.intervals import Summary

if TYPE_CHECKING:
    from bench_reports.statistics.estimate import Measured

Names: TypeAlias = tuple[str, ...]
Status: TypeAlias = Literal["done", "failed", "not run", "none"]  # none: undefined or left out on purpose
Verdict: TypeAlias = Literal["equivalent", "better", "worse", "different", "cannot tell", "not comparable"]
Place: TypeAlias = tuple[int, int]  # row and column


@dataclass(frozen=True)
class PublishedComparison:
    """A comparison of our number with the published one."""

    difference: float  # ours - published
    verdict: Verdict  # `different`: the metric has no known direction
    seeds: int | None = None  # needed for a verdict, if there are too few


@dataclass(frozen=True)
class Test:
    """A test of the best number of a column, or of its baseline, against another number."""

    first: Place
    other: Place
    p: float
    adjusted: float  # p-value corrected for all comparisons in the column
    interval: tuple[float, float] | None = None  # of first - other, or of first / other on a log scale
    detectable: float = 0.0  # minimum detectable difference, of logarithms on a log scale
    exchanges: int = 0  # permutations of a permutation test; 0 for other tests


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    label: str
    names: Names | None  # on the row axes; None if only the published table has the row
    shown: Names = ()  # printed labels, one for each name


@dataclass(frozen=True)
class Column:
    """A column of a table: numbers of one metric, of one kind and signature."""

    label: str  # shared by the columns that a column is split into
    names: Names | None  # on the column axes; None if only the published table has the column
    value: str  # the metric
    number: Score = field(default_factory=Score)  # a sample number, for unit, digits, kind and signature
    first: bool = True  # whether it is the first column with its label
    mark: str = ""  # distinguishes columns with the same label
    of: Literal["cells", "average", "ranks"] = "cells"  # source of the numbers: cells, or other columns
    shown: Names = ()  # printed headings, the widest first

    @property
    def heading(self) -> str:
        """The label with its mark, such as `ssm (≤ bound)`."""
        return f"{self.label} ({self.mark})" if self.mark else self.label


@dataclass(frozen=True)
class GridEntry:
    """An entry of a table: the mean over seeds, or the reason why there is none."""

    status: Status
    seeds: int = 0  # expected number of seeds
    summary: Summary | None = None
    fixed: bool = False  # whether it belongs to a fixed system without seeds, such as recorded outputs
    interval: tuple[float, float] | None = None  # of the mean, see `bench_reports.statistics.measurements`
    apart: tuple[float, ...] = ()  # numbers by seed in place of an interval, if training runs differ in kind
    error: float = 0.0  # standard error of sampling within the model
    examples: tuple[int, ...] = ()  # number of examples by seed
    reasons: tuple[str, ...] = ()  # why seeds are missing, without duplicates
    published: Value | None = None
    text: str = ""  # replaces the rounded mean
    comparison: PublishedComparison | None = None  # with the published value
    cells: tuple[CellResult, ...] = ()  # by seed
    #: Reads the measurements for tests on demand, as the bootstrap replicates of all numbers would fill the memory
    measure: Callable[[], tuple[Measured, ...]] = tuple
    untested: str = ""  # why it cannot be tested
    keys: tuple[str, ...] = ()  # measurement keys by seed
    sample: str = ""  # digest of the examples; empty if it differs between seeds
    best: bool = False  # significantly better than all others in its column
    p: float | None = None  # corrected p-value against the best number of the column or the baseline
    change: float | None = None  # difference of the mean from the baseline

    @property
    def measured(self) -> tuple[Measured, ...]:
        """The measurement, or the measurements behind an average; empty if it cannot be tested."""
        return self.measure()

    @property
    def complete(self) -> bool:
        """Whether no seed is missing."""
        return self.summary is None or self.summary.n == self.seeds


@dataclass(frozen=True)
class Grid:
    """A table of a suite with its entries."""

    table: Table
    rows: Sequence[Row]
    columns: Sequence[Column]
    entries: Sequence[Sequence[GridEntry]]  # [rows, columns]
    cells: Sequence[CellResult]  # all cells of the table
    published: Published | None
    notes: Sequence[str] = ()  # additional footnotes
    tests: Sequence[Test] = ()  # in each column: the best number, or the baseline, against the others

    @property
    def reasons(self) -> list[str]:
        """The first reason of every entry that has reasons, without duplicates, for footnotes."""
        return list(dict.fromkeys(reason for row in self.entries for entry in row for reason in entry.reasons[:1]))


def printed_values(table: Table, published: Published | None) -> dict[tuple[str, str], Value]:
    """Return the published values by our row and column labels; if labels repeat, the first value counts."""
    by_label: dict[tuple[str, str], Value] = {}
    if published and table.reference:
        for theirs, values in published.rows.items():
            row = table.reference.rows.get(theirs, theirs)
            for their_column, value in values.items():
                column = table.reference.columns.get(their_column, their_column)
                if row is not None and column is not None:
                    by_label.setdefault((row, column), value)
    return by_label
