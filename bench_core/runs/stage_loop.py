"""Performs the stages of a plan in topological order, as many at a time as the executor can run."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from graphlib import TopologicalSorter
from itertools import count
from typing import Any

from bench_core.errors import StoreError
from bench_core.execution.executor import Executor
from bench_core.execution.failures import StageFailed, time_up
from bench_core.execution.progress import ProgressDisplay, Work
from bench_core.observer import Event, Hear, Number, StageEnded, StageStarted, TrainingEvent, TrainingName, silent
from bench_core.optional import UPKEEP, installed_module
from bench_core.planning.cost_keys import CostKeys
from bench_core.planning.plan import Plan
from bench_core.planning.stages import Stage, StageRequest
from bench_core.runs.time_limit import TimeLimit
from bench_core.storage.checkpoints import last_step
from bench_core.storage.costs import Costs
from bench_core.storage.store import Store
from bench_core.terminal import count_of


@dataclass
class StageLoop:
    """Performs stages and records their results; failures affect only stages that depend on them."""

    plan: Plan
    store: Store
    executor: Executor
    progress: ProgressDisplay
    limit: TimeLimit
    every: float  # seconds between training checkpoints
    hear: Hear  # the observers
    strict: bool  # whether inputs that are not covered by keys are errors
    stopped: dict[str, str] = field(default_factory=dict)  # key -> why a stage that did not fail is incomplete
    failures: dict[str, str] = field(default_factory=dict)  # key -> reason
    numbers: dict[str, Any] = field(default_factory=dict)  # key -> the result of a stored measure stage
    computed: list[Stage] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)  # label of a stopped train stage -> step
    log: list[str] = field(default_factory=list)  # lines for the log of the run
    _estimates: Any = field(default=None, init=False)  # `CostEstimates`, if bench-upkeep is installed
    _repaired: set[str] = field(default_factory=set, init=False)  # keys of damaged artifacts
    under_way: dict[str, Stage] = field(default_factory=dict, init=False)  # key -> running stage

    def __post_init__(self) -> None:
        self.executor.warn = self.warn
        self.executor.hear = lambda stage, event: self.hear(name_training(stage, event))
        self.store = replace(self.store, warn=self.warn)

    def expect(self, stages: Sequence[Stage]) -> None:
        """Announce all stages to perform."""
        self._cost_keys = CostKeys(self.plan.stages)
        self._ranks = {stage.key: float(place) for place, stage in enumerate(stages)}
        if upkeep := installed_module(UPKEEP, "for_core"):  # otherwise, their costs are unknown
            self._estimates = upkeep.CostEstimates(self.plan.stages, Costs(self.store), self._cost_keys)
            self._ranks = upkeep.ranks(stages, self._estimates, self.executor.capacity)
        works = {stage.key: Work(self._cost_keys.of_record(stage), self._predict(stage)[0]) for stage in stages}
        self.progress.expect(works, self.executor.capacity)

    def _predict(self, stage: Stage) -> tuple[float | None, int | None]:
        """Return the predicted seconds and bytes of a stage; None if unknown."""
        estimate = self._estimates and self._estimates.of(stage)
        return (estimate.seconds, estimate.memory) if estimate else (None, None)

    def is_stored(self, stage: Stage, record_suffices: bool = False) -> bool:
        """Return whether an artifact is stored; optionally, its imported record suffices.

        Scores are read and checked immediately, and set aside if damaged.
        """
        if stage.key in self.numbers:
            return True
        if not self.store.is_stored(stage, record_suffices):
            return False
        if stage.about.gives_number:
            try:
                self.numbers[stage.key] = self.store.get(stage.kind, stage.key).json("number.json")
            except StoreError as error:
                self._set_aside(stage.kind, stage.key, error)
                return False
        return True

    def perform(self, stages: list[Stage], total: int, before: int) -> None:
        """Perform stages in topological order; stages with a failed input fail as well."""
        numbers = count(before + 1)
        begun: dict[str, float] = {}

        def begin(stage: Stage) -> None:
            begun[stage.key], self.under_way[stage.key] = time.perf_counter(), stage
            self.limit.begin(stage)
            self.progress.begin(stage, next(numbers), total)
            self.hear(StageStarted(stage.kind, stage.label, stage.key))

        for stage, failure in self.each(stages, begin):
            if failure and failure.stored:
                failure = self._retry(stage, failure)
            failure = failure or self._keep(stage)
            self.limit.end(stage, stored=failure is None or self._stopped_at_checkpoint(stage, failure))
            if failure and failure.stopped:
                self.stopped[stage.key] = f"{stage.kind} of {stage.label}: {failure}"
            elif failure:
                self.fail(stage, failure)
            seconds = time.perf_counter() - begun.pop(stage.key)
            reason = self.failures.get(stage.key) or self.stopped.get(stage.key)
            self.log.append(f"{stage.kind} {stage.label}: {reason or f'{seconds:.2f} s'} ({stage.key})")
            self.progress.end(stage, seconds, reason)
            del self.under_way[stage.key]
            self.hear(StageEnded(stage.kind, stage.label, stage.key, seconds, reason))

    def each(
        self, stages: list[Stage], begin: Callable[[Stage], None], build: bool = False
    ) -> Iterator[tuple[Stage, StageFailed | None]]:
        """Yield stages with their failures as they end; run as many at a time as the executor can."""
        by_key = {stage.key: stage for stage in stages}
        inputs = {stage.key: [key for _, key in stage.inputs.values() if key in by_key] for stage in stages}
        order = TopologicalSorter(inputs)
        order.prepare()
        ready: list[str] = []  # keys of stages that may begin, by ascending rank
        running: dict[Future[None], Stage] = {}
        while order.is_active():
            ready = sorted([*ready, *order.get_ready()], key=self._ranks.__getitem__)
            for stage in [by_key[key] for key in ready]:
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
            for future in ended or [pending for pending, stage in running.items() if self.limit.gives_up(stage)]:
                stage = running.pop(future)
                yield stage, _failure(future) if future.done() else time_up()
                order.done(stage.key)

    def _has_room(self, stage: Stage) -> bool:
        return not self.limit.must_wait() and self.executor.has_room(stage, self._predict(stage)[1])

    def _submit(self, stage: Stage, build: bool = False) -> Future[None]:
        order = StageRequest(
            stage, build, self.limit.of(stage), self.every, observed=self.hear is not silent,
            cost_key=self._cost_keys.of_record(stage), strict=self.strict,
        )  # fmt: skip
        return self.executor.submit(order, partial(self.progress.tell, stage))

    def _is_idle(self, stage: Stage, build: bool) -> bool:
        """Return whether a stage cannot begin (failed input, or time limit reached), and record the reason."""
        for reasons in (self.failures, self.stopped):
            broken = [reasons[key] for _, key in stage.inputs.values() if key in reasons]
            if broken or stage.key in reasons:
                reasons.setdefault(stage.key, *broken[:1])
                return True
        if build and self.limit.is_over():  # building stores nothing
            return True
        if self.limit.has_ended():
            self.stopped[stage.key] = f"{stage.kind} of {stage.label}: {time_up()}"
            return True
        return False

    def _stopped_at_checkpoint(self, stage: Stage, failure: StageFailed) -> bool:
        """Return whether a stage was stopped by the time limit after writing a checkpoint; record its step."""
        step = last_step(self.store, stage.key) if failure.stopped and stage.about.trains else None
        if step is not None:
            self.checkpoints[f"{stage.kind} {stage.label}"] = step
        return step is not None

    def resume_points(self) -> str:
        """Return a message about the stored stages of an interrupted run and its training checkpoints."""
        lines = [f"{count_of(len(self.computed), 'stage')} computed and stored"]
        for stage in self.under_way.values():
            if stage.about.trains:
                step = last_step(self.store, stage.key)
                where = "has no checkpoint yet" if step is None else f"continues from its checkpoint at step {step:,}"
                lines.append(f"{stage.kind} {stage.label} {where}")
        return f"{'; '.join(lines)}. Run the suite again to continue."

    def _retry(self, stage: Stage, failure: StageFailed) -> StageFailed | None:
        """Set aside damaged inputs of a stage, recompute them, and retry the stage; return its failure or None.

        If another stage has already repaired the inputs, only retry.
        """
        damaged = [stored for stored in stage.inputs.values() if self._set_aside_if_damaged(*stored)]
        if not damaged:
            if not {key for _, key in stage.inputs.values()} & self._repaired:
                return failure
            return _failure(self._submit(stage))
        self._repaired |= {key for _, key in damaged}
        for repair in (*(self.plan.stages[key] for _, key in damaged), stage):
            again = _failure(self._submit(repair))
            if again and again.stored:
                again = self._retry(repair, again)
            if again is None and repair is not stage:
                again = self._keep(repair)
            if again:
                return again
        return None

    def _set_aside_if_damaged(self, kind: str, key: str) -> bool:
        kind = self.store.stored_kind(kind, key)
        try:
            self.store.get(kind, key).check()
        except StoreError as error:
            self._set_aside(kind, key, error)
            return True
        return False

    def _set_aside(self, kind: str, key: str, error: StoreError) -> None:
        place = self.store.set_aside(kind, key)
        note = f" The damaged artifact is in {place}." if place else ""  # `place` is None if another run was faster
        self.warn(f"{error} It is computed again.{note}")

    def _keep(self, stage: Stage) -> StageFailed | None:
        """Record a finished artifact; return a failure if it cannot be read."""
        try:
            artifact = self.store.get(stage.kind, stage.key)
            if stage.about.gives_number:
                self.numbers[stage.key] = artifact.json("number.json")
                self.hear_numbers(stage.key)
            files = self.store.contradictions(stage.kind, stage.key)
        except StoreError as error:
            return StageFailed(f"it finished, but its artifact cannot be read: {error}", expected=True)
        self.computed.append(stage)
        if files:
            text = f"{stage.kind} of {stage.label} was computed again and differs from the imported record"
            self.warn(f"{text} ({', '.join(files)}): results imported with it are from different weights or data.")
        return None

    def fail(self, stage: Stage, failure: StageFailed) -> None:
        log = self.store.log_failure(stage.kind, stage.key, failure.details)
        self.failures[stage.key] = f"{stage.kind} of {stage.label}: {failure}"
        if not failure.expected:
            self.warn(f"details of the failure: {log}")

    def hear_numbers(self, key: str) -> None:
        """Send the numbers of a measure stage to the observers, for all cells that use it."""
        if self.hear is not silent:
            for cell, metric in self._measured_cells.get(key, ()):
                self.hear(Number(cell, metric, float(self.numbers[key]["value"])))

    @cached_property
    def _measured_cells(self) -> Mapping[str, list[tuple[Mapping[str, Any], str]]]:
        """The cells and metrics that use each measure stage, by stage key."""
        cells: defaultdict[str, list[tuple[Mapping[str, Any], str]]] = defaultdict(list)
        for cell, keys in self.plan.of_cell.items():
            for name, key in keys.items():
                if self.plan.stages[key].about.gives_number:
                    cells[key].append((cell.axes, name.partition("/")[2]))
        return cells

    def warn(self, text: str) -> None:
        self.log.append(f"warning: {text}")
        self.progress.warn(text)


def _failure(future: Future[None]) -> StageFailed | None:
    """Wait for a stage; return its failure, or None."""
    try:
        future.result()
    except StageFailed as failure:
        return failure
    return None


def name_training(stage: Stage, event: Event) -> Event:
    """Add the name of the training run to an event of a stage."""
    if not isinstance(event, TrainingEvent):
        return event
    seeds = stage.settings["vmapped"] if stage.about.joint else [stage.settings["seed"]]
    seed = seeds[event.copy]
    label = f"{stage.label.rpartition(', ')[0]}, seed {seed}"  # jointly trained seeds share a label
    return replace(event, training=TrainingName(label, stage.key, seed))
