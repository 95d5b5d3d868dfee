"""Whether runs are of one suite, told by their folders alone, and the suite that they are of together.

They may differ in seeds, in what is skipped, in which names of an axis there are, in hardware, and in limits that no
result depends on. Where two runs have the same name, it must mean the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Run
from bench_core.suites import yaml_source as located
from bench_core.suites.published import plain
from bench_core.suites.schema import SuiteFile

PARTS = ("tasks", "models", "decoders", "metrics", "probes")
WHOLE = ("title", "source", "note", "training", "limits", "choose", "tables", "figures", "claims")
FREE = ("seeds", "skip")  # settings that may be changed by `--set` for a part of the cells, and mean nothing for all
LONGEST = 60  # characters of a value in a message
MOST = 20  # differences that are told


@dataclass(frozen=True)
class Part:
    """A run that is to be united with others."""

    run: Run

    @cached_property
    def data(self) -> dict[str, Any]:
        """The effective suite, as the run keeps it."""
        return located.read(self.run.folder / "suite.yaml").data

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All that must be the same wherever two runs have it."""
        info, file = self.run.info, SuiteFile.model_validate(self.data).model_dump(mode="json", by_alias=True)
        found: dict[str, Any] = {"suite": file["suite"], "profile": info.get("profile")}
        found |= {section: {_Name(name): part for name, part in file[section].items()} for section in PARTS}
        found |= {section: file[section] for section in WHOLE}
        found["limits"] = {name: limit for name, limit in file["limits"].items() if name != "batch_size"}
        prepared = {name: about for name, about in info["tasks"].items() if "status" not in about}
        found["what tasks are made of"] = {_Name(name): about for name, about in prepared.items()}
        for what, known in (info.get("read") or {}).items():
            found[_Name(f"files of {what}")] = {_Name(name): digests for name, digests in known.items()}
        found["published"] = {_Name(name): table for name, table in plain(self.run.published).items()}
        return found

    @property
    def seeds(self) -> list[int]:
        """The seeds of its suite, in their order."""
        seeds = self.run.suite.seeds
        return list(range(seeds)) if isinstance(seeds, int) else seeds


class _Name(str):
    """A key that only some runs may have."""


def check(parts: Sequence[Part]) -> None:
    """Raise SuiteError with all that keeps runs from being of one suite."""
    told: dict[str, str] = {}
    for one, other in combinations(parts, 2):
        for place, ours, theirs in _differences("", one.settings, other.settings):
            values = f"{_shown(ours)} in {one.run.folder}, {_shown(theirs)} in {other.run.folder}"
            told.setdefault(place, f"  {place}: {values}")
    if told:
        lines = [*told.values()]
        more = [f"  and {len(lines) - MOST:,} more"] if len(lines) > MOST else []
        advice = "Runs can be merged that differ in seeds, skipped cells, names on axes, and hardware."
        raise SuiteError("\n".join(["these runs are not of one suite:", *lines[:MOST], *more, advice]))


def _differences(place: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield where two values differ, and what stands there."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for name in dict.fromkeys([*ours, *theirs]):
            if name in ours and name in theirs:
                yield from _differences(f"{place}.{name}".lstrip("."), ours[name], theirs[name])
            elif not isinstance(name, _Name):
                yield f"{place}.{name}".lstrip("."), ours.get(name), theirs.get(name)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(f"{place}.{number}", *pair)
    elif ours != theirs and str(ours) != str(theirs):  # no nan equals another
        yield place, ours, theirs


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def united(parts: Sequence[Part], cells: Sequence[CellResult]) -> dict[str, Any]:
    """Return the suite of runs that agree, for all of their cells."""
    found = deepcopy(parts[0].data)
    for section in PARTS:
        several = [part.data.get(section) or {} for part in parts]
        if any(names.keys() != several[0].keys() for names in several):
            found[section] = {name: _first(name, several) for name in in_order(several)}
    if len({tuple(part.run.suite.splits) for part in parts}) > 1:
        found["splits"] = in_order([part.run.suite.splits for part in parts])
    _unite(found, parts, "seeds", _seeds(parts))
    _unite(found, parts, "skip", _skipped(parts, cells))
    _unite(found, parts, "hardware", _hardware(parts))
    return found


def _unite(found: dict[str, Any], parts: Sequence[Part], key: str, value: Any) -> None:
    """Put a value in the place of those of the parts, unless they agree; an empty one goes."""
    if all(part.data.get(key) == parts[0].data.get(key) for part in parts):
        return
    found[key] = value
    if not value:
        del found[key]


def _seeds(parts: Sequence[Part]) -> int | list[int]:
    seeds = sorted({seed for part in parts for seed in part.seeds})
    return len(seeds) if seeds == list(range(len(seeds))) else seeds


def _skipped(parts: Sequence[Part], cells: Sequence[CellResult]) -> list[Any]:
    """Return what none of the runs has: each entry of theirs that keeps out no cell, and no number, of any."""
    found: list[Any] = []
    for part in parts:
        for raw, skip in zip(part.data.get("skip") or [], part.run.suite.skip, strict=True):
            numbers = ((one, name) for one in cells for name in (one.numbers if skip.metric else [None]))
            covered = (skip.covers(**_names(one), metric=metric) for one, metric in numbers)
            if raw not in found and not any(covered):
                found.append(raw)
    return found


def _names(one: CellResult) -> dict[str, str]:
    return {axis: name for axis, name in one.cell.items() if axis != "seed"}


def _hardware(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the hardware of every name, as the first run has it that has the name; one alone has none."""
    several = [_named_hardware(part) for part in parts]
    found = {name: _first(name, several) for name in in_order(several)}
    return found["default"] if [*found] == ["default"] else found


def _named_hardware(part: Part) -> dict[str, Any]:
    raw = part.data.get("hardware") or {}
    several = isinstance(part.run.suite.hardware, dict)
    return dict(raw) if several else {"default": raw}


def _first(name: str, several: Sequence[Mapping[str, Any]]) -> Any:
    return next(one[name] for one in several if name in one)


def in_order(several: Iterable[Iterable[str]]) -> list[str]:
    """Return the names of several lists, each before those that come after it in the first list that has it."""
    found: list[str] = []
    for names in several:
        place = len(found)
        for name in reversed([*names]):
            if name in found:
                place = found.index(name)
            else:
                found.insert(place, name)
    return found
