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
    PART_SECTIONS,
    CellChoice,
    ChosenCell,
    Place,
    check,
    matrix,
    place_of,
    prepared_tasks,
    seeds_of,
    suite_of,
)
from placed_settings import Located, as_yaml
from plain_files import from_csv, to_csv

OF_CELLS = ("seeds", "skip")  # settings that may apply to some cells only
NOT_RUN_REASON = "in none of the merged runs"


def merge(folders: Sequence[Path], out: Path, prefer: Sequence[Path] = ()) -> Run:
    """Write a run with the cells of several runs, and return it.

    Earlier runs in `prefer` take precedence. Raises SuiteError if the runs come from different suites,
    or if a cell was computed differently in two runs that are not in `prefer`.
    """
    runs = {folder: read_run(folder) for folder in dict.fromkeys(folder.resolve() for folder in folders)}
    if len(runs) < 2:
        raise SuiteError("there is nothing to merge. Give the folders of two or more runs.")
    for folder in prefer:
        if folder.resolve() not in runs:
            raise SuiteError(f"--prefer {folder}: this is not one of the runs to merge. Choose one of them.")
    check([*runs.values()])
    preferred = list(dict.fromkeys(folder.resolve() for folder in prefer))
    choice = CellChoice([runs[folder] for folder in dict.fromkeys([*preferred, *runs])], len(preferred))
    merged = _MergedRun([*runs.values()], choice.cells(), choice.notes)
    label = re.sub(r"[^\w.-]", "-", str(merged.runs[0].info["label"]))
    return read_run(write_run(out, f"{label}-{time.strftime('%Y%m%d-%H%M%S')}", merged.write))


@dataclass
class _MergedRun:
    """The combined contents of several runs of one suite."""

    runs: Sequence[Run]
    chosen: Mapping[Place, ChosenCell]
    notes: Sequence[str]

    def __post_init__(self) -> None:
        self.suite = merged_suite(self.runs, [choice.result for choice in self.chosen.values()])
        self.environments: list[Mapping[str, Any]] = []
        self.cells = [self._with_environments(cell) for cell in self._sorted_cells()]

    def write(self, folder: Path) -> None:
        """Write the files of the run to a folder."""
        from block_bootstrap import write_replicates

        texts = {name: text for section in sections() for name, text in section.united(self.runs).items()}
        texts["run.json"] = json.dumps(self._info(), indent=1, ensure_ascii=False)
        texts |= {"suite.yaml": as_yaml(self.suite), "cells.jsonl": cells_text(self.cells)}
        texts["log"] = "".join(f"{line}\n" for line in self.notes)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        self._write_costs(folder / "costs.csv")
        self._copy_histories(folder / "history")
        write_replicates(folder / "draws.safetensors", self._draws())
        for section in sections():
            section.merge(self.runs, read_run(folder))
        self._write_stages(folder)

    def _draws(self) -> Iterator[tuple[str, Any]]:
        """Yield the bootstrap replicates of the cells, sorted by key; the last run takes precedence."""
        for key in sorted({key for cell in self.cells for key in cell.artifacts.values()}):
            stored = (run.draws for run in reversed(self.runs) if key in run.draws)
            yield from ((key, draws[key]) for draws in islice(stored, 1))

    def _sorted_cells(self) -> list[CellResult]:
        """Return all cells in the order of the suite; cells that no run contains have the status "not run"."""
        suite, _ = effective_suite(Located("suite.yaml", dict(self.suite)))
        places = {place_of(cell): cell for cell in matrix(suite)}
        ranks = {place: rank for rank, place in enumerate(places)}
        missing = [
            CellResult(cell, "not run", NOT_RUN_REASON) for place, cell in places.items() if place not in self.chosen
        ]
        cells = [*(choice.result for choice in self.chosen.values()), *missing]
        return sorted(cells, key=lambda result: ranks.get(place_of(result.cell), len(ranks)))

    def _with_environments(self, cell: CellResult) -> CellResult:
        """Return a cell with the indices of its environments in the merged run."""
        indices = []
        for place in cell.environments:
            environment = self.chosen[place_of(cell.cell)].run.info["environments"][place]
            self.environments += [environment] if environment not in self.environments else []
            indices.append(self.environments.index(environment))
        return replace(cell, environments=tuple(sorted(indices)))

    def _info(self) -> dict[str, Any]:
        infos = [run.info for run in self.runs]
        of_stages = (stage.observed for stage, _ in self._stages.values())
        observed = dependencies.united([*(info.get("observed", {}) for info in infos), *of_stages])
        changes_of_runs = dict.fromkeys(change for info in infos for change in info.get("changes", ()))
        changes = [change for change in changes_of_runs if change.partition(".")[0] not in OF_CELLS]
        return {
            "format": FORMAT,
            **{key: infos[0].get(key) for key in ("suite", "profile", "label", "title", "source")},
            **({"file": infos[0]["file"]} if infos[0].get("file") else {}),
            **({"changes": changes} if changes else {}),
            "environments": self.environments or infos[0]["environments"],
            "read": {
                what: _merge_nested([info.get("read", {}).get(what, {}) for info in infos])
                for what in ("tasks", "models")
            },
            "tasks": _merge_mappings(
                [_merge_nested([*map(prepared_tasks, self.runs)]), *(info["tasks"] for info in infos)]
            ),
            "models": _merge_mappings(info["models"] for info in infos),
            "samples": list(self._samples()),
            "merged": [{"run": run.folder.name, "cells": len(run.cells)} for run in self.runs],
            "notes": self.notes,
            **({"observed": observed} if observed else {}),
        }

    def _sources(self) -> Iterator[tuple[CellResult, Run]]:
        """Yield each cell that a run contains, with the run it was taken from."""
        for cell in self.cells:
            if choice := self.chosen.get(place_of(cell.cell)):
                yield cell, choice.run

    def _samples(self) -> Iterator[Any]:
        """Yield the samples of one seed per group of cells: the first seed with any samples."""
        seen = set()
        for cell, run in self._sources():
            names = place_of(cell.cell)[:-1]
            samples = [sample for sample in run.info["samples"] if sample["cell"] == cell.cell]
            if samples and names not in seen:
                seen.add(names)
                yield from samples

    def _write_costs(self, path: Path) -> None:
        """Write the costs of every stage once, from the run that provided the stage."""
        rows: dict[tuple[str, str], Mapping[str, str]] = {}
        origins = {(stage.kind, key[:16]): place for key, (stage, place) in self._stages.items()}
        for run in self.runs:
            try:
                for row in from_csv((run.folder / "costs.csv").read_bytes().decode()):
                    key = row["stage"], row["key"]
                    if key not in rows or origins.get(key) == run.folder:
                        rows[key] = row
            except (OSError, ValueError, KeyError) as error:
                raise StoreError(f"{run.folder / 'costs.csv'}: the file cannot be read: {error}.") from None
        path.write_text(to_csv(rows.values(), COST_COLUMNS), encoding="utf-8", newline="")

    @cached_property
    def _stages_by_folder(self) -> dict[Path, dict[str, RecordedStage]]:
        """The recorded stages of each run, by its folder."""
        return {run.folder: read_stages(run.folder) for run in self.runs}

    @cached_property
    def _stages(self) -> dict[str, tuple[RecordedStage, Path]]:
        """The stages behind the cells and tasks, each with the folder of its run."""
        stages_by_key: dict[str, tuple[RecordedStage, Path]] = {}
        for cell, run in self._sources():
            folders, pending = [run.folder, *self._stages_by_folder], [*cell.artifacts.values()]
            while pending:
                key = pending.pop()
                place = next((folder for folder in folders if key in self._stages_by_folder[folder]), None)
                if place is not None and key not in stages_by_key:
                    stages_by_key[key] = self._stages_by_folder[place][key], place
                    pending += [inner for _, inner in stages_by_key[key][0].inputs.values()]
        for place, stages in self._stages_by_folder.items():  # adds tasks without cells
            for key, stage in stages.items():
                if stage.kind == "prepare":
                    stages_by_key.setdefault(key, (stage, place))
        return stages_by_key

    def _write_stages(self, folder: Path) -> None:
        """Write the recorded stages behind the cells, and the settings of their parts."""
        if all(self._stages_by_folder.values()):
            write_stages(folder / STAGES, (stage for stage, _ in self._stages.values()))
            text = json.dumps(self._parts(), indent=1, ensure_ascii=False)
            (folder / PARTS_FILE).write_text(text, encoding="utf-8")
            write_unverified(folder, _merge_mappings(read_unverified(run.folder) for run in self.runs))

    def _parts(self) -> dict[str, Any]:
        """Return the merged settings of the parts of all runs."""
        parts_of_runs = [read_parts(run.folder) for run in self.runs]
        seeds = {seed for parts in parts_of_runs for seed in parts.get("seeds", ())}
        splits = dict.fromkeys(split for parts in parts_of_runs for split in parts.get("splits", ()))
        sizes = sorted({parts["limits"]["batch_size"] for parts in parts_of_runs})
        suite = hashlib.sha256(as_yaml(self.suite).encode()).hexdigest()
        united = {"suite": suite, "seeds": sorted(seeds), "splits": [*splits], "batch_sizes": sizes}
        return {**_merge_nested(parts_of_runs), **united}

    def _copy_histories(self, folder: Path) -> None:
        folder.mkdir()
        trained = {*filter(None, (weights_of(cell.artifacts) for cell in self.cells))}
        for key, path in _merge_mappings(history_files(run.folder) for run in self.runs).items():
            if any(weights.startswith(key) for weights in trained):
                shutil.copyfile(path, folder / path.name)


def _merge_nested(mappings: Sequence[Any]) -> Any:
    """Merge nested mappings; the first value of each entry takes precedence."""
    merged = _merge_mappings(mappings)
    for name, value in merged.items():
        if isinstance(value, Mapping):
            inner = [mapping[name] for mapping in mappings if isinstance(mapping.get(name), Mapping)]
            merged[name] = _merge_nested(inner)
    return merged


def _merge_mappings(mappings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge mappings; the first value of each entry takes precedence."""
    merged: dict[str, Any] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            merged.setdefault(name, value)
    return merged


def merged_suite(runs: Sequence[Run], cells: Sequence[CellResult]) -> dict[str, Any]:
    """Return a suite that contains all cells of compatible runs."""
    suites = [suite_of(run) for run in runs]
    merged = dict(suites[0])
    for section in PART_SECTIONS:
        if names := _merge_mappings(suite.get(section) or {} for suite in suites):
            merged[section] = names
    seeds = {seed for run in runs for seed in seeds_of(run.suite)}
    merged["seeds"] = len(seeds) if seeds == {*range(len(seeds))} else sorted(seeds)
    splits = list(dict.fromkeys(split for run in runs for split in run.suite.splits))
    if splits != runs[0].suite.splits:
        merged["splits"] = splits
    merged["skip"] = _merge_skips(runs, suites, cells)
    merged["hardware"] = _merge_hardware(runs, suites)
    return {key: value for key, value in merged.items() if value}


def _merge_skips(runs: Sequence[Run], suites: Sequence[Mapping[str, Any]], cells: Sequence[CellResult]) -> list[Any]:
    """Return the skip entries that do not exclude any cell or number of the runs."""
    kept: list[Any] = []
    for run, suite in zip(runs, suites, strict=True):
        for raw, skip in zip(suite.get("skip") or [], run.suite.skip, strict=True):
            numbers = ((cell, name) for cell in cells for name in (cell.numbers if skip.metric else [None]))
            covered = (skip.covers(**{**cell.cell, "metric": metric}) for cell, metric in numbers)
            if raw not in kept and not any(covered):
                kept.append(raw)
    return kept


def _merge_hardware(runs: Sequence[Run], suites: Sequence[Mapping[str, Any]]) -> Any:
    """Return the settings of all named hardware; if any run has hardware without names, those of the first run."""
    settings = [suite.get("hardware") or {} for suite in suites]
    return _merge_mappings(settings) if all(isinstance(run.suite.hardware, dict) for run in runs) else settings[0]
