"""Hyperparameter grids: models that stand for every combination of some settings."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, TypeVar

from bench_core.suites.schema import Skip, SuiteFile
from placed_settings import Located, Problems, Unreadable

T = TypeVar("T")

MAX_COMBINATIONS = 10_000  #: per suite


@dataclass(frozen=True)
class ModelGrid:
    """A model that stands for every combination of some settings, or a choice among decoders."""

    name: str
    settings: Mapping[str, Sequence[Any]]  # setting, such as `hidden` or `training.lr` -> its values
    combinations: Mapping[str, Mapping[str, Any]]  # name of a model or decoder -> the value of each setting


def expand(source: Located, problems: Problems) -> dict[str, ModelGrid]:
    """Replace every model that has a grid with the combinations of the grid; return the grids by name.

    Problems of a setting are reported at the grid.
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
        remaining = MAX_COMBINATIONS - sum(len(grid.combinations) for grid in grids.values())
        grids[name] = _grid(name, _valid_values(name, settings, remaining, problems))
        _check_names(grids[name], models, problems)
        fixed = {key: value for key, value in settings.items() if key != "grid"}
        for combination, values in grids[name].combinations.items():
            expanded[combination] = fixed
            for setting, value in values.items():
                expanded[combination] = _put(expanded[combination], setting.split("."), value)
        _note_places(source, grids[name])
    source.data["models"] = expanded
    return grids


def origins(grids: Mapping[str, ModelGrid]) -> dict[str, str]:
    """Return a mapping from combinations to their grids, by name."""
    return {name: grid.name for grid in grids.values() for name in grid.combinations}


def gathered(models: Iterable[str], grids: Mapping[str, ModelGrid]) -> list[str]:
    """Return distinct names of models, with combinations replaced by their grid."""
    known = origins(grids)
    return list(dict.fromkeys(known.get(name, name) for name in models))


def plainly(file: SuiteFile, grids: Mapping[str, ModelGrid]) -> SuiteFile:
    """Return the suite with names of grids replaced by their combinations."""

    def skip(entry: Skip) -> Skip:
        return entry.model_copy(update={"model": plain(entry.model, grids)})

    return file.model_copy(update={"skip": each(skip, file.skip)}) if hasattr(file, "skip") else file


def plain(names: Iterable[str], grids: Mapping[str, ModelGrid], kept: Collection[str] = ()) -> tuple[str, ...]:
    """Return names of models, with grids (except `kept`) replaced by their combinations."""
    groups = ([*grids[name].combinations] if name in grids and name not in kept else [name] for name in names)
    return tuple(name for group in groups for name in group)


def each(change: Callable[[T], T], entries: Iterable[T]) -> list[T]:
    """Apply a change to entries; entries for which it reads an invalid setting stay unchanged."""
    changed = list[T]()
    for entry in entries:
        try:
            changed.append(change(entry))
        except Unreadable:
            changed.append(entry)
    return changed


def word(value: Any) -> str:
    """Return the value of a setting as written in names of combinations, such as `256`, `true` or `tanh`."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def spelled(values: Mapping[str, Any], separator: str = ", ") -> str:
    """Return the settings of a combination as text, such as `hidden=256, tied=true`."""
    return separator.join(f"{setting}={word(value)}" for setting, value in values.items())


def _grid(name: str, varied: Mapping[str, Sequence[Any]]) -> ModelGrid:
    combinations = (dict(zip(varied, values, strict=True)) for values in product(*varied.values()))
    by_name = {f"{name}/{spelled(values, '/')}" if values else name: values for values in combinations}
    return ModelGrid(name, varied, by_name)


def _valid_values(name: str, settings: Mapping[str, Any], rest: int, problems: Problems) -> dict[str, Sequence[Any]]:
    """Return the valid values of each setting of a grid; report invalid settings."""
    keys, grid = ("models", name, "grid"), settings["grid"]
    if not isinstance(grid, Mapping) or not grid:
        problems.add(keys, "a grid must map settings to lists of values, such as `grid: {hidden: [256, 512]}`.")
        return {}
    problem_of = {setting: _wrong(setting, settings) for setting in grid}
    for setting, text in problem_of.items():
        if text:
            problems.add([*keys, setting], text)
    varied = {setting: grid[setting] for setting, text in problem_of.items() if not text}
    count = prod(map(len, varied.values()))
    if count > rest:
        text = f"a suite can have {MAX_COMBINATIONS:,} combinations; this grid has {count:,}, but {rest:,} are left"
        problems.add(keys, f"{text}. Vary fewer settings, or split the suite.")
        return {setting: values[:1] for setting, values in varied.items()}
    return varied


def _wrong(setting: str, settings: Mapping[str, Any]) -> str:
    """Return what is wrong with a setting of a grid; empty if it is valid."""
    grid, values = settings["grid"], settings["grid"][setting]
    if not isinstance(values, list) or not values:
        return f"{setting!r} must be a list of values, such as `[1, 2]` (found {values!r})."
    words = [word(value) for value in values]
    duplicate = next((item for place, item in enumerate(words) if item in words[:place]), None)
    if duplicate is not None:
        return f"{setting!r} lists {duplicate} twice. Remove one."
    if _is_set(settings, setting.split(".")):
        return f"{setting!r} is set both in the grid and in the model. Remove one."
    outer = next((other for other in grid if setting.startswith(f"{other}.")), None)
    return f"{setting!r} is inside {outer!r}, which the grid varies as a whole. Remove one." if outer else ""


def _is_set(settings: Mapping[str, Any], keys: Sequence[str]) -> bool:
    inside: Any = settings
    for key in keys:
        if not isinstance(inside, Mapping):
            return inside is not None
        if key not in inside:
            return False
        inside = inside[key]
    return True


def _check_names(grid: ModelGrid, models: Mapping[str, Any], problems: Problems) -> None:
    for name in grid.combinations:
        if name in models and name != grid.name:
            text = f"a combination of {grid.name!r} is called {name!r}, like another model. Rename that model."
            problems.add(("models", name), text)


def _put(settings: Mapping[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a model's settings with one nested setting, such as `training.lr`, changed."""
    first, *rest = keys
    inside = settings.get(first)
    below = inside if isinstance(inside, Mapping) else {}
    return {**settings, first: _put(below, rest, value) if rest else value}


def _note_places(source: Located, grid: ModelGrid) -> None:
    """Record the place of each varied setting in the grid."""
    for setting in grid.settings:
        place = source.places.get(("models", grid.name, "grid", setting))
        keys = setting.split(".")
        for end in range(1, len(keys) + 1):
            if place is not None:
                source.places.setdefault(("models", grid.name, *keys[:end]), place)
