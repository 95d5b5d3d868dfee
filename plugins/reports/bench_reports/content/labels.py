"""Words for the names of a suite, as readers see them in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench_core.runs.results import Number, Run
from bench_reports.content.grid import Column, Grid, Names, Row
from bench_reports.language.schema import Table

ARROWS = {1: " ↑", -1: " ↓"}  #: by which way is better


def types_of(run: Run) -> dict[str, str]:
    """Return the metrics of a suite as plugins call them, by their names."""
    return {name: str(one.get("name", name)).rpartition("/")[2] for name, one in run.suite.metrics.items()}


def own_label(types: Mapping[str, str], name: str, number: Number) -> str:
    """Return the label that a metric has by itself; empty if it has none, or other metrics of its type share that."""
    own = types.get(name, name)
    return number.label if own == name or [*types.values()].count(own) == 1 else ""


def labelled(run: Run, grid: Grid) -> Grid:
    """Return a table whose rows and columns have their labels."""
    labels = Labels.of(run, grid.table)
    rows = [replace(row, shown=labels.row(row)) for row in grid.rows]
    columns = [
        replace(column, shown=shown) for column, shown in zip(grid.columns, labels.columns(grid.columns), strict=True)
    ]
    return replace(grid, rows=rows, columns=columns)


@dataclass(frozen=True)
class Labels:
    """The labels of a table: those that it declares, or the suite, or its metrics."""

    table: Table
    declared: Mapping[str, str]
    types: Mapping[str, str]  # of metrics, by their names in the suite

    @classmethod
    def of(cls, run: Run, table: Table) -> Labels:
        """Return the labels of a table."""
        return cls(table, {**run.suite.labels, **table.labels}, types_of(run))

    def name(self, name: str) -> str:
        """Return the label of a name; that of a combination begins with the label of its grid."""
        if name in self.declared:
            return self.declared[name]
        grid, slash, rest = name.partition("/")
        return f"{self.declared[grid]}, {rest}" if slash and grid in self.declared else name

    def corner(self) -> str:
        """Return the heading of the labels of rows: the axes that they are on, or what else they are."""
        axes = ["setting"] if self.table.of == "choices" else [*self.table.rows]
        if self.table.transpose:
            axes = [*self.table.columns, *["metric"] * (len(self.table.values) > 1 or not self.table.columns)]
        found = ", ".join(self.declared.get(name, name) for name in axes)
        return found[:1].upper() + found[1:]

    def metric(self, name: str, number: Number) -> str:
        """Return the label of a metric with its unit, and an arrow where higher or lower is better."""
        found = self.plain_metric(name, number)
        unit = f" ({number.unit})" if number.unit and number.unit not in found.lower() else ""
        return f"{found}{unit}{ARROWS.get(number.better, '')}"

    def plain_metric(self, name: str, number: Number) -> str:
        """Return the label of a metric alone: its own, if the suite has it once or calls it as it is called."""
        return self.declared.get(name) or own_label(self.types, name, number) or name

    def row(self, row: Row) -> Names:
        """Return the labels of a row: one for all its names, if that is declared, or one for each of them."""
        if row.label in self.declared:
            return (self.declared[row.label],)
        return tuple(map(self.name, filter(None, row.names or _parts(row.label, len(self.table.rows))))) or (
            row.label,
        )

    def columns(self, columns: Sequence[Column]) -> list[Names]:
        """Return the headings of columns, the widest first.

        One that only the published table has stands in the group that it begins like.
        """
        known = {column.label.rpartition("/")[0]: self.column(column)[:-1] for column in columns if column.names}
        found = []
        for column in columns:
            group, slash, rest = column.label.rpartition("/")
            alien = column.names is None and slash and known.get(group)
            found.append((*known[group], self.name(rest)) if alien else self.column(column))
        return found

    def column(self, column: Column) -> Names:
        """Return the headings of a column by itself."""
        found = self._headings(column)
        return (*found[:-1], f"{found[-1]} ({column.mark})") if column.mark else found

    def _headings(self, column: Column) -> Names:
        if column.label in self.declared and (column.label != column.value or self.table.of == "tasks"):
            return (self.declared[column.label],)
        if self.table.of == "tasks":
            return tuple(self.name(part).replace("_", " ") for part in column.label.split("/"))
        several = len(self.table.values) > 1 or not self.table.columns
        if column.names is None:
            return tuple(map(self.name, _parts(column.label, len(self.table.columns) + several)))
        metric = (self.metric(column.value, column.number),) if several and column.value else ()
        if column.of != "cells":
            return (self.declared.get(column.label, column.label.capitalize()), *metric)
        return (*map(self.name, filter(None, column.names)), *metric) or (column.label,)


def _parts(label: str, axes: int) -> Names:
    """Return the names that only the published table has, if there is one for each axis; else all of it."""
    parts = tuple(label.split("/"))
    return parts if len(parts) == axes else (label,)
