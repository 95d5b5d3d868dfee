"""Runs a suite: what is stored is kept, what is missing is computed, what fails takes nothing else down."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bench_core.check import check_fit
from bench_core.costs import Cost
from bench_core.errors import BenchError, StoreError
from bench_core.plan import Stage, cells_of, plan
from bench_core.record import Record, environment
from bench_core.results import read_run
from bench_core.stages import Workshop, check_builds
from bench_core.store import Store
from bench_core.suite import load

if TYPE_CHECKING:
    from bench_core.results import Run
    from bench_core.suite import Suite


class Progress(Protocol):
    """Who is told what is going on."""

    def begin(self, stage: Stage, number: int, total: int) -> None:
        """Hear that a stage begins."""

    def tell(self, text: str, share: float) -> None:
        """Hear how far it is."""

    def end(self, stage: Stage, seconds: float, failure: str | None) -> None:
        """Hear that it is over."""

    def warn(self, text: str) -> None:
        """Hear of something that the reader of the results should know."""


class Silent:
    """Tells nobody."""

    def begin(self, stage: Stage, number: int, total: int) -> None:
        pass

    def tell(self, text: str, share: float) -> None:
        pass

    def end(self, stage: Stage, seconds: float, failure: str | None) -> None:
        pass

    def warn(self, text: str) -> None:
        pass


def run(
    path: str | Path,
    profile: str | None = None,
    settings: Sequence[str] = (),
    seeds: int | None = None,
    data: str | Path | None = None,
    store: str | Path = ".bench/store",
    out: str | Path = "runs",
    progress: Progress | None = None,
) -> Run:
    """Run a suite file, as `bench run` does, and return the run; failed cells say so in it."""
    from bench_core.corpora import data_folder

    suite = load(Path(path), profile, settings, seeds)
    folder = data_folder(Path(data) if data else None)
    return Runner(suite, folder, Store(Path(store)), progress or Silent()).run(Path(out))


@dataclass
class Runner:
    """One execution of a suite."""

    suite: Suite
    data: Path
    store: Store
    progress: Progress
    failures: dict[str, str] = field(default_factory=dict)  # key -> reason
    numbers: dict[str, Any] = field(default_factory=dict)  # key -> what a stored measure stage found
    computed: list[Stage] = field(default_factory=list)
    log: list[str] = field(default_factory=list)  # what happened, for the run folder

    def run(self, out: Path) -> Run:
        """Compute what is missing, then write the run folder; after an interruption too, with what there is."""
        started = time.strftime("%Y%m%d-%H%M%S")
        self._plan()
        needed = self.needed()
        try:
            rest = self._prepare(needed)
            self._perform(rest, len(needed), len(needed) - len(rest))
        finally:
            folder = self._folder(out, started)
            Record(self.suite, self.plan, self.store, self.failures, self.numbers).write(folder)
            (folder / "log").write_text("".join(f"{line}\n" for line in self.log), encoding="utf-8")
        return read_run(folder)

    def build(self) -> None:
        """Prepare every task and build every model on the meta device; `failures` says what does not work."""
        self._plan()
        self._prepare([stage for stage in self.plan.stages.values() if stage.kind in ("prepare", "train")])

    def _plan(self) -> None:
        check_fit(self.suite, cells_of(self.suite))
        self.plan = plan(self.suite, self.data)

    def _prepare(self, stages: list[Stage]) -> list[Stage]:
        """Prepare the tasks and build the models; return the stages that are left to do."""
        prepare = [stage for stage in stages if stage.kind == "prepare" and not self._stored(stage)]
        self._perform(prepare, len(stages), 0)
        self._check_builds(stages)
        return [stage for stage in stages if stage.kind != "prepare"]

    def needed(self) -> list[Stage]:
        """Return the stages to compute: those of missing outcomes and numbers, and what they need, inputs first."""
        wanted: set[str] = set()

        def want(key: str) -> None:
            stage = self.plan.stages[key]
            if key not in wanted and not self._stored(stage):
                wanted.add(key)
                for _, upstream in stage.inputs.values():
                    want(upstream)

        for artifacts in self.plan.of_cell.values():
            for name, key in artifacts.items():
                if name not in ("prepare", "train") or len(artifacts) == 2:
                    want(key)
        if not self.plan.cells or any(table.of == "tasks" for table in self.suite.tables):
            for key in self.plan.tasks.values():
                want(key)
        return [stage for key, stage in self.plan.stages.items() if key in wanted]

    def _stored(self, stage: Stage) -> bool:
        """Return whether an artifact is there; numbers are read and checked at once, and set aside if damaged."""
        if stage.key in self.numbers:
            return True
        if not self.store.has(stage.kind, stage.key):
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
        self._warn(f"{error} It is made again; the damaged one is kept in {place}.")

    def _warn(self, text: str) -> None:
        self.log.append(f"warning: {text}")
        self.progress.warn(text)

    def _check_builds(self, needed: list[Stage]) -> None:
        """Build every model that is to be trained on the meta device, so that none fails after hours."""
        from bench_core.data import Facts

        for stage in needed:
            if stage.kind != "train" or stage.inputs["task"][1] in self.failures:
                continue
            try:
                facts = self.store.get(*stage.inputs["task"]).json("facts.json")
                check_builds(stage.settings["model"], Facts(**facts), self.data)
            except Exception as error:  # whatever a plugin raises: this model fails, the others go on
                self._fail(stage, error)

    def _perform(self, stages: list[Stage], total: int, before: int) -> None:
        workshop = Workshop(self.store, self.data, self.progress.tell)
        for number, stage in enumerate(stages, before + 1):
            broken = [self.failures[key] for _, key in stage.inputs.values() if key in self.failures]
            if broken:
                self.failures[stage.key] = broken[0]
            if stage.key in self.failures:
                continue
            self.progress.begin(stage, number, total)
            begun = time.perf_counter()
            try:
                self._make(workshop, stage)
            except Exception as error:  # one failed stage is some failed cells, never the end of the run
                self._fail(stage, error)
            seconds, failure = time.perf_counter() - begun, self.failures.get(stage.key)
            self.log.append(f"{stage.kind} {stage.label}: {failure or f'{seconds:.2f} s'} ({stage.key})")
            self.progress.end(stage, seconds, failure)

    def _make(self, workshop: Workshop, stage: Stage) -> None:
        """Make an artifact; where an input turns out damaged, set that aside, make it anew, and try again."""
        try:
            self._compute(workshop, stage)
        except StoreError:
            damaged = [stored for stored in stage.inputs.values() if self._damaged(*stored)]
            if not damaged:
                raise
            for _, key in damaged:
                self._make(workshop, self.plan.stages[key])
            self._compute(workshop, stage)

    def _damaged(self, kind: str, key: str) -> bool:
        try:
            self.store.get(kind, key).check()
        except StoreError as error:
            self._set_aside(kind, key, error)
            return True
        return False

    def _compute(self, workshop: Workshop, stage: Stage) -> None:
        about: dict[str, Any] = {"ingredients": stage.ingredients, "provenance": environment(stage.settings)}
        with self.store.writing(stage.kind, stage.key, about) as folder:
            with Cost() as cost:
                counts = workshop.perform(stage, folder)
            about["cost"] = {**cost.values, **counts}
        self.computed.append(stage)
        if stage.kind == "measure":
            self.numbers[stage.key] = self.store.get("measure", stage.key).json("number.json")

    def _fail(self, stage: Stage, error: Exception) -> None:
        log = self.store.log_failure(stage.kind, stage.key, "".join(traceback.format_exception(error)))
        text = str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
        self.failures[stage.key] = f"{stage.kind} of {stage.label}: {text}"
        if not isinstance(error, BenchError):
            self._warn(f"the traceback of the failure is in {log}")

    def _folder(self, out: Path, started: str) -> Path:
        """Make and return a new folder for the run."""
        name = f"{self.suite.label.replace('/', '-')}-{started}"
        for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
            folder = out / f"{name}{suffix}"
            if not folder.exists():
                folder.mkdir(parents=True)
                return folder
        raise BenchError(f"{out} holds a thousand runs of this second. Give another folder by --out.")
