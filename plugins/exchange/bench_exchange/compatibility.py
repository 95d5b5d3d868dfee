"""Checks whether runs can be merged, and chooses a run for each cell.

Runs may differ in seeds, skipped cells, names on axes, hardware, and limits that affect no result. A name used in two
runs must have the same settings in both.
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

PART_SECTIONS = ("tasks", "models", "decoders", "metrics", "probes")
SHARED_SECTIONS = ("suite", "title", "source", "note", "quote", "samples", "training")
ENVIRONMENT_FIELDS = ("python", "torch", "bench", "device", "precision", "threads")  # except host and time
RANKS = {"done": 2, "failed": 1, "not run": 0}
SPLIT_DEPENDENT = ("files of tasks.", "what tasks are made of.")  # may differ between runs of different splits
MAX_VALUE_CHARACTERS = 200  # limit for a value in messages
MAX_ITEMS = 20  # limit for differences or cells in a message

Place: TypeAlias = tuple[Any, ...]  #: names and seed of a cell in the matrix


def suite_of(run: Run) -> dict[str, Any]:
    """Return the unexpanded suite in the folder of a run."""
    return located.read(run.folder / "suite.yaml").data


def check(runs: Sequence[Run]) -> None:
    """Raise SuiteError with all differences that prevent merging."""
    known: dict[str, tuple[Run, Any]] = {}
    differences: dict[str, str] = {}
    for run in runs:
        settings = _settings(run)
        of_splits = {name: setting for name, setting in settings.items() if name.startswith(SPLIT_DEPENDENT)}
        leaves = dict(leaf for name, setting in of_splits.items() for leaf in _leaves(name, setting))
        others = {name: setting for name, setting in settings.items() if name not in of_splits}
        for name, setting in (others | leaves).items():
            first, theirs = known.setdefault(name, (run, setting))
            here, there = dict(_leaves(name, theirs)), dict(_leaves(name, setting))
            for place in {**here, **there}:
                value, other = _text(here.get(place)), _text(there.get(place))  # compared as text because NaN != NaN
                if value != other:
                    differences.setdefault(place, f"  {place}: {value} in {first.folder}, {other} in {run.folder}")
    if differences:
        advice = "Only seeds, skipped cells, names on axes, and hardware may differ."
        lines = ["these runs come from different suites:", *_truncate([*differences.values()]), advice]
        raise SuiteError("\n".join(lines))


def _settings(run: Run) -> dict[str, Any]:
    """Return the settings that must match; parts, files and published tables are listed by name."""
    suite = suite_of(run)
    file = read_suite_file(suite).model_dump(mode="json", by_alias=True)
    by_name = {section: file[section] for section in PART_SECTIONS}
    by_name |= {f"files of {what}": files for what, files in run.info.get("read", {}).items()}
    by_name["what tasks are made of"] = {
        name: {word: value for word, value in about.items() if word != "restricted"}
        for name, about in prepared_tasks(run).items()
    }
    for section in sections():
        by_name |= section.alike(run)
    settings = {section: file[section] for section in SHARED_SECTIONS} | {"profile": run.info.get("profile")}
    settings["limits"] = {name: limit for name, limit in file["limits"].items() if name != "batch_size"}
    for section in sections():
        if section.schema:
            schema = schema_of(section)
            values = {key: value for key, value in suite.items() if key in schema.model_fields}
            settings |= schema.model_validate(values).model_dump(mode="json", by_alias=True)
    settings |= {key: value for key, value in suite.items() if key not in {*file, *settings}}
    return settings | {
        f"{section}.{name}": part for section, parts in by_name.items() for name, part in parts.items()
    }


def prepared_tasks(run: Run) -> dict[str, Any]:
    """Return the task info of all tasks that a run prepared successfully."""
    return {name: task for name, task in run.info["tasks"].items() if "status" not in task}


def _leaves(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all leaves of nested mappings and lists with their paths."""
    if not isinstance(value, (Mapping, list)):
        yield place, value
        return
    for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _leaves(f"{place}.{name}", inner)


def _text(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)[:MAX_VALUE_CHARACTERS]


def _truncate(lines: Sequence[str]) -> list[str]:
    return [*lines[:MAX_ITEMS], *([f"  and {len(lines) - MAX_ITEMS:,} more"] if len(lines) > MAX_ITEMS else [])]


@dataclass(frozen=True)
class ChosenCell:
    """A cell, and the run that provides it."""

    result: CellResult
    run: Run


def place_of(cell: Mapping[str, Any]) -> Place:
    """Return the position of a cell in the matrix."""
    return tuple(cell.get(axis) for axis in AXES)


def matrix(suite: SuiteFile) -> list[dict[str, Any]]:
    """Return the names of all cells of a suite in order, without skipped cells."""
    hardware = suite.hardware if isinstance(suite.hardware, dict) else ["default"]
    axes = (suite.tasks, suite.models, suite.decoders or [None], suite.splits, hardware, seeds_of(suite))
    cells = (dict(zip(AXES, names, strict=True)) for names in product(*axes))
    return [cell for cell in cells if not any(skip.covers(**cell) for skip in suite.skip if not skip.metric)]


def seeds_of(suite: SuiteFile) -> Sequence[int]:
    """Return the seeds of a suite; a number n stands for the seeds 0 to n - 1."""
    return range(suite.seeds) if isinstance(suite.seeds, int) else suite.seeds


@dataclass
class CellChoice:
    """Takes each cell from the preferred run or from the run in which the cell got furthest."""

    runs: Sequence[Run]  # preferred runs first
    number_preferred: int
    notes: list[str] = field(default_factory=list)
    conflicts: dict[str, list[str]] = field(default_factory=dict)  # difference -> cells

    def cells(self) -> dict[Place, ChosenCell]:
        """Return every cell once; raise SuiteError if runs differ and no run is preferred."""
        candidates: dict[Place, list[ChosenCell]] = {}
        for run in self.runs:
            for cell in run.cells:
                candidates.setdefault(place_of(cell.cell), []).append(ChosenCell(cell, run))
        chosen = {place: self._best(results) for place, results in candidates.items()}
        if self.conflicts:
            lines = [f"  {'; '.join(_truncate(cells))}: {how}" for how, cells in self.conflicts.items()]
            message = ["some cells were computed differently in two runs:", *lines]
            raise SuiteError("\n".join([*message, "Choose a run with --prefer RUN."]))
        return chosen

    def _best(self, results: Sequence[ChosenCell]) -> ChosenCell:
        """Return the result that got furthest, completed by other results with the same status."""
        best = max(results, key=lambda candidate: RANKS[candidate.result.status])  # the first of several equals
        for other in (candidate for candidate in results if candidate is not best):
            name = cell_name(other.result.cell)
            note = f"{name}: taken from {best.run.folder.name}, where it"
            if other.result.status != best.result.status:
                theirs = f"{other.result.status} in {other.run.folder.name}"
                self.notes.append(f"{note} is {best.result.status}, but {theirs}")
            elif not (how := _conflict(best, other)):
                best = ChosenCell(_combine(best.result, other.result), best.run)
            elif best.run in self.runs[: self.number_preferred]:
                self.notes.append(f"{note} differs from {other.run.folder.name} ({how})")
            else:
                self.conflicts.setdefault(how, []).append(name)
        return best


def _conflict(first: ChosenCell, other: ChosenCell) -> str:
    """Describe how two results of a cell differ; empty if they are interchangeable."""
    ours, theirs = first.result, other.result
    where = f"({first.run.folder} and {other.run.folder})"
    if any(theirs.artifacts.get(name, key) != key for name, key in ours.artifacts.items()):
        return f"{_computed_with(first, other)} {where}"
    if any(repr(theirs.numbers.get(name, number)) != repr(number) for name, number in ours.numbers.items()):
        return f"different numbers under the same keys; `bench verify` shows which differ from a store {where}"
    return ""


def _computed_with(*cells: ChosenCell) -> str:
    """Describe how the environments and batch sizes of results differ."""
    environments = [cell.run.info["environments"][place] for cell in cells for place in cell.result.environments]
    words = _differences([_comparable(environment) for environment in environments])
    sizes = dict.fromkeys(str(cell.run.suite.limits.batch_size) for cell in cells)
    return ", ".join([*words, *([f"batch_size {' and '.join(sizes)}"] if len(sizes) > 1 else [])])


def _comparable(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the comparable entries of an environment, by name."""
    entries = {name: environment[name] for name in ENVIRONMENT_FIELDS if name in environment}
    libraries = {name: version for name, version in environment.get("libraries", {}).items() if name not in entries}
    code = {f"code of {name}": digest for name, digest in environment.get("code", {}).items()}
    return entries | libraries | code


def _differences(environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return differences between environments, such as `device cpu and cuda`."""
    names = dict.fromkeys(name for environment in environments for name in environment)
    values = {
        name: dict.fromkeys(str(environment[name]) for environment in environments if name in environment)
        for name in names
    }
    return [f"{name} {' and '.join(known)}" for name, known in values.items() if len(known) > 1]


def _combine(first: CellResult, other: CellResult) -> CellResult:
    """Return a cell with the results of two runs that do not contradict each other."""
    numbers, artifacts = {**other.numbers, **first.numbers}, {**other.artifacts, **first.artifacts}
    return replace(first, numbers=numbers, artifacts=artifacts, probes={**other.probes, **first.probes})
