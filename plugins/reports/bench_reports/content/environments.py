"""Describes the environments in which cells were computed, and which cells differ in them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench_core.runs.results import CellResult, Run
from bench_core.runs.unverified import read_unverified
from bench_core.suites.axes import AXES
from bench_reports.content.sorting import by_key, name_on, ordered

ALWAYS = ("python", "torch", "bench", "device", "precision", "threads")  # shown always; neither host nor time
#: By name, shown where they differ; and what is said before them.
GROUPS = {"libraries": "", "code": "code of ", "process": ""}
MOST_NAMES = 8  # of an axis, or of cells that a figure leaves out for one reason


def environments(run: Run) -> list[dict[str, Any]]:
    """Return all that may be said of what the cells of a run were computed with."""
    known = run.info.get("environments") or [run.info.get("environment") or {}]
    return [{key: one[key] for key in (*ALWAYS, *GROUPS) if key in one} for one in known]


def environment_rows(run: Run) -> list[list[str]]:
    """Return a table with its headings first: a column for each environment, with libraries and code."""
    flat = [
        {key: value for key, value in one.items() if key not in GROUPS}
        | {f"{group}: {name}": value for group in GROUPS for name, value in one.get(group, {}).items()}
        for one in environments(run)
    ]
    names = [f"environment {number}" for number in range(1, len(flat) + 1)] if len(flat) > 1 else ["value"]
    keys = dict.fromkeys(key for one in flat for key in one)
    return [["", *names], *([key, *(str(one.get(key, "–")) for one in flat)] for key in keys)]


def computed_with(run: Run) -> str:
    """Return versions and the kind of hardware; where cells differ in them, those of each group of cells."""
    several, groups = environments(run), _groups(run.cells)
    if len(groups) < 2:
        return _words(several[next(iter(groups), 0)], ALWAYS)
    differing = _differing([several[place] for place in groups])
    return _by_group(run, groups, [*ALWAYS, *(key for key in differing if key not in ALWAYS)], run.cells)


def unlike(run: Run, cells: Iterable[CellResult]) -> str:
    """Return the footnote of numbers that were not all computed alike; nothing where they were."""
    inside = list(cells)
    groups = _groups(inside)
    if len(groups) < 2:
        return ""
    several = environments(run)
    keys = _differing([several[place] for place in groups])
    return f"Not all computed alike: {_by_group(run, groups, keys, inside)}."


def unverified(run: Run, cells: Iterable[CellResult]) -> str:
    """Return the footnote of numbers that were imported on trust; nothing where none was."""
    trusted, inside = read_unverified(run.folder), list(cells)
    found = {id(one): [key for key in one.artifacts.values() if key in trusted] for one in inside}
    names = sorted({name for keys in found.values() for key in keys for name in trusted[key]})
    if not names:
        return ""
    which = _which([one for one in inside if found[id(one)]], inside)
    return f"Unverified, imported on trust ({which}): the code of {abridged(names)} was not installed."


def _groups(cells: Iterable[CellResult]) -> dict[int, list[CellResult]]:
    """Return cells by the place of what they were computed with; one computed with several is in several groups."""
    return by_key((place, one) for one in cells for place in one.environments)


def _differing(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what not all environments that know it have alike."""
    flat = [_flat(one) for one in several]
    keys = dict.fromkeys(key for one in flat for key in one)
    return [key for key in keys if len({one[key] for one in flat if key in one}) > 1]


def _flat(one: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: one[key] for key in ALWAYS if key in one}
    for group, before in GROUPS.items():
        found |= {f"{before}{name}": value for name, value in one.get(group, {}).items() if name not in found}
    return found


def _words(one: Mapping[str, Any], keys: Iterable[str]) -> str:
    flat = _flat(one)
    return ", ".join(f"{key} {flat[key]}" for key in keys if key in flat)


def _by_group(
    run: Run, groups: Mapping[int, Sequence[CellResult]], keys: Sequence[str], every: Sequence[CellResult]
) -> str:
    """Say what each group of cells was computed with, in the order of their first cells in the suite."""
    several = environments(run)
    order = dict.fromkeys(place for one in ordered(run) for place in one.environments if place in groups)
    return "; ".join(f"{_words(several[place], keys)} ({_which(groups[place], every)})".lstrip() for place in order)


def _which(group: Sequence[CellResult], every: Sequence[CellResult]) -> str:
    """Say which cells are in a group by the names that not all cells have; how many, where these do not tell."""
    axes = {}
    for axis in AXES:
        names = list(dict.fromkeys(name_on(one, axis) for one in group))
        if len(names) < len({name_on(one, axis) for one in every}):
            axes[axis] = names
    matching = sum(all(name_on(one, axis) in names for axis, names in axes.items()) for one in every)
    words = [f"{axis} {abridged(names)}" for axis, names in axes.items()]
    if matching == len(group) and words:
        return "; ".join(words)
    return f"{len(group):,} of {len(every):,} cells"


def abridged(names: Sequence[str], separator: str = ", ") -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"{separator.join(names[:MOST_NAMES])}{more}"
