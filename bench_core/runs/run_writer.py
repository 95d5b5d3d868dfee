"""Writes the run folder: the suite, the results, and the environments."""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from bench_core.config import MetricConfig, ProbeConfig
from bench_core.errors import BenchError, StoreError
from bench_core.planning.hardware import environment
from bench_core.planning.path_settings import marks
from bench_core.planning.plan import Plan
from bench_core.planning.planner import likelihood
from bench_core.registry import sections
from bench_core.runs.contract_marks import is_unchecked
from bench_core.runs.planned import planned_parts, planned_stages
from bench_core.runs.provenance import PARTS, STAGES, computed_digest, files_digest, write_stages
from bench_core.runs.reported_info import reported_info
from bench_core.runs.results import (
    FORMAT,
    KEY_CHARACTERS,
    CellResult,
    Run,
    Score,
    cells_text,
    finding_digest,
    number_digest,
    read_run,
    write_costs,
)
from bench_core.runs.sample_outputs import samples, stored_json
from bench_core.runs.selecting import LEFT_OUT
from bench_core.runs.unverified import trusted_stages, write_unverified
from bench_core.stage_kinds import HISTORY, weights_of
from bench_core.storage.store import Store
from bench_core.suites.cells import Cell
from bench_core.suites.suite import Suite
from input_digests import Dependencies, renamed, united
from placed_settings import as_yaml

MAX_LABEL_CHARACTERS = 150  # limit for labels in file names
CODE_DIGEST_CHARACTERS = 12


class StoredArtifact(NamedTuple):
    """Information from the manifest of an artifact."""

    environment: str  # as JSON
    cost: Mapping[str, Any]
    files: str  # digest of its files
    computed: str  # digest of environment and cost


@dataclass(frozen=True)
class CellRecord:
    """The content of a run folder, from the plan of the run and the store."""

    suite: Suite
    plan: Plan
    store: Store
    failures: Mapping[str, str]
    stopped: Mapping[str, str]
    numbers: Mapping[str, Any]
    places: Mapping[str, str]  # folder of this machine -> its name in reports

    def write(self, folder: Path) -> None:
        """Write a run folder."""
        for name, text in self.texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        write_costs(folder / "costs.csv", self._costs())
        self._copy_histories(folder / "history")
        from block_bootstrap import write_replicates

        write_replicates(folder / "draws.safetensors", self._draws())
        origins = {key: artifact.computed for key, artifact in self._artifacts.items()}
        write_stages(folder / STAGES, planned_stages(self.plan, self._results, origins, self._undeclared))
        write_unverified(folder, trusted_stages(self.store, folder))
        keep_of_sections(read_run(folder), self.store)

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The texts of the files with all results, by name; other files contain more data of the same artifacts."""
        return {
            "suite.yaml": as_yaml(self.suite.effective),
            "run.json": json.dumps(self._info(), indent=1, ensure_ascii=False),
            "cells.jsonl": cells_text(self._cells),
            PARTS: json.dumps(planned_parts(self.suite, self.plan), indent=1, ensure_ascii=False),
            **{name: text for section in sections() for name, text in section.texts(self.suite).items()},
        }

    @cached_property
    def _cells(self) -> list[CellResult]:
        return [self._result(cell) for cell in self.plan.cells]

    @cached_property
    def _results(self) -> dict[str, str]:
        """The digest of the result of each stage, by key."""
        digests = {key: artifact.files for key, artifact in self._artifacts.items()}
        for cell in self._cells:
            for name, number in cell.numbers.items():
                if number.value is not None:
                    key = cell.artifacts[f"measure/{name}"]
                    digests[key] = number_digest(number, self._draws_of(key))
            for name, finding in cell.probes.items():
                digests[cell.artifacts[f"probe/{name}"]] = finding_digest(finding)
        return digests

    def equals(self, folder: Path) -> bool:
        """Return whether a run folder has the same results."""
        try:
            return all((folder / name).read_text(encoding="utf-8") == text for name, text in self.texts.items())
        except (OSError, ValueError):
            return False

    def _portable(self, reason: str) -> str:
        """Return a reason without paths of this machine or lone surrogates, which UTF-8 cannot encode."""
        for place, name in self.places.items():
            reason = reason.replace(place, name)
        return reason.encode("utf-8", "backslashreplace").decode("utf-8")

    def _info(self) -> dict[str, Any]:
        settings = next((stage.settings for stage in self.plan.stages.values() if stage.about.gives_weights), {})
        environments = [json.loads(text) for text in self._places] or [environment(settings)]
        changed = {"changes": self.suite.changes, "asked": self.suite.asked}
        return {
            "format": FORMAT,
            "suite": self.suite.name,
            "profile": self.suite.profile,
            "label": self.suite.label,
            **({"file": self.suite.file} if self.suite.file else {}),
            **{name: list(changes) for name, changes in changed.items() if changes},
            "title": self.suite.title,
            "source": self.suite.source,
            "environments": [{**entry, **self._ingredients} for entry in environments],
            "read": self._read(),
            "tasks": self._tasks,
            "models": {model: self._model(model, key) for model, key in self._trainings.items()},
            "samples": [*samples(self.suite, self.plan, self.store, self._tasks)],
            **({"observed": united(self._undeclared.values())} if self._undeclared else {}),
        }

    @cached_property
    def _artifacts(self) -> dict[str, StoredArtifact]:
        """Information from the manifests of the plan's stored artifacts, except measures and probes, by key."""
        artifacts, interned = {}, dict[str, str]()
        for stage in self.plan.stages.values():
            if not stage.about.brief:
                with suppress(StoreError):
                    manifest = self.store.find(stage.kind, stage.key).manifest
                    text = json.dumps(manifest["provenance"]) if "provenance" in manifest else ""
                    information = interned.setdefault(text, text), manifest.get("cost", {})
                    digests = files_digest(manifest), computed_digest(manifest)
                    artifacts[stage.key] = StoredArtifact(*information, *digests)
        return artifacts

    @cached_property
    def _provenances(self) -> dict[str, str]:
        """The environment of each stored train, decode and score stage, as JSON, by key."""
        return {
            key: artifact.environment
            for key, artifact in self._artifacts.items()
            if self.plan.stages[key].about.computes and artifact.environment
        }

    @cached_property
    def _places(self) -> dict[str, int]:
        """The distinct environments of the cells, in order, and their indices."""
        keys = (key for artifacts in self.plan.of_cell.values() for key in artifacts.values())
        distinct = dict.fromkeys(self._provenances[key] for key in keys if key in self._provenances)
        return {text: index for index, text in enumerate(distinct)}

    @cached_property
    def _ingredients(self) -> dict[str, dict[str, str]]:
        """The versions of libraries and digests of code that keys contain."""
        libraries: dict[str, str] = {}
        code: dict[str, str] = {}
        for stage in self.plan.stages.values():
            libraries |= stage.ingredients["libraries"]
            code |= {name: digest[:CODE_DIGEST_CHARACTERS] for name, digest in stage.ingredients["code"].items()}
        return {"libraries": dict(sorted(libraries.items())), "code": dict(sorted(code.items()))}

    @cached_property
    def _undeclared(self) -> dict[str, Dependencies]:
        """The inputs of each stage that its key does not cover, with digests, by key."""
        stages = [(self.store.stored_kind(stage.kind, stage.key), stage.key) for stage in self.plan.stages.values()]
        inputs_by_key = {stage[1]: self.store.dependencies[stage] for stage in stages if self.store.has(*stage)}
        return {key: renamed(inputs, self._portable) for key, inputs in inputs_by_key.items() if inputs}

    def _read(self) -> dict[str, Any]:
        """Return the digests of the files that tasks and models read."""
        tasks = {}
        for name, keys in self.plan.tasks.items():
            every = [self.plan.stages[key].settings for key in keys]
            read = (entry for item in every for entry in (*item["data"].items(), *marks(item["task"])))
            tasks[name] = dict(read)
        models = {}
        for model, key in self._trainings.items():
            settings = self.plan.stages[key].settings
            initial = {"initial": settings["initial"]} if settings["initial"] else {}
            models[model] = {**settings["files"], **dict(marks(settings["model"])), **initial}
        return {"tasks": tasks, "models": models}

    def _model(self, name: str, key: str) -> dict[str, Any]:
        """Return the entry of a model: the summary of its training, if stored, and marks that apply to all seeds."""
        one_system = all(entry.config.is_one_system() for entry in self.suite.models[name].all)
        marks = {"one_system": one_system, "unchecked": is_unchecked(self.plan.stages[key], self.store)}
        stored = stored_json(self.store, self.plan.stages[key].kind, key, "training.json") or {}
        return stored | {mark: True for mark, holds in marks.items() if holds}

    @cached_property
    def _tasks(self) -> dict[str, Any]:
        return {name: self._task(name, self.plan.tasks.get(name, [])) for name in self.suite.tasks}

    def _task(self, name: str, keys: Sequence[str]) -> dict[str, Any]:
        """Return the entry of a task; if no prepare stage is stored, its status and the reason."""
        stored = (stored_json(self.store, "prepare", key, "task_info.json") for key in keys)
        if infos := [info for info in stored if info is not None]:
            return {**reported_info(infos), "restricted": self.suite.tasks[name].restriction}
        failed = [self.failures[key] for key in keys if key in self.failures]
        reason = self._portable(failed[0] if failed else self.plan.missing.get(("task", name), ""))
        return {"vocabulary": 0, "status": "failed" if failed else "not run", "reason": reason}

    @cached_property
    def _trainings(self) -> Mapping[str, str]:
        """The training key of each model, from its first cell."""
        trainings: dict[str, str] = {}
        for cell, artifacts in self.plan.of_cell.items():
            trainings.setdefault(cell.model, weights_of(artifacts))
        return trainings

    def _result(self, cell: Cell) -> CellResult:
        if cell not in self.plan.of_cell:
            return CellResult(cell.axes, "not run", self._portable(self.plan.lack(cell) or LEFT_OUT))
        artifacts = self.plan.of_cell[cell]
        numbers = {name: self._number(cell, name, artifacts[f"measure/{name}"]) for name in cell.metrics}
        probes = dict(self._probes(cell, artifacts))
        computed = {self._places[self._provenances[key]] for key in artifacts.values() if key in self._provenances}
        result = CellResult(cell.axes, "done", "", numbers, artifacts, probes, tuple(sorted(computed)))
        if failed := [self._portable(self.failures[key]) for key in artifacts.values() if key in self.failures]:
            return replace(result, status="failed", reason=failed[0])
        if all(self._is_available(key) for key in artifacts.values()):
            return result
        stopped = [self._portable(self.stopped[key]) for key in artifacts.values() if key in self.stopped]
        return replace(result, status="not run", reason=stopped[0] if stopped else "interrupted")

    def _is_available(self, key: str) -> bool:
        return key in self._artifacts or key in self.numbers or self.store.has(self.plan.stages[key].kind, key)

    def _number(self, cell: Cell, name: str, key: str) -> Score:
        if key not in self.numbers:
            return Score(reason=self._portable(self.failures.get(key, "not run")))
        measurement = self.numbers[key]
        _, kind = likelihood(self.suite.metrics[name], self.suite.models[cell.model].at(cell.task).config)
        return Score(**{**measurement, "value": float(measurement["value"]), "kind": kind})

    def _probes(self, cell: Cell, artifacts: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
        """Yield the findings of the probes of a cell, with the suite's names for their metrics."""
        for name in cell.probes:
            finding = stored_json(self.store, "probe", artifacts[f"probe/{name}"], "finding.json")
            if finding is not None:
                metrics = {statement["metric"] for statement in finding["statements"]}
                yield name, {**finding, "measured": self._metric_names(cell, name, metrics)}

    def _metric_names(self, cell: Cell, name: str, metrics: Iterable[str]) -> dict[str, str]:
        """Return the suite's names for the metrics of a probe, by their names in plugins."""
        probe, suite_names = self.suite.probes[name], {}
        for metric in sorted(metrics):
            matches = [key for key in cell.metrics if _is_metric_of(probe, self.suite.metrics[key], metric)]
            suite_names.update({metric: matches[0]} if matches else {})
        return suite_names

    def _costs(self) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
        for stage in self.plan.stages.values():
            if stage.key in self._artifacts and not stage.about.joint:  # the cost is shared by the seeds
                yield stage.kind, stage.label, stage.key, self._artifacts[stage.key].cost

    def _copy_histories(self, folder: Path) -> None:
        folder.mkdir()
        for stage in self.plan.stages.values():
            if HISTORY in stage.about.files and stage.key in self._artifacts:
                label = re.sub(r"[^A-Za-z0-9.-]", "_", stage.label)  # portable file names
                name = f"{label[:MAX_LABEL_CHARACTERS]}-{stage.key[:KEY_CHARACTERS]}.jsonl"
                with suppress(StoreError):  # reports mention missing histories
                    shutil.copyfile(self.store.find(stage.kind, stage.key).file(HISTORY), folder / name)

    def _draws(self) -> Iterator[tuple[str, Any]]:
        """Yield the key and the bootstrap replicates of each measure stage, sorted by key."""
        for key in sorted(self.numbers):
            if (draws := self._draws_of(key)) is not None:
                yield key, draws

    def _draws_of(self, key: str) -> Any:
        """Return the bootstrap replicates of a measure stage; None if there are none."""
        import numpy as np

        with suppress(StoreError, ValueError):  # imports from older versions have no replicates
            draws = np.load(self.store.get("measure", key).file("draws.npy"), allow_pickle=False)
            return draws if len(draws) else None
        return None


def _is_metric_of(probe: ProbeConfig, metric: MetricConfig, name_in_plugin: str) -> bool:
    """Return whether a probe measures this metric, with equal values of all settings that both have."""
    wanted, actual = probe.model_dump(), metric.model_dump()
    return metric.name == name_in_plugin and all(actual[name] == wanted[name] for name in wanted if name in actual)


def keep_of_sections(run: Run, store: Store) -> None:
    """Let sections add files to the folder of a run; failing sections are skipped with a warning."""
    for section in sections():
        try:
            section.keep(run, store)
        except BenchError:
            raise
        except Exception as error:  # a bug of a plugin must not discard the results
            name, what = type(section).__qualname__, f"{type(error).__name__}: {error}"
            store.warn(f"{name} could not add its files to {run.folder}: {what}")
