"""Checks of `figures:`: that names exist, and that no two cells share a place."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from bench_core.registry import suggestion
from bench_core.suites.axes import AXES, SECTIONS, TRAINING_AXES
from bench_core.suites.figure_schema import Figure
from bench_core.suites.grids import word
from bench_core.suites.names import Names, listed
from bench_core.suites.partial import Unreadable

MISSING = object()


def check_figures(names: Names) -> None:
    """Report every problem of a figure."""
    names.each("figures", names.suite.figures, (_check_sides, _check_matrix, _check_entry, _check_where, _check_axes))
    tables = [getattr(table, "id", None) for table in names.suite.tables]
    drawn = [getattr(figure, "id", None) for figure in names.suite.figures]
    for number, one in enumerate(drawn):
        if one is not None and one in (*drawn[:number], *tables):
            text = f"a table or another figure also has the id {one!r}. Rename one."
            names.problems.add(("figures", number, "id"), text)


def _check_sides(names: Names, keys: list[str | int], figure: Figure) -> None:
    """Report unknown metrics."""
    names.known([*keys, "values"], "metric", getattr(figure, "values", ()))
    if figure.kind == "scatter":
        for side in ("x", "y"):
            with suppress(Unreadable):
                name = getattr(figure, side)
                names.known([*keys, side], "metric", [] if name.startswith("cost.") else [name])
    if figure.kind == "heat":
        names.known([*keys, "value"], "metric", [figure.value])


def _check_where(names: Names, keys: list[str | int], figure: Figure) -> None:
    for axis, chosen in figure.where.items():
        with suppress(Unreadable):
            names.known([*keys, "where", axis], axis, chosen)


def _check_axes(names: Names, keys: list[str | int], figure: Figure) -> None:
    """Report axes with several names that would be drawn as one."""
    for axis in TRAINING_AXES if figure.kind == "line" else AXES[:-1]:
        with suppress(Unreadable):
            several = [name for name in names.names(axis) if name in figure.where.get(axis, [name])]
            if len(several) > 1 and axis not in figure.grouped:
                text = f"figure {getattr(figure, 'id', '')!r} does not say which {axis}: {listed(several)}. "
                way = "Make it x or y" if figure.kind == "heat" else f"Put `{axis}` in its `by`"
                names.problems.add(keys, f"{text}{way}, or select one by `where`.")


def _check_matrix(names: Names, keys: list[str | int], figure: Figure) -> None:
    """Report settings that are missing, and names with the same place in a heat map."""
    if figure.kind != "heat":
        return
    for axis in figure.grouped:
        section = names.source.data.get(SECTIONS.get(axis, "")) or {}
        own = [(side, setting) for side, (of, setting) in zip("xy", figure.sides, strict=True) if of == axis]
        seen: dict[tuple[str | None, ...], str] = {}
        for name in names.names(axis):
            if name not in figure.where.get(axis, [name]):
                continue
            place = tuple(label(name, setting, section) for _, setting in own)
            if None in place:
                side, setting = own[place.index(None)]
                text = f"{axis} {name!r} has no single value of {setting!r}. Set one, or select others by `where`."
                names.problems.add([*keys, side], text)
                break
            if place in seen:
                text = f"{seen[place]!r} and {name!r} have the same place in figure {figure.id!r}"
                names.problems.add(keys, f"{text}: {'/'.join(map(str, place))}. Select one by `where`.")
                break
            seen[place] = name


def _check_entry(names: Names, keys: list[str | int], figure: Figure) -> None:
    """Report curves that no history contains; terms of a loss may have any one-word name."""
    if figure.kind != "line":
        return
    name = figure.y
    selects = [one.training.select for entry in names.suite.models.values() for one in entry.all]
    metrics = {name: config.name for name, config in names.suite.metrics.items()}
    judged = [f"{select.split} {metrics.get(select.metric, 'loss')}" for select in selects]
    known = list(dict.fromkeys([*judged, "loss", "lr"]))
    if name not in known and (" " in name or name in (*metrics, "step", "epoch", "best")):
        keys = [*keys, "y"]
        names.problems.add(keys, f"no training history of this suite contains {name!r}. {suggestion(name, known)}")


def label(name: str, setting: str | None, section: Mapping[str, Any]) -> str | None:
    """Return the name, or its setting (`hidden`, `training.lr`) as written in the suite.

    None if the setting is not written there, or has another value for some task (`by_task:`).
    """
    if setting is None:
        return name
    given: Any = section.get(name)
    found = _inside(given, setting)
    by_task = given.get("by_task") if isinstance(given, Mapping) else None
    others = (_inside(changes, setting) for changes in (by_task.values() if isinstance(by_task, Mapping) else ()))
    return None if found is MISSING or any(one not in (MISSING, found) for one in others) else word(found)


def _inside(settings: Any, keys: str) -> Any:
    found = settings
    for key in keys.split("."):
        if not isinstance(found, Mapping) or key not in found:
            return MISSING
        found = found[key]
    return found
