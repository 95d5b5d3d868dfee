"""The names that tables can show: those of the suite, of settings of grids, and of what is chosen."""

from collections.abc import Mapping, Sequence

from bench_core.suites.axes import Axis
from bench_core.suites.cells import join
from bench_core.suites.grids import ModelGrid, gathered
from bench_core.suites.names import Names
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Choice, Table


def grids_of(choice: Choice, grids: Mapping[str, ModelGrid]) -> dict[str, ModelGrid]:
    """Return the alternatives of a choice, by the name of what is chosen; `grids` are those of the suite.

    Decoders form a grid of one setting with the name of the chosen decoder.
    """
    if choice.axis == "model":
        return {name: grids.get(name) or ModelGrid(name, {}, {name: {}}) for name in choice.model}
    return {
        name: ModelGrid(name, {name: decoders}, {one: {name: one} for one in decoders})
        for name, decoders in choice.decoders.items()
    }


def shown_in(names: Names, table: Table, axis: str) -> list[str]:
    """Return the names on an axis that a table can show; a chosen model has the name of its grid."""
    grids = groups(names, table, axis)
    found, alone = gathered(names.names(axis), grids), table.of == "choices" and not groups(names, table, "decoder")
    return [name for name in found if name in grids] if alone and grids else found


def groups(names: Names, table: Table, axis: str) -> Mapping[str, ModelGrid]:
    """Return the alternatives of a table's choice on an axis, by the name of what is chosen."""
    known = [choice for choice in language(names.suite).choose if getattr(choice, "id", None) in table.chosen]
    ours = [choice for choice in known if choice.axis == axis]
    return grids_of(ours[0], names.suite.grids) if ours else {}


def settings(names: Names, table: Table) -> list[str]:
    """Return the settings that grids vary, with or without the profile, and names of chosen decoders."""
    ours = dict.fromkeys(setting for grid in names.suite.grids.values() for setting in grid.settings)
    return [*ours, *sorted(names.whole["settings"] - set(ours)), *groups(names, table, "decoder")]


def labels(names: Names, table: Table, axes: Sequence[Axis], values: Sequence[str] = ()) -> list[str]:
    """Return every label that the axes can form, including names that the profile leaves out."""
    found = [""]
    for axis in axes:
        several = [*shown_in(names, table, axis), *groups(names, table, axis)]
        several = list(dict.fromkeys([*several, *sorted(names.whole.get(f"{axis}s", set()))]))
        several = [name for name in several if name in table.where.get(axis, [name])]
        found = [join(label, name) for label in found for name in several]
    if values and (len(values) > 1 or not axes):
        found = [join(label, value) for label in found for value in values]
    return found
