"""Verifies runs, reports and exported files: traces cells to keys, artifacts, numbers and tables."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path

from bench_core import BenchError, Workers, plan
from bench_core.errors import StoreError, SuiteError
from bench_core.registry import sections
from bench_core.runs.manifest import FILE, NamedVersion, Remark, files_of, list_file, problems, read_manifest
from bench_core.runs.results import Run, read_run
from bench_core.runs.run_suite import suite_of
from bench_core.runs.unverified import read_unverified
from bench_core.storage.store import Store
from bench_core.terminal import count_of
from bench_exchange.compared_with_store import unlike_store
from bench_exchange.recorded import contradictions
from bench_exchange.repeating import Repeating
from bench_exchange.unpacking import MAX_UNPACKED_BYTES, unpack

RUN = ("cells.jsonl", "run.json", "stages.jsonl.gz")  # a folder with any of these is a run
REPORT = ("results.json", "report.md", "report.html", "report.tex")  # a folder with any of these is a report
OLD_REPORTS = "reports-0.1.sha256"  #: digests and names of all reports written by version 0.1
ADVICE = {
    "run": "Run the suite again: stored results are reused.",
    "report": "Generate it again from its run: `bench report RUN`.",
}
ERRORS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OSError, BenchError)


@dataclass
class Verifier:
    """Verifies runs, reports and exported files, given their paths or the paths of folders that contain them."""

    store: Store
    runs: Path = Path("runs")  # folder searched for the runs of reports
    require_run: bool = False  # whether a missing run is an error
    seen: list[Run] = field(default_factory=list)  # verified runs
    counts: Counter[str] = field(default_factory=Counter)  # kind of item -> number verified

    def verify(self, path: Path) -> Iterator[Remark]:
        """Yield problems and unchecked items at a path; raise SuiteError if there is nothing to verify."""
        if path.is_file():
            yield from self._export(path)
            return
        folders = [*_verifiable(path)]
        if not folders:
            raise SuiteError(f"{path} is not a run, a report or an export, and contains none. Check the path.")
        old = [folder for folder in folders if _is_old_report(folder)]
        if old:
            self.counts["version-0.1 report"] += len(old)
            text = f"{count_of(len(old), 'report')} of version 0.1, unchanged: their runs are unknown"
            yield Remark(f"{path}: {text}", wrong=self.require_run)
        for folder in folders:
            if folder not in old:
                yield from self._run(folder) if _has(folder, RUN) else self._report(folder)

    def _count(self, what: str, run: Run | None = None) -> None:
        numbers = sum(len(cell.numbers) for cell in run.cells) if run else 0
        more = {"cell": len(run.cells), "number": numbers, "artifact": len(run.artifacts())} if run else {}
        self.counts.update({what: 1, **more})

    def _run(self, folder: Path) -> Iterator[Remark]:
        yield from _manifest(folder, "run")
        try:
            run = read_run(folder)
        except BenchError as error:
            yield Remark(str(error))
            return
        self._count("run", run)
        yield from verify_run(run, self.store if self.store.root.is_dir() else None)
        if trusted := read_unverified(folder):
            text = f"{count_of(len(trusted), 'stage')} imported on trust or computed from such stages"
            yield Remark(f"{folder}: {text}", wrong=False)
        if not self.store.root.is_dir():
            yield Remark(f"{folder}: there is no store at {self.store.root}: artifacts of the run", wrong=False)
        self.seen.append(run)

    def _report(self, folder: Path) -> Iterator[Remark]:
        remarks = [*_manifest(folder, "report")]
        with suppress(StoreError):  # already reported
            named = read_manifest(folder).run
            self._count("report")
            run = self._run_of(named.digest) if named and named.digest else None
            if run is None:
                remarks += self._check_run_name(folder, named)
            for section in sections():
                remarks += section.verify_report(folder, run)
            if run is None:
                alone = "" if any(remark.wrong for remark in remarks) else "consistent in itself, "
                text = f"{folder}: {alone}its run is not here: bold numbers, p-values, figures and costs"
                remarks.append(Remark(text, wrong=self.require_run))
            elif run.folder not in [seen.folder for seen in self.seen]:
                remarks += self._run(run.folder)
        yield from remarks

    def _check_run_name(self, folder: Path, named: NamedVersion | None) -> Iterator[Remark]:
        """Yield a problem if the manifest of a report names no run, or has a wrong digest for an existing run."""
        if named is None:
            yield Remark(f"{folder / FILE}: the report names no run")
            return
        other = next((run for run in self._folders() if run.name == named.name), None)
        if other and (named.digest or (other / FILE).exists()):
            yield Remark(f"{folder / FILE}: the digest of its run {other} differs from the run's current digest")

    def _folders(self) -> list[Path]:
        """Return the folders of the verified runs and of the other runs in `runs`."""
        return [*(run.folder for run in self.seen), *(sorted(self.runs.iterdir()) if self.runs.is_dir() else ())]

    def _run_of(self, digest: str) -> Run | None:
        """Return the run whose current or earlier manifest has this digest."""
        for folder in self._folders():
            with suppress(BenchError):
                if digest in read_manifest(folder).digests:
                    return read_run(folder)
        return None

    def _export(self, path: Path) -> Iterator[Remark]:
        with tempfile.TemporaryDirectory(prefix="bench-verify-") as name:
            try:
                unpack(path, Path(name), MAX_UNPACKED_BYTES)
            except StoreError as error:
                yield Remark(str(error))
                return
            self._count("export", read_run(Path(name) / "run"))
            for remark in verify_export(Path(name)):
                yield Remark(f"{path}: {remark.text.replace(f'{name}/', '')}", remark.wrong)


def verify_run(run: Run, store: Store | None) -> Iterator[Remark]:
    """Yield contradictions within a run and between run and store, except in the manifest."""
    try:
        yield from contradictions(run)
        if store is not None:
            yield from unlike_store(run, store)
        for section in sections():
            yield from section.verify(run, store)
    except ERRORS as error:  # a file is malformed
        yield Remark(f"{run.folder}: the run cannot be verified: {type(error).__name__}: {error}")


def verify_export(folder: Path) -> Iterator[Remark]:
    """Yield contradictions in an unpacked export, after recomputing its numbers from its predictions."""
    run, store = read_run(folder / "run"), Store(folder / "store")
    yield from _manifest(folder / "run", "run")
    yield from verify_run(run, store)
    yield from recompute_metrics(run, store)


def recompute_metrics(run: Run, store: Store) -> Iterator[Remark]:
    """Recompute metrics from stored predictions if code and libraries are the same; yield differences."""
    names = [(kind, key) for kind, key in run.artifacts() if kind == "measure" and store.has(kind, key)]
    if not names:
        return
    with Workers(1, store.root, Path(), isolate=False) as workers:
        remarks = [*Repeating(store, workers, same_code=True).of(names)]
    yield from (remark for remark in remarks if remark.wrong)
    if unchecked := [remark.text for remark in remarks if not remark.wrong]:
        text = f"{len(unchecked):,} of {len(names):,} numbers could not be recomputed, such as: {unchecked[0]}"
        yield Remark(text, wrong=False)


def repeat_stages(run: Run, store: Store, data: Path, workers: int, limit: int | None) -> Iterator[Remark]:
    """Repeat the stages of a run, except training; yield differences and stages that cannot be repeated here."""
    with Workers(workers, store.root, data, isolate=True) as executor:
        yield from Repeating(store, executor, limit, _places(run, data)).of(run.artifacts())


def _places(run: Run, data: Path) -> dict[str, str]:
    """Return the paths of files in a run's suite and their marks in keys; empty if the suite cannot be planned."""
    with suppress(BenchError):
        stages = plan(suite_of(run.folder), data).stages.values()
        return {place: mark for stage in stages for place, mark in stage.places.items()}
    return {}


def _verifiable(path: Path) -> Iterable[Path]:
    """Return the runs and reports at a path: the folder itself, or the runs and reports below it."""
    matches: list[Path] = []
    for place, folders, _ in os.walk(path):
        matches += [Path(place)] if _has(Path(place), (*RUN, *REPORT)) else []
        folders[:] = [name for name in folders if not name.startswith(".") and matches != [path]]
    return sorted(matches)


def _has(folder: Path, names: Iterable[str]) -> bool:
    return any((folder / name).is_file() for name in names)


def _is_old_report(folder: Path) -> bool:
    """Return whether a folder is a report of version 0.1, according to the digest of all its files."""
    return not os.path.lexists(folder / FILE) and folder_digest(folder) in _old_reports()


@cache
def _old_reports() -> frozenset[str]:
    lines = Path(__file__).with_name(OLD_REPORTS).read_text(encoding="utf-8").splitlines()
    return frozenset(line.split()[0] for line in lines)


def folder_digest(folder: Path) -> str:
    """Return the digest of the names and contents of all files in a folder, without users' notes."""
    entries = {name: list_file(folder / name) for name in files_of(folder)}
    lines = (f"{entry.sha256 if entry else 'no file'}  {name}\n" for name, entry in entries.items())
    return sha256("".join(lines).encode("utf-8", "backslashreplace")).hexdigest()


def _manifest(folder: Path, kind: str) -> Iterator[Remark]:
    """Yield problems found with the manifest of a folder."""
    if not os.path.lexists(folder / FILE):
        text = "and it is not a known report of version 0.1, so it cannot be verified"
        yield Remark(f"{folder} has no {FILE}, {text}. {ADVICE[kind]}")
        return
    yield from problems(folder)
    with suppress(StoreError):
        if read_manifest(folder).kind != kind:
            yield Remark(f"{folder / FILE}: it is not the manifest of a {kind}")
