"""What a paper prints for a value of a claim, by the tables in which a suite puts both beside each other."""

from __future__ import annotations

from collections.abc import Mapping

from bench_core.suites.cells import join
from bench_core.suites.suite import Suite
from bench_reports.language.expressions import Query
from bench_reports.language.of_suite import language
from bench_reports.language.published import number
from bench_reports.language.schema import Table


def printed(suite: Suite, query: Query) -> float | None:
    """Return the published mean that stands beside a value, whatever the decoder if the table shows chosen ones."""
    found = (_in_table(suite, table, query) for table in language(suite).tables if query.metric in table.values)
    return next((one for one in found if one is not None), None)


def _in_table(suite: Suite, table: Table, query: Query) -> float | None:
    if table.reference is None:
        return None
    names = {axis: _name(suite, table, query, axis) for axis in ("task", "model", "decoder", "split")}
    if None in [names[axis] for axis in (*table.rows, *table.columns)] or not _shown(table, dict(query.axes)):
        return None
    row = join(*(str(names[axis]) for axis in table.rows))
    column = join(*(str(names[axis]) for axis in table.columns))
    ours = {join(column, query.metric), column} if column else {query.metric}
    for theirs, values in language(suite).published[table.reference.table].rows.items():
        for label, value in values.items():
            same_row = table.reference.rows.get(theirs, theirs) == row
            if same_row and table.reference.columns.get(label, label) in ours:
                return number(value.mean)
    return None


def _name(suite: Suite, table: Table, query: Query, axis: str) -> str | None:
    """Return the one name that a value has on an axis: its own, that of the table, or the only one that there is."""
    of_suite = {"task": suite.tasks, "model": suite.models, "decoder": suite.decoders, "split": suite.splits}
    own = [name for known, name in query.axes if known == axis]
    names = own or _allowed(table, axis) or [*of_suite[axis]]
    return names[0] if len(names) == 1 else None


def _shown(table: Table, names: Mapping[str, str]) -> bool:
    return all(name in (_allowed(table, axis) or [name]) for axis, name in names.items())


def _allowed(table: Table, axis: str) -> list[str]:
    """Return the names on an axis that a table shows; none stands for all."""
    names = table.where.get(axis, ())
    return [names] if isinstance(names, str) else [*names] if isinstance(names, (list, tuple)) else []
