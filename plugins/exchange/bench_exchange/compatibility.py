"""Checks whether runs can be merged, and chooses the run that each cell is taken from.

They may differ in seeds, in what is skipped, in which names of an axis there are, in hardware, and in limits that no
result depends on. Where two runs have the same name, it must mean the same.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, TypeAlias

from bench_core.errors import SuiteError
from bench_core.registry import sections
from bench_core.runs.results import CellResult, Run
from bench_core.runs.run_suite import read_suite_file
from bench_core.runs.selecting import cell_name
from bench_core.suites import yaml_source as located
from bench_core.suites.axes import AXES
from bench_core.suites.schema import SuiteFile
from bench_core.suites.sections import schema_of

PARTS = ("tasks", "models", "decoders", "metrics", "probes")
WHOLE = ("suite", "title", "source", "note", "quote", "samples", "training")
TOLD = ("python", "torch", "bench", "device", "precision", "threads")  # of an environment; neither host nor time
RANKS = {"done": 2, "failed": 1, "not run": 0}
OF_SPLITS = ("files of tasks.", "what tasks are made of.")  # what runs of other splits have besides
LONGEST = 200  # characters of a value in a message
MOST = 20  # differences, and cells, in one message

Place: TypeAlias = tuple[Any, ...]  #: of a cell in the matrix: its names, and its seed


def suite_of(run: Run) -> dict[str, Any]:
    """Return the suite of a run as it is in its folder, grids included."""
    return located.read(run.folder / "suite.yaml").data


def check(runs: Sequence[Run]) -> None:
    """Raise SuiteError with all that keeps runs from being of one suite."""
    known: dict[str, tuple[Run, Any]] = {}
    found: dict[str, str] = {}
    for run in runs:
        every = _settings(run)
        of_splits = {name: setting for name, setting in every.items() if name.startswith(OF_SPLITS)}
        leaves = dict(leaf for name, setting in of_splits.items() for leaf in _leaves(name, setting))
        for name, setting in ({name: one for name, one in every.items() if name not in of_splits} | leaves).items():
            first, theirs = known.setdefault(name, (run, setting))
            here, there = dict(_leaves(name, theirs)), dict(_leaves(name, setting))
            for place in {**here, **there}:
                one, other = _text(here.get(place)), _text(there.get(place))  # as text: no NaN equals another
                if one != other:
                    found.setdefault(place, f"  {place}: {one} in {first.folder}, {other} in {run.folder}")
    if found:
        advice = "Runs can be merged that differ in seeds, skipped cells, names on axes, and hardware."
        raise SuiteError("\n".join(["these runs are not of one suite:", *_listed([*found.values()]), advice]))


def _settings(run: Run) -> dict[str, Any]:
    """Return what must be the same in all runs that have it; parts, files and published tables by their names."""
    written = suite_of(run)
    file = read_suite_file(written).model_dump(mode="json", by_alias=True)
    named = {section: file[section] for section in PARTS}
    named |= {f"files of {what}": files for what, files in run.info.get("read", {}).items()}
    named["what tasks are made of"] = {
        name: {word: value for word, value in about.items() if word != "restricted"}
        for name, about in prepared(run).items()
    }
    for section in sections():
        named |= section.alike(run)
    found = {section: file[section] for section in WHOLE} | {"profile": run.info.get("profile")}
    found["limits"] = {name: limit for name, limit in file["limits"].items() if name != "batch_size"}
    for section in sections():
        if section.schema:
            schema = schema_of(section)
            own = {key: value for key, value in written.items() if key in schema.model_fields}
            found |= schema.model_validate(own).model_dump(mode="json", by_alias=True)
    found |= {key: value for key, value in written.items() if key not in {*file, *found}}  # of what is not here
    return found | {f"{section}.{name}": part for section, parts in named.items() for name, part in parts.items()}


def prepared(run: Run) -> dict[str, Any]:
    """Return what a run tells of those of its tasks that it could prepare."""
    return {name: task for name, task in run.info["tasks"].items() if "status" not in task}


def _leaves(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all that is in nested mappings and lists, by its place."""
    if not isinstance(value, (Mapping, list)):
        yield place, value
        return
    for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _leaves(f"{place}.{name}", inner)


def _text(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)[:LONGEST]


def _listed(lines: Sequence[str]) -> list[str]:
    return [*lines[:MOST], *([f"  and {len(lines) - MOST:,} more"] if len(lines) > MOST else [])]


@dataclass(frozen=True)
class Taken:
    """A cell, and the run that it is taken from."""

    result: CellResult
    run: Run


def place_of(cell: Mapping[str, Any]) -> Place:
    """Return where a cell is in the matrix."""
    return tuple(cell.get(axis) for axis in AXES)


def matrix(suite: SuiteFile) -> list[dict[str, Any]]:
    """Return the names of each cell of a suite, in its order, but of those that it skips."""
    hardware = suite.hardware if isinstance(suite.hardware, dict) else ["default"]
    axes = (suite.tasks, suite.models, suite.decoders or [None], suite.splits, hardware, seeds_of(suite))
    cells = (dict(zip(AXES, names, strict=True)) for names in product(*axes))
    return [cell for cell in cells if not any(skip.covers(**cell) for skip in suite.skip if not skip.metric)]


def seeds_of(suite: SuiteFile) -> Sequence[int]:
    """Return the seeds of a suite, which may give their number alone."""
    return range(suite.seeds) if isinstance(suite.seeds, int) else suite.seeds


@dataclass
class Choice:
    """Takes every cell from the run in which it got furthest, or which is preferred."""

    runs: Sequence[Run]  # those that are preferred come first
    preferred: int  # how many of them are
    notes: list[str] = field(default_factory=list)
    conflicts: dict[str, list[str]] = field(default_factory=dict)  # how two differ -> cells

    def cells(self) -> dict[Place, Taken]:
        """Return every cell once; raise SuiteError where two runs differ and none of them is preferred."""
        several: dict[Place, list[Taken]] = {}
        for run in self.runs:
            for cell in run.cells:
                several.setdefault(place_of(cell.cell), []).append(Taken(cell, run))
        found = {place: self._best(alike) for place, alike in several.items()}
        if self.conflicts:
            lines = [f"  {'; '.join(_listed(cells))}: {how}" for how, cells in self.conflicts.items()]
            said = ["cells were computed otherwise in one run than in another:", *lines]
            raise SuiteError("\n".join([*said, "Say by --prefer RUN from which they are taken."]))
        return found

    def _best(self, alike: Sequence[Taken]) -> Taken:
        """Return the cell that got furthest, with what others of its status have besides."""
        best = max(alike, key=lambda one: RANKS[one.result.status])  # the first of them
        for other in (one for one in alike if one is not best):
            name = cell_name(other.result.cell)
            note = f"{name}: taken from {best.run.folder.name}, where it"
            if other.result.status != best.result.status:
                theirs = f"{other.result.status} in {other.run.folder.name}"
                self.notes.append(f"{note} is {best.result.status}, but {theirs}")
            elif not (how := _conflict(best, other)):
                best = Taken(_united(best.result, other.result), best.run)
            elif best.run in self.runs[: self.preferred]:
                self.notes.append(f"{note} differs from that in {other.run.folder.name} ({how})")
            else:
                self.conflicts.setdefault(how, []).append(name)
        return best


def _conflict(one: Taken, other: Taken) -> str:
    """Say how two results of a cell differ; nothing if one may stand for both."""
    ours, theirs = one.result, other.result
    where = f"({one.run.folder} and {other.run.folder})"
    if any(theirs.artifacts.get(name, key) != key for name, key in ours.artifacts.items()):
        return f"{_computed_with(one, other)} {where}"
    if any(repr(theirs.numbers.get(name, number)) != repr(number) for name, number in ours.numbers.items()):
        return f"other numbers under the same keys; `bench verify` tells which are not those of a store {where}"
    return ""


def _computed_with(*several: Taken) -> str:
    """Say what two results were computed with that differs."""
    environments = [one.run.info["environments"][place] for one in several for place in one.result.environments]
    words = _unlike([_told(one) for one in environments])
    sizes = dict.fromkeys(str(one.run.suite.limits.batch_size) for one in several)
    return ", ".join([*words, *([f"batch_size {' and '.join(sizes)}"] if len(sizes) > 1 else [])])


def _told(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be told of an environment, by name."""
    told = {name: environment[name] for name in TOLD if name in environment}
    libraries = {name: one for name, one in environment.get("libraries", {}).items() if name not in told}
    code = {f"code of {name}": one for name, one in environment.get("code", {}).items()}
    return told | libraries | code


def _unlike(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what differs between environments, such as `device cpu and cuda`."""
    names = dict.fromkeys(name for one in several for name in one)
    values = {name: dict.fromkeys(str(one[name]) for one in several if name in one) for name in names}
    return [f"{name} {' and '.join(known)}" for name, known in values.items() if len(known) > 1]


def _united(one: CellResult, other: CellResult) -> CellResult:
    """Return a cell with all that two runs have of it, who agree where both have it."""
    numbers, artifacts = {**other.numbers, **one.numbers}, {**other.artifacts, **one.artifacts}
    return replace(one, numbers=numbers, artifacts=artifacts, probes={**other.probes, **one.probes})
