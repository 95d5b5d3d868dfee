"""Checks of `tables:`: that names exist, and that published numbers map to cells."""

from __future__ import annotations

from collections.abc import Mapping

from bench_core.registry import suggestion
from bench_core.suites.axes import AXES, Axis
from bench_core.suites.choice_check import check_chosen
from bench_core.suites.names import Names, listed
from bench_core.suites.schema import Reference, Table

AXES_OF: Mapping[str, tuple[Axis, ...]] = {
    "results": AXES[:-1],
    "choices": ("task", "model", "hardware"),
    "tasks": ("task",),
}  # of tables, by what they are of


def check_tables(names: Names) -> None:
    """Report every problem of a table."""
    for number, table in enumerate(names.suite.tables):
        _check_table(names, number, table)
    names.unlike("tables", "table", [table.id for table in names.suite.tables])


def _check_table(names: Names, number: int, table: Table) -> None:
    keys: list[str | int] = ["tables", number]
    if table.of == "results":
        names.known([*keys, "values"], "metric", table.values)
    if table.of != "tasks" and not names.whole["models"] and not names.names("model"):
        text = f"table {table.id!r} shows results of models, and the suite has none. A table `of: tasks` needs none."
        names.problems.add(keys, text)
    check_chosen(names, table, number)
    for axis, chosen in table.where.items():
        names.known([*keys, "where", axis], axis, chosen, names.groups(table, axis))
    for axis in AXES_OF[table.of]:
        several = [name for name in names.shown_in(table, axis) if name in table.where.get(axis, [name])]
        if len(several) > 1 and axis not in (*table.rows, *table.columns):
            text = f"table {table.id!r} does not say which {axis}: {listed(several)}. "
            names.problems.add(keys, f"{text}Put `{axis}` in its rows or columns, or select one by `where`.")
    if table.reference:
        _check_reference(names, table, table.reference, [*keys, "reference"])


def _check_reference(names: Names, table: Table, reference: Reference, keys: list[str | int]) -> None:
    if reference.table not in names.suite.published:
        hint = suggestion(reference.table, list(names.suite.published), "Known, from references/ beside the suite")
        names.problems.add([*keys, "table"], f"no published table has the id {reference.table!r}. {hint}")
        return
    published = names.suite.published[reference.table]
    rows = names.settings(table) if table.of == "choices" else names.labels(table, table.rows)
    _check_mapping(names, [*keys, "rows"], reference.rows, list(published.rows), rows)
    columns = names.labels(table, table.columns, table.values)
    _check_mapping(names, [*keys, "columns"], reference.columns, list(published.columns), columns)


def _check_mapping(
    names: Names, keys: list[str | int], mapping: Mapping[str, str | None], theirs: list[str], ours: list[str]
) -> None:
    for name in mapping:
        if name not in theirs:
            text = f"the published table has no row or column {name!r}. {suggestion(name, theirs)}"
            names.problems.add([*keys, name], text)
    for name in theirs:
        target = mapping.get(name, name)
        if target is not None and target not in ours:
            text = f"published {name!r} must be mapped to a label of this table, or to null. "
            names.problems.add([*keys, name], f"{text}{suggestion(target, ours, 'Labels')}")
