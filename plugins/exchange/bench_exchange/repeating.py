"""Repeats stages from stored inputs, each in its own process, and compares the results."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import chain, groupby, islice
from math import isclose
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench_core import Executor, StageFailed, StageRequest
from bench_core.errors import StoreError
from bench_core.planning.path_settings import marks
from bench_core.runs.manifest import Remark
from bench_core.runs.provenance import current
from bench_core.stage_kinds import PREDICTIONS
from bench_core.storage.contents import records
from bench_core.storage.predictions import read_lines
from bench_core.storage.store import Artifact, Store

FILES = {"decode": PREDICTIONS, "score": PREDICTIONS, "measure": "number.json", "probe": "finding.json"}
MAX_DIFFERENCES = 3  # limit for differences reported per stage
MAX_VALUE_CHARACTERS = 60  # limit for a value in messages
PRECISION = 1e-5  # relative tolerance: the last digits of float32 sums depend on hardware


@dataclass(frozen=True)
class Repeating:
    """Repeats stored stages and reports differences."""

    store: Store
    workers: Executor
    rows: int | None = None  # minimum number per decode or score stage; default: all
    places: Mapping[str, str] = field(default_factory=dict)  # path of a file in settings -> its mark in keys
    same_code: bool = False  # whether to skip stages whose code or libraries differ

    def of(self, names: Sequence[tuple[str, str]]) -> Iterator[Remark]:
        """Yield all differences of stages, in order."""
        chosen = [name for name in names if name[0] in FILES and self.store.has(*name)]
        threads = ThreadPoolExecutor(self.workers.capacity)
        try:
            yield from chain.from_iterable(threads.map(lambda name: [*self._stage(*name)], chosen))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)  # workers finish the stages that are running

    def _stage(self, kind: str, key: str) -> Iterator[Remark]:
        try:
            stored = self.store.get(kind, key)
            request = _request(stored, self.places)
        except (StoreError, KeyError, TypeError, ValueError) as error:
            yield Remark(f"{kind} {key} cannot be repeated: {error}")
            return
        stage = request.stage
        name = f"{kind} of {stage.label}{_parts(stage)}"
        missing = [role for role, names in stage.inputs.items() if not _has(self.store, stage, *names)]
        if missing:
            why = _describe_missing(stage, "model" if "model" in missing else missing[0])
            yield Remark(f"{name}: not repeated: {why}", wrong=False)
            return
        if unknown := [setting for setting, mark in marks(stage.settings) if mark not in self.places.values()]:
            why = f"the file of {unknown[0]} is unknown here. Run the suite that uses it, or verify from its folder."
            yield Remark(f"{name}: not repeated: {why}", wrong=False)
            return
        with TemporaryDirectory() as folder:
            request = replace(request, again=folder, rows=self.rows, same_code=self.same_code)
            try:
                self.workers.submit(request, lambda text, share: None).result()
                texts = _differences(stage, stored, Path(folder), self.rows)
                yield from (Remark(f"{name}: {text}") for text in texts)
            except (StageFailed, StoreError) as failure:
                elsewhere = isinstance(failure, StageFailed) and failure.elsewhere
                yield Remark(f"{name} cannot be repeated: {failure}", wrong=not elsewhere)


def _request(stored: Artifact, places: Mapping[str, str]) -> StageRequest:
    """Return the request for the stage of an artifact, with the paths of files in its settings."""
    kind, key, label = stored.folder.parent.name, stored.folder.name, stored.manifest.get("label")
    about = {name: stored.manifest["ingredients"][name] for name in ("settings", "inputs", "code", "libraries")}
    about["inputs"] = {current(role): stage for role, stage in about["inputs"].items()}
    stage = {"kind": kind, "key": key, "label": label or key, **about, "roots": {}, "places": places}
    return StageRequest.from_json({"stage": stage})


def _has(store: Store, stage: Any, kind: str, key: str) -> bool:
    """Return whether an input of a stage is available; metrics need only the exported files of a task."""
    return store.has(store.stored_kind(kind, key) if stage.kind == "measure" else kind, key)


def _parts(stage: Any) -> str:
    """Return the names of the parts of a stage, as text."""
    roles = ("decoder", "metric", "probe")
    names = [f"{role} {stage.settings[role]['name']!r}" for role in roles if role in stage.settings]
    return f" ({', '.join(names)})" if names else ""


def _describe_missing(stage: Any, role: str) -> str:
    kind, key = stage.inputs[role]
    what = {"model": "the weights", "task": "the data of the task"}.get(role, f"its input ({kind})")
    carried = " Imported runs do not include them." if kind in records() else ""
    return f"{what} {'are' if role == 'model' else 'is'} not in this store ({kind} {key[:12]}).{carried}"


def _differences(stage: Any, stored: Artifact, folder: Path, rows: int | None) -> Iterator[str]:
    """Yield the first differences between a stored and a repeated result, and the number of further differences."""
    file = FILES[stage.kind]
    if file == PREDICTIONS:
        differences = [*_by_example(read_lines(stored.file(file)), read_lines(folder / file), rows)]
    else:
        again = json.loads((folder / file).read_text(encoding="utf-8"))
        differences = [*_between(stored.json(file), again, 0.0)]
        differences += _attachment_differences(stored, folder) if stage.kind == "measure" else []
    yield from differences[:MAX_DIFFERENCES]
    if len(differences) > MAX_DIFFERENCES:
        yield f"{len(differences) - MAX_DIFFERENCES} more differences"


def _attachment_differences(stored: Artifact, folder: Path) -> Iterator[str]:
    """Yield differences in bootstrap replicates and in the data that a metric stores per example."""
    import numpy as np

    if "draws.npy" in stored.manifest["files"]:
        paths = (stored.file("draws.npy"), folder / "draws.npy")
        before, after = (np.load(path, allow_pickle=False) for path in paths)
        yield from _between(before.tolist(), after.tolist(), PRECISION, "draws.npy")
    if "parts.jsonl.gz" in stored.manifest["files"]:
        before_parts, again = [*read_lines(stored.file("parts.jsonl.gz"))], [*read_lines(folder / "parts.jsonl.gz")]
        yield from _between(before_parts, again, PRECISION, "parts.jsonl.gz")


def _by_example(stored: Sequence[Any], again: Sequence[Any], rows: int | None) -> Iterator[str]:
    """Yield examples whose predictions differ; with `rows`, examples that were not repeated are ignored."""
    both = merge(_with_ids(stored, 0), _with_ids(again, 1), key=itemgetter(0))
    for number, pair in groupby(both, key=itemgetter(0)):
        predictions = {side: prediction for _, side, prediction in pair}
        if rows is None or 1 in predictions:
            differences = _between(predictions.get(0, {}), predictions.get(1, {}), PRECISION)
            yield from (f"example {number} differs: {text}" for text in islice(differences, 1))


def _with_ids(lines: Iterable[Any], side: int) -> Iterator[tuple[int, int, Any]]:
    """Yield (id, side, prediction); predictions are sorted by id."""
    return ((line["id"], side, line) for line in lines)


def _between(stored: Any, again: Any, precision: float, path: str = "") -> Iterator[str]:
    """Yield differences between two values; floats may differ by `precision`."""
    if isinstance(stored, dict) and isinstance(again, dict):
        for name in {**stored, **again}:
            yield from _between(stored.get(name), again.get(name), precision, f"{path}.{name}" if path else name)
    elif isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        for number, pair in enumerate(zip(stored, again, strict=True)):
            yield from _between(*pair, precision, f"{path}[{number}]")
    elif not _same(stored, again, precision):
        yield f"{path} is {_short(again)} but {_short(stored)} in the store"


def _same(value: Any, other: Any, precision: float) -> bool:
    numbers = (isinstance(number, float) for number in (value, other))
    if precision and all(numbers) and isclose(value, other, rel_tol=precision, abs_tol=precision):
        return True
    return bool(value == other) or (value != value and other != other)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, Mapping) else "a mapping"
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}..."
