"""Tables and figures with the combinations of grids in place of their names, and with the names of what is chosen."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench_core.suites.axes import Axis
from bench_core.suites.grids import ModelGrid, each, plain
from bench_reports.language.figure_schema import Figure
from bench_reports.language.schema import Table

Where = Mapping[Axis, tuple[str, ...]]


def expanded(found: dict[str, Any], grids: Mapping[str, ModelGrid]) -> dict[str, Any]:
    """Return sections with names of grids replaced by their combinations, and a default for `chosen`.

    Tables of chosen models still use the name of the grid.
    """
    choices = {choice.id: choice for choice in found.get("choose", ()) if hasattr(choice, "id")}
    only = (*choices,) if len(choices) == 1 else ()

    def table(one: Table) -> Table:
        ids = one.chosen or (only if one.of == "choices" else ())
        ours: dict[Axis, tuple[str, ...]] = {
            choices[name].axis: choices[name].names for name in ids if name in choices
        }
        where = _where(one.where, grids, ours.get("model", ()))
        where |= {axis: names for axis, names in ours.items() if where.get(axis) == ()}
        return one.model_copy(update={"where": where, "chosen": ids})

    def figure(one: Figure) -> Figure:
        return one.model_copy(update={"where": _where(one.where, grids)})

    changes: Mapping[str, Callable[[Any], Any]] = {"tables": table, "figures": figure}
    return {key: each(changes[key], value) if key in changes else value for key, value in found.items()}


def _where(where: Where, grids: Mapping[str, ModelGrid], kept: Sequence[str] = ()) -> dict[Axis, tuple[str, ...]]:
    return {axis: plain(names, grids, kept) if axis == "model" else names for axis, names in where.items()}
