"""Merges several runs of one suite into one."""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import input_digests as dependencies
from bench_core.errors import StoreError, SuiteError
from bench_core.registry import sections
from bench_core.runs.provenance import PARTS as PARTS_FILE
from bench_core.runs.provenance import STAGES, RecordedStage, read_parts, read_stages, write_stages
from bench_core.runs.results import (
    COST_COLUMNS,
    FORMAT,
    CellResult,
    Run,
    cells_text,
    history_files,
    read_run,
    write_run,
)
from bench_core.runs.run_suite import effective_suite
from bench_core.runs.unverified import read_unverified, write_unverified
from bench_core.stage_kinds import weights_of
from bench_exchange.compatibility import (
    PARTS,
    Choice,
    Place,
    Taken,
    check,
    matrix,
    place_of,
    prepared,
    seeds_of,
    suite_of,
)
from placed_settings import Located, as_yaml
from plain_files import from_csv, to_csv

OF_CELLS = ("seeds", "skip")  # settings that a part of the cells may have of their own
NOWHERE = "in none of the merged runs"


def merge(folders: Sequence[Path], out: Path, prefer: Sequence[Path] = ()) -> Run:
    """Write a run that has the cells of several, and return it.

    Raises SuiteError if they are not of one suite, or if a cell was computed otherwise in two of them and none of
    those is to `prefer`, where the first comes before the others.
    """
    runs = {folder: read_run(folder) for folder in dict.fromkeys(folder.resolve() for folder in folders)}
    if len(runs) < 2:
        raise SuiteError("there is nothing to merge. Give the folders of two runs or more.")
    for folder in prefer:
        if folder.resolve() not in runs:
            raise SuiteError(f"--prefer {folder}: this is none of the runs to merge. Give one of them.")
    check([*runs.values()])
    preferred = list(dict.fromkeys(folder.resolve() for folder in prefer))
    choice = Choice([runs[folder] for folder in dict.fromkeys([*preferred, *runs])], len(preferred))
    union = _Union([*runs.values()], choice.cells(), choice.notes)
    label = re.sub(r"[^\w.-]", "-", str(union.runs[0].info["label"]))
    return read_run(write_run(out, f"{label}-{time.strftime('%Y%m%d-%H%M%S')}", union.write))


@dataclass
class _Union:
    """What several runs of one suite are together."""

    runs: Sequence[Run]
    taken: Mapping[Place, Taken]
    notes: Sequence[str]

    def __post_init__(self) -> None:
        self.suite = united(self.runs, [one.result for one in self.taken.values()])
        self.environments: list[Mapping[str, Any]] = []
        self.cells = [self._numbered(cell) for cell in self._ordered()]

    def write(self, folder: Path) -> None:
        """Fill a run folder."""
        from block_bootstrap import write_draws

        texts = {name: text for section in sections() for name, text in section.united(self.runs).items()}
        texts["run.json"] = json.dumps(self._info(), indent=1, ensure_ascii=False)
        texts |= {"suite.yaml": as_yaml(self.suite), "cells.jsonl": cells_text(self.cells)}
        texts["log"] = "".join(f"{line}\n" for line in self.notes)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        self._write_costs(folder / "costs.csv")
        self._copy_histories(folder / "history")
        write_draws(folder / "draws.safetensors", self._draws())
        for section in sections():
            section.merge(self.runs, read_run(folder))
        self._write_stages(folder)

    def _draws(self) -> Iterator[tuple[str, Any]]:
        """Yield the bootstrap replicates of the cells, in the order of their keys; of two runs, those of the last."""
        for key in sorted({key for cell in self.cells for key in cell.artifacts.values()}):
            several = (run.draws for run in reversed(self.runs) if key in run.draws)
            yield from ((key, draws[key]) for draws in islice(several, 1))

    def _ordered(self) -> list[CellResult]:
        """Return all cells, in the order of the suite; those that no run has are not run."""
        suite, _ = effective_suite(Located("suite.yaml", dict(self.suite)))
        places = {place_of(cell): cell for cell in matrix(suite)}
        ranks = {place: rank for rank, place in enumerate(places)}
        lacking = [CellResult(cell, "not run", NOWHERE) for place, cell in places.items() if place not in self.taken]
        cells = [*(one.result for one in self.taken.values()), *lacking]
        return sorted(cells, key=lambda one: ranks.get(place_of(one.cell), len(ranks)))

    def _numbered(self, cell: CellResult) -> CellResult:
        """Return a cell whose environments are numbered as in the whole."""
        found = []
        for place in cell.environments:
            environment = self.taken[place_of(cell.cell)].run.info["environments"][place]
            self.environments += [environment] if environment not in self.environments else []
            found.append(self.environments.index(environment))
        return replace(cell, environments=tuple(sorted(found)))

    def _info(self) -> dict[str, Any]:
        infos = [run.info for run in self.runs]
        of_stages = (stage.observed for stage, _ in self._stages.values())
        observed = dependencies.united([*(one.get("observed", {}) for one in infos), *of_stages])
        several = dict.fromkeys(change for info in infos for change in info.get("changes", ()))
        changes = [change for change in several if change.partition(".")[0] not in OF_CELLS]
        return {
            "format": FORMAT,
            **{key: infos[0].get(key) for key in ("suite", "profile", "label", "title", "source")},
            **({"file": infos[0]["file"]} if infos[0].get("file") else {}),
            **({"changes": changes} if changes else {}),
            "environments": self.environments or infos[0]["environments"],
            "read": {
                what: _nested([one.get("read", {}).get(what, {}) for one in infos]) for what in ("tasks", "models")
            },
            "tasks": _together([_nested([*map(prepared, self.runs)]), *(info["tasks"] for info in infos)]),
            "models": _together(info["models"] for info in infos),
            "samples": list(self._samples()),
            "merged": [{"run": run.folder.name, "cells": len(run.cells)} for run in self.runs],
            "notes": self.notes,
            **({"observed": observed} if observed else {}),
        }

    def _sources(self) -> Iterator[tuple[CellResult, Run]]:
        """Yield the cells that some run has, and the run that each was taken from."""
        for cell in self.cells:
            if taken := self.taken.get(place_of(cell.cell)):
                yield cell, taken.run

    def _samples(self) -> Iterator[Any]:
        """Yield the outputs of one seed of each group of cells: the first of which a run shows any."""
        seen = set()
        for cell, run in self._sources():
            names = place_of(cell.cell)[:-1]
            samples = [sample for sample in run.info["samples"] if sample["cell"] == cell.cell]
            if samples and names not in seen:
                seen.add(names)
                yield from samples

    def _write_costs(self, path: Path) -> None:
        """Write what every stage cost, once: in the run from which it was taken."""
        rows: dict[tuple[str, str], Mapping[str, str]] = {}
        origins = {(stage.kind, key[:16]): place for key, (stage, place) in self._stages.items()}
        for run in self.runs:
            try:
                for row in from_csv((run.folder / "costs.csv").read_bytes().decode()):
                    key = row["stage"], row["key"]
                    if key not in rows or origins.get(key) == run.folder:
                        rows[key] = row
            except (OSError, ValueError, KeyError) as error:
                raise StoreError(f"{run.folder / 'costs.csv'}: the costs cannot be read: {error}.") from None
        path.write_text(to_csv(rows.values(), COST_COLUMNS), encoding="utf-8", newline="")

    @cached_property
    def _recorded(self) -> dict[Path, dict[str, RecordedStage]]:
        """The stages that each run records, by its folder."""
        return {run.folder: read_stages(run.folder) for run in self.runs}

    @cached_property
    def _stages(self) -> dict[str, tuple[RecordedStage, Path]]:
        """The stages behind the cells and tasks, each with the run from which it was taken."""
        found: dict[str, tuple[RecordedStage, Path]] = {}
        for cell, run in self._sources():
            folders, left = [run.folder, *self._recorded], [*cell.artifacts.values()]
            while left:
                key = left.pop()
                place = next((folder for folder in folders if key in self._recorded[folder]), None)
                if place is not None and key not in found:
                    found[key] = self._recorded[place][key], place
                    left += [inner for _, inner in found[key][0].inputs.values()]
        for place, stages in self._recorded.items():  # of tasks that no cell uses
            for key, stage in stages.items():
                if stage.kind == "prepare":
                    found.setdefault(key, (stage, place))
        return found

    def _write_stages(self, folder: Path) -> None:
        """Write what the runs record of the stages behind the cells, and of their parts."""
        if all(self._recorded.values()):
            write_stages(folder / STAGES, (stage for stage, _ in self._stages.values()))
            parts = self._parts()
            (folder / PARTS_FILE).write_text(json.dumps(parts, indent=1, ensure_ascii=False), encoding="utf-8")
            write_unverified(folder, _together(read_unverified(run.folder) for run in self.runs))

    def _parts(self) -> dict[str, Any]:
        """Return the settings of the parts of all runs."""
        several = [read_parts(run.folder) for run in self.runs]
        seeds = {seed for parts in several for seed in parts.get("seeds", ())}
        splits = dict.fromkeys(split for parts in several for split in parts.get("splits", ()))
        sizes = sorted({parts["limits"]["batch_size"] for parts in several})
        suite = hashlib.sha256(as_yaml(self.suite).encode()).hexdigest()
        return {**_nested(several), "suite": suite, "seeds": sorted(seeds), "splits": [*splits], "batch_sizes": sizes}

    def _copy_histories(self, folder: Path) -> None:
        folder.mkdir()
        trained = {*filter(None, (weights_of(cell.artifacts) for cell in self.cells))}
        for key, path in _together(history_files(run.folder) for run in self.runs).items():
            if any(one.startswith(key) for one in trained):
                shutil.copyfile(path, folder / path.name)


def _nested(several: Sequence[Any]) -> Any:
    """Return the entries of nested mappings, each as the first of them has it."""
    found = _together(several)
    for name, value in found.items():
        if isinstance(value, Mapping):
            found[name] = _nested([one[name] for one in several if isinstance(one.get(name), Mapping)])
    return found


def _together(several: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries of several mappings, each as the first of them has it."""
    found: dict[str, Any] = {}
    for one in several:
        for name, value in one.items():
            found.setdefault(name, value)
    return found


def united(runs: Sequence[Run], cells: Sequence[CellResult]) -> dict[str, Any]:
    """Return the suite of runs that agree, for all of their cells."""
    several = [suite_of(run) for run in runs]
    found = dict(several[0])
    for section in PARTS:
        if names := _together(one.get(section) or {} for one in several):
            found[section] = names
    seeds = {seed for run in runs for seed in seeds_of(run.suite)}
    found["seeds"] = len(seeds) if seeds == {*range(len(seeds))} else sorted(seeds)
    splits = list(dict.fromkeys(split for run in runs for split in run.suite.splits))
    if splits != runs[0].suite.splits:
        found["splits"] = splits
    found["skip"] = _skipped(runs, several, cells)
    found["hardware"] = _hardware(runs, several)
    return {key: value for key, value in found.items() if value}


def _skipped(runs: Sequence[Run], several: Sequence[Mapping[str, Any]], cells: Sequence[CellResult]) -> list[Any]:
    """Return what none of the runs has: each entry of theirs that keeps out no cell, and no number, of any."""
    found: list[Any] = []
    for run, suite in zip(runs, several, strict=True):
        for raw, skip in zip(suite.get("skip") or [], run.suite.skip, strict=True):
            numbers = ((one, name) for one in cells for name in (one.numbers if skip.metric else [None]))
            covered = (skip.covers(**{**one.cell, "metric": metric}) for one, metric in numbers)
            if raw not in found and not any(covered):
                found.append(raw)
    return found


def _hardware(runs: Sequence[Run], several: Sequence[Mapping[str, Any]]) -> Any:
    """Return the hardware of every name, or of the first run where hardware has none."""
    settings = [suite.get("hardware") or {} for suite in several]
    return _together(settings) if all(isinstance(run.suite.hardware, dict) for run in runs) else settings[0]
