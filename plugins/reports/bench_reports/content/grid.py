"""Data classes of a filled table: rows, columns, entries and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench_core.runs.results import CellResult, Number
from bench_reports.language.published import Published, Value
from bench_reports.language.schema import Table
from bench_reports.statistics.intervals import Summary

if TYPE_CHECKING:
    from bench_reports.statistics.estimate import Measured

Names: TypeAlias = tuple[str, ...]
Status: TypeAlias = Literal["done", "failed", "not run", "none"]  # none: there is nothing to be had
Verdict: TypeAlias = Literal["equivalent", "better", "worse", "different", "cannot tell", "not comparable"]
Place: TypeAlias = tuple[int, int]  # row and column


@dataclass(frozen=True)
class Comparison:
    """Our number against the published one."""

    difference: float  # ours less the published
    verdict: Verdict  # different: neither direction is known to be better
    seeds: int | None = None  # that would tell, where this many cannot


@dataclass(frozen=True)
class Test:
    """A number of a column against another: the best, or the baseline, against each of the others."""

    first: Place
    other: Place
    p: float  # of this comparison alone
    adjusted: float  # for all comparisons of the column together
    interval: tuple[float, float] | None = None  # of first - other; of their ratio on a log scale
    detectable: float = 0.0  # the difference that would mostly be found; on a log scale, of the logarithms
    exchanges: int = 0  # of a permutation test; 0 of a test with draws


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    label: str
    names: Names | None  # on the axes of the rows; None where only the published table has it
    shown: Names = ()  # its label to readers, one for each name


@dataclass(frozen=True)
class Column:
    """A column of a table: numbers of one metric, of one kind and signature."""

    label: str  # shared by the columns that one is split into
    names: Names | None  # on the axes of the columns; None where only the published table has it
    value: str  # the metric
    number: Number = field(default_factory=Number)  # one of its numbers, for unit, digits, kind and signature
    first: bool = True  # of those that share its label
    mark: str = ""  # what tells it from those
    of: Literal["cells", "average", "ranks"] = "cells"  # what its numbers are made of: cells, or other columns
    shown: Names = ()  # its headings to readers, the widest first

    @property
    def heading(self) -> str:
        """Return the label with its mark, such as `ssm (≤ bound)`."""
        return f"{self.label} ({self.mark})" if self.mark else self.label


@dataclass(frozen=True)
class Entry:
    """What stands in one row and column: the mean over seeds, or why there is none."""

    status: Status
    seeds: int = 0  # that there should be
    summary: Summary | None = None
    fixed: bool = False  # whether it is of one system that has no seeds, such as recorded outputs
    interval: tuple[float, float] | None = None  # of the mean, see `bench_reports.statistics.measurements`
    apart: tuple[float, ...] = ()  # by seed, in place of an interval, where trainings differ in kind
    error: float = 0.0  # of its own, by sampling in a model
    examples: tuple[int, ...] = ()  # behind each seed's number
    reasons: tuple[str, ...] = ()  # why seeds are missing, each once
    published: Value | None = None
    text: str = ""  # in place of a rounded mean
    comparison: Comparison | None = None  # of ours with the published
    cells: tuple[CellResult, ...] = ()  # behind it, by seed
    #: Reads what tests take, when it is asked for: draws of all numbers together would fill the memory
    measure: Callable[[], tuple[Measured, ...]] = tuple
    untested: str = ""  # why it cannot
    keys: tuple[str, ...] = ()  # of the measurements behind it, by seed
    sample: str = ""  # what it shares with numbers of the same examples; empty where seeds differ in that
    best: bool = False  # better than every other of its column, by more than chance
    p: float | None = None  # that it is as good as the best of its column or the baseline, for all of it together
    change: float | None = None  # its mean less the baseline's

    @property
    def measured(self) -> tuple[Measured, ...]:
        """Return its measurement, or those behind an average; none where it cannot be tested."""
        return self.measure()

    @property
    def complete(self) -> bool:
        """Return whether no seed is missing."""
        return self.summary is None or self.summary.n == self.seeds


@dataclass(frozen=True)
class Grid:
    """A table of a suite, filled in."""

    table: Table
    rows: Sequence[Row]
    columns: Sequence[Column]
    entries: Sequence[Sequence[Entry]]  # rows first
    cells: Sequence[CellResult]  # all behind it
    published: Published | None
    notes: Sequence[str] = ()  # for its footnotes
    tests: Sequence[Test] = ()  # of each column: its best number, or the baseline's, against the others

    @property
    def reasons(self) -> list[str]:
        """Return the first reason of every entry that has some, each once, for footnotes."""
        return list(dict.fromkeys(reason for row in self.entries for entry in row for reason in entry.reasons[:1]))


def printed_values(table: Table, published: Published | None) -> dict[tuple[str, str], Value]:
    """Return the published values by our labels of rows and columns; of two with the same labels, the first."""
    found: dict[tuple[str, str], Value] = {}
    if published and table.reference:
        for theirs, values in published.rows.items():
            row = table.reference.rows.get(theirs, theirs)
            for their_column, value in values.items():
                column = table.reference.columns.get(their_column, their_column)
                if row is not None and column is not None:
                    found.setdefault((row, column), value)
    return found
