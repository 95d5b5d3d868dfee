"""Hyper-parameter grids: models that stand for every combination of some settings."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, TypeVar

from bench_core.suites.schema import Skip, SuiteFile
from placed_settings import Located, Problems, Unreadable

T = TypeVar("T")

MOST = 10_000  #: combinations in a suite


@dataclass(frozen=True)
class ModelGrid:
    """A model that stands for every combination of some settings, or a name for one of several decoders."""

    name: str
    settings: Mapping[str, Sequence[Any]]  # values by setting, such as `hidden` or `training.lr`
    combinations: Mapping[str, Mapping[str, Any]]  # names of models, or of decoders, to the value of each setting


def expand(source: Located, problems: Problems) -> dict[str, ModelGrid]:
    """Replace every model that has a grid by its combinations; return the grids by name.

    Problems of a setting are reported at the place of the grid.
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
        grids[name] = _grid(name, _varied(name, settings, room, problems))
        _check_names(grids[name], models, problems)
        fixed = {key: value for key, value in settings.items() if key != "grid"}
        for combination, values in grids[name].combinations.items():
            expanded[combination] = _with(fixed, values)
        _note_places(source, grids[name])
    source.data["models"] = expanded
    return grids


def origins(grids: Mapping[str, ModelGrid]) -> dict[str, str]:
    """Return the grid of each combination, by name."""
    return {name: grid.name for grid in grids.values() for name in grid.combinations}


def gathered(models: Iterable[str], grids: Mapping[str, ModelGrid]) -> list[str]:
    """Return names of models, with combinations replaced by their grid, each once."""
    known = origins(grids)
    return list(dict.fromkeys(known.get(name, name) for name in models))


def plainly(file: SuiteFile, grids: Mapping[str, ModelGrid]) -> SuiteFile:
    """Return the suite with names of grids replaced by their combinations."""

    def skip(one: Skip) -> Skip:
        return one.model_copy(update={"model": plain(one.model, grids)})

    return file.model_copy(update={"skip": each(skip, file.skip)}) if hasattr(file, "skip") else file


def plain(names: Iterable[str], grids: Mapping[str, ModelGrid], kept: Collection[str] = ()) -> tuple[str, ...]:
    """Return names of models, with those of grids but `kept` replaced by their combinations."""
    several = ([*grids[name].combinations] if name in grids and name not in kept else [name] for name in names)
    return tuple(one for names in several for one in names)


def each(change: Callable[[T], T], entries: Iterable[T]) -> list[T]:
    """Return entries with a change, or as they are if the change reads an invalid setting."""
    found = list[T]()
    for one in entries:
        try:
            found.append(change(one))
        except Unreadable:
            found.append(one)
    return found


def word(value: Any) -> str:
    """Return the value of a setting as in the name of a combination, such as `256`, `true` or `tanh`."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def spelled(values: Mapping[str, Any], separator: str = ", ") -> str:
    """Return the settings of a combination as text, such as `hidden=256, tied=true`."""
    return separator.join(f"{setting}={word(value)}" for setting, value in values.items())


def _grid(name: str, varied: Mapping[str, Sequence[Any]]) -> ModelGrid:
    combinations = (dict(zip(varied, values, strict=True)) for values in product(*varied.values()))
    named = {f"{name}/{spelled(values, '/')}" if values else name: values for values in combinations}
    return ModelGrid(name, varied, named)


def _varied(name: str, settings: Mapping[str, Any], room: int, problems: Problems) -> dict[str, Sequence[Any]]:
    """Return the valid values of each setting of a grid, and report the invalid ones."""
    keys, grid = ("models", name, "grid"), settings["grid"]
    if not isinstance(grid, Mapping) or not grid:
        problems.add(keys, "a grid maps settings to lists of values, such as `grid: {hidden: [256, 512]}`.")
        return {}
    wrong = {setting: _wrong(setting, settings) for setting in grid}
    for setting, text in wrong.items():
        if text:
            problems.add([*keys, setting], text)
    varied = {setting: grid[setting] for setting, text in wrong.items() if not text}
    count = prod(map(len, varied.values()))
    if count > room:
        text = f"a suite can have {MOST:,} combinations at most; this grid makes {count:,}, {room:,} are left. "
        problems.add(keys, f"{text}Vary fewer settings, or split the suite.")
        return {setting: values[:1] for setting, values in varied.items()}
    return varied


def _wrong(setting: str, settings: Mapping[str, Any]) -> str:
    """Return the problem of one setting of a grid, or the empty string."""
    grid, values = settings["grid"], settings["grid"][setting]
    if not isinstance(values, list) or not values:
        return f"{setting!r} must be a list of values, such as `[1, 2]` (found {values!r})."
    words = [word(value) for value in values]
    twice = next((one for place, one in enumerate(words) if one in words[:place]), None)
    if twice is not None:
        return f"{setting!r} lists {twice} twice. Keep one."
    if _given(settings, setting.split(".")):
        return f"{setting!r} is set both in the grid and in the model. Keep one."
    outer = next((other for other in grid if setting.startswith(f"{other}.")), None)
    return f"{setting!r} is inside {outer!r}, which the grid varies as a whole. Keep one." if outer else ""


def _given(settings: Mapping[str, Any], keys: Sequence[str]) -> bool:
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
            text = f"a combination of {grid.name!r} has the name {name!r}, as another model does. Rename that model."
            problems.add(("models", name), text)


def _with(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a model with those of one combination."""
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
    """Record the place of the grid as that of each setting it varies."""
    for setting in grid.settings:
        place = source.places.get(("models", grid.name, "grid", setting))
        keys = setting.split(".")
        for end in range(1, len(keys) + 1):
            if place is not None:
                source.places.setdefault(("models", grid.name, *keys[:end]), place)
