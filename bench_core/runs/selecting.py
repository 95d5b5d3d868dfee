"""Names of cells, and selecting cells by the filters given on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.suites.axes import AXES
from bench_core.suites.cells import join

T = TypeVar("T")

Axes = Callable[[T], Mapping[str, Any]]  # of a cell: its names


def select(cells: Sequence[T], axes: Axes[T], filters: str) -> list[T]:
    """Return the cells that pass filters such as `model=lstm,seed=0`; raise SuiteError for an unknown name.

    Names may be abbreviated.
    """
    for axis, given in pairs(filters):
        if given is None:
            raise SuiteError(f"{axis!r} is not a filter. Write AXIS=NAME, such as model=lstm,seed=0.")
        axis = complete("axis", axis, list(AXES))
        names = names_on(cells, axes, axis)
        wanted = complete(axis, given, names)
        cells = [one for one in cells if name_on(axes(one), axis) == wanted]
    return [*cells]


def chosen(cells: Sequence[T], axes: Axes[T], which: str) -> list[T]:
    """Return the cells selected by filters, or by words of their names; all cells if `which` is empty.

    Words are parts of a name such as `words/lstm/greedy/test, seed 0`. Raises SuiteError if no cell matches.
    """
    if all(axis in AXES and name is not None for axis, name in pairs(which)):
        return select(cells, axes, which)
    names = [cell_name(axes(one)) for one in cells]
    words = _words(which)
    found = [one for one, name in zip(cells, names, strict=True) if words <= _words(name)]
    if not found:
        known = sorted({word for name in names for word in _words(name)})
        odd = sorted(words.difference(known)) or [which]
        raise SuiteError(f"no cell is called {which!r}. {suggestion(odd[0], known)}")
    return found


def selected(cells: Sequence[T], axes: Axes[T], which: str) -> list[T]:
    """Return the cells that pass filters, as `select` does, or that words of their names select, as `chosen` does."""
    return (select if "=" in which and "/" not in which else chosen)(cells, axes, which)


def only_one(cells: Sequence[T], axes: Axes[T], which: str) -> T:
    """Return the only cell that is `selected`; raise SuiteError if there is none, or more than one."""
    found = selected(cells, axes, which)
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
