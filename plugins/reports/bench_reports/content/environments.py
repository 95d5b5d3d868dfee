"""Descriptions of the environments in which cells were computed, and of differences between cells."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench_core.runs.results import CellResult, Run
from bench_core.runs.unverified import read_unverified
from bench_core.suites.axes import AXES
from bench_reports.content.sorting import by_key, name_on, ordered

ALWAYS = ("python", "torch", "bench", "device", "precision", "threads")  # always shown; neither host nor time
#: Groups of keys shown only where they differ, with the prefixes of their names.
GROUPS = {"libraries": "", "code": "code of ", "process": ""}
MAX_NAMES = 8


def environments(run: Run) -> list[dict[str, Any]]:
    """Return the publishable properties of each environment of a run."""
    recorded = run.info.get("environments") or [run.info.get("environment") or {}]
    return [{key: environment[key] for key in (*ALWAYS, *GROUPS) if key in environment} for environment in recorded]


def environment_rows(run: Run) -> list[list[str]]:
    """Return a table with a column for each environment, including libraries and code; headings first."""
    flat = [
        {key: value for key, value in environment.items() if key not in GROUPS}
        | {f"{group}: {name}": value for group in GROUPS for name, value in environment.get(group, {}).items()}
        for environment in environments(run)
    ]
    names = [f"environment {number}" for number in range(1, len(flat) + 1)] if len(flat) > 1 else ["value"]
    keys = dict.fromkeys(key for environment in flat for key in environment)
    return [["", *names], *([key, *(str(environment.get(key, "–")) for environment in flat)] for key in keys)]


def computed_with(run: Run) -> str:
    """Return versions and the kind of hardware, for each group of cells if they differ."""
    several, groups = environments(run), _groups(run.cells)
    if len(groups) < 2:
        return _words(several[next(iter(groups), 0)], ALWAYS)
    differing = _differing([several[place] for place in groups])
    return _by_group(run, groups, [*ALWAYS, *(key for key in differing if key not in ALWAYS)], run.cells)


def unlike(run: Run, cells: Iterable[CellResult]) -> str:
    """Return the footnote on numbers computed in different environments; empty if there is one environment."""
    inside = list(cells)
    groups = _groups(inside)
    if len(groups) < 2:
        return ""
    several = environments(run)
    keys = _differing([several[place] for place in groups])
    return f"Computed in different environments: {_by_group(run, groups, keys, inside)}."


def unverified(run: Run, cells: Iterable[CellResult]) -> str:
    """Return the footnote on numbers imported without verification; empty if there are none."""
    trusted, inside = read_unverified(run.folder), list(cells)
    imported = {id(cell): [key for key in cell.artifacts.values() if key in trusted] for cell in inside}
    names = sorted({name for keys in imported.values() for key in keys for name in trusted[key]})
    if not names:
        return ""
    which = _which([cell for cell in inside if imported[id(cell)]], inside)
    return f"Imported without verification ({which}): the code of {abridged(names)} was not installed."


def _groups(cells: Iterable[CellResult]) -> dict[int, list[CellResult]]:
    """Return cells by the index of their environment; a cell with several environments is in several groups."""
    return by_key((place, cell) for cell in cells for place in cell.environments)


def _differing(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys whose values differ between the environments that have them."""
    flat = [_flat(environment) for environment in several]
    keys = dict.fromkeys(key for environment in flat for key in environment)
    return [key for key in keys if len({environment[key] for environment in flat if key in environment}) > 1]


def _flat(environment: Mapping[str, Any]) -> dict[str, Any]:
    flat = {key: environment[key] for key in ALWAYS if key in environment}
    for group, prefix in GROUPS.items():
        flat |= {f"{prefix}{name}": value for name, value in environment.get(group, {}).items() if name not in flat}
    return flat


def _words(environment: Mapping[str, Any], keys: Iterable[str]) -> str:
    flat = _flat(environment)
    return ", ".join(f"{key} {flat[key]}" for key in keys if key in flat)


def _by_group(
    run: Run, groups: Mapping[int, Sequence[CellResult]], keys: Sequence[str], every: Sequence[CellResult]
) -> str:
    """Describe the environment of each group of cells, in suite order of their first cells."""
    several = environments(run)
    order = dict.fromkeys(place for cell in ordered(run) for place in cell.environments if place in groups)
    return "; ".join(f"{_words(several[place], keys)} ({_which(groups[place], every)})".lstrip() for place in order)


def _which(group: Sequence[CellResult], every: Sequence[CellResult]) -> str:
    """Describe the cells of a group by their distinguishing names, or by their number if names are ambiguous."""
    axes = {}
    for axis in AXES:
        names = list(dict.fromkeys(name_on(cell, axis) for cell in group))
        if len(names) < len({name_on(cell, axis) for cell in every}):
            axes[axis] = names
    matching = sum(all(name_on(cell, axis) in names for axis, names in axes.items()) for cell in every)
    words = [f"{axis} {abridged(names)}" for axis, names in axes.items()]
    if matching == len(group) and words:
        return "; ".join(words)
    return f"{len(group):,} of {len(every):,} cells"


def abridged(names: Sequence[str], separator: str = ", ") -> str:
    """Return the first names and the number of the others."""
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return f"{separator.join(names[:MAX_NAMES])}{more}"
