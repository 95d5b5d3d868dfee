"""Printed labels for the names of a suite in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench_core.runs.results import Run, Score
from bench_reports.content.grid import Column, Grid, Names, Row
from bench_reports.language.schema import Table

ARROWS = {1: " ↑", -1: " ↓"}  #: by the better direction


def types_of(run: Run) -> dict[str, str]:
    """Return the registered names of a suite's metrics, by their names in the suite."""
    return {name: str(settings.get("name", name)).rpartition("/")[2] for name, settings in run.suite.metrics.items()}


def own_label(types: Mapping[str, str], name: str, number: Score) -> str:
    """Return the metric's own label; empty if it has none, or if several metrics of its type share the label."""
    type_name = types.get(name, name)
    return number.label if type_name == name or [*types.values()].count(type_name) == 1 else ""


def with_labels(run: Run, grid: Grid) -> Grid:
    """Return a table with row and column labels."""
    labels = TableLabels.of(run, grid.table)
    rows = [replace(row, shown=labels.row(row)) for row in grid.rows]
    columns = [
        replace(column, shown=shown) for column, shown in zip(grid.columns, labels.columns(grid.columns), strict=True)
    ]
    return replace(grid, rows=rows, columns=columns)


@dataclass(frozen=True)
class TableLabels:
    """The labels of a table, as declared by the table, the suite or its metrics."""

    table: Table
    declared: Mapping[str, str]
    types: Mapping[str, str]  # registered metric names, by their names in the suite

    @classmethod
    def of(cls, run: Run, table: Table) -> TableLabels:
        """Return the labels of a table."""
        return cls(table, {**run.suite.labels, **table.labels}, types_of(run))

    def name(self, name: str) -> str:
        """Return the label of a name; the label of a combination begins with the label of its grid."""
        if name in self.declared:
            return self.declared[name]
        grid, slash, rest = name.partition("/")
        return f"{self.declared[grid]}, {rest}" if slash and grid in self.declared else name

    def corner(self) -> str:
        """Return the heading of the row labels: their axes, or `setting`."""
        axes = ["setting"] if self.table.of == "choices" else [*self.table.rows]
        if self.table.transpose:
            axes = [*self.table.columns, *["metric"] * (len(self.table.values) > 1 or not self.table.columns)]
        heading = ", ".join(self.declared.get(name, name) for name in axes)
        return heading[:1].upper() + heading[1:]

    def metric(self, name: str, number: Score) -> str:
        """Return the label of a metric with its unit, and an arrow in the better direction."""
        label = self.plain_metric(name, number)
        unit = f" ({number.unit})" if number.unit and number.unit not in label.lower() else ""
        return f"{label}{unit}{ARROWS.get(number.better, '')}"

    def plain_metric(self, name: str, number: Score) -> str:
        """Return the label of a metric without unit and arrow: declared, its own, or its name."""
        return self.declared.get(name) or own_label(self.types, name, number) or name

    def row(self, row: Row) -> Names:
        """Return the labels of a row: a declared label for all its names, or a label for each name."""
        if row.label in self.declared:
            return (self.declared[row.label],)
        return tuple(map(self.name, filter(None, row.names or _parts(row.label, len(self.table.rows))))) or (
            row.label,
        )

    def columns(self, columns: Sequence[Column]) -> list[Names]:
        """Return the headings of columns, the widest first.

        Columns that only the published table has join the group with the same prefix.
        """
        groups = {column.label.rpartition("/")[0]: self.column(column)[:-1] for column in columns if column.names}
        headings = []
        for column in columns:
            group, slash, rest = column.label.rpartition("/")
            only_published = column.names is None and slash and groups.get(group)
            headings.append((*groups[group], self.name(rest)) if only_published else self.column(column))
        return headings

    def column(self, column: Column) -> Names:
        """Return the headings of a single column."""
        headings = self._headings(column)
        return (*headings[:-1], f"{headings[-1]} ({column.mark})") if column.mark else headings

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
    """Return the names in a published label if there is one for each axis; otherwise the whole label."""
    parts = tuple(label.split("/"))
    return parts if len(parts) == axes else (label,)
