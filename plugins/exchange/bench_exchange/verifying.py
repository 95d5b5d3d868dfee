"""Compares a run with the store: damaged artifacts, differing numbers, repeated stages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench_core import BenchError, Workers, plan
from bench_core.errors import StoreError
from bench_core.runs.results import CellResult, Run, suite_of
from bench_core.runs.selecting import cell_name
from bench_core.storage.contents import RECORDS
from bench_core.storage.store import Store
from bench_exchange.repeating import Remark, repeat

NUMBER = "number.json"
OF_RUNS = ("reason", "kind", "measured")  # what a run adds to what an artifact tells


def damaged(run: Run, store: Store) -> Iterator[str]:
    """Yield what is wrong with the artifacts of a run, and which of those behind its results are not here."""
    behind = {key for cell in run.cells for key in _behind(cell)}
    for kind, key in run.artifacts():
        try:
            there = [name for name in (kind, RECORDS.get(kind, kind)) if os.path.lexists(store.path(name, key))]
            for name in dict.fromkeys(there):
                yield from map(str, store.get(name, key).problems())
            if not there and key in behind:
                yield f"{kind} {key} is not in this store"
        except StoreError as error:
            yield str(error)


def _behind(cell: CellResult) -> Iterator[str]:
    """Yield the keys without which a cell could not say what it does; one that is not done may have got anywhere."""
    known = {f"measure/{name}" for name, number in cell.numbers.items() if number.value is not None}
    known |= {f"probe/{name}" for name in cell.probes}
    yield from (key for name, key in cell.artifacts.items() if cell.status == "done" or name in known)


def differing(run: Run, store: Store) -> Iterator[str]:
    """Yield every number and every finding of a probe that is not as the store has it."""
    for cell in run.cells:
        numbers = {name: vars(number) for name, number in cell.numbers.items() if number.value is not None}
        found = [*_compared(cell, store, "measure", NUMBER, numbers)]
        found += _compared(cell, store, "probe", "finding.json", cell.probes)
        yield from (f"{cell_name(cell.cell)}: {text}" for text in found)


def _compared(cell: CellResult, store: Store, kind: str, file: str, told: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a cell tells otherwise than the artifacts of a kind that it names."""
    keys = {name.partition("/")[2]: key for name, key in cell.artifacts.items() if name.partition("/")[0] == kind}
    for name in dict.fromkeys([*keys, *told]):
        if name not in keys:
            yield f"{name}: it names no artifact that this comes from"
        elif name in told or cell.status == "done":
            with suppress(StoreError):  # it was told what is wrong with the artifact
                yield from _differences(name, told.get(name, {}), store.get(kind, keys[name]).json(file))


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


def repeated(run: Run, store: Store, data: Path, workers: int, limit: int | None) -> Iterator[Remark]:
    """Repeat the stages of a run, except trainings; yield what differs, and what cannot be repeated here."""
    with Workers(workers, store.root, data, isolate=True) as performing:
        yield from repeat(run.artifacts(), store, performing, limit, _places(run, data))


def _places(run: Run, data: Path) -> dict[str, str]:
    """Return where the files of the suite of a run are, with their marks in keys; none if it cannot be planned."""
    with suppress(BenchError):
        stages = plan(suite_of(run.folder), data).stages.values()
        return {place: mark for stage in stages for place, mark in stage.places.items()}
    return {}
