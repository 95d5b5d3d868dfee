"""Compares a run with a store: artifacts, numbers, findings, replicates, samples, costs, histories, environments."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench_core.errors import StoreError
from bench_core.runs.manifest import Remark
from bench_core.runs.provenance import RecordedStage, computed_digest, files_digest, read_stages
from bench_core.runs.reported_info import reported_info
from bench_core.runs.results import CellResult, Run, history_files, plain_file
from bench_core.runs.selecting import cell_name
from bench_core.stage_kinds import PREDICTIONS, WEIGHTS, weights_of
from bench_core.storage.artifact import Artifact
from bench_core.storage.contents import records
from bench_core.storage.predictions import read_lines
from bench_core.storage.store import Store
from bench_exchange.suite_settings import recorded_model
from input_digests import Dependencies, described
from plain_files import from_csv

ADDED_BY_RUNS = ("reason", "kind", "measured")  # fields that a run adds to the contents of an artifact
COMPUTED = (*WEIGHTS, "decode", "score")  # stages whose environments a run records
#: Entries of run.json without a stage: licences from plugins, models whose contracts were not tested.
WITHOUT_STAGE = (("tasks", "restricted"), ("models", "unchecked"))
COSTS_KEY_LENGTH = 16  # characters of a key in the costs of a run
_UNKNOWN = RecordedStage("", {}, 0)
NOT_IN_ARTIFACTS = ("libraries", "code")  # parts of an environment that artifacts do not record


def unlike_store(run: Run, store: Store) -> Iterator[Remark]:
    """Yield problems with the artifacts of a run, and differences between the run and its artifacts."""
    comparison = _StoreComparison(run, store)
    yield from (Remark(text) for text in comparison.contradictions())
    if comparison.elsewhere:
        text = f"{len(comparison.elsewhere):,} artifacts in {store.root} from another computation"
        yield Remark(f"{run.folder}: costs and environments of {text}", wrong=False)
    if comparison.missing:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(comparison.missing.items()))
        yield Remark(f"{run.folder}: not in {store.root}: results of {kinds}", wrong=False)


@dataclass
class _StoreComparison:
    run: Run
    store: Store

    @cached_property
    def _stages(self) -> Mapping[str, RecordedStage]:
        with suppress(StoreError):
            return read_stages(self.run.folder)
        return {}

    @cached_property
    def missing(self) -> Counter[str]:
        """The number of artifacts that are not in the store, by kind."""
        behind = {key for cell in self.run.cells for key in _behind(cell)}
        return Counter(kind for kind, key in self.run.artifacts() if key in behind and not self._places(kind, key))

    def _places(self, kind: str, key: str) -> list[str]:
        """Return the kinds under which an artifact is stored: its own, its record's, or both.

        Excludes artifacts that were recomputed after inputs outside the key had changed.
        """
        names = dict.fromkeys((kind, records().get(kind, kind)))
        here = [name for name in names if os.path.lexists(self.store.path(name, key))]
        return [name for name in here if not self._is_replaced(name, key)]

    def _is_replaced(self, kind: str, key: str) -> bool:
        """Return whether an artifact's inputs, origin and files all differ from the run's records."""
        if not self._unrecorded_inputs(kind, key) or not self._recorded_inputs(key):
            return False
        recorded, manifest = self._stages.get(key, _UNKNOWN), self.store.get(kind, key).manifest
        return recorded.computed != computed_digest(manifest) and recorded.result != files_digest(manifest)

    def _unrecorded_inputs(self, kind: str, key: str) -> list[str]:
        """Return the inputs of a stored artifact that the run does not record; empty if it is damaged."""
        if not self.store.has(kind, key):
            return []
        recorded, inputs = self._recorded_inputs(key), self.store.dependencies[kind, key].items()
        triples = ((sort, name, mark) for sort, marks in inputs for name, mark in marks.items())
        # compares marks only, because names contain folders of this machine
        return [described(sort, name) for sort, name, mark in triples if mark not in recorded.get(sort, {}).values()]

    def _recorded_inputs(self, key: str) -> Dependencies:
        """Return the recorded inputs of a stage; for old formats without inputs per stage, the inputs of the run."""
        return self._stages.get(key, _UNKNOWN).observed or self.run.info.get("observed", {})

    @cached_property
    def _artifacts(self) -> dict[str, Artifact]:
        """The readable artifacts of a run in the store, by key."""
        artifacts = {}
        for kind, key in self.run.artifacts():
            for name in reversed(self._places(kind, key)):
                with suppress(StoreError):
                    artifacts[key] = self.store.get(name, key)
        return artifacts

    @cached_property
    def elsewhere(self) -> set[str]:
        """The keys of artifacts that were not computed by the run itself."""
        stages = {key: stage for key, stage in self._stages.items() if key in self._artifacts and stage.computed}
        digests = {key: computed_digest(self._artifacts[key].manifest) for key in stages}
        return {key for key, stage in stages.items() if stage.computed != digests[key]}

    def contradictions(self) -> Iterator[str]:
        """Yield all differences from the store."""
        for kind, key in self.run.artifacts():
            try:
                for name in self._places(kind, key):
                    yield from map(str, self.store.get(name, key).problems())
                    yield from self._unlike_record(kind, key, self.store.get(name, key))
            except StoreError as error:
                yield str(error)
        for cell in self.run.cells:
            where = f"{self.run.folder}: {cell_name(cell.cell)}"
            yield from (f"{where}: {text}" for text in [*self._numbers(cell), *self._environments(cell)])
        yield from (f"{self.run.folder}: {text}" for text in [*self._info(), *self._samples(), *self._files()])

    def _unlike_record(self, kind: str, key: str, artifact: Artifact) -> Iterator[str]:
        """Yield differences between an artifact and the stage recorded under its key."""
        recorded, manifest = self._stages.get(key), artifact.manifest
        if key not in self.elsewhere and (names := self._unrecorded_inputs(manifest["kind"], key)):
            yield f"{artifact.folder}: {self.run.folder} does not record that it depends on {', '.join(names)}"
        if recorded is None:
            return
        if manifest.get("scheme", recorded.scheme) != recorded.scheme:
            yield f"{artifact.folder}: its key scheme differs from the one recorded in {self.run.folder}"
        if manifest.get("ingredients", recorded.ingredients) != recorded.ingredients:
            yield f"{artifact.folder}: its ingredients differ from those recorded in {self.run.folder}"
        if kind not in ("measure", "probe") and recorded.result and files_digest(manifest) != recorded.result:
            yield f"{artifact.folder}: {self.run.folder} was computed from a different {kind} with other files"

    def _numbers(self, cell: CellResult) -> Iterator[str]:
        numbers = {name: vars(number) for name, number in cell.numbers.items() if number.value is not None}
        yield from self._results(cell, "measure", "number.json", numbers)
        yield from self._results(cell, "probe", "finding.json", cell.probes)
        for name in numbers:
            key = cell.artifacts.get(f"measure/{name}", "")
            if key in self._artifacts and not self._same_replicates(key):
                yield f"{name}: its bootstrap replicates in draws.safetensors differ from the store"

    def _same_replicates(self, key: str) -> bool:
        import numpy as np

        try:
            stored = np.load(self._artifacts[key].file("draws.npy"), allow_pickle=False)
        except (StoreError, ValueError):
            return True  # damage is reported elsewhere, or there are no replicates
        recorded = self.run.draws.get(key, stored[:0])
        return bool(stored.tobytes() == recorded.tobytes())

    def _results(self, cell: CellResult, kind: str, file: str, results: Mapping[str, Any]) -> Iterator[str]:
        """Yield differences between the results in a cell and its artifacts of one kind."""
        keys = {name.partition("/")[2]: key for name, key in cell.artifacts.items() if name.partition("/")[0] == kind}
        for name in dict.fromkeys([*keys, *results]):
            if name not in keys:
                yield f"{name}: the cell names no artifact for it"
            elif keys[name] in self._artifacts and (name in results or cell.status == "done"):
                with suppress(StoreError):  # damage is already reported
                    yield from _differences(name, results.get(name, {}), self._artifacts[keys[name]].json(file))

    def _environments(self, cell: CellResult) -> Iterator[str]:
        """Yield environments of stages if the cell does not record them."""
        environments = [self.run.info["environments"][place].items() for place in cell.environments]
        known = [
            _plain({name: value for name, value in items if name not in NOT_IN_ARTIFACTS}) for items in environments
        ]
        for name, key in cell.artifacts.items():
            if name.partition("/")[0] not in COMPUTED or key not in self._artifacts or key in self.elsewhere:
                continue
            manifest = self._artifacts[key].manifest
            if "provenance" in manifest and (provenance := _plain(manifest["provenance"])) not in known:
                yield f"{name} was computed with {provenance} according to the store"

    def _info(self) -> Iterator[str]:
        """Yield differences between the tasks and models in run.json and in the store."""
        first: dict[str, list[str]] = {}
        for cell in self.run.cells:
            first.setdefault(f"models {cell.cell['model']}", [weights_of(cell.artifacts)])
            prepared = first.setdefault(f"tasks {cell.cell['task']}", [])
            prepared += (cell.artifacts[name] for name in ("prepare/train", "prepare") if name in cell.artifacts)
        for name, keys in first.items():
            what, _, label = name.partition(" ")
            recorded = self.run.info[what].get(label) or {}
            file = "training.json" if what == "models" else "task_info.json"
            artifacts = [self._artifacts.get(key) for key in dict.fromkeys(keys)]
            available = [artifact for artifact in artifacts if artifact and file in artifact.manifest["files"]]
            if not available or len(available) < len(artifacts) or "status" in recorded:
                continue
            with suppress(StoreError):
                infos = [artifact.json(file) for artifact in available]
                known = infos[0] if what == "models" else reported_info(infos)
                if what == "models" and (is_one_system := self._is_one_system(label)) is not None:
                    known = {**known, "one_system": is_one_system}
                for word, value in recorded.items():
                    if (what, word) in WITHOUT_STAGE:
                        continue
                    if word not in known or _plain(known[word]) != _plain(value):
                        yield f"run.json: {word} of {what[:-1]} {label!r} is {value!r}, which differs from the store"

    def _is_one_system(self, model: str) -> bool | None:
        """Return whether a model is the same system for all seeds, according to stored settings; None if unknown."""
        keys = {weights_of(cell.artifacts) for cell in self.run.cells if cell.cell["model"] == model}
        artifacts = [self._artifacts[key] for key in keys if key in self._artifacts]
        models = [recorded_model(artifact.manifest["ingredients"]["settings"].get("model")) for artifact in artifacts]
        known = [model.is_one_system() for model in models if model is not None]
        return all(known) if len(known) == len(models) else None

    def _samples(self) -> Iterator[str]:
        """Yield the samples that differ from the stored predictions."""
        decoded = {cell_name(cell.cell): cell.artifacts.get("decode", "") for cell in self.run.cells}
        known: dict[str, dict[int, Mapping[str, Any]]] = {}
        for sample in self.run.info["samples"]:
            name = cell_name(sample["cell"])
            artifact = self._artifacts.get(decoded.get(name, ""))
            if artifact is None:
                continue
            key = decoded[name]
            with suppress(StoreError):
                known[key] = known.get(key) or {stored["id"]: stored for stored in artifact.json("samples.json")}
                if sample["id"] not in known[key]:
                    known[key] |= {line["id"]: _as_sample(line) for line in read_lines(artifact.file(PREDICTIONS))}
                yield from (f"run.json: a sample of {name}: {text}" for text in _unlike(sample, known[key]))

    def _files(self) -> Iterator[str]:
        """Yield the cost rows and histories that differ from the store."""
        here = {key: artifact for key, artifact in self._artifacts.items() if key not in self.elsewhere}
        stored = {(artifact.manifest["kind"], key[:COSTS_KEY_LENGTH]): artifact for key, artifact in here.items()}
        for row in from_csv(plain_file(self.run.folder / "costs.csv").decode()):
            kind = row["stage"]
            artifact = stored.get((kind, row["key"])) or stored.get((records().get(kind, kind), row["key"]))
            for name, value in (artifact.manifest.get("cost") or {}).items() if artifact else ():
                if row.get(name) != ("" if value is None else str(value)):
                    yield f"costs.csv: {row['what']}: {name} is {row.get(name)} but {value} in the store"
        for short, path in history_files(self.run.folder).items():
            key = next((key for key in self._artifacts if key.startswith(short)), "")
            if key and "history.jsonl" in self._artifacts[key].manifest["files"]:
                with suppress(StoreError):
                    if plain_file(path) != self._artifacts[key].file("history.jsonl").read_bytes():
                        yield f"history/{path.name}: the file differs from the store"


def _behind(cell: CellResult) -> Iterator[str]:
    """Yield the keys of the artifacts that a cell needs; for an unfinished cell, only the keys of its results."""
    known = {f"measure/{name}" for name, number in cell.numbers.items() if number.value is not None}
    known |= {f"probe/{name}" for name in cell.probes}
    yield from (key for name, key in cell.artifacts.items() if cell.status == "done" or name in known)


def _as_sample(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prediction in the form of a sample."""
    first, references = prediction["hypotheses"][0], prediction.get("references") or [""]
    sample = {"id": prediction["id"], "text": prediction["texts"][0], "finished": first["finished"]}
    return {**sample, "prompt": prediction.get("prompt", ""), "reference": references[0]}


def _unlike(sample: Mapping[str, Any], known: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
    """Yield differences between a sample and the stored prediction; text from the data may be left out."""
    stored = known.get(sample["id"])
    if stored is None:
        yield f"example {sample['id']} was not decoded"
        return
    words = {name: " ".join(str(stored.get(name) or "").split()) for name in ("reference", "prompt", "text")}
    repeats = {words[name]: name for name in ("reference", "prompt")}
    hidden = f"(the {repeats.get(words['text'], '')}, word for word)"
    for name in ("text", "prompt", "reference", "finished", "tokens", "log_prob"):
        value, expected = sample.get(name), stored.get(name)
        left_out = value == hidden if name == "text" else value in ("", None)
        if name in stored and value != expected and not left_out:
            yield f"example {sample['id']}: {name} is {value!r} but {expected!r} in the store"


def _differences(name: str, recorded: Mapping[str, Any], stored: Any) -> Iterator[str]:
    if not isinstance(stored, dict):
        yield f"{name}: the store has no such entry"
        return
    for word in dict.fromkeys([*stored, *recorded]):
        here, there = _plain(recorded.get(word)), _plain(stored.get(word))
        if here != there and word not in ADDED_BY_RUNS:
            yield f"{name}: {word} is {here} but {there} in the store"


def _plain(value: Any) -> Any:
    """Return a value in a common notation: infinities and NaN are strings in JSON."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(str(_plain(item)) for item in value)}]"
    if isinstance(value, dict):  # key order may differ between files
        return f"{{{', '.join(f'{key}: {_plain(item)}' for key, item in sorted(value.items()))}}}"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value) if type(value) is int else value
