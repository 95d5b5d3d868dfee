"""What the cells of a run were computed with, and which of them with what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench_core.runs.results import CellResult, Run
from bench_core.suites.axes import AXES
from bench_reports.content.sorting import name_on, ordered

TOLD = ("python", "torch", "bench", "device", "precision", "threads")  # always; neither host nor time
GROUPS = {"libraries": "", "code": "code of "}  # by name, told where they differ; and what is said before them
MOST_NAMES = 8  # of an axis


def environments(run: Run) -> list[dict[str, Any]]:
    """Return all that may be told of what the cells of a run were computed with."""
    known = run.info.get("environments") or [run.info.get("environment") or {}]
    return [{key: one[key] for key in (*TOLD, *GROUPS) if key in one} for one in known]


def computed_with(run: Run) -> str:
    """Return versions and the kind of hardware; where cells differ in them, those of each group of cells."""
    several, groups = environments(run), _groups(run.cells)
    if len(groups) < 2:
        return _words(several[next(iter(groups), 0)], TOLD)
    differing = _differing([several[place] for place in groups])
    keys = [*TOLD, *(key for key in differing if key not in TOLD)]
    return "; ".join(_of_group(several[place], keys, cells, run.cells) for place, cells in _first(run, groups))


def unlike(run: Run, cells: Iterable[CellResult]) -> str:
    """Return the footnote of numbers that were not all computed alike; nothing where they were."""
    inside = list(cells)
    groups = _groups(inside)
    if len(groups) < 2:
        return ""
    several = environments(run)
    keys = _differing([several[place] for place in groups])
    told = [_of_group(several[place], keys, group, inside) for place, group in _first(run, groups)]
    return f"Not all computed alike: {'; '.join(told)}."


def _groups(cells: Iterable[CellResult]) -> dict[int, list[CellResult]]:
    """Return cells by the place of what they were computed with; one computed with several is in several groups."""
    groups: dict[int, list[CellResult]] = {}
    for one in cells:
        for place in one.environments:
            groups.setdefault(place, []).append(one)
    return groups


def _first(run: Run, groups: Mapping[int, list[CellResult]]) -> list[tuple[int, list[CellResult]]]:
    """Return groups in the order of their first cells in the suite."""
    order = dict.fromkeys(place for one in ordered(run) for place in one.environments if place in groups)
    return [(place, groups[place]) for place in order]


def _differing(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what not all environments that know it have alike."""
    flat = [_flat(one) for one in several]
    keys = dict.fromkeys(key for one in flat for key in one)
    return [key for key in keys if len({one[key] for one in flat if key in one}) > 1]


def _flat(one: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: one[key] for key in TOLD if key in one}
    for group, before in GROUPS.items():
        found |= {f"{before}{name}": value for name, value in one.get(group, {}).items() if name not in found}
    return found


def _words(one: Mapping[str, Any], keys: Iterable[str]) -> str:
    flat = _flat(one)
    return ", ".join(f"{key} {flat[key]}" for key in keys if key in flat)


def _of_group(
    one: Mapping[str, Any], keys: Sequence[str], group: Sequence[CellResult], every: Sequence[CellResult]
) -> str:
    return f"{_words(one, keys)} ({_which(group, every)})".lstrip()


def _which(group: Sequence[CellResult], every: Sequence[CellResult]) -> str:
    """Say which cells are in a group by the names that not all cells have; how many, where these do not tell."""
    axes = {}
    for axis in AXES:
        names = list(dict.fromkeys(name_on(one, axis) for one in group))
        if len(names) < len({name_on(one, axis) for one in every}):
            axes[axis] = names
    told = sum(all(name_on(one, axis) in names for axis, names in axes.items()) for one in every)
    words = [f"{axis} {_listed(names)}" for axis, names in axes.items()]
    if told == len(group) and words:
        return "; ".join(words)
    return f"{len(group):,} of {len(every):,} cells"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (
        f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    )
