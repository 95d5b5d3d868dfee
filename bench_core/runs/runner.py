"""Runs a suite: reuses what is stored, computes what is missing, isolates failures."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

from bench_core.config import ExecutorConfig
from bench_core.errors import StoreError, SuiteError
from bench_core.execution.executor import Executor, Here, StageFailed, time_up
from bench_core.execution.progress import Progress
from bench_core.execution.workers import Workers
from bench_core.files import data_folder
from bench_core.planning.hardware import check_devices
from bench_core.planning.plan import needed, plan
from bench_core.planning.stages import Stage, StageRequest
from bench_core.runs.record import Record
from bench_core.runs.results import Run, read_run, write_run
from bench_core.storage.store import Store
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_core.suites.suite import Suite

GRACE = 60.0  #: seconds that stages have to stop when time is up


def run(
    path: str | Path,
    profile: str | None = None,
    settings: Sequence[str] = (),
    seeds: int | None = None,
    data: str | Path | None = None,
    store: str | Path = ".bench/store",
    out: str | Path = "runs",
    progress: Progress | None = None,
    workers: int = 0,
    elsewhere: ExecutorConfig | None = None,
    stop_after: float | None = None,
    checkpoint_every: float = 300.0,
    isolate: bool = False,
    stage_timeout: float | None = None,
) -> Run:
    """Run a suite file, as `bench run` does, and return the run; failed cells say so in it.

    Stages are performed by so many worker processes, or in this one (0), or `elsewhere`, so many at a time. After
    `stop_after` seconds trainings end at a checkpoint, from which another run goes on; others are written every
    `checkpoint_every` seconds. With `isolate`, each stage has a process of its own; one that takes longer than
    `stage_timeout` seconds fails.
    """
    suite = load(Path(path), profile, settings, seeds)
    folder, kept = data_folder(Path(data) if data else None), Store(Path(store))
    with executor(workers, kept, folder, elsewhere, isolate, stage_timeout) as performing:
        until = None if stop_after is None else time.time() + stop_after
        runner = Runner(suite, folder, kept, performing, progress or Progress(), until, checkpoint_every)
        return runner.run(Path(out))


def executor(
    workers: int,
    store: Store,
    data: Path,
    elsewhere: ExecutorConfig | None = None,
    isolate: bool = False,
    timeout: float | None = None,
) -> Executor:
    """Return so many worker processes, or this one (0), or who performs so many stages elsewhere.

    Only worker processes can `isolate` stages or end them after `timeout` seconds; raises SuiteError for others.
    """
    if (isolate or timeout is not None) and (elsewhere is not None or not workers):
        what = "--isolate" if isolate else "--stage-timeout"
        others = "--workers 0 has none" if elsewhere is None else f"executor {elsewhere.name!r} has its own"
        raise SuiteError(f"{what} is for the worker processes of this machine, and {others}. Leave one of both out.")
    if elsewhere is not None:
        made: Executor = elsewhere.load()(elsewhere, store.root.resolve(), data.resolve(), max(1, workers))
        return made
    return Workers(workers, store.root, data, isolate, timeout) if workers else Here(store, data)


@dataclass
class Runner:
    """One execution of a suite."""

    suite: Suite
    data: Path
    store: Store
    executor: Executor
    progress: Progress
    until: float | None = None  # seconds since 1970 at which to stop
    every: float = 300.0  # seconds between the checkpoints of a training
    stopped: dict[str, str] = field(default_factory=dict)  # key -> why it was not done, which is no failure
    failures: dict[str, str] = field(default_factory=dict)  # key -> reason
    numbers: dict[str, Any] = field(default_factory=dict)  # key -> what a stored measure stage found
    computed: list[Stage] = field(default_factory=list)
    repaired: set[str] = field(default_factory=set)  # keys of what was found damaged
    wrote: bool = False  # whether it left a run folder
    log: list[str] = field(default_factory=list)  # what happened, for the run folder

    def __post_init__(self) -> None:
        self.executor.warn = self._warn
        self.store = replace(self.store, warn=self._warn)

    def run(self, out: Path) -> Run:
        """Compute what is missing, then write the run folder; after an interruption too, with what there is."""
        with self.store.in_use():
            started = time.strftime("%Y%m%d-%H%M%S")
            self._plan()
            stages = needed(self.plan, self.suite, self._stored)
            if not stages and (same := self._same(out)):
                return same
            if self.executor.local:
                check_devices(self.suite, stages)
            self._expect(stages)
            try:
                rest = self._prepare(stages)
                self._perform(rest, len(stages), len(stages) - len(rest))
            finally:
                self.wrote = True
                folder = write_run(out, f"{self._name}-{started}", self._write)
            return read_run(folder)

    def _expect(self, stages: Sequence[Stage]) -> None:
        """Tell of all stages to do, before the first."""
        kinds = [stage.kind for stage in stages]
        known = {kind: self.store.typical_seconds(kind) for kind in set(kinds)}
        typical = {kind: seconds for kind, seconds in known.items() if seconds is not None}
        self.progress.expect(kinds, self.executor.capacity, typical)

    def _same(self, out: Path) -> Run | None:
        """Return the last run that found just what this one would, if it is still there."""
        record = self._record()
        for folder in sorted(out.glob(f"{glob.escape(self._name)}-*"), reverse=True):
            if record.equals(folder):
                with suppress(StoreError, SuiteError):  # other files of it are damaged
                    return read_run(folder)
        return None

    @property
    def _name(self) -> str:
        return self.suite.label.replace("/", "-")

    def _record(self) -> Record:
        places = {f"{self.data}/": "<data>/", f"{self.store.root}/": "<store>/"}
        return Record(self.suite, self.plan, self.store, self.failures, self.stopped, self.numbers, places)

    def _write(self, folder: Path) -> None:
        self._record().write(folder)
        (folder / "log").write_text("".join(f"{line}\n" for line in self.log), encoding="utf-8")

    def build(self) -> None:
        """Prepare every task and build every model on the meta device; `failures` says what does not work."""
        self._plan()
        self._prepare(
            [stage for stage in self.plan.stages.values() if stage.kind in ("prepare", "together", "train")]
        )

    def _plan(self) -> None:
        check_fit(self.suite, cells_of(self.suite))
        self.plan = plan(self.suite, self.data)

    def _prepare(self, stages: list[Stage]) -> list[Stage]:
        """Prepare the tasks, then build the models on the meta device, so that none fails after hours.

        Returns the stages that are left to do.
        """
        prepare = [stage for stage in stages if stage.kind == "prepare" and not self._stored(stage)]
        self._perform(prepare, len(stages), 0)
        trained = [stage for stage in stages if stage.kind in ("together", "train")]
        built = [stage for stage in trained if stage.inputs["task"][1] not in self.failures]
        for stage, failure in self._each(built, lambda stage: None, build=True):
            if failure:
                self._fail(stage, failure)
        return [stage for stage in stages if stage.kind != "prepare"]

    def _stored(self, stage: Stage, told: bool = False) -> bool:
        """Return whether an artifact is there, or, where that is enough, what was carried of it.

        Numbers are read and checked at once, and set aside if damaged.
        """
        if stage.key in self.numbers:
            return True
        if not self.store.is_stored(stage, told):
            return False
        if stage.kind == "measure":
            try:
                self.numbers[stage.key] = self.store.get("measure", stage.key).json("number.json")
            except StoreError as error:
                self._set_aside(stage.kind, stage.key, error)
                return False
        return True

    def _set_aside(self, kind: str, key: str, error: StoreError) -> None:
        place = self.store.set_aside(kind, key)
        kept = f" The damaged one is kept in {place}." if place else ""  # none where another run was faster
        self._warn(f"{error} It is made again.{kept}")

    def _warn(self, text: str) -> None:
        self.log.append(f"warning: {text}")
        self.progress.warn(text)

    def _perform(self, stages: list[Stage], total: int, before: int) -> None:
        """Have stages performed, each after those that it reads; what reads a failed one fails with it."""
        numbers = count(before + 1)
        begun: dict[str, float] = {}

        def begin(stage: Stage) -> None:
            begun[stage.key] = time.perf_counter()
            self.progress.begin(stage, next(numbers), total)

        for stage, failure in self._each(stages, begin):
            if failure and failure.stored:
                failure = self._repaired(stage, failure)
            failure = failure or self._keep(stage)
            if failure and failure.stopped:
                self.stopped[stage.key] = f"{stage.kind} of {stage.label}: {failure}"
            elif failure:
                self._fail(stage, failure)
            seconds = time.perf_counter() - begun[stage.key]
            reason = self.failures.get(stage.key) or self.stopped.get(stage.key)
            self.log.append(f"{stage.kind} {stage.label}: {reason or f'{seconds:.2f} s'} ({stage.key})")
            self.progress.end(stage, seconds, reason)

    def _each(
        self, stages: list[Stage], begin: Callable[[Stage], None], build: bool = False
    ) -> Iterator[tuple[Stage, StageFailed | None]]:
        """Yield stages as they end, with their failures; as many are under way as the executor takes."""
        places = {stage.key: place for place, stage in enumerate(stages)}
        order = TopologicalSorter(
            {stage.key: [key for _, key in stage.inputs.values() if key in places] for stage in stages}
        )
        order.prepare()
        ready: list[int] = []  # places of those that may begin, the first in the plan first
        running: dict[Future[None], Stage] = {}
        while order.is_active():
            for key in order.get_ready():
                heappush(ready, places[key])
            while ready and len(running) < self.executor.capacity:
                stage = stages[heappop(ready)]
                if self._is_idle(stage):
                    order.done(stage.key)
                    continue
                begin(stage)
                running[self._submit(stage, build)] = stage
            ended = wait(running, self._patience(), FIRST_COMPLETED).done
            for future in ended or (running if self._is_over(GRACE) else ()):
                stage = running.pop(future)
                yield stage, _failure(future) if future.done() else time_up()
                order.done(stage.key)

    def _submit(self, stage: Stage, build: bool = False) -> Future[None]:
        order = StageRequest(stage, build, self.until, self.every)
        return self.executor.submit(order, partial(self.progress.tell, stage))

    def _is_idle(self, stage: Stage) -> bool:
        """Return whether a stage cannot begin, after noting why: what it reads was not done, or time is up."""
        for reasons in (self.failures, self.stopped):
            broken = [reasons[key] for _, key in stage.inputs.values() if key in reasons]
            if broken or stage.key in reasons:
                reasons.setdefault(stage.key, *broken[:1])
                return True
        if self._is_over():
            self.stopped[stage.key] = f"{stage.kind} of {stage.label}: {time_up()}"
            return True
        return False

    def _is_over(self, grace: float = 0.0) -> bool:
        return self.until is not None and time.time() >= self.until + grace

    def _patience(self) -> float | None:
        """Return for how many seconds to wait for a stage: when time is up, each has a while to stop."""
        return None if self.until is None else max(0.0, self.until + GRACE - time.time())

    def _repaired(self, stage: Stage, failure: StageFailed) -> StageFailed | None:
        """Where inputs of a stage turn out damaged, set them aside, make them anew, and try again.

        One that another stage found damaged meanwhile is whole again: then there is nothing to do but to try again.
        """
        damaged = [stored for stored in stage.inputs.values() if self._damaged(*stored)]
        if not damaged:
            if not {key for _, key in stage.inputs.values()} & self.repaired:
                return failure
            return _failure(self._submit(stage))
        self.repaired |= {key for _, key in damaged}
        for each in (*(self.plan.stages[key] for _, key in damaged), stage):
            again = _failure(self._submit(each))
            if again and again.stored:
                again = self._repaired(each, again)
            if again is None and each is not stage:
                again = self._keep(each)
            if again:
                return again
        return None

    def _damaged(self, kind: str, key: str) -> bool:
        kind = self.store.kept_as(kind, key)
        try:
            self.store.get(kind, key).check()
        except StoreError as error:
            self._set_aside(kind, key, error)
            return True
        return False

    def _keep(self, stage: Stage) -> StageFailed | None:
        """Note that an artifact is there; return why not, where that was said of one that is not."""
        try:
            artifact = self.store.get(stage.kind, stage.key)
            if stage.kind == "measure":
                self.numbers[stage.key] = artifact.json("number.json")
            files = self.store.contradictions(stage.kind, stage.key)
        except StoreError as error:
            return StageFailed(f"it was said to be done, but what it stored cannot be read: {error}", expected=True)
        self.computed.append(stage)
        if files:
            text = f"{stage.kind} of {stage.label} was done again, and differs from the imported one"
            self._warn(f"{text} ({', '.join(files)}): results imported with it come from different weights or data.")
        return None

    def _fail(self, stage: Stage, failure: StageFailed) -> None:
        log = self.store.log_failure(stage.kind, stage.key, failure.details)
        self.failures[stage.key] = f"{stage.kind} of {stage.label}: {failure}"
        if not failure.expected:
            self._warn(f"the details of the failure are in {log}")


def _failure(future: Future[None]) -> StageFailed | None:
    """Wait for a stage and return why it was not done, or None."""
    try:
        future.result()
    except StageFailed as failure:
        return failure
    return None
