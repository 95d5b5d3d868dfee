"""The names that tables can show: names in the suite, settings of grids, and results of choices."""

from collections.abc import Mapping, Sequence

from bench_core.suites.axes import Axis
from bench_core.suites.cells import join
from bench_core.suites.grids import ModelGrid, gathered
from bench_core.suites.names import Names
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Choice, Table


def grids_of(choice: Choice, grids: Mapping[str, ModelGrid]) -> dict[str, ModelGrid]:
    """Return the alternatives of a choice by the name of its result; `grids` are the suite's grids.

    Decoders form a grid of one setting with the name of the chosen decoder.
    """
    if choice.axis == "model":
        return {name: grids.get(name) or ModelGrid(name, {}, {name: {}}) for name in choice.model}
    return {
        name: ModelGrid(name, {name: decoders}, {decoder: {name: decoder} for decoder in decoders})
        for name, decoders in choice.decoders.items()
    }


def names_in_table(names: Names, table: Table, axis: str) -> list[str]:
    """Return the names on an axis that a table can show; a chosen model has the name of its grid."""
    grids = groups(names, table, axis)
    candidates = gathered(names.names(axis), grids)
    alone = table.of == "choices" and not groups(names, table, "decoder")
    return [name for name in candidates if name in grids] if alone and grids else candidates


def groups(names: Names, table: Table, axis: str) -> Mapping[str, ModelGrid]:
    """Return the alternatives of a table's choice on an axis, by the name of its result."""
    known = [choice for choice in language(names.suite).choose if getattr(choice, "id", None) in table.chosen]
    ours = [choice for choice in known if choice.axis == axis]
    return grids_of(ours[0], names.suite.grids) if ours else {}


def settings(names: Names, table: Table) -> list[str]:
    """Return the settings that grids vary, including those that a profile excludes, and names of chosen decoders."""
    ours = dict.fromkeys(setting for grid in names.suite.grids.values() for setting in grid.settings)
    return [*ours, *sorted(names.whole["settings"] - set(ours)), *groups(names, table, "decoder")]


def labels(names: Names, table: Table, axes: Sequence[Axis], values: Sequence[str] = ()) -> list[str]:
    """Return every label that the axes can form, including names that a profile excludes."""
    combined = [""]
    for axis in axes:
        several = [*names_in_table(names, table, axis), *groups(names, table, axis)]
        several = list(dict.fromkeys([*several, *sorted(names.whole.get(f"{axis}s", set()))]))
        several = [name for name in several if name in table.where.get(axis, [name])]
        combined = [join(label, name) for label in combined for name in several]
    if values and (len(values) > 1 or not axes):
        combined = [join(label, value) for label in combined for value in values]
    return combined
