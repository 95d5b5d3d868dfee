"""Compares a run with a store: artifacts, numbers, findings, draws, samples, costs, histories, environments."""

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
from bench_core.runs.results import CellResult, Run, history_files, plain_file
from bench_core.runs.selecting import cell_name
from bench_core.runs.task_facts import told as facts_told
from bench_core.stage_kinds import OUTCOMES, WEIGHTS, weights_of
from bench_core.storage.artifact import Artifact
from bench_core.storage.contents import records
from bench_core.storage.outcomes import read_lines
from bench_core.storage.store import Store
from bench_exchange.suite_settings import recorded_model
from input_digests import Dependencies, described
from plain_files import from_csv

OF_RUNS = ("reason", "kind", "measured")  # what a run adds to what an artifact tells
COMPUTED = (*WEIGHTS, "decode", "score")  # whose environments a run tells
#: what run.json adds that no stage depends on: licences by plugins, models whose contracts were not tried
OF_NO_STAGE = (("tasks", "restricted"), ("models", "unchecked"))
SHORT = 16  # letters of a key in costs.csv
_UNKNOWN = RecordedStage("", {}, 0)
BESIDE = ("libraries", "code")  # of an environment: what is not of the artifact


def unlike_store(run: Run, store: Store) -> Iterator[Remark]:
    """Yield what is wrong with the artifacts of a run, and what it tells otherwise than these."""
    compared = _Compared(run, store)
    yield from (Remark(text) for text in compared.contradictions())
    if compared.elsewhere:
        text = f"{len(compared.elsewhere):,} artifacts in {store.root} were computed another time"
        yield Remark(f"{run.folder}: {text}: costs, environments", wrong=False)
    if compared.missing:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(compared.missing.items()))
        yield Remark(f"{run.folder}: not in {store.root}: {kinds}; what the run says of them", wrong=False)


@dataclass
class _Compared:
    run: Run
    store: Store

    @cached_property
    def _recorded(self) -> Mapping[str, RecordedStage]:
        with suppress(StoreError):
            return read_stages(self.run.folder)
        return {}

    @cached_property
    def missing(self) -> Counter[str]:
        """How many artifacts are not in the store, by kind."""
        behind = {key for cell in self.run.cells for key in _behind(cell)}
        return Counter(kind for kind, key in self.run.artifacts() if key in behind and not self._places(kind, key))

    def _places(self, kind: str, key: str) -> list[str]:
        """Return the kinds under which an artifact is in the store: its own, or that of its record.

        One that was computed again from other inputs, which its key does not cover, is not the run's.
        """
        names = dict.fromkeys((kind, records().get(kind, kind)))
        here = [name for name in names if os.path.lexists(self.store.path(name, key))]
        return [name for name in here if not self._is_another(name, key)]

    def _is_another(self, kind: str, key: str) -> bool:
        """Return whether an artifact is not the run's by its inputs, by where it was computed and by its files."""
        if not self._other_inputs(kind, key) or not self._told(key):
            return False
        recorded, manifest = self._recorded.get(key, _UNKNOWN), self.store.get(kind, key).manifest
        return recorded.computed != computed_digest(manifest) and recorded.result != files_digest(manifest)

    def _other_inputs(self, kind: str, key: str) -> list[str]:
        """Return the inputs of a stored artifact that the run does not record; none if it is damaged."""
        if not self.store.has(kind, key):
            return []
        told, inputs = self._told(key), self.store.dependencies[kind, key].items()
        every = ((sort, name, mark) for sort, found in inputs for name, mark in found.items())
        # by marks alone, as names have folders of this machine
        return [described(sort, name) for sort, name, mark in every if mark not in told.get(sort, {}).values()]

    def _told(self, key: str) -> Dependencies:
        """Return the inputs that a run records for a stage; those of all its stages if it is from before that."""
        return self._recorded.get(key, _UNKNOWN).observed or self.run.info.get("observed", {})

    @cached_property
    def _artifacts(self) -> dict[str, Artifact]:
        """The artifacts of a run that are in the store and can be read, by key."""
        found = {}
        for kind, key in self.run.artifacts():
            for name in reversed(self._places(kind, key)):
                with suppress(StoreError):
                    found[key] = self.store.get(name, key)
        return found

    @cached_property
    def elsewhere(self) -> set[str]:
        """The keys of artifacts that were computed at another time or place than those of the run."""
        told = {key: self._recorded[key].computed for key in self._artifacts if key in self._recorded}
        return {key for key, one in told.items() if one and one != computed_digest(self._artifacts[key].manifest)}

    def contradictions(self) -> Iterator[str]:
        """Yield all that is not as the store has it."""
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
        """Yield where an artifact is not the one that a run recorded under its key."""
        recorded, manifest = self._recorded.get(key), artifact.manifest
        if key not in self.elsewhere and (names := self._other_inputs(manifest["kind"], key)):
            yield f"{artifact.folder}: {self.run.folder} does not record that it depends on {', '.join(names)}"
        if recorded is None:
            return
        if manifest.get("scheme", recorded.scheme) != recorded.scheme:
            yield f"{artifact.folder}: its key is of another scheme than {self.run.folder} records"
        if manifest.get("ingredients", recorded.ingredients) != recorded.ingredients:
            yield f"{artifact.folder}: its ingredients are not those that {self.run.folder} records"
        if kind not in ("measure", "probe") and recorded.result and files_digest(manifest) != recorded.result:
            yield f"{artifact.folder}: {self.run.folder} was computed from another {kind}, with other files"

    def _numbers(self, cell: CellResult) -> Iterator[str]:
        numbers = {name: vars(number) for name, number in cell.numbers.items() if number.value is not None}
        yield from self._compared(cell, "measure", "number.json", numbers)
        yield from self._compared(cell, "probe", "finding.json", cell.probes)
        for name in numbers:
            key = cell.artifacts.get(f"measure/{name}", "")
            if key in self._artifacts and not self._same_draws(key):
                yield f"{name}: its bootstrap replicates in draws.safetensors are not those in the store"

    def _same_draws(self, key: str) -> bool:
        import numpy as np

        try:
            stored = np.load(self._artifacts[key].file("draws.npy"), allow_pickle=False)
        except (StoreError, ValueError):
            return True  # the artifact is known to be damaged, or has none
        told = self.run.draws.get(key, stored[:0])
        return bool(stored.tobytes() == told.tobytes())

    def _compared(self, cell: CellResult, kind: str, file: str, told: Mapping[str, Any]) -> Iterator[str]:
        """Yield what a cell tells otherwise than the artifacts of a kind that it names."""
        keys = {name.partition("/")[2]: key for name, key in cell.artifacts.items() if name.partition("/")[0] == kind}
        for name in dict.fromkeys([*keys, *told]):
            if name not in keys:
                yield f"{name}: it names no artifact that this comes from"
            elif keys[name] in self._artifacts and (name in told or cell.status == "done"):
                with suppress(StoreError):  # it was told what is wrong with the artifact
                    yield from _differences(name, told.get(name, {}), self._artifacts[keys[name]].json(file))

    def _environments(self, cell: CellResult) -> Iterator[str]:
        """Yield the environment of a stage that is none of those that its cell tells."""
        several = [self.run.info["environments"][place].items() for place in cell.environments]
        told = [_plain({name: value for name, value in one if name not in BESIDE}) for one in several]
        for name, key in cell.artifacts.items():
            if name.partition("/")[0] not in COMPUTED or key not in self._artifacts or key in self.elsewhere:
                continue
            manifest = self._artifacts[key].manifest
            if "provenance" in manifest and (found := _plain(manifest["provenance"])) not in told:
                yield f"{name} was computed with {found}, by the store"

    def _info(self) -> Iterator[str]:
        """Yield what run.json tells of tasks and models otherwise than the store."""
        first: dict[str, list[str]] = {}
        for cell in self.run.cells:
            first.setdefault(f"models {cell.cell['model']}", [weights_of(cell.artifacts)])
            prepared = first.setdefault(f"tasks {cell.cell['task']}", [])
            prepared += (cell.artifacts[name] for name in ("prepare/train", "prepare") if name in cell.artifacts)
        for name, keys in first.items():
            what, _, called = name.partition(" ")
            told = self.run.info[what].get(called) or {}
            file = "training.json" if what == "models" else "facts.json"
            artifacts = [self._artifacts.get(key) for key in dict.fromkeys(keys)]
            found = [one for one in artifacts if one is not None and file in one.manifest["files"]]
            if not found or len(found) < len(artifacts) or "status" in told:
                continue
            with suppress(StoreError):
                known = found[0].json(file) if what == "models" else facts_told([one.json(file) for one in found])
                if what == "models" and (one := self._is_one_system(called)) is not None:
                    known = {**known, "one_system": one}
                for word, value in told.items():
                    if (what, word) in OF_NO_STAGE:
                        continue
                    if word not in known or _plain(known[word]) != _plain(value):
                        yield f"run.json: {word} of {what[:-1]} {called!r} is {value!r}, not as in the store"

    def _is_one_system(self, model: str) -> bool | None:
        """Return whether a model is one system whatever the seeds, by its settings in the store, if these tell."""
        keys = {weights_of(cell.artifacts) for cell in self.run.cells if cell.cell["model"] == model}
        found = [self._artifacts[key] for key in keys if key in self._artifacts]
        models = [recorded_model(one.manifest["ingredients"]["settings"].get("model")) for one in found]
        known = [one.is_one_system() for one in models if one is not None]
        return all(known) if len(known) == len(models) else None

    def _samples(self) -> Iterator[str]:
        """Yield the outputs to show that are not those of their decoding."""
        decoded = {cell_name(cell.cell): cell.artifacts.get("decode", "") for cell in self.run.cells}
        known: dict[str, dict[int, Mapping[str, Any]]] = {}
        for sample in self.run.info["samples"]:
            name = cell_name(sample["cell"])
            artifact = self._artifacts.get(decoded.get(name, ""))
            if artifact is None:
                continue
            key = decoded[name]
            with suppress(StoreError):
                known[key] = known.get(key) or {one["id"]: one for one in artifact.json("samples.json")}
                if sample["id"] not in known[key]:
                    known[key] |= {one["id"]: _of_outcome(one) for one in read_lines(artifact.file(OUTCOMES))}
                yield from (f"run.json: a sample of {name}: {text}" for text in _unlike(sample, known[key]))

    def _files(self) -> Iterator[str]:
        """Yield the rows of costs and the histories that are not those of the store."""
        here = {key: one for key, one in self._artifacts.items() if key not in self.elsewhere}
        stored = {(artifact.manifest["kind"], key[:SHORT]): artifact for key, artifact in here.items()}
        for row in from_csv(plain_file(self.run.folder / "costs.csv").decode()):
            kind = row["stage"]
            artifact = stored.get((kind, row["key"])) or stored.get((records().get(kind, kind), row["key"]))
            for name, value in (artifact.manifest.get("cost") or {}).items() if artifact else ():
                if row.get(name) != ("" if value is None else str(value)):
                    yield f"costs.csv: {row['what']}: {name} is {row.get(name)}, and {value} in the store"
        for short, path in history_files(self.run.folder).items():
            key = next((key for key in self._artifacts if key.startswith(short)), "")
            if key and "history.jsonl" in self._artifacts[key].manifest["files"]:
                with suppress(StoreError):
                    if plain_file(path) != self._artifacts[key].file("history.jsonl").read_bytes():
                        yield f"history/{path.name}: it is not the one in the store"


def _behind(cell: CellResult) -> Iterator[str]:
    """Yield the keys without which a cell could not say what it does; one that is not done may have got anywhere."""
    known = {f"measure/{name}" for name, number in cell.numbers.items() if number.value is not None}
    known |= {f"probe/{name}" for name in cell.probes}
    yield from (key for name, key in cell.artifacts.items() if cell.status == "done" or name in known)


def _of_outcome(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a sample tells of an outcome."""
    first, references = outcome["hypotheses"][0], outcome.get("references") or [""]
    about = {"id": outcome["id"], "text": outcome["texts"][0], "finished": first["finished"]}
    return {**about, "prompt": outcome.get("prompt", ""), "reference": references[0]}


def _unlike(sample: Mapping[str, Any], known: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a sample tells otherwise than its decoding; texts of the data may be left out."""
    stored = known.get(sample["id"])
    if stored is None:
        yield f"example {sample['id']} was not decoded"
        return
    words = {name: " ".join(str(stored.get(name) or "").split()) for name in ("reference", "prompt", "text")}
    repeats = {words[name]: name for name in ("reference", "prompt")}
    hidden = f"(the {repeats.get(words['text'], '')}, word for word)"
    for name in ("text", "prompt", "reference", "finished", "tokens", "log_prob"):
        told, there = sample.get(name), stored.get(name)
        left_out = told == hidden if name == "text" else told in ("", None)
        if name in stored and told != there and not left_out:
            yield f"example {sample['id']}: {name} is {told!r}, and {there!r} in the store"


def _differences(name: str, told: Mapping[str, Any], stored: Any) -> Iterator[str]:
    if not isinstance(stored, dict):
        yield f"{name}: the store has no mapping of it"
        return
    for word in dict.fromkeys([*stored, *told]):
        here, there = _plain(told.get(word)), _plain(stored.get(word))
        if here != there and word not in OF_RUNS:
            yield f"{name}: {word} is {here}, and {there} in the store"


def _plain(value: Any) -> Any:
    """Return a value as both sides would write it: infinities and NaN are words in JSON."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(str(_plain(one)) for one in value)}]"
    if isinstance(value, dict):  # in the order of its keys, which two files need not share
        return f"{{{', '.join(f'{key}: {_plain(one)}' for key, one in sorted(value.items()))}}}"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value) if type(value) is int else value
