"""Names of runs and cells as given on the command line, and selecting cells by filters."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.suites.axes import AXES
from bench_core.suites.cells import join

LEFT_OUT = "not selected by --only"  #: the reason of cells that a run leaves out

T = TypeVar("T")

Axes = Callable[[T], Mapping[str, Any]]  # of a cell: its names


def chosen(cells: Sequence[T], axes: Axes[T], which: str) -> list[T]:
    """Return the cells that pass filters such as `model=lstm,seed=0` and whose names have all other words.

    Words are parts of a name such as `words/lstm/greedy/test, seed 0`. Axes and names of filters may be abbreviated.
    Returns all cells if `which` is empty; raises SuiteError for an unknown name, or if no cell matches.
    """
    names = [_words(cell_name(axes(one))) for one in cells] if which.strip() else []
    known = {word for words in names for word in words}
    filters, words = list[tuple[str, str]](), set[str]()
    for axis, given in pairs(which):
        whole = _words(axis if given is None else f"{axis}={given}")
        if given is None or "/" in axis or whole <= known:
            words |= whole
        else:
            first, _, rest = given.partition(",")
            is_whole = any(given in axes(one).values() for one in cells)  # names may have commas
            name, more = (given, "") if is_whole or not _words(rest) <= known else (first, rest)
            words |= _words(more)
            filters.append((axis, name))
    found = [one for one, own in zip(cells, names, strict=True) if words <= own] if words else [*cells]
    if not found:
        odd = sorted(words.difference(known)) or [which]
        raise SuiteError(f"no cell is called {which!r}. {suggestion(odd[0], sorted(known))}")
    for axis, given in filters:
        axis = complete("axis", axis, list(AXES))
        wanted = complete(axis, given, names_on(found, axes, axis))
        found = [one for one in found if name_on(axes(one), axis) == wanted]
    return found


def only_one(cells: Sequence[T], axes: Axes[T], which: str) -> T:
    """Return the only cell that is `chosen`; raise SuiteError if there is none, or more than one."""
    found = chosen(cells, axes, which)
    if len(found) == 1:
        return found[0]
    several = {axis: names_on(found, axes, axis) for axis in AXES}
    open_axes = [f"{axis} ({', '.join(names)})" for axis, names in several.items() if len(names) > 1]
    raise SuiteError(f"{len(found) or 'no'} cells match {which!r}. Choose by {', '.join(open_axes)}.")


def cell_name(cell: Mapping[str, Any]) -> str:
    """Return the name of a cell, such as `words/lstm/greedy/test, seed 0`."""
    names = join(*(str(cell[axis]) for axis in AXES[:-1] if cell.get(axis) not in (None, "default")))
    return f"{names}, seed {cell['seed']}" if "seed" in cell else names


def _words(name: str) -> set[str]:
    return {word for word in re.split(r"[/,]\s*|\s+(?=seed )", name.strip()) if word}


def pairs(filters: str) -> list[tuple[str, str | None]]:
    """Return axis and name of each filter; the name is None without `=`."""
    words = [word.partition("=") for word in re.split(r"[,\s]+(?=\w+=)", filters.strip(", ")) if word]
    return [(axis, name if equals else None) for axis, equals, name in words]


def name_on(axes: Mapping[str, Any], axis: str) -> str:
    """Return the name of a cell on an axis, or `none`."""
    name = axes.get(axis)
    return "none" if name is None else str(name)


def names_on(cells: Sequence[T], axes: Axes[T], axis: str) -> list[str]:
    """Return the distinct names of cells on an axis."""
    return list(dict.fromkeys(name_on(axes(one), axis) for one in cells))


def complete(what: str, given: str, known: list[str]) -> str:
    """Return the given name, or the only one that starts with it; seeds cannot be abbreviated."""
    if given in known:
        return given
    begun = [name for name in known if given and name.startswith(given) and what != "seed"]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise SuiteError(f"{given!r} is ambiguous: {', '.join(begun)}. Write more of it.")
    raise SuiteError(f"no {what} of these cells is called {given!r}. {suggestion(given, known)}")


def run_folder(run: Path, runs: Path) -> Path:
    """Return the folder of a run, given as that, or as a name in the folder `runs`."""
    if run.is_file():
        raise SuiteError(f"{run} is a file. `bench import {run}` adds an export to {runs}/; name the run there.")
    named = runs / run
    return named if not run.exists() and len(run.parts) == 1 and named.is_dir() else run
