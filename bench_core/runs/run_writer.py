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
from bench_core.runs.results import (
    FORMAT,
    SHORT,
    CellResult,
    Number,
    Run,
    cells_text,
    finding_digest,
    number_digest,
    read_run,
    write_costs,
)
from bench_core.runs.sample_outputs import samples, stored_json
from bench_core.runs.selecting import LEFT_OUT
from bench_core.runs.task_facts import told
from bench_core.runs.unverified import trusted, write_unverified
from bench_core.stage_kinds import HISTORY, weights_of
from bench_core.storage.store import Store
from bench_core.suites.cells import Cell
from bench_core.suites.suite import Suite
from input_digests import Dependencies, renamed, united
from placed_settings import as_yaml

LONGEST = 150  # characters of a label in the name of a file
LETTERS = 12  # of a digest of code


class StoredArtifact(NamedTuple):
    """What the manifest of an artifact tells."""

    environment: str  # where it was computed, as JSON
    cost: Mapping[str, Any]
    files: str  # digest of its files
    computed: str  # digest of where it was computed, and what that cost


@dataclass(frozen=True)
class Record:
    """The content of a run folder, from its plan and the store."""

    suite: Suite
    plan: Plan
    store: Store
    failures: Mapping[str, str]
    stopped: Mapping[str, str]
    numbers: Mapping[str, Any]
    places: Mapping[str, str]  # folders of this machine -> what reports call them

    def write(self, folder: Path) -> None:
        """Write a run folder."""
        for name, text in self.texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        write_costs(folder / "costs.csv", self._costs())
        self._copy_histories(folder / "history")
        from block_bootstrap import write_draws

        write_draws(folder / "draws.safetensors", self._draws())
        write_stages(folder / STAGES, planned_stages(self.plan, self._results, self._computed, self._observed))
        write_unverified(folder, trusted(self.store, folder))
        keep_of_sections(read_run(folder), self.store)

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The files with all results of a run, by name; the other files hold more of the same artifacts."""
        return {
            "suite.yaml": as_yaml(self.suite.effective),
            "run.json": json.dumps(self._info(), indent=1, ensure_ascii=False),
            "cells.jsonl": cells_text(self._cells),
            PARTS: json.dumps(planned_parts(self.suite, self.plan), indent=1, ensure_ascii=False),
            **{name: text for one in sections() for name, text in one.texts(self.suite).items()},
        }

    @cached_property
    def _cells(self) -> list[CellResult]:
        return [self._result(cell) for cell in self.plan.cells]

    @cached_property
    def _results(self) -> dict[str, str]:
        """The digest of what each stage left, by key."""
        found = {key: one.files for key, one in self._artifacts.items()}
        for cell in self._cells:
            for name, number in cell.numbers.items():
                if number.value is not None:
                    key = cell.artifacts[f"measure/{name}"]
                    found[key] = number_digest(number, self._draws_of(key))
            for name, finding in cell.probes.items():
                found[cell.artifacts[f"probe/{name}"]] = finding_digest(finding)
        return found

    def equals(self, folder: Path) -> bool:
        """Return whether a run folder has the same results."""
        try:
            return all((folder / name).read_text(encoding="utf-8") == text for name, text in self.texts.items())
        except (OSError, ValueError):
            return False

    def _told(self, reason: str) -> str:
        """Return a reason without paths of this machine, and without lone surrogates, which UTF-8 has not."""
        for place, name in self.places.items():
            reason = reason.replace(place, name)
        return reason.encode("utf-8", "backslashreplace").decode("utf-8")

    def _info(self) -> dict[str, Any]:
        computing = next((one.settings for one in self.plan.stages.values() if one.about.gives_weights), {})
        environments = [json.loads(one) for one in self._places] or [environment(computing)]
        changed = {"changes": self.suite.changes, "asked": self.suite.asked}
        trained = self._trainings.items()
        return {
            "format": FORMAT,
            "suite": self.suite.name,
            "profile": self.suite.profile,
            "label": self.suite.label,
            **({"file": self.suite.file} if self.suite.file else {}),
            **{name: list(changes) for name, changes in changed.items() if changes},
            "title": self.suite.title,
            "source": self.suite.source,
            "environments": [{**one, **self._ingredients} for one in environments],
            "read": self._read(),
            "tasks": self._tasks,
            "models": {model: self._model(model, key) for model, key in trained},
            "samples": [*samples(self.suite, self.plan, self.store, self._tasks)],
            **({"observed": united(self._observed.values())} if self._observed else {}),
        }

    @cached_property
    def _artifacts(self) -> dict[str, StoredArtifact]:
        """What manifests tell of the stored artifacts of the plan but measures and probes, by key."""
        found, same = {}, dict[str, str]()
        for stage in self.plan.stages.values():
            if not stage.about.brief:
                with suppress(StoreError):
                    manifest = self.store.kept(stage.kind, stage.key).manifest
                    where = json.dumps(manifest["provenance"]) if "provenance" in manifest else ""
                    digests = files_digest(manifest), computed_digest(manifest)
                    found[stage.key] = StoredArtifact(
                        same.setdefault(where, where), manifest.get("cost", {}), *digests
                    )
        return found

    @property
    def _computed(self) -> dict[str, str]:
        """The digest of where each stage was computed and what that cost, by key."""
        return {key: one.computed for key, one in self._artifacts.items()}

    @cached_property
    def _provenances(self) -> dict[str, str]:
        """The environment of each stored training, decoding and scoring as JSON, by key."""
        return {
            key: one.environment
            for key, one in self._artifacts.items()
            if self.plan.stages[key].about.computes and one.environment
        }

    @cached_property
    def _places(self) -> dict[str, int]:
        """The distinct environments of the cells, in order, with their index."""
        behind = (key for artifacts in self.plan.of_cell.values() for key in artifacts.values())
        several = dict.fromkeys(self._provenances[key] for key in behind if key in self._provenances)
        return {one: place for place, one in enumerate(several)}

    @cached_property
    def _ingredients(self) -> dict[str, dict[str, str]]:
        """The versions of libraries and digests of code in the keys."""
        libraries: dict[str, str] = {}
        code: dict[str, str] = {}
        for stage in self.plan.stages.values():
            libraries |= stage.ingredients["libraries"]
            code |= {name: digest[:LETTERS] for name, digest in stage.ingredients["code"].items()}
        return {"libraries": dict(sorted(libraries.items())), "code": dict(sorted(code.items()))}

    @cached_property
    def _observed(self) -> dict[str, Dependencies]:
        """The inputs of each stage that no key covers, with their digests, by key."""
        stages = [(self.store.kept_as(one.kind, one.key), one.key) for one in self.plan.stages.values()]
        found = {one[1]: self.store.dependencies[one] for one in stages if self.store.has(*one)}
        return {key: renamed(inputs, self._told) for key, inputs in found.items() if inputs}

    def _read(self) -> dict[str, Any]:
        """Return the digests of the files that tasks and models read."""
        tasks = {}
        for name, keys in self.plan.tasks.items():
            every = [self.plan.stages[key].settings for key in keys]
            tasks[name] = {name: mark for one in every for name, mark in (*one["data"].items(), *marks(one["task"]))}
        models = {}
        for model, key in self._trainings.items():
            settings = self.plan.stages[key].settings
            initial = {"initial": settings["initial"]} if settings["initial"] else {}
            models[model] = {**settings["files"], **dict(marks(settings["model"])), **initial}
        return {"tasks": tasks, "models": models}

    def _model(self, name: str, key: str) -> dict[str, Any]:
        """Return the facts of the stored training of a model, and what is true of it whatever the seeds."""
        one_system = all(entry.config.is_one_system() for entry in self.suite.models[name].all)
        marks = {"one_system": one_system, "unchecked": is_unchecked(self.plan.stages[key], self.store)}
        stored = stored_json(self.store, self.plan.stages[key].kind, key, "training.json") or {}
        return stored | {mark: True for mark, holds in marks.items() if holds}

    @cached_property
    def _tasks(self) -> dict[str, Any]:
        return {name: self._task(name, self.plan.tasks.get(name, [])) for name in self.suite.tasks}

    def _task(self, name: str, keys: Sequence[str]) -> dict[str, Any]:
        """Return the entry of a task; if nothing of it is stored, its status and the reason."""
        facts = [one for key in keys if (one := stored_json(self.store, "prepare", key, "facts.json")) is not None]
        if facts:
            return {**told(facts), "restricted": self.suite.tasks[name].restriction}
        failed = [self.failures[key] for key in keys if key in self.failures]
        reason = self._told(failed[0] if failed else self.plan.missing.get(("task", name), ""))
        return {"vocabulary": 0, "status": "failed" if failed else "not run", "reason": reason}

    @cached_property
    def _trainings(self) -> Mapping[str, str]:
        """The key of one training per model, that of the first cell."""
        found: dict[str, str] = {}
        for cell, artifacts in self.plan.of_cell.items():
            found.setdefault(cell.model, weights_of(artifacts))
        return found

    def _result(self, cell: Cell) -> CellResult:
        if cell not in self.plan.of_cell:
            return CellResult(cell.axes, "not run", self._told(self.plan.lack(cell) or LEFT_OUT))
        artifacts = self.plan.of_cell[cell]
        numbers = {name: self._number(cell, name, artifacts[f"measure/{name}"]) for name in cell.metrics}
        probes = dict(self._probes(cell, artifacts))
        computed = {self._places[self._provenances[key]] for key in artifacts.values() if key in self._provenances}
        found = CellResult(cell.axes, "done", "", numbers, artifacts, probes, tuple(sorted(computed)))
        failed = [self._told(self.failures[key]) for key in artifacts.values() if key in self.failures]
        if failed:
            return replace(found, status="failed", reason=failed[0])
        if all(self._is_here(key) for key in artifacts.values()):
            return found
        stopped = [self._told(self.stopped[key]) for key in artifacts.values() if key in self.stopped]
        return replace(found, status="not run", reason=stopped[0] if stopped else "interrupted")

    def _is_here(self, key: str) -> bool:
        return key in self._artifacts or key in self.numbers or self.store.has(self.plan.stages[key].kind, key)

    def _number(self, cell: Cell, name: str, key: str) -> Number:
        if key not in self.numbers:
            return Number(reason=self._told(self.failures.get(key, "not run")))
        found = self.numbers[key]
        _, kind = likelihood(self.suite.metrics[name], self.suite.models[cell.model].at(cell.task).config)
        return Number(**{**found, "value": float(found["value"]), "kind": kind})

    def _probes(self, cell: Cell, artifacts: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
        """Yield the findings of the probes of a cell, with the names of their metrics in the suite."""
        for name in cell.probes:
            found = stored_json(self.store, "probe", artifacts[f"probe/{name}"], "finding.json")
            if found is not None:
                metrics = {one["metric"] for one in found["statements"]}
                yield name, {**found, "measured": self._measured(cell, name, metrics)}

    def _measured(self, cell: Cell, name: str, metrics: Iterable[str]) -> dict[str, str]:
        """Return the names in the suite of the metrics of a probe, by their names in plugins."""
        probe, found = self.suite.probes[name], {}
        for metric in sorted(metrics):
            measured = [one for one in cell.metrics if _agrees(probe, self.suite.metrics[one], metric)]
            found.update({metric: measured[0]} if measured else {})
        return found

    def _costs(self) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
        for stage in self.plan.stages.values():
            if stage.key in self._artifacts and not stage.about.joint:  # each of its seeds costs its share
                yield stage.kind, stage.label, stage.key, self._artifacts[stage.key].cost

    def _copy_histories(self, folder: Path) -> None:
        folder.mkdir()
        for stage in self.plan.stages.values():
            if HISTORY in stage.about.files and stage.key in self._artifacts:
                label = re.sub(r"[^A-Za-z0-9.-]", "_", stage.label)  # not every file system has more
                name = f"{label[:LONGEST]}-{stage.key[:SHORT]}.jsonl"
                with suppress(StoreError):  # a report says that there is none
                    shutil.copyfile(self.store.kept(stage.kind, stage.key).file(HISTORY), folder / name)

    def _draws(self) -> Iterator[tuple[str, Any]]:
        """Yield the bootstrap replicates of the numbers, in the order of the keys of their measure stages."""
        for key in sorted(self.numbers):
            if (draws := self._draws_of(key)) is not None:
                yield key, draws

    def _draws_of(self, key: str) -> Any:
        """Return the bootstrap replicates of a number; None if it has none."""
        import numpy as np

        with suppress(StoreError, ValueError):  # what was carried from an older version has none
            draws = np.load(self.store.get("measure", key).file("draws.npy"), allow_pickle=False)
            return draws if len(draws) else None
        return None


def _agrees(probe: ProbeConfig, metric: MetricConfig, about: str) -> bool:
    """Return whether a metric is that of a probe, with equal settings where both have them."""
    own, other = probe.model_dump(), metric.model_dump()
    return metric.name == about and all(other[name] == own[name] for name in own if name in other)


def keep_of_sections(run: Run, store: Store) -> None:
    """Have sections add their files to the folder of a run; one that fails is named, and the run goes on without."""
    for section in sections():
        try:
            section.keep(run, store)
        except BenchError:
            raise
        except Exception as error:  # a mistake of a plugin, after all that the run computed
            name, what = type(section).__qualname__, f"{type(error).__name__}: {error}"
            store.warn(f"{name} could not add its files to {run.folder}: {what}")
