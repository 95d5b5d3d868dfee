"""Replace the names of grids in tables and figures by their combinations, and fill in the results of choices."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench_core.suites.axes import Axis
from bench_core.suites.grids import ModelGrid, each, plain
from bench_reports.language.figure_schema import Figure
from bench_reports.language.schema import Table

Where = Mapping[Axis, tuple[str, ...]]


def expanded(sections: dict[str, Any], grids: Mapping[str, ModelGrid]) -> dict[str, Any]:
    """Return sections with grid names replaced by their combinations, and a default for `chosen`.

    Tables of chosen models keep the name of the grid.
    """
    choices = {choice.id: choice for choice in sections.get("choose", ()) if hasattr(choice, "id")}
    only = (*choices,) if len(choices) == 1 else ()

    def table(entry: Table) -> Table:
        ids = entry.chosen or (only if entry.of == "choices" else ())
        ours: dict[Axis, tuple[str, ...]] = {
            choices[name].axis: choices[name].names for name in ids if name in choices
        }
        where = _where(entry.where, grids, ours.get("model", ()))
        where |= {axis: names for axis, names in ours.items() if where.get(axis) == ()}
        return entry.model_copy(update={"where": where, "chosen": ids})

    def figure(entry: Figure) -> Figure:
        return entry.model_copy(update={"where": _where(entry.where, grids)})

    changes: Mapping[str, Callable[[Any], Any]] = {"tables": table, "figures": figure}
    return {key: each(changes[key], value) if key in changes else value for key, value in sections.items()}


def _where(
    where: Where, grids: Mapping[str, ModelGrid], unexpanded: Sequence[str] = ()
) -> dict[Axis, tuple[str, ...]]:
    return {axis: plain(names, grids, unexpanded) if axis == "model" else names for axis, names in where.items()}
