"""`bench verify RUN`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from bench_core.commands import options
from bench_core.errors import StoreError
from bench_core.terminal import say

if TYPE_CHECKING:
    from bench_core.computing.stages import Workshop
    from bench_core.runs.results import CellResult, Run
    from bench_core.storage.store import Artifact, Store

NUMBER = "number.json"
OF_RUNS = ("reason", "kind", "measured")  # what a run adds to what an artifact tells


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--again", is_flag=True, help="Also measure the stored outcomes again, by the code that is here.")
@options.store
def command(run: Path, again: bool, store: Path) -> int:
    """Check that the artifacts behind RUN are whole, and that its numbers are those of the store."""
    from bench_core.runs.results import read_run
    from bench_core.storage.store import Store
    from bench_core.storage.upkeep import artifacts
    from bench_core.terminal import visible

    found, kept = read_run(run), Store(store)
    wrong = [*damaged(found, kept), *differing(found, kept), *(remeasured(found, kept) if again else ())]
    for text in wrong:
        say(visible(text))
    number = sum(len(cell.numbers) for cell in found.cells)
    told = f"{len(found.cells)} cells, {number} numbers, {len(artifacts(found))} artifacts"
    say(f"{told}: {f'{len(wrong)} differences' if wrong else 'all as stored'}")
    return 1 if wrong else 0


def damaged(run: Run, store: Store) -> Iterator[str]:
    """Yield what is wrong with the artifacts of a run, and which of those behind its results are not here."""
    from bench_core.storage.carried import RECORDS
    from bench_core.storage.upkeep import artifacts

    behind = {key for cell in run.cells for key in _behind(cell)}
    for kind, key in artifacts(run):
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
    known |= {f"certify/{name}" for name in cell.certificates}
    yield from (key for name, key in cell.artifacts.items() if cell.status == "done" or name in known)


def differing(run: Run, store: Store) -> Iterator[str]:
    """Yield every number and every finding of a certificate that is not as the store has it."""
    from bench_core.reporting.order import cell_name

    for cell in run.cells:
        numbers = {name: vars(number) for name, number in cell.numbers.items() if number.value is not None}
        found = [*_compared(cell, store, "measure", NUMBER, numbers)]
        found += _compared(cell, store, "certify", "finding.json", cell.certificates)
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
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value) if type(value) is int else value


def remeasured(run: Run, store: Store) -> Iterator[str]:
    """Yield every number that the stored outcomes of a run do not give again."""
    from bench_core.computing.stages import Workshop
    from bench_core.storage.upkeep import artifacts

    workshop = Workshop(store, Path())
    for kind, key in artifacts(run):
        if kind == "measure" and store.has(kind, key):
            try:
                stored = store.get(kind, key)
                yield from _differences(
                    f"measured again, {kind} {key}", _measured(workshop, stored), stored.json(NUMBER)
                )
            except Exception as error:  # whatever a metric raises
                yield f"{kind} {key} cannot be measured again: {error}"


def _measured(workshop: Workshop, stored: Artifact) -> Any:
    """Return what the metric of an artifact says of the outcomes that it was made from."""
    from bench_core.execution.plan import Stage

    ingredients = stored.manifest["ingredients"]
    inputs = {role: (kind, key) for role, (kind, key) in ingredients["inputs"].items()}
    stage = Stage("measure", stored.folder.name, ingredients["settings"], inputs, ingredients, "")
    with TemporaryDirectory() as folder:
        workshop.perform(stage, Path(folder))
        return json.loads((Path(folder) / NUMBER).read_text(encoding="utf-8"))
