"""Several runs of one suite as one: their cells, and all that a report of them needs."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.errors import StoreError, SuiteError
from bench_core.registry import hook
from bench_core.runs.costs import COLUMNS
from bench_core.runs.distributions import Distribution, write_distributions
from bench_core.runs.results import (
    SHORT,
    CellResult,
    Run,
    effective_suite,
    history_files,
    read_run,
    write_cells,
    write_run,
)
from bench_core.runs.sorting import in_suite, ordered
from bench_core.storage.csv_files import from_csv, to_csv
from bench_core.suites.published import plain
from bench_core.suites.schema import AXES
from bench_core.suites.yaml_source import Located, as_yaml
from bench_exchange.compatibility import FREE, Part, check, in_order, united
from bench_exchange.duplicates import Overlap, Taken, place_of

if TYPE_CHECKING:
    from bench_core.storage.draws import Draws

COST_KEY = 16  # letters of a key in costs
NOWHERE = "in none of the merged runs"


def merge(folders: Sequence[Path], out: Path, prefer: Sequence[Path] = ()) -> Run:
    """Write a run that has the cells of several, and return it.

    Raises SuiteError if they are not of one suite, or if a cell was computed otherwise in two of them and none of
    those is to `prefer`, where the first comes before the others.
    """
    different = {folder.resolve(): folder for folder in reversed(folders)}
    runs = [read_run(folder) for folder in reversed(different.values())]
    if len(runs) < 2:
        raise SuiteError("there is nothing to merge. Give the folders of two runs or more.")
    known = [run.folder.resolve() for run in runs]
    for folder in prefer:
        if folder.resolve() not in known:
            raise SuiteError(f"--prefer {folder}: this is none of the runs to merge. Give one of them.")
    union = _Union([Part(run) for run in runs], [known.index(folder.resolve()) for folder in prefer])
    label = re.sub(r"[^\w.-]", "-", str(runs[0].info["label"]))
    return read_run(write_run(out, f"{label}-{time.strftime('%Y%m%d-%H%M%S')}", union.write))


@dataclass
class _Union:
    """What several runs of one suite are together."""

    parts: Sequence[Part]
    preferred: Sequence[int]

    def __post_init__(self) -> None:
        check(self.parts)
        self.runs = [part.run for part in self.parts]
        overlap = Overlap(self.runs, self.preferred)
        self.taken, self.notes = overlap.taken(), overlap.notes
        self.suite = united(self.parts, [one.result for one in self.taken.values()])
        self.environments: list[dict[str, Any]] = []
        self.cells = [self._numbered(one) for one in self._ordered()]

    def write(self, folder: Path) -> None:
        """Fill a run folder."""
        published = {name: table for run in self.runs for name, table in run.published.items()}
        (folder / "suite.yaml").write_text(as_yaml(self.suite), encoding="utf-8")
        (folder / "published.json").write_text(
            json.dumps(plain(published), indent=1, ensure_ascii=False), encoding="utf-8"
        )
        (folder / "run.json").write_text(json.dumps(self._info(), indent=1, ensure_ascii=False), encoding="utf-8")
        write_cells(folder / "cells.jsonl", self.cells)
        self._write_costs(folder / "costs.csv")
        self._copy_histories(folder / "history")
        from bench_core.storage.draws import write_draws

        write_draws(folder / "draws.safetensors", dict(self._draws()))
        if any((run.folder / "distributions.jsonl").is_file() for run in self.runs):
            write_distributions(folder / "distributions.jsonl", self._distributions())
        hook().bench_runs_merged(runs=self.runs, folder=folder)
        (folder / "log").write_text("".join(f"{line}\n" for line in self.notes), encoding="utf-8")

    def _ordered(self) -> list[CellResult]:
        """Return all cells, in the order of the suite; those that no run has are not run."""
        suite, grids = effective_suite(Located("suite.yaml", dict(self.suite)))
        seeds = range(suite.seeds) if isinstance(suite.seeds, int) else suite.seeds
        names: list[Sequence[Any]] = [in_suite(suite, axis) or [None] for axis in AXES[:-1]]
        cells = {place: one.result for place, one in self.taken.items()}
        for place in product(*names, seeds):
            cell = dict(zip(AXES, place, strict=True))
            skipped = any(skip.covers(**cell) for skip in suite.skip if not skip.metric)
            if place not in cells and not skipped:
                cells[place] = CellResult(cell, "not run", NOWHERE)
        return ordered(Run(Path(), suite, {}, list(cells.values()), {}, grids=grids))

    def _numbered(self, one: CellResult) -> CellResult:
        """Return a cell whose environments are numbered as in the whole."""
        several = self._run_of(one).info.get("environments") or [] if one.environments else []
        return replace(one, environments=tuple(sorted({self._number(several[place]) for place in one.environments})))

    def _number(self, environment: Mapping[str, Any]) -> int:
        """Return the place of an environment among those of the whole; what others do not tell is added to theirs."""
        for place, known in enumerate(self.environments):
            if _agree(known, environment):
                self.environments[place] = _added(known, environment)
                return place
        self.environments.append(dict(environment))
        return len(self.environments) - 1

    def _run_of(self, one: CellResult) -> Run:
        return self.runs[self.taken[place_of(one)].runs[0]]

    def _own(self) -> Iterator[tuple[CellResult, Taken]]:
        """Yield the cells that some run has."""
        for one in self.cells:
            if place_of(one) in self.taken:
                yield one, self.taken[place_of(one)]

    def _info(self) -> dict[str, Any]:
        infos = [run.info for run in self.runs]
        changes = in_order(info.get("changes") or () for info in infos)
        told = [change for change in changes if change.partition(".")[0] not in FREE]
        return {
            **{key: infos[0].get(key) for key in ("suite", "profile", "label")},
            **({"changes": told} if told else {}),
            **{key: infos[0].get(key) for key in ("title", "source")},
            "environments": self.environments or infos[0].get("environments") or [],
            "read": {what: self._read(what) for what in ("tasks", "models")},
            "tasks": {name: self._task(name) for name in in_order(info["tasks"] for info in infos)},
            "models": dict(self._models()),
            "samples": list(self._samples()),
            "merged": [{"run": run.folder.resolve().name, "cells": len(run.cells)} for run in self.runs],
            "notes": self.notes,
        }

    def _read(self, what: str) -> dict[str, Any]:
        return {
            name: known for run in self.runs for name, known in (run.info.get("read") or {}).get(what, {}).items()
        }

    def _task(self, name: str) -> Any:
        """Return what is told of a task where it was prepared, else why it was not."""
        told = [run.info["tasks"][name] for run in self.runs if name in run.info["tasks"]]
        return next((about for about in told if "status" not in about), told[0])

    def _models(self) -> Iterator[tuple[str, Any]]:
        """Yield what is told of each model by the run that its first cell is from, else by any other."""
        seen = set()
        for one, taken in self._own():
            name = one.cell["model"]
            if name not in seen and one.artifacts:
                seen.add(name)
                first = self.runs[taken.runs[0]]
                told = (run.info["models"].get(name) for run in (first, *self.runs))
                yield name, next(filter(None, told), {})

    def _samples(self) -> Iterator[Any]:
        """Yield the outputs of every cell whose seed is the first of its run, and of no other seed of that run's."""
        seen = set()
        for one, taken in self._own():
            names = place_of(one)[:-1]
            if names not in seen and one.cell["seed"] == self.parts[taken.runs[0]].seeds[0]:
                seen.add(names)
                yield from (sample for sample in self._run_of(one).info["samples"] if sample["cell"] == one.cell)

    def _write_costs(self, path: Path) -> None:
        """Write what every stage cost, once, in the order of the cells."""
        rows: dict[tuple[str, str], Mapping[str, str]] = {}
        for run in self.runs:
            try:
                for row in from_csv((run.folder / "costs.csv").read_bytes().decode()):
                    rows.setdefault((row["stage"], row["key"]), row)
            except (OSError, ValueError, KeyError) as error:
                raise StoreError(f"{run.folder / 'costs.csv'}: the costs cannot be read: {error}.") from None
        keys = dict.fromkeys(key[:COST_KEY] for one in self.cells for key in one.artifacts.values())
        order = {key: place for place, key in enumerate(keys)}
        found = sorted(rows.values(), key=lambda row: order.get(row["key"], -1))
        path.write_text(to_csv(found, COLUMNS), encoding="utf-8", newline="")

    def _copy_histories(self, folder: Path) -> None:
        folder.mkdir()
        known = [history_files(run.folder) for run in self.runs]
        for one, taken in self._own():
            path = known[taken.runs[0]].get(one.artifacts.get("train", "")[:SHORT])
            if path and not (folder / path.name).exists():
                shutil.copyfile(path, folder / path.name)

    def _draws(self) -> Iterator[tuple[str, Draws]]:
        for one, taken in self._own():
            for name, key in one.artifacts.items():
                known = [self.runs[number].draws for number in taken.runs]
                if (
                    name.startswith("measure/")
                    and (found := next((some[key] for some in known if key in some), None)) is not None
                ):
                    yield key, found

    def _distributions(self) -> Iterator[Distribution]:
        """Yield the values by example of each cell, from the runs that it was taken from."""
        known: dict[tuple[int, Any], dict[str, Distribution]] = {}
        for number, run in enumerate(self.runs):
            for each in run.distributions:
                place = tuple(each.cell.get(axis) for axis in AXES)
                known.setdefault((number, place), {}).setdefault(each.metric, each)
        for one, taken in self._own():
            found = [known.get((number, place_of(one)), {}) for number in taken.runs]
            yield from (next(several[metric] for several in found if metric in several) for metric in in_order(found))


def _agree(one: Any, other: Any) -> bool:
    """Return whether two environments are alike in all that both tell."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(_agree(value, other[key]) for key, value in one.items() if key in other)
    return bool(one == other)


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {**other, **{key: _added(value, other.get(key)) for key, value in one.items()}}
    return one
