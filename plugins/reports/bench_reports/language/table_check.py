"""Check `tables:`: whether names exist, and whether published numbers map to cells."""

from collections.abc import Mapping
from contextlib import suppress

from bench_core.registry import suggestion
from bench_core.suites.axes import AXES, Axis
from bench_core.suites.names import Names, join_names
from bench_reports.language.choice_check import check_chosen, check_id, check_where_choices
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Table
from bench_reports.language.table_names import groups, labels, names_in_table, settings
from placed_settings import Unreadable

AXES_OF: Mapping[str, tuple[Axis, ...]] = {
    "results": AXES[:-1],
    "choices": ("task", "model", "hardware"),
    "tasks": ("task",),
}  # axes of the cells behind a table, by `of`


def check_tables(names: Names) -> None:
    """Report every problem with a table."""
    checks = (
        _check_values, check_chosen, check_where_choices, check_id, _check_where, _check_axes,
        _check_baseline, _check_reference, _check_digits, _check_labels,
    )  # fmt: skip
    names.each("tables", language(names.suite).tables, checks)
    names.unlike("tables", "table", language(names.suite).tables)
    names.each("tables", language(names.suite).tables, (_check_pairs,))
    with suppress(Unreadable):
        shown = {label for table in language(names.suite).tables for label in _labels(names, table)}
        _check_labeled(names, ["labels"], names.suite.labels, shown)


def _check_values(names: Names, keys: list[str | int], table: Table) -> None:
    if table.of == "results":
        names.check_known([*keys, "values"], "metric", table.values)
    if table.of != "tasks" and not names.whole["models"] and not names.names("model"):
        name = getattr(table, "id", "")
        text = f"table {name!r} shows results of models, but the suite has no models. A table `of: tasks` needs none."
        names.problems.add(keys, text)


def _check_where(names: Names, keys: list[str | int], table: Table) -> None:
    for axis, chosen in table.where.items():
        with suppress(Unreadable):
            names.check_known([*keys, "where", axis], axis, chosen, groups(names, table, axis))


def _check_axes(names: Names, keys: list[str | int], table: Table) -> None:
    """Report axes whose names the table does not distinguish."""
    for axis in AXES_OF[table.of]:
        with suppress(Unreadable):
            shown = [name for name in names_in_table(names, table, axis) if name in table.where.get(axis, [name])]
            several = names.ambiguous(axis, shown)
            if len(several) > 1 and axis not in (*table.rows, *table.columns):
                text = f"table {getattr(table, 'id', '')!r} does not say which {axis}: {join_names(several)}. "
                names.problems.add(keys, f"{text}Put `{axis}` in its rows or columns, or select one by `where`.")


def _check_baseline(names: Names, keys: list[str | int], table: Table) -> None:
    """Report a baseline that is not a row."""
    with suppress(Unreadable):
        rows = labels(names, table, table.rows) if table.baseline else []
        if table.baseline and table.baseline not in rows:
            text = f"no row of this table is called {table.baseline!r}. {suggestion(table.baseline, rows, 'Rows')}"
            names.problems.add([*keys, "baseline"], text)


def _check_reference(names: Names, keys: list[str | int], table: Table) -> None:
    """Report an unknown published table, and names in a published table that do not map to this table."""
    reference = table.reference
    if reference is None:
        return
    keys, known = [*keys, "reference"], language(names.suite).published
    if reference.table not in known:
        hint = suggestion(reference.table, list(known), "Known, from references/ beside the suite")
        names.problems.add([*keys, "table"], f"no published table has the id {reference.table!r}. {hint}")
        return
    published = known[reference.table]
    with suppress(Unreadable):
        rows = settings(names, table) if table.of == "choices" else labels(names, table, table.rows)
        _check_mapping(names, [*keys, "rows"], reference.rows, list(published.rows), rows)
    with suppress(Unreadable):
        columns = labels(names, table, table.columns, table.values)
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


def _check_pairs(names: Names, keys: list[str | int], table: Table) -> None:
    """Report a table whose id is the file name of another table's pairs."""
    others = [
        entry for entry in language(names.suite).tables if getattr(entry, "pairs", False) and hasattr(entry, "id")
    ]
    if getattr(table, "id", "") in [f"{entry.id}-pairs" for entry in others]:
        text = f"the id {table.id!r} is reserved for the pairs of another table. Rename this table."
        names.problems.add([*keys, "id"], text)


def _check_digits(names: Names, keys: list[str | int], table: Table) -> None:
    """Report digits that are set for a name that is not a value of the table."""
    for name in table.digits if isinstance(table.digits, dict) else ():
        if name not in table.values:
            text = f"this table has no value {name!r}. {suggestion(name, [*table.values], 'Values')}"
            names.problems.add([*keys, "digits", name], text)


def _check_labels(names: Names, keys: list[str | int], table: Table) -> None:
    _check_labeled(names, [*keys, "labels"], table.labels, {*_labels(names, table)})


def _check_labeled(names: Names, keys: list[str | int], labels: Mapping[str, str], shown: set[str]) -> None:
    """Report labels for unknown names, which are no part, axis, row or column."""
    known = dict.fromkeys([*_names(names), *sorted(shown)])
    for name in labels:
        if name not in known:
            names.problems.add([*keys, name], f"unknown name {name!r}. {suggestion(name, [*known])}")


def _names(names: Names) -> list[str]:
    """Return every name of the suite, including those that a profile excludes, and of its axes."""
    known = [*AXES, "metric", "setting", "average", "rank"]
    for axis in ("task", "model", "decoder", "split", "hardware", "metric"):
        with suppress(Unreadable):
            known += [*names.names(axis), *sorted(names.whole.get(f"{axis}s", ()))]
    decoders = [name for choice in language(names.suite).choose for name in getattr(choice, "decoders", ())]
    return [*known, *names.suite.grids, *decoders]


def _labels(names: Names, table: Table) -> list[str]:
    """Return the names of the rows and columns of a table, including those of its published table."""
    rows = settings(names, table) if table.of == "choices" else labels(names, table, table.rows)
    all_names = [*rows, *labels(names, table, table.columns, table.values)]
    if table.of == "tasks":
        all_names += [part for value in table.values for part in value.split("/")]
    published = language(names.suite).published.get(table.reference.table) if table.reference else None
    return [*all_names, *(published.rows if published else ()), *(published.columns if published else ())]
