"""Tables of a report: which numbers stand where, before anything is written down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, NamedTuple, TypeAlias

from bench_core.names import join
from bench_core.order import name_on, names_on, ordered, seed_of
from bench_core.published import Published, Value
from bench_core.results import CellResult, Number, Run
from bench_core.schema import Axis, Table
from bench_core.stats import Summary, summary

KINDS = ("", "exact", "bound", "estimate")

Names: TypeAlias = tuple[str, ...]
Groups: TypeAlias = Mapping[tuple[Names | None, Names | None], list[CellResult]]  # by names on rows and columns
Status: TypeAlias = Literal["done", "failed", "not run", "none"]  # none: there is nothing to be had


class Variant(NamedTuple):
    """What numbers must have in common to share a column."""

    kind: str
    signature: str


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    label: str
    names: Names | None  # on the axes of the rows; None where only the published table has it


@dataclass(frozen=True)
class Column:
    """A column of a table: numbers of one metric, of one kind and signature."""

    label: str  # shared by the columns that one is split into
    names: Names | None  # on the axes of the columns; None where only the published table has it
    value: str  # the metric
    number: Number = field(default_factory=Number)  # one of its numbers, for unit, digits, kind and signature
    first: bool = True  # of those that share its label
    mark: str = ""  # what tells it from those

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
    interval: tuple[float, float] | None = None  # over the examples of a single seed
    examples: tuple[int, ...] = ()  # behind each seed's number
    reasons: tuple[str, ...] = ()  # why seeds are missing, each once
    published: Value | None = None

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

    @property
    def reasons(self) -> list[str]:
        """Return the first reason of every entry that has some, each once, for footnotes."""
        return list(dict.fromkeys(reason for row in self.entries for entry in row for reason in entry.reasons[:1]))


def grids(run: Run) -> list[Grid]:
    """Return every table that the suite of a run declares."""
    cells = ordered(run)
    return [_grid(run, table, cells) for table in run.suite.tables]


def _grid(run: Run, table: Table, cells: Sequence[CellResult]) -> Grid:
    inside = [one for one in cells if _chosen(one, table)]
    groups: dict[tuple[Names | None, Names | None], list[CellResult]] = defaultdict(list)
    for one in inside:
        groups[_on(one, table.rows), _on(one, table.columns)].append(one)
    published = run.published.get(table.reference.table) if table.reference else None
    printed = _printed(table, published)
    rows = _rows(run, table, groups, dict.fromkeys(row for row, _ in printed))
    columns = _columns(run, table, groups, dict.fromkeys(column for _, column in printed))

    def entry(row: Row, column: Column) -> Entry:
        cells = _applicable(run, groups.get((row.names, column.names), ()), column.value)
        return _entry(cells, column, printed.get((row.label, column.label)))

    entries = [[entry(row, column) for column in columns] for row in rows]
    return Grid(table, rows, columns, entries, inside, published)


def _chosen(one: CellResult, table: Table) -> bool:
    """Return whether `where` lets a cell in; one without a name on an axis is not chosen against."""
    return all(name_on(one, axis) in ("", *names) for axis, names in table.where.items())


def _on(one: CellResult, axes: Iterable[Axis]) -> Names:
    return tuple(name_on(one, axis) for axis in axes)


def _printed(table: Table, published: Published | None) -> dict[tuple[str, str], Value]:
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


def _combinations(run: Run, axes: Sequence[Axis], where: Mapping[Axis, Sequence[str]]) -> list[Names]:
    """Return every combination of names, in the order of the suite."""
    names = [[name for name in names_on(run, axis) if name in ("", *where.get(axis, [name]))] for axis in axes]
    return list(product(*names))


def _rows(run: Run, table: Table, groups: Groups, printed: Collection[str]) -> list[Row]:
    present = {names for names, _ in groups}
    rows = [Row(join(*names), names) for names in _combinations(run, table.rows, table.where)]
    known = {row.label for row in rows}
    shown = [row for row in rows if row.names in present or row.label in printed]
    return [*shown, *(Row(label, None) for label in printed if label not in known)]


def _columns(run: Run, table: Table, groups: Groups, printed: Collection[str]) -> list[Column]:
    present: dict[Names | None, list[CellResult]] = defaultdict(list)
    for (_, names), cells in groups.items():
        present[names].extend(cells)
    several = len(table.values) > 1 or not table.columns
    columns = [
        Column(join(*names, value if several else ""), names, value)
        for names in _combinations(run, table.columns, table.where)
        for value in table.values
    ]
    known = {column.label for column in columns}
    shown = [column for column in columns if column.names in present or column.label in printed]
    split = [part for column in shown for part in _split(run, column, present.get(column.names, ()))]
    value = "" if several else table.values[0]
    return [*split, *(Column(label, None, value) for label in printed if label not in known)]


def _split(run: Run, column: Column, cells: Iterable[CellResult]) -> list[Column]:
    """Return a column for each kind and signature among the numbers of one."""
    found: dict[Variant, Number] = {}
    for one in cells:
        if number := _number(one, column.value):
            found.setdefault(_variant(number), number)
    if not found:
        same = (number for one in run.cells if (number := _number(one, column.value)))
        return [Column(column.label, column.names, column.value, Number(digits=next(same, Number()).digits))]
    variants = sorted(found, key=lambda one: (KINDS.index(one.kind) if one.kind in KINDS else 9, one))
    return [
        Column(column.label, column.names, column.value, found[one], one == variants[0], _mark(found[one], variants))
        for one in variants
    ]


def _variant(number: Number) -> Variant:
    return Variant(number.kind, number.signature)


def _mark(number: Number, variants: Sequence[Variant]) -> str:
    """Say what tells a number from those of the other variants; a bound or an estimate is always called so."""
    signs = {"bound": "≥ bound" if number.better > 0 else "≤ bound", "estimate": "~ estimate"}
    kinds = {one.kind for one in variants}
    kind = signs.get(number.kind, (number.kind or "no likelihood") if len(kinds) > 1 else "")
    alike = [one.signature for one in variants if one.kind == number.kind]
    return ", ".join(word for word in (kind, _difference(number.signature, alike)) if word)


def _difference(signature: str, signatures: Sequence[str]) -> str:
    """Return the fields of a signature that not all have, such as `tok:13a`."""
    if len(signatures) < 2:
        return ""
    shared = set.intersection(*(set(one.split("|")) for one in signatures))
    return "|".join(field for field in signature.split("|") if field not in shared) or signature or "no signature"


def _applicable(run: Run, cells: Sequence[CellResult], value: str) -> list[CellResult]:
    """Return the cells in which a metric was not left out on purpose."""
    skips = [skip for skip in run.suite.skip if value in skip.metric]
    return [one for one in cells if not any(skip.covers(**one.cell, metric=value) for skip in skips)]


def _entry(cells: Sequence[CellResult], column: Column, published: Value | None) -> Entry:
    """Average over seeds; a seed whose number is of another variant belongs to the column of that."""
    found = {seed_of(one): number for one in cells if (number := _number(one, column.value))}
    own = {seed: number for seed, number in found.items() if _variant(number) == _variant(column.number)}
    if found and not own:
        return Entry("none")
    missing = [one for one in cells if seed_of(one) not in found]
    seeds = len(own) + len({seed_of(one) for one in missing})
    reasons = tuple(dict.fromkeys(reason for one in missing if (reason := _reason(one, column.value))))
    if not own:
        published = published if column.first else None
        return Entry(_status(missing, published), seeds, reasons=reasons, published=published)
    values = [number.value for number in own.values() if number.value is not None]
    interval = next(iter(own.values())).interval if len(own) == 1 else None
    examples = tuple(number.examples for number in own.values())
    return Entry("done", seeds, summary(values), interval, examples, reasons, published)


def _number(one: CellResult, value: str) -> Number | None:
    """Return a metric's number of a cell, or None where there is no value."""
    number = one.numbers.get(value)
    return number if number and number.value is not None else None


def _status(missing: Sequence[CellResult], published: Value | None) -> Status:
    if any(one.status == "failed" for one in missing):
        return "failed"
    if any(one.status == "not run" for one in missing) or (published and not missing):
        return "not run"
    return "none"


def _reason(one: CellResult, value: str) -> str:
    """Return why a metric has no number: what is known of it alone, or of its cell."""
    own = one.numbers.get(value, Number()).reason
    return own if own not in ("", "not run") else one.reason
