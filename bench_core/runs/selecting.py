"""Selects runs by name, and cells by filters, given on the command line."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.suites.axes import AXES
from bench_core.suites.cells import join

LEFT_OUT = "not selected by --only"  #: reason why a cell was not run

T = TypeVar("T")

Axes = Callable[[T], Mapping[str, Any]]  # returns the names of a cell by axis


def chosen(cells: Sequence[T], axes: Axes[T], which: str) -> list[T]:
    """Return the cells that match filters such as `model=lstm,seed=0`, and whose names contain any further words.

    Words are parts of a name such as `words/lstm/greedy/test, seed 0`. Axes and names in filters may be abbreviated.
    Returns all cells if `which` is empty; raises SuiteError for an unknown name, or if no cell matches.
    """
    names = [_split_words(cell_name(axes(cell))) for cell in cells] if which.strip() else []
    vocabulary = {word for words in names for word in words}
    filters, words = list[tuple[str, str]](), set[str]()
    for axis, value in pairs(which):
        whole = _split_words(axis if value is None else f"{axis}={value}")
        if value is None or "/" in axis or whole <= vocabulary:
            words |= whole
        else:
            first, _, rest = value.partition(",")
            is_whole = any(value in axes(cell).values() for cell in cells)  # names may contain commas
            name, more = (value, "") if is_whole or not _split_words(rest) <= vocabulary else (first, rest)
            words |= _split_words(more)
            filters.append((axis, name))
    matches = [cell for cell, parts in zip(cells, names, strict=True) if words <= parts] if words else [*cells]
    if not cells:
        raise SuiteError("the run has no cells: its suite has no models.")
    if not matches:
        unknown = sorted(words.difference(vocabulary)) or [which]
        raise SuiteError(f"no cell is called {which!r}. {suggestion(unknown[0], sorted(vocabulary))}")
    for axis, value in filters:
        axis = complete("axis", axis, list(AXES))
        wanted = complete(axis, value, names_on(matches, axes, axis))
        matches = [cell for cell in matches if name_on(axes(cell), axis) == wanted]
    return matches


def only_one(cells: Sequence[T], axes: Axes[T], which: str) -> T:
    """Return the only matching cell (see `chosen`); raise SuiteError if there is none, or more than one."""
    matches = chosen(cells, axes, which)
    if len(matches) == 1:
        return matches[0]
    names_by_axis = {axis: names_on(matches, axes, axis) for axis in AXES}
    options = [f"{axis} ({', '.join(names)})" for axis, names in names_by_axis.items() if len(names) > 1]
    raise SuiteError(f"{len(matches) or 'no'} cells match {which!r}. Choose by {', '.join(options)}.")


def cell_name(cell: Mapping[str, Any]) -> str:
    """Return the name of a cell, such as `words/lstm/greedy/test, seed 0`."""
    names = join(*(str(cell[axis]) for axis in AXES[:-1] if cell.get(axis) not in (None, "default")))
    return f"{names}, seed {cell['seed']}" if "seed" in cell else names


def _split_words(name: str) -> set[str]:
    return {word for word in re.split(r"[/,]\s*|\s+(?=seed )", name.strip()) if word}


def pairs(filters: str) -> list[tuple[str, str | None]]:
    """Return the axis and name of each filter; without `=`, the name is None."""
    words = [word.partition("=") for word in re.split(r"[,\s]+(?=\w+=)", filters.strip(", ")) if word]
    return [(axis, name if equals else None) for axis, equals, name in words]


def name_on(axes: Mapping[str, Any], axis: str) -> str:
    """Return the name of a cell on an axis, or `none`."""
    name = axes.get(axis)
    return "none" if name is None else str(name)


def names_on(cells: Sequence[T], axes: Axes[T], axis: str) -> list[str]:
    """Return the distinct names of cells on an axis."""
    return list(dict.fromkeys(name_on(axes(cell), axis) for cell in cells))


def complete(what: str, given: str, known: list[str]) -> str:
    """Return the given name, or the only name that starts with it; seeds cannot be abbreviated."""
    if given in known:
        return given
    matches = [name for name in known if given and name.startswith(given) and what != "seed"]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SuiteError(f"{given!r} is ambiguous: {', '.join(matches)}. Use a longer prefix.")
    raise SuiteError(f"no {what} of these cells is called {given!r}. {suggestion(given, known)}")


def run_folder(run: Path, runs: Path) -> Path:
    """Return the folder of a run, given as a path, or as a name in the folder `runs`."""
    if run.is_file():
        raise SuiteError(f"{run} is a file. `bench import {run}` adds an export to {runs}/; name the run there.")
    by_name = runs / run
    return by_name if not run.exists() and len(run.parts) == 1 and by_name.is_dir() else run
