"""Hyper-parameter grids: models that stand for every combination of some settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench_core.suites.problems import Mistakes
    from bench_core.suites.schema import Axis, Choice, SuiteFile
    from bench_core.suites.yaml_source import Located

MOST = 10_000  #: combinations in a suite


@dataclass(frozen=True)
class ModelGrid:
    """A model of a suite that stands for every combination of some settings, or a name for one of some decoders."""

    name: str
    settings: Mapping[str, Sequence[Any]]  # values by setting, such as `hidden` or `training.lr`
    combinations: Mapping[str, Mapping[str, Any]]  # names of models, or of decoders, to the value of each setting


def grids_of(choice: Choice, grids: Mapping[str, ModelGrid]) -> dict[str, ModelGrid]:
    """Return what a choice is made among, by the names that stand for what is chosen; `grids` are the suite's.

    Decoders make a grid of one setting, which is called by the name that stands for them.
    """
    if choice.axis == "model":
        return {name: grids.get(name) or ModelGrid(name, {}, {name: {}}) for name in choice.model}
    return {
        name: ModelGrid(name, {name: decoders}, {one: {name: one} for one in decoders})
        for name, decoders in choice.decoders.items()
    }


def expand(source: Located, mistakes: Mistakes) -> dict[str, ModelGrid]:
    """Put its combinations in the place of every model that has a grid; return the grids by name.

    What is wrong with a setting of a combination is told where the grid gives it.
    """
    models = source.data.get("models")
    if not isinstance(models, Mapping):
        return {}
    grids: dict[str, ModelGrid] = {}
    expanded: dict[str, Any] = {}
    for name, settings in models.items():
        if not isinstance(settings, Mapping) or "grid" not in settings:
            expanded[name] = settings
            continue
        room = MOST - sum(len(grid.combinations) for grid in grids.values())
        grids[name] = _grid(name, _varied(name, settings, room, mistakes))
        _check_names(grids[name], models, mistakes)
        fixed = {key: value for key, value in settings.items() if key != "grid"}
        for combination, values in grids[name].combinations.items():
            expanded[combination] = _with(fixed, values)
        _note_places(source, grids[name])
    source.data["models"] = expanded
    return grids


def origins(grids: Mapping[str, ModelGrid]) -> dict[str, str]:
    """Return the name of the grid of every combination."""
    return {name: grid.name for grid in grids.values() for name in grid.combinations}


def gathered(models: Iterable[str], grids: Mapping[str, ModelGrid]) -> list[str]:
    """Return the names of models, those of combinations replaced by their grid's, each once."""
    known = origins(grids)
    return list(dict.fromkeys(known.get(name, name) for name in models))


def plainly(file: SuiteFile, grids: Mapping[str, ModelGrid]) -> SuiteFile:
    """Return a suite in which names of grids no longer stand for their combinations, and the only choice is named.

    Tables of what was chosen go on calling it by its grid.
    """

    def plain(names: Iterable[str], kept: Sequence[str] = ()) -> tuple[str, ...]:
        several = ([*grids[name].combinations] if name in grids and name not in kept else [name] for name in names)
        return tuple(one for names in several for one in names)

    def chosen(where: Mapping[Axis, tuple[str, ...]], kept: Sequence[str] = ()) -> dict[Axis, tuple[str, ...]]:
        return {axis: plain(names, kept) if axis == "model" else names for axis, names in where.items()}

    choices = {choice.id: choice for choice in file.choose}
    only = (*choices,) if len(choices) == 1 else ()
    tables = []
    for table in file.tables:
        ids = table.chosen or (only if table.of == "choices" else ())
        ours: dict[Axis, tuple[str, ...]] = {choices[one].axis: choices[one].names for one in ids if one in choices}
        where = chosen(table.where, ours.get("model", ()))
        where |= {axis: names for axis, names in ours.items() if where.get(axis) == ()}
        tables.append(table.model_copy(update={"where": where, "chosen": ids}))
    skip = [one.model_copy(update={"model": plain(one.model)}) for one in file.skip]
    figures = [one.model_copy(update={"where": chosen(one.where)}) for one in file.figures]
    return file.model_copy(update={"skip": skip, "tables": tables, "figures": figures})


def word(value: Any) -> str:
    """Return a value of a setting as it stands in the name of a combination, such as `256`, `true` or `tanh`."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def spelled(values: Mapping[str, Any], separator: str = ", ") -> str:
    """Return the settings of a combination for people, such as `hidden=256, tied=true`."""
    return separator.join(f"{setting}={word(value)}" for setting, value in values.items())


def _grid(name: str, varied: Mapping[str, Sequence[Any]]) -> ModelGrid:
    combinations = (dict(zip(varied, values, strict=True)) for values in product(*varied.values()))
    named = {f"{name}/{spelled(values, '/')}" if values else name: values for values in combinations}
    return ModelGrid(name, varied, named)


def _varied(name: str, settings: Mapping[str, Any], room: int, mistakes: Mistakes) -> dict[str, Sequence[Any]]:
    """Return the values of each setting that a grid varies, after noting those that cannot be."""
    keys, grid = ("models", name, "grid"), settings["grid"]
    if not isinstance(grid, Mapping) or not grid:
        mistakes.add(keys, "a grid gives settings lists of values, such as `grid: {hidden: [256, 512]}`.")
        return {}
    wrong = {setting: _wrong(setting, settings) for setting in grid}
    for setting, text in wrong.items():
        if text:
            mistakes.add([*keys, setting], text)
    varied = {setting: grid[setting] for setting, text in wrong.items() if not text}
    count = prod(map(len, varied.values()))
    if count > room:
        text = f"a suite can have {MOST:,} combinations at most; this grid makes {count:,}, {room:,} are left. "
        mistakes.add(keys, f"{text}Vary less, or part the suite.")
        return {setting: values[:1] for setting, values in varied.items()}
    return varied


def _wrong(setting: str, settings: Mapping[str, Any]) -> str:
    """Say what is wrong with one setting of a grid; nothing if it is well."""
    grid, values = settings["grid"], settings["grid"][setting]
    if not isinstance(values, list) or not values:
        return f"{setting!r} needs a list of values here, such as `[1, 2]` (found {values!r})."
    words = [word(value) for value in values]
    twice = next((one for place, one in enumerate(words) if one in words[:place]), None)
    if twice is not None:
        return f"{setting!r} lists {twice} twice. Keep one."
    if _given(settings, setting.split(".")):
        return f"{setting!r} is given both in the grid and in the model's settings. Keep one."
    outer = next((other for other in grid if setting.startswith(f"{other}.")), None)
    return f"{setting!r} lies inside {outer!r}, which the grid varies as a whole. Keep one." if outer else ""


def _given(settings: Mapping[str, Any], keys: Sequence[str]) -> bool:
    inside: Any = settings
    for key in keys:
        if not isinstance(inside, Mapping):
            return inside is not None
        if key not in inside:
            return False
        inside = inside[key]
    return True


def _check_names(grid: ModelGrid, models: Mapping[str, Any], mistakes: Mistakes) -> None:
    for name in grid.combinations:
        if name in models and name != grid.name:
            text = f"a combination of {grid.name!r} is called {name!r}, as another model is. Rename that."
            mistakes.add(("models", name), text)


def _with(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's settings with those of one combination."""
    found = dict(settings)
    for setting, value in values.items():
        found = _put(found, setting.split("."), value)
    return found


def _put(settings: Mapping[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    first, *rest = keys
    inside = settings.get(first)
    below = inside if isinstance(inside, Mapping) else {}
    return {**settings, first: _put(below, rest, value) if rest else value}


def _note_places(source: Located, grid: ModelGrid) -> None:
    """Let each setting that a grid varies stand where the grid gives its values."""
    for setting in grid.settings:
        place = source.places.get(("models", grid.name, "grid", setting))
        keys = setting.split(".")
        for end in range(1, len(keys) + 1):
            if place is not None:
                source.places.setdefault(("models", grid.name, *keys[:end]), place)
