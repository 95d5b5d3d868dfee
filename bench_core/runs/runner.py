"""Runs a suite: reuses stored results, computes missing ones, isolates failures."""

from __future__ import annotations

import glob
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack

from bench_core.config import ExecutorConfig, ObserverConfig
from bench_core.errors import StoreError, SuiteError
from bench_core.execution.executor import Executor, InProcess
from bench_core.execution.failures import StageFailed
from bench_core.execution.progress import ProgressDisplay
from bench_core.execution.watching import install
from bench_core.files import data_folder
from bench_core.observer import Hear, RunEnded, RunStarted, silent
from bench_core.optional import AUTHORS, is_installed, optional_module
from bench_core.planning.hardware import check_devices
from bench_core.planning.plan import needed, plan
from bench_core.planning.stages import Stage
from bench_core.runs.contract_marks import mark_untested
from bench_core.runs.executors import executor
from bench_core.runs.manifest import extending, problems
from bench_core.runs.observing import observing
from bench_core.runs.plan_filter import restrict
from bench_core.runs.results import Run, read_run, write_run
from bench_core.runs.run_writer import CellRecord, keep_of_sections
from bench_core.runs.stage_loop import StageLoop
from bench_core.runs.stored_inputs import refusals, warnings
from bench_core.runs.time_limit import TimeLimit
from bench_core.storage.store import Store
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_core.suites.suite import Suite


class Execution(TypedDict, total=False):
    """How to compute stages; does not affect results."""

    progress: ProgressDisplay  # displays the progress; nothing by default
    workers: int  # number of processes; 0 (default): compute in this process
    elsewhere: ExecutorConfig | None  # executor to use instead of worker processes
    stop_after: float | None  # seconds after which to stop, with a checkpoint; run again to continue
    checkpoint_every: float  # seconds between training checkpoints; 300 by default
    isolate: bool  # run each stage in a separate process
    stage_timeout: float | None  # seconds after which a stage fails; needs worker processes
    per_gpu: int | None  # maximum number of stages that share a GPU; from the suite by default
    observers: Sequence[ObserverConfig]  # receive events during the run; do not affect it
    strict: bool  # fail stages that read inputs not covered by their key


def run(
    path: str | Path,
    profile: str | None = None,
    settings: Sequence[str] = (),
    seeds: int | None = None,
    data: str | Path | None = None,
    store: str | Path = ".bench/store",
    out: str | Path = "runs",
    only: Sequence[str] = (),
    **execution: Unpack[Execution],
) -> Run:
    """Run a suite file like `bench run`; return the run, in which failed cells are marked.

    With `only`, only cells that match all filters, such as `model=lstm`, are run. For further arguments, such as
    `workers=2`, see `Execution`. Raises TypeError for unknown arguments.
    """
    if unknown := execution.keys() - Execution.__annotations__.keys():
        names = ", ".join(Execution.__annotations__)
        raise TypeError(f"run() has no argument {', '.join(map(repr, sorted(unknown)))}. It also takes {names}.")
    suite = load(Path(path), profile, settings, seeds)
    folder, artifact_store = data_folder(Path(data) if data else None), Store(Path(store))
    with closing(run_suites([suite], folder, artifact_store, Path(out), only, execution)) as runs:
        return next(runs)[1]


def run_suites(
    suites: Iterable[Suite], data: Path, store: Store, out: Path, only: Sequence[str], how: Execution
) -> Generator[tuple[Runner, Run], None, None]:
    """Run suites one after another with the same executor; yield the runner and the run of each."""
    install()
    progress, seconds = how.get("progress") or ProgressDisplay(), how.get("stop_after")
    until = None if seconds is None else time.time() + seconds
    every, strict = how.get("checkpoint_every", 300.0), how.get("strict", False)
    isolate, timeout, per_gpu = how.get("isolate", False), how.get("stage_timeout"), how.get("per_gpu")
    workers, elsewhere, suites = how.get("workers", 0), how.get("elsewhere"), [*suites]
    with (
        observing(how.get("observers", ()), progress.warn) as hear,
        executor(workers, store, data, elsewhere, isolate, timeout, per_gpu, suites[0]) as stage_executor,
    ):
        for suite in suites:
            runner = Runner(suite, data, store, stage_executor, progress, until, every, only, hear, strict)
            yield runner, runner.run(out)


@dataclass
class Runner:
    """Runs a suite once."""

    suite: Suite
    data: Path
    store: Store
    executor: Executor
    progress: ProgressDisplay
    until: float | None = None  # stop at this time, in seconds since 1970
    every: float = 300.0  # seconds between training checkpoints
    only: Sequence[str] = ()  # filters of cells; all cells by default
    hear: Hear = silent  # the observers
    strict: bool = False  # whether inputs that are not covered by keys are errors
    wrote: bool = False  # whether a run folder was written

    def __post_init__(self) -> None:
        self.suite = replace(self.suite, asked=[*self.suite.asked, *(f"only={cells}" for cells in self.only)])
        check_fit(self.suite, cells_of(self.suite))
        self.plan = restrict(plan(self.suite, self.data), self.only)
        how = self.executor, self.progress, TimeLimit(self.until), self.every, self.hear, self.strict
        self.loop = StageLoop(self.plan, self.store, *how)

    def run(self, out: Path) -> Run:
        """Compute missing results, then write the run folder, also after an interruption."""
        with self.loop.store.in_use():
            name = f"{self._name}-{time.strftime('%Y%m%d-%H%M%S')}"
            stages = needed(self.plan, self.suite, self.loop.is_stored)
            self._check_stored_inputs({stage.key for stage in stages})
            self.hear(RunStarted(name, self.suite.label, len(stages)))
            folder = None
            try:
                for key in self.loop.numbers:
                    self.loop.hear_numbers(key)
                same = None if stages or self.loop.failures else self._equal_run(out)
                folder = same.folder if same else self._compute(stages, out, name)
            finally:
                self.hear(RunEnded(name, None if folder is None else str(folder)))
            return same or read_run(folder)

    def _check_stored_inputs(self, missing: set[str]) -> None:
        """Warn about unobserved inputs of stored results; with `strict`, fail stages whose inputs no key covers."""
        stored = [stage for stage in self.plan.stages.values() if stage.key not in missing]
        for stage, reason in refusals(stored, self.loop.store) if self.strict else ():
            self.loop.numbers.pop(stage.key, None)
            self.loop.fail(stage, StageFailed(reason, expected=True))
        for text in () if self.strict else warnings(stored, self.loop.store):
            self.loop.warn(text)

    def _compute(self, stages: list[Stage], out: Path, name: str) -> Path:
        """Compute stages; write the run folder, also after an interruption, and return it."""
        if self.executor.local:
            check_devices(self.suite, stages)
        self.loop.expect(stages)
        try:
            rest = self._prepare(stages)
            self._check_contracts(rest)
            self.loop.perform(rest, len(stages), len(stages) - len(rest))
        except KeyboardInterrupt:
            self.progress.stop(self.loop.resume_points())  # now, because ending stages and writing the run takes time
            raise
        finally:
            self.wrote = True
            folder = write_run(out, name, self._write)
        return folder

    def _equal_run(self, out: Path) -> Run | None:
        """Return the last run with identical results, or None."""
        record = self._record()
        for folder in sorted(out.glob(f"{glob.escape(self._name)}-*"), reverse=True):
            if record.equals(folder) and not any(remark.wrong for remark in problems(folder)):
                with suppress(StoreError, SuiteError):  # raised if a file cannot be read
                    run = read_run(folder)
                    with suppress(OSError, StoreError), extending(folder):  # the folder may be read-only
                        keep_of_sections(run, self.loop.store)  # plugins installed since then add files
                    return run
        return None

    @property
    def _name(self) -> str:
        return self.suite.label.replace("/", "-")

    def _record(self) -> CellRecord:
        loop, places = self.loop, {f"{self.data}/": "<data>/", f"{self.loop.store.root}/": "<store>/"}
        return CellRecord(self.suite, self.plan, loop.store, loop.failures, loop.stopped, loop.numbers, places)

    def _write(self, folder: Path) -> None:
        self._record().write(folder)
        lines = "".join(f"{line}\n" for line in self.loop.log)
        (folder / "log").write_text(lines, encoding="utf-8", errors="backslashreplace")

    def build(self) -> None:
        """Prepare every task and build every model on the meta device; problems are in `loop.failures`."""
        stages = [*self.plan.stages.values()]
        self.loop.expect(stages)
        self._prepare([stage for stage in stages if stage.about.first or stage.about.gives_weights])

    def _prepare(self, stages: list[Stage]) -> list[Stage]:
        """Prepare the tasks, then build the models on the meta device, to detect errors early.

        Returns the remaining stages.
        """
        prepare = [stage for stage in stages if stage.about.first and not self.loop.is_stored(stage)]
        self.loop.perform(prepare, len(stages), 0)
        models = [stage for stage in stages if stage.about.gives_weights]
        buildable = [stage for stage in models if stage.inputs["task"][1] not in self.loop.failures]
        for stage, failure in self.loop.each(buildable, lambda stage: None, build=True):
            if failure and not failure.stopped:
                self.loop.fail(stage, failure)
        return [stage for stage in stages if not stage.about.first]

    @property
    def with_contracts(self) -> bool:
        """Whether to test contracts: only if stages run in separate processes, which contract tests need."""
        return not isinstance(self.executor, InProcess)

    def _check_contracts(self, stages: Sequence[Stage]) -> None:
        """Fail the training of every model that breaks a contract, unless stages run in this process.

        Without bench-authors, contracts are not tested, and the report mentions it (`contract_marks`).
        """
        if not self.with_contracts or self.loop.limit.has_ended():
            return
        trainings = [stage for stage in stages if stage.about.trains and stage.key not in self.loop.failures]
        if not is_installed(AUTHORS):
            mark_untested(trainings, self.loop.store)
            return
        contracts = optional_module(AUTHORS, "contracts_once", "testing contracts")
        broken = contracts.broken_contracts(trainings, self.plan.stages, self.loop.store, self.data)
        for stage in trainings:
            if stage.key in broken:
                self.loop.fail(stage, StageFailed(broken[stage.key], expected=True))
