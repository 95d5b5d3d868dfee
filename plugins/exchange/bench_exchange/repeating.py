"""Repeats stages from stored inputs, each in its own process, and compares the results."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import chain, groupby
from math import isclose
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench_core import Executor, StageFailed, StageRequest
from bench_core.errors import StoreError
from bench_core.runs.manifest import Remark
from bench_core.stage_kinds import OUTCOMES
from bench_core.storage.contents import records
from bench_core.storage.outcomes import read_lines
from bench_core.storage.store import Artifact, Store

FILES = {"decode": OUTCOMES, "score": OUTCOMES, "measure": "number.json", "probe": "finding.json"}
SHOWN = 3  # differences of one stage that are told one by one
LONGEST = 60  # characters of a value in a message
PRECISION = 1e-5  # relative, of sums of float32; on other hardware the last digits differ


@dataclass(frozen=True)
class Repeating:
    """Does stored stages again, and tells what differs."""

    store: Store
    workers: Executor
    rows: int | None = None  # at least so many of each decoding and scoring; all by default
    places: Mapping[str, str] = field(default_factory=dict)  # of files that settings name -> what it is in keys
    same_code: bool = False  # leaves out stages whose code or libraries are not those of here

    def of(self, names: Sequence[tuple[str, str]]) -> Iterator[Remark]:
        """Yield all that differs in some stages, in their order."""
        chosen = [name for name in names if name[0] in FILES and self.store.has(*name)]
        threads = ThreadPoolExecutor(self.workers.capacity)
        try:
            yield from chain.from_iterable(threads.map(lambda name: [*self._stage(*name)], chosen))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)  # interrupted, the workers end what is under way

    def _stage(self, kind: str, key: str) -> Iterator[Remark]:
        try:
            stored = self.store.get(kind, key)
            request = _request(stored, self.places)
        except (StoreError, KeyError, TypeError, ValueError) as error:
            yield Remark(f"{kind} {key} cannot be done again: {error}")
            return
        stage = request.stage
        name = f"{kind} of {stage.label}{_parts(stage)}"
        lacking = [role for role, names in stage.inputs.items() if not _has(self.store, stage, *names)]
        if lacking:
            why = _lack(stage, "model" if "model" in lacking else lacking[0])
            yield Remark(f"{name}: not done again: {why}", wrong=False)
            return
        with TemporaryDirectory() as folder:
            request = replace(request, again=folder, rows=self.rows, same_code=self.same_code)
            try:
                self.workers.submit(request, lambda text, share: None).result()
                yield from (
                    Remark(f"{name}: {text}") for text in _differences(stage, stored, Path(folder), self.rows)
                )
            except (StageFailed, StoreError) as failure:
                elsewhere = isinstance(failure, StageFailed) and failure.elsewhere
                yield Remark(f"{name} cannot be done again: {failure}", wrong=not elsewhere)


def _request(stored: Artifact, places: Mapping[str, str]) -> StageRequest:
    """Return the request for the stage of an artifact, with the places of the files that its settings name."""
    kind, key, label = stored.folder.parent.name, stored.folder.name, stored.manifest.get("label")
    about = {name: stored.manifest["ingredients"][name] for name in ("settings", "inputs", "code", "libraries")}
    stage = {"kind": kind, "key": key, "label": label or key, **about, "roots": {}, "places": places}
    return StageRequest.from_json({"stage": stage})


def _has(store: Store, stage: Any, kind: str, key: str) -> bool:
    """Return whether what a stage reads is here; what is carried of a task is enough for a metric."""
    return store.has(store.kept_as(kind, key) if stage.kind == "measure" else kind, key)


def _parts(stage: Any) -> str:
    """Return which parts a stage works by, by the names under which they are installed."""
    roles = ("decoder", "metric", "probe")
    found = [f"{role} {stage.settings[role]['name']!r}" for role in roles if role in stage.settings]
    return f" ({', '.join(found)})" if found else ""


def _lack(stage: Any, role: str) -> str:
    kind, key = stage.inputs[role]
    what = {"model": "the weights", "task": "the data of the task"}.get(role, f"what it reads ({kind})")
    carried = " Runs are imported without them." if kind in records() else ""
    return f"{what} {'are' if role == 'model' else 'is'} not in this store ({kind} {key[:12]}).{carried}"


def _differences(stage: Any, stored: Artifact, folder: Path, rows: int | None) -> Iterator[str]:
    """Yield what a stage left otherwise than before, the first few one by one."""
    file = FILES[stage.kind]
    if file == OUTCOMES:
        found = [*_by_example(read_lines(stored.file(file)), read_lines(folder / file), rows)]
    else:
        again = json.loads((folder / file).read_text(encoding="utf-8"))
        found = [*_between(stored.json(file), again, 0.0)]
        found += _beside_number(stored, folder) if stage.kind == "measure" else []
    yield from found[:SHOWN]
    if len(found) > SHOWN:
        yield f"{len(found) - SHOWN} more differences"


def _beside_number(stored: Artifact, folder: Path) -> Iterator[str]:
    """Yield where bootstrap replicates, and what a metric keeps of examples, are not as before."""
    import numpy as np

    if "draws.npy" in stored.manifest["files"]:
        paths = (stored.file("draws.npy"), folder / "draws.npy")
        before, after = (np.load(path, allow_pickle=False) for path in paths)
        yield from _between(before.tolist(), after.tolist(), PRECISION, "draws.npy")
    if "parts.jsonl.gz" in stored.manifest["files"]:
        kept, again = [*read_lines(stored.file("parts.jsonl.gz"))], [*read_lines(folder / "parts.jsonl.gz")]
        yield from _between(kept, again, PRECISION, "parts.jsonl.gz")


def _by_example(stored: Sequence[Any], again: Sequence[Any], rows: int | None) -> Iterator[str]:
    """Yield the examples whose outcomes differ; where only some `rows` were done, the others are not missed."""
    both = merge(_named(stored, 0), _named(again, 1), key=itemgetter(0))
    for number, pair in groupby(both, key=itemgetter(0)):
        found = {side: one for _, side, one in pair}
        differing = [*_between(found.get(0, {}), found.get(1, {}), PRECISION)] if rows is None or 1 in found else []
        if differing:
            yield f"example {number} differs: {differing[0]}"


def _named(lines: Iterable[Any], side: int) -> Iterator[tuple[int, int, Any]]:
    """Yield the id of each outcome, in whose order they are, a side, and the outcome."""
    return ((one["id"], side, one) for one in lines)


def _between(stored: Any, again: Any, precision: float, path: str = "") -> Iterator[str]:
    """Yield where two values differ; numbers may do so by so much."""
    if isinstance(stored, dict) and isinstance(again, dict):
        for name in {**stored, **again}:
            yield from _between(stored.get(name), again.get(name), precision, f"{path}.{name}" if path else name)
    elif isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        for number, pair in enumerate(zip(stored, again, strict=True)):
            yield from _between(*pair, precision, f"{path}[{number}]")
    elif not _same(stored, again, precision):
        yield f"{path} is {_short(again)}, and {_short(stored)} in the store"


def _same(one: Any, other: Any, precision: float) -> bool:
    numbers = (isinstance(value, float) for value in (one, other))
    if precision and all(numbers) and isclose(one, other, rel_tol=precision, abs_tol=precision):
        return True
    return bool(one == other) or (one != one and other != other)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, Mapping) else "a mapping"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
