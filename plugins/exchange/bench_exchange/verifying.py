"""Verifies runs, reports and exported files: from cell to key, artifact, number and table."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench_core import BenchError, Workers, plan
from bench_core.errors import StoreError, SuiteError
from bench_core.registry import hook
from bench_core.runs.manifest import FILE, Remark, problems, read_manifest
from bench_core.runs.results import FORMAT, Run, read_run, suite_of
from bench_core.storage.store import Store
from bench_exchange.recorded import contradictions
from bench_exchange.repeating import repeat
from bench_exchange.stored import unlike_store
from bench_exchange.unpacking import LIMIT, unpacked

RUN, REPORT = "cells.jsonl", "results.json"  # by which a folder is known
LEFT_OUT = "no manifest: written by version 0.1, or the manifest was removed. Nothing of it is checked."
ODD = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OSError, BenchError)


@dataclass
class Verifier:
    """Verifies what is at paths: runs, reports, folders of these, and exported files."""

    store: Store
    runs: Path = Path("runs")  # where the runs of reports are looked for
    seen: list[Run] = field(default_factory=list)  # runs that were verified where they are
    counts: Counter[str] = field(default_factory=Counter)  # of what was verified

    def verify(self, path: Path) -> Iterator[Remark]:
        """Yield what is wrong at a path, and what was not checked; raise SuiteError if nothing is there."""
        if path.is_file():
            yield from self._export(path)
            return
        folders = [*_verifiable(path)]
        if not folders:
            raise SuiteError(f"{path} is not a run, a report or an export, and holds none.")
        without = [folder for folder in folders if not _is_recorded(folder)]
        if len(folders) > 1 and without == folders:
            yield Remark(f"{path}: left out, {len(folders)} reports or runs: {LEFT_OUT}", wrong=False)
            return
        for folder in folders:
            yield from self._run(folder) if (folder / RUN).is_file() else self._report(folder)

    def _count(self, what: str, run: Run | None = None) -> None:
        numbers = sum(len(cell.numbers) for cell in run.cells) if run else 0
        more = {"cell": len(run.cells), "number": numbers, "artifact": len(run.artifacts())} if run else {}
        self.counts.update({what: 1, **more})

    def _run(self, folder: Path) -> Iterator[Remark]:
        yield from _manifest(folder, _format(folder), "run")
        try:
            run = read_run(folder)
        except BenchError as error:
            yield Remark(str(error))
            return
        self._count("run", run)
        yield from verify_run(run, self.store if self.store.root.is_dir() else None)
        if not self.store.root.is_dir():
            yield Remark(f"{folder}: there is no store at {self.store.root}: artifacts behind the run", wrong=False)
        self.seen.append(run)

    def _report(self, folder: Path) -> Iterator[Remark]:
        yield from _manifest(folder, _format(folder), "report")
        if not (folder / FILE).exists():
            return
        self._count("report")
        try:
            named = read_manifest(folder).run
        except StoreError:  # which was told
            return
        run = self._run_of(named.digest) if named and named.digest else None
        if run is None and named and named.digest and (other := self._named(named.name)):
            yield Remark(f"{folder / FILE}: the report names its run {other} by another digest than that has now")
        for remarks in hook().bench_report_verified(folder=folder, run=run):
            yield from remarks
        if run is not None and run.folder not in [one.folder for one in self.seen]:
            yield from self._run(run.folder)

    def _folders(self) -> list[Path]:
        """Return the runs that are verified, and others that are here."""
        return [*(run.folder for run in self.seen), *(sorted(self.runs.iterdir()) if self.runs.is_dir() else ())]

    def _run_of(self, digest: str) -> Run | None:
        """Return the run that a report names by the digest of its manifest, or of an earlier one."""
        for folder in self._folders():
            with suppress(BenchError):
                if digest in read_manifest(folder).digests:
                    return read_run(folder)
        return None

    def _named(self, name: str) -> Path | None:
        """Return the folder of a run by its name."""
        return next((folder for folder in self._folders() if folder.name == name), None)

    def _export(self, path: Path) -> Iterator[Remark]:
        with tempfile.TemporaryDirectory(prefix="bench-verify-") as name:
            try:
                unpacked(path, Path(name), LIMIT)
            except StoreError as error:
                yield Remark(str(error))
                return
            self._count("export", read_run(Path(name) / "run"))
            for remark in verify_export(Path(name)):
                yield Remark(f"{path}: {remark.text.replace(f'{name}/', '')}", remark.wrong)


def verify_run(run: Run, store: Store | None) -> Iterator[Remark]:
    """Yield what contradicts what in a run and in its store, but for its manifest."""
    try:
        yield from contradictions(run)
        if store is not None:
            yield from unlike_store(run, store)
        for remarks in hook().bench_run_verified(run=run, store=store):
            yield from remarks
    except ODD as error:  # of files that no bench writes
        yield Remark(f"{run.folder}: the run cannot be followed: {type(error).__name__}: {error}")


def verify_export(folder: Path) -> Iterator[Remark]:
    """Yield what contradicts what in an unpacked export, its numbers measured again from its outcomes."""
    run, store = read_run(folder / "run"), Store(folder / "store")
    yield from _manifest(folder / "run", FORMAT, "run")
    yield from verify_run(run, store)
    yield from measured_again(run, store)


def measured_again(run: Run, store: Store) -> Iterator[Remark]:
    """Measure the outcomes in a store again, where code and libraries are those of the run; yield what differs."""
    names = [(kind, key) for kind, key in run.artifacts() if kind == "measure" and store.has(kind, key)]
    if not names:
        return
    left = []
    with Workers(1, store.root, Path(), isolate=False) as performing:
        for remark in repeat(names, store, performing, None, {}, same_code=True):
            if remark.wrong:
                yield remark
            else:
                left.append(remark.text)
    if left:
        text = f"{len(left):,} of {len(names):,} numbers could not be measured again, such as: {left[0]}"
        yield Remark(text, wrong=False)


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


def _verifiable(path: Path) -> Iterable[Path]:
    """Yield the runs and reports at a path: itself, or those below."""
    found = [path] if _is_one(path) else []
    for place, folders, _ in os.walk(path) if not found else ():
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place)] if _is_one(Path(place)) else []
    return sorted(found)


def _is_one(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (RUN, REPORT))


def _is_recorded(folder: Path) -> bool:
    """Return whether a folder has a manifest, or is of a version that writes one."""
    return (folder / FILE).exists() or _format(folder) >= FORMAT


def _format(folder: Path) -> int:
    """Return the format that a run or a report tells; 1 for those of version 0.1, which tell none."""
    for name in ("run.json", REPORT):
        with suppress(OSError, ValueError, TypeError, AttributeError):
            return int(json.loads((folder / name).read_bytes()).get("format", 1))
    return 1


def _manifest(folder: Path, form: int, kind: str) -> Iterator[Remark]:
    """Yield what is wrong with the files of a folder by its manifest."""
    if not (folder / FILE).exists() and form < FORMAT:
        yield Remark(f"{folder}: {LEFT_OUT}", wrong=False)
        return
    yield from problems(folder)
    with suppress(StoreError):
        if read_manifest(folder).kind != kind:
            yield Remark(f"{folder / FILE}: it is not that of a {kind}")
