"""Runs a suite: reuses what is stored, computes what is missing, isolates failures."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from graphlib import TopologicalSorter
from itertools import count
from pathlib import Path
from typing import Any

from bench_core.config import ExecutorConfig, ObserverConfig
from bench_core.errors import StoreError, SuiteError
from bench_core.execution.executor import Executor, Here
from bench_core.execution.failures import StageFailed, time_up
from bench_core.execution.progress import Progress, Work
from bench_core.execution.watching import install
from bench_core.files import data_folder
from bench_core.observer import Hear, RunEnded, RunStarted, StageEnded, StageStarted, silent
from bench_core.optional import AUTHORS, UPKEEP, installed_module, is_installed, optional_module
from bench_core.planning.cost_keys import CostKeys
from bench_core.planning.hardware import check_devices
from bench_core.planning.plan import needed, plan
from bench_core.planning.stages import Stage, StageRequest
from bench_core.runs.contract_marks import note_untried
from bench_core.runs.executors import executor
from bench_core.runs.manifest import extending, problems
from bench_core.runs.observed import Measured, measured_cells, named, numbers_of
from bench_core.runs.observing import observing
from bench_core.runs.plan_filter import restrict
from bench_core.runs.results import Run, read_run, write_run
from bench_core.runs.run_writer import Record, keep_of_sections
from bench_core.runs.stored_inputs import refusals, warnings
from bench_core.runs.time_limit import TimeLimit
from bench_core.storage.checkpoints import last_step
from bench_core.storage.costs import Costs
from bench_core.storage.store import Store
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_core.suites.suite import Suite
from bench_core.terminal import counted


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
    only: Sequence[str] = (),
    per_gpu: int | None = None,
    observers: Sequence[ObserverConfig] = (),
    strict: bool = False,
) -> Run:
    """Run a suite file, as `bench run` does, and return the run; failed cells are marked in it.

    Stages run in `workers` processes, in this process (0), or by the executor `elsewhere`. After `stop_after` seconds
    training stops at a checkpoint, from which another run resumes; further checkpoints are written every
    `checkpoint_every` seconds. With `isolate`, each stage has its own process; one that takes longer than
    `stage_timeout` seconds fails. At most `per_gpu` stages share a GPU, by default as the suite says. Only the cells
    that a filter of `only`, such as `model=lstm`, selects are run. `observers` hear of the run while it is under way,
    and change no byte of it. With `strict`, a stage that reads inputs which its key does not cover fails.
    """
    install()
    suite = load(Path(path), profile, settings, seeds)
    folder, kept = data_folder(Path(data) if data else None), Store(Path(store))
    progress = progress or Progress()
    with (
        observing(observers, progress.warn) as hear,
        executor(workers, kept, folder, elsewhere, isolate, stage_timeout, per_gpu, suite) as performing,
    ):
        until = None if stop_after is None else time.time() + stop_after
        runner = Runner(suite, folder, kept, performing, progress, until, checkpoint_every, only, hear, strict)
        return runner.run(Path(out))


@dataclass
class Runner:
    """An execution of a suite."""

    suite: Suite
    data: Path
    store: Store
    executor: Executor
    progress: Progress
    until: float | None = None  # seconds since 1970 at which to stop
    every: float = 300.0  # seconds between the checkpoints of a training
    only: Sequence[str] = ()  # filters of the cells to run; all by default
    hear: Hear = silent  # the observers
    strict: bool = False  # whether inputs that no key covers are an error
    predictions: Any = field(default=None, init=False)  # of bench-upkeep
    stopped: dict[str, str] = field(default_factory=dict)  # key -> why it was not done, which is no failure
    failures: dict[str, str] = field(default_factory=dict)  # key -> reason
    numbers: dict[str, Any] = field(default_factory=dict)  # key -> what a stored measure stage found
    computed: list[Stage] = field(default_factory=list)
    repaired: set[str] = field(default_factory=set)  # keys of what was found damaged
    wrote: bool = False  # whether it left a run folder
    checkpoints: dict[str, int] = field(default_factory=dict)  # of stopped trainings: label -> step
    under_way: dict[str, Stage] = field(default_factory=dict)  # by key
    log: list[str] = field(default_factory=list)  # what happened, for the run folder

    def __post_init__(self) -> None:
        self.limit = TimeLimit(self.until)
        self.suite = replace(self.suite, asked=[*self.suite.asked, *(f"only={one}" for one in self.only)])
        self.executor.warn, self.executor.hear = self._warn, lambda stage, event: self.hear(named(stage, event))
        self.store = replace(self.store, warn=self._warn)

    def run(self, out: Path) -> Run:
        """Compute what is missing, then write the run folder, also after an interruption."""
        with self.store.in_use():
            name = f"{self._name}-{time.strftime('%Y%m%d-%H%M%S')}"
            self._plan()
            stages = needed(self.plan, self.suite, self._stored)
            self._tell_of_inputs({stage.key for stage in stages})
            self.hear(RunStarted(name, self.suite.label, len(stages)))
            folder = None
            try:
                for key in self.numbers:
                    self._hear_numbers(key)
                same = None if stages or self.failures else self._same(out)
                folder = same.folder if same else self._compute(stages, out, name)
            finally:
                self.hear(RunEnded(name, None if folder is None else str(folder)))
            return same or read_run(folder)

    def _tell_of_inputs(self, due: set[str]) -> None:
        """Warn of inputs of stored results that cannot be observed; with `strict`, fail what no key covers."""
        kept = [stage for stage in self.plan.stages.values() if stage.key not in due]
        for stage, why in refusals(kept, self.store) if self.strict else ():
            self.numbers.pop(stage.key, None)
            self._fail(stage, StageFailed(why, expected=True))
        for text in () if self.strict else warnings(kept, self.store):
            self._warn(text)

    def _compute(self, stages: list[Stage], out: Path, name: str) -> Path:
        """Compute stages; write the run folder, also after an interruption, and return it."""
        if self.executor.local:
            check_devices(self.suite, stages)
        self._expect(stages)
        try:
            rest = self._prepare(stages)
            self._try_contracts(rest)
            self._perform(rest, len(stages), len(stages) - len(rest))
        except KeyboardInterrupt:
            self.progress.stop(self._resume_points())  # at once: to end stages and to write the run takes time
            raise
        finally:
            self.wrote = True
            folder = write_run(out, name, self._write)
        return folder

    def _hear_numbers(self, key: str) -> None:
        """Let observers hear of the numbers of all cells that a measuring stage is for."""
        if self.hear is not silent:
            for number in numbers_of(self._measured, key, self.numbers[key]):
                self.hear(number)

    @cached_property
    def _measured(self) -> Measured:
        return measured_cells(self.plan)

    def _expect(self, stages: Sequence[Stage]) -> None:
        """Announce all stages to do."""
        self.cost_keys = CostKeys(self.plan.stages)
        self.ranks = {stage.key: float(place) for place, stage in enumerate(stages)}
        if foreseeing := installed_module(UPKEEP, "for_core"):  # else nothing is known of their costs
            self.predictions = foreseeing.Predictions(self.plan.stages, Costs(self.store), self.cost_keys)
            self.ranks = foreseeing.ranks(stages, self.predictions, self.executor.capacity)
        works = {one.key: Work(self.cost_keys.of_record(one), self._predicted(one)[0]) for one in stages}
        self.progress.expect(works, self.executor.capacity)

    def _predicted(self, stage: Stage) -> tuple[float | None, int | None]:
        """Return the predicted seconds and bytes of a stage, None where they are unknown."""
        found = self.predictions and self.predictions.of(stage)
        return (found.seconds, found.memory) if found else (None, None)

    def _same(self, out: Path) -> Run | None:
        """Return the last run with identical results, if there is one."""
        record = self._record()
        for folder in sorted(out.glob(f"{glob.escape(self._name)}-*"), reverse=True):
            if record.equals(folder) and not any(remark.wrong for remark in problems(folder)):
                with suppress(StoreError, SuiteError):  # a file cannot be read
                    found = read_run(folder)
                    with suppress(OSError, StoreError), extending(folder):  # a read-only folder
                        keep_of_sections(found, self.store)  # plugins installed since add files
                    return found
        return None

    @property
    def _name(self) -> str:
        return self.suite.label.replace("/", "-")

    def _record(self) -> Record:
        places = {f"{self.data}/": "<data>/", f"{self.store.root}/": "<store>/"}
        return Record(self.suite, self.plan, self.store, self.failures, self.stopped, self.numbers, places)

    def _write(self, folder: Path) -> None:
        self._record().write(folder)
        lines = "".join(f"{line}\n" for line in self.log)
        (folder / "log").write_text(lines, encoding="utf-8", errors="backslashreplace")

    def build(self) -> None:
        """Prepare every task, and build every model on the meta device; problems are in `failures`."""
        self._plan()
        self._expect([*self.plan.stages.values()])
        stages = self.plan.stages.values()
        self._prepare([stage for stage in stages if stage.about.first or stage.about.gives_weights])

    def _plan(self) -> None:
        check_fit(self.suite, cells_of(self.suite))
        self.plan = restrict(plan(self.suite, self.data), self.only)

    def _prepare(self, stages: list[Stage]) -> list[Stage]:
        """Prepare the tasks, then build the models on the meta device, so that errors show early.

        Returns the remaining stages.
        """
        prepare = [stage for stage in stages if stage.about.first and not self._stored(stage)]
        self._perform(prepare, len(stages), 0)
        models = [stage for stage in stages if stage.about.gives_weights]
        built = [stage for stage in models if stage.inputs["task"][1] not in self.failures]
        for stage, failure in self._each(built, lambda stage: None, build=True):
            if failure and not failure.stopped:
                self._fail(stage, failure)
        return [stage for stage in stages if not stage.about.first]

    @property
    def with_contracts(self) -> bool:
        """Whether contracts are tried: where stages have processes of their own, as the contracts do."""
        return not isinstance(self.executor, Here)

    def _try_contracts(self, stages: Sequence[Stage]) -> None:
        """Fail the trainings of models that break a contract; not of parts that this process alone may know.

        Without bench-authors none is tried, and the report says so (`contract_marks`).
        """
        if not self.with_contracts or self.limit.has_ended():
            return
        due = [stage for stage in stages if stage.about.trains and stage.key not in self.failures]
        if not is_installed(AUTHORS):
            note_untried(due, self.store)
            return
        trying = optional_module(AUTHORS, "contracts_once", "the trial of contracts")
        found = trying.broken_contracts(due, self.plan.stages, self.store, self.data)
        for stage in due:
            if stage.key in found:
                self._fail(stage, StageFailed(found[stage.key], expected=True))

    def _stored(self, stage: Stage, told: bool = False) -> bool:
        """Return whether an artifact is stored, or, if that suffices, its imported record.

        Scores are read and checked at once, and set aside if damaged.
        """
        if stage.key in self.numbers:
            return True
        if not self.store.is_stored(stage, told):
            return False
        if stage.about.gives_number:
            try:
                self.numbers[stage.key] = self.store.get(stage.kind, stage.key).json("number.json")
            except StoreError as error:
                self._set_aside(stage.kind, stage.key, error)
                return False
        return True

    def _set_aside(self, kind: str, key: str, error: StoreError) -> None:
        place = self.store.set_aside(kind, key)
        kept = f" The damaged one is kept in {place}." if place else ""  # none where another run was faster
        self._warn(f"{error} It is computed again.{kept}")

    def _warn(self, text: str) -> None:
        self.log.append(f"warning: {text}")
        self.progress.warn(text)

    def _perform(self, stages: list[Stage], total: int, before: int) -> None:
        """Perform stages in topological order; stages with a failed input fail too."""
        numbers = count(before + 1)
        begun: dict[str, float] = {}

        def begin(stage: Stage) -> None:
            begun[stage.key], self.under_way[stage.key] = time.perf_counter(), stage
            self.limit.begin(stage)
            self.progress.begin(stage, next(numbers), total)
            self.hear(StageStarted(stage.kind, stage.label, stage.key))

        for stage, failure in self._each(stages, begin):
            if failure and failure.stored:
                failure = self._repaired(stage, failure)
            failure = failure or self._keep(stage)
            self.limit.end(stage, stored=failure is None or self._stopped_at_checkpoint(stage, failure))
            if failure and failure.stopped:
                self.stopped[stage.key] = f"{stage.kind} of {stage.label}: {failure}"
            elif failure:
                self._fail(stage, failure)
            seconds = time.perf_counter() - begun.pop(stage.key)
            reason = self.failures.get(stage.key) or self.stopped.get(stage.key)
            self.log.append(f"{stage.kind} {stage.label}: {reason or f'{seconds:.2f} s'} ({stage.key})")
            self.progress.end(stage, seconds, reason)
            del self.under_way[stage.key]
            self.hear(StageEnded(stage.kind, stage.label, stage.key, seconds, reason))

    def _each(
        self, stages: list[Stage], begin: Callable[[Stage], None], build: bool = False
    ) -> Iterator[tuple[Stage, StageFailed | None]]:
        """Yield stages as they end, with their failures, running as many as the executor takes."""
        own = {stage.key: stage for stage in stages}
        order = TopologicalSorter(
            {stage.key: [key for _, key in stage.inputs.values() if key in own] for stage in stages}
        )
        order.prepare()
        ready: list[str] = []  # keys of those that may begin, those of lowest rank first
        running: dict[Future[None], Stage] = {}
        while order.is_active():
            ready = sorted([*ready, *order.get_ready()], key=self.ranks.__getitem__)
            for stage in [own[key] for key in ready]:
                if len(running) >= self.executor.capacity:
                    break
                if self._is_idle(stage, build):
                    order.done(stage.key)
                elif build or not running or self._has_room(stage):
                    begin(stage)
                    running[self._submit(stage, build)] = stage
                else:
                    continue
                ready.remove(stage.key)
            ended = wait(running, self.limit.patience(), FIRST_COMPLETED).done
            for future in ended or [one for one, stage in running.items() if self.limit.gives_up(stage)]:
                stage = running.pop(future)
                yield stage, _failure(future) if future.done() else time_up()
                order.done(stage.key)

    def _has_room(self, stage: Stage) -> bool:
        return not self.limit.must_wait() and self.executor.has_room(stage, self._predicted(stage)[1])

    def _submit(self, stage: Stage, build: bool = False) -> Future[None]:
        order = StageRequest(
            stage, build, self.limit.of(stage), self.every, observed=self.hear is not silent,
            cost_key=self.cost_keys.of_record(stage), strict=self.strict,
        )  # fmt: skip
        return self.executor.submit(order, partial(self.progress.tell, stage))

    def _is_idle(self, stage: Stage, build: bool) -> bool:
        """Return whether a stage cannot start (an input failed, or the time limit is reached), and record why."""
        for reasons in (self.failures, self.stopped):
            broken = [reasons[key] for _, key in stage.inputs.values() if key in reasons]
            if broken or stage.key in reasons:
                reasons.setdefault(stage.key, *broken[:1])
                return True
        if build and self.limit.is_over():  # which stores nothing
            return True
        if self.limit.has_ended():
            self.stopped[stage.key] = f"{stage.kind} of {stage.label}: {time_up()}"
            return True
        return False

    def _stopped_at_checkpoint(self, stage: Stage, failure: StageFailed) -> bool:
        """Return whether a stage was stopped by the time limit and continues from a checkpoint; record its step."""
        step = last_step(self.store, stage.key) if failure.stopped and stage.about.trains else None
        if step is not None:
            self.checkpoints[f"{stage.kind} {stage.label}"] = step
        return step is not None

    def _resume_points(self) -> str:
        """Return what an interrupted run has stored, and from where its running trainings continue."""
        lines = [f"{counted(len(self.computed), 'stage')} computed and stored"]
        for stage in self.under_way.values():
            if stage.about.trains:
                step = last_step(self.store, stage.key)
                where = "has no checkpoint yet" if step is None else f"continues from its checkpoint at step {step:,}"
                lines.append(f"{stage.kind} {stage.label} {where}")
        return f"{'; '.join(lines)}. Run the suite again to continue."

    def _repaired(self, stage: Stage, failure: StageFailed) -> StageFailed | None:
        """Set damaged inputs of a stage aside, compute them again, and retry the stage.

        If another stage has already repaired them, only retry.
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
        """Record a finished artifact; return a failure if it cannot be read."""
        try:
            artifact = self.store.get(stage.kind, stage.key)
            if stage.about.gives_number:
                self.numbers[stage.key] = artifact.json("number.json")
                self._hear_numbers(stage.key)
            files = self.store.contradictions(stage.kind, stage.key)
        except StoreError as error:
            return StageFailed(f"it finished, but its artifact cannot be read: {error}", expected=True)
        self.computed.append(stage)
        if files:
            text = f"{stage.kind} of {stage.label} was computed again, and differs from the imported record"
            self._warn(f"{text} ({', '.join(files)}): results imported with it come from different weights or data.")
        return None

    def _fail(self, stage: Stage, failure: StageFailed) -> None:
        log = self.store.log_failure(stage.kind, stage.key, failure.details)
        self.failures[stage.key] = f"{stage.kind} of {stage.label}: {failure}"
        if not failure.expected:
            self._warn(f"the details of the failure are in {log}")


def _failure(future: Future[None]) -> StageFailed | None:
    """Wait for a stage; return its failure, or None."""
    try:
        future.result()
    except StageFailed as failure:
        return failure
    return None
