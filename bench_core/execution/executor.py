"""The interface of executors, which perform stages: in this process, in workers, on other machines."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

from bench_core.computing.context import Inputs
from bench_core.computing.stage_runner import StageRunner, work_of
from bench_core.errors import BenchError, PluginError, Stopped, StoreError
from bench_core.execution.raised_at import raised_at
from bench_core.execution.stage_costs import measured, record, total
from bench_core.execution.undeclared import (
    abridged,
    code_modules,
    digests,
    refusal,
    undeclared,
    warning,
    with_earlier,
)
from bench_core.execution.watching import SHOWN, install
from bench_core.observer import Event, Hear, silent
from bench_core.planning import cache_keys as keys
from bench_core.planning.code_digests import code_digests
from bench_core.planning.hardware import environment
from bench_core.planning.path_settings import placed, unchanged
from bench_core.planning.stage_code import changed_code, meaning_of
from bench_core.planning.stages import Stage, StageRequest
from bench_core.registry import configured
from bench_core.stage_kinds import call
from bench_core.storage.code_listings import write_listing
from bench_core.storage.costs import Costs
from bench_core.storage.store import Store
from input_digests import changed, united
from process_watch import Input, Reading, Watch, observe, reads, remember

Tell: TypeAlias = Callable[[str, float], None]  #: receives what is going on, and the share that is done, 0 to 1

WATCH = Watch()  #: over the code of this process
PAUSE = 0.2  # seconds between two looks for what another machine stored


class StageFailed(Exception):
    """A stage that failed or was stopped; its text is for the user."""

    def __init__(
        self,
        text: str,
        details: str = "",
        expected: bool = False,
        stored: bool = False,
        stopped: bool = False,
        elsewhere: bool = False,
    ) -> None:
        super().__init__(text)
        self.details = details  # such as a traceback
        self.expected = expected  # it says itself what to do: nobody needs the details
        self.stored = stored  # an artifact that it reads may be damaged
        self.stopped = stopped  # time was up: no failure
        self.elsewhere = elsewhere  # it was planned with other code or libraries than are here


def time_up() -> StageFailed:
    """Return the reason of a stage that was stopped by the time limit."""
    return StageFailed("the time limit was reached. Run the suite again to continue.", expected=True, stopped=True)


class Executor(ABC):
    """Performs stages whose inputs are stored, and stores their artifacts."""

    capacity: int  #: how many stages it takes at a time
    local: bool = False  #: whether on this machine alone
    shares_gpus: bool = False  #: whether several stages can be on a GPU
    per_gpu: int = 1  #: stages on a GPU at a time, if it shares them
    warn: Callable[[str], None] = staticmethod(lambda text: None)  #: receives warnings of the store and of stages
    hear: Callable[[Stage, Event], None] = staticmethod(lambda stage, event: None)  #: receives events of trainings

    @abstractmethod
    def submit(self, request: StageRequest, tell: Tell) -> Future[None]:
        """Start a stage; its future raises StageFailed."""

    def has_room(self, stage: Stage, memory: int | None) -> bool:
        """Return whether a stage could begin now, given the bytes that it needs, if known; by default it can."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Stop, including running stages."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


@dataclass
class Here(Executor):
    """Performs stages sequentially in this process."""

    store: Store
    data: Path
    capacity, local = 1, True
    runner: StageRunner | None = None

    def submit(self, request: StageRequest, tell: Tell) -> Future[None]:
        WATCH.uninterrupted = self.runner is not None and not request.observed
        self.runner = self.runner or StageRunner(replace(self.store, warn=self.warn), self.data)
        self.runner.tell, self.runner.hear = _apart(tell), _apart(partial(self.hear, request.stage))
        future: Future[None] = Future()
        try:
            perform(self.runner, request)
            future.set_result(None)
        except StageFailed as failure:
            future.set_exception(failure)
        return future

    def close(self) -> None:
        self.runner = None


def _apart(listen: Callable[..., None]) -> Callable[..., None]:
    """Return a listener whose reads are not inputs of the stage."""

    def listening(*event: Any) -> None:
        with reads():
            listen(*event)

    return listening


_kept: dict[tuple[Path, Path], StageRunner] = {}  # by store and data: that of the last order, with what it loaded


def carry_out(request: Mapping[str, Any], store: Path, data: Path, tell: Tell, hear: Hear = silent) -> dict[str, Any]:
    """Perform a `StageRequest.to_json` in this process; return the result as JSON data, for `check_answer`.

    `hear` receives updates and evaluations if the request is `observed`; an executor passes them on to its own
    `hear`. The result lists warnings as `warned`. Loaded tasks and models are kept for the next request on the same
    store.
    """
    warned: list[str] = []
    WATCH.hosted, WATCH.uninterrupted = True, False
    runner = _kept.get((store, data)) or StageRunner(Store(store), data)
    _kept.clear()
    _kept[store, data] = runner
    runner.store, runner.tell, runner.hear = Store(store, warn=warned.append), tell, hear
    return {**answer(request, runner), "warned": warned}


def answer(request: Mapping[str, Any], runner: StageRunner) -> dict[str, Any]:
    """Perform a `StageRequest.to_json`; return the result as JSON data, for `check_answer`."""
    asked = StageRequest.from_json(request)
    try:
        if asked.again is None:
            _check_same(asked.stage)
        perform(runner, asked)
    except StageFailed as failure:
        return {"failed": {"text": str(failure), **vars(failure)}, **_spoilt()}
    return {"done": True, **_spoilt()}


def _spoilt() -> dict[str, bool]:
    return {"spoilt": True} if WATCH.spoilt else {}


def _check_same(stage: Stage) -> None:
    """Raise StageFailed unless code and libraries are the same as where the run was planned.

    Otherwise results of other code, on another machine or after an edit, would be stored under its key.
    """
    differing = [f"the code of {name}" for name in changed_code(stage.code, stage.roots, stage.settings)]
    for name, version in stage.libraries.items():
        differing += [] if keys.library(name) == version else [f"{name} ({keys.library(name)}, not {version})"]
    if differing:
        raise StageFailed(
            f"{', '.join(differing)}: not the same on {platform.node()} as where the run began, or changed since. "
            "Install the same versions on every machine, and run the suite again.",
            expected=True,
            elsewhere=True,
        )


def check_answer(answer: Mapping[str, Any]) -> None:
    """Raise StageFailed if the answer of `carry_out` is a failure."""
    if "failed" in answer:
        raise StageFailed(**answer["failed"])


def await_artifact(store: Path, stage: Stage, seconds: float = 60.0) -> None:
    """Wait until an artifact stored by another machine is visible here; raise StageFailed after `seconds`.

    Network file systems cache that a file does not exist; listing its folder refreshes the cache.
    """
    kept, end = Store(store), time.monotonic() + seconds
    while not kept.has(stage.kind, stage.key):
        if time.monotonic() >= end:
            raise StageFailed(
                f"it finished, but its artifact is not in {store} on this machine ({platform.node()}). Keep the "
                "store on a file system that all machines see at the same place.",
                expected=True,
            )
        with suppress(OSError):
            os.listdir(kept.root / stage.kind)
        time.sleep(PAUSE)


def perform(runner: StageRunner, request: StageRequest) -> None:
    """Perform a stage and store its artifact, or only build its model; raise StageFailed on any error."""
    with meaning_of(request.stage):
        _perform(runner, request)


def _perform(runner: StageRunner, request: StageRequest) -> None:
    stage, runner.request = request.stage, request
    try:
        if request.build:
            with _unchanged(stage, runner.data), _watched(runner, stage), _remembering(runner, stage) as found:
                observe(lambda: runner.build(stage), found, runner.home, runner.store.root)
        elif request.calibrate is not None:
            seconds = request.calibrate
            with _unchanged(stage, runner.data), _watched(runner, stage), _remembering(runner, stage) as found:
                speed = observe(lambda: runner.calibrate(stage, seconds), found, runner.home, runner.store.root)
                Costs(runner.store).write(request.cost_key, speed)
        elif request.again is not None:
            if request.same_code:
                _check_same(stage)
            with _watched(runner, stage):
                runner.perform(stage, Path(request.again))
        else:
            _make(runner, request)
    except Stopped:
        raise time_up() from None
    except StageFailed:
        raise
    except Exception as error:  # whatever a plugin raises
        known = isinstance(error, BenchError)
        text = str(error) if known else f"{type(error).__name__}: {error}{raised_at(error)}"
        details = "".join(traceback.format_exception(error))
        raise StageFailed(text, details, known, isinstance(error, StoreError)) from None


def _unchanged(stage: Stage, data: Path) -> AbstractContextManager[None]:
    """Raise DataError unless all files that a stage reads are the planned ones, before and after."""
    places, reads, task = stage.places, {}, None
    if stage.about.first:
        task, reads = configured("task", placed(stage.settings["task"], places)), stage.settings.get("data", {})
    return unchanged(places, task, reads, data)


def _make(runner: StageRunner, request: StageRequest) -> None:
    """Compute and store the artifact of a stage, unless another run already did."""
    stage = request.stage
    store, about = runner.store, {"label": stage.label, "ingredients": stage.ingredients}
    with store.lock(stage.kind, stage.key, lambda: runner.tell("another run is computing it", 0.0)):
        if store.has(stage.kind, stage.key):
            if not (names := store.changed_inputs(stage.kind, stage.key)):
                return
            store.warn(f"{stage.kind} of {stage.label} is computed again because {', '.join(names)} changed.")
            store.set_aside(stage.kind, stage.key)
        for name, digest in stage.code.items():
            write_listing(store, digest, partial(code_digests().listing, stage.roots[name]))
        with store.writing(stage.kind, stage.key, about) as folder:
            with (
                _watched(runner, stage),
                _unchanged(stage, runner.data),
                _remembering(runner, stage) as found,
                measured() as cost,
            ):
                runner.earlier, runner.inputs = {}, partial(_observed, runner, request, found, tell=False)
                counts = observe(lambda: runner.perform(stage, folder), found, runner.home, store.root, folder)
            about["provenance"] = environment(stage.settings)
            about["observed"] = _observed(runner, request, found)
            about["cost"] = spent = total(cost, counts)
        record(store, request, spent)
        if stage.about.stored:
            call(stage.about.stored, store, stage)


@contextmanager
def _watched(runner: StageRunner, stage: Stage) -> Iterator[None]:
    """Raise StageFailed after the block if it replaced code; restore the code and the settings of the process."""
    install()
    work_of(stage.about)  # with torch, if it computes with that
    observed = runner.request is not None and runner.request.observed
    WATCH.lenient = not WATCH.exclusive and (observed or WATCH.hosted)
    WATCH.begin()
    if remains := [*WATCH.lost, *(f"the thread {name}" for name in WATCH.threads.left.values())]:
        raise StageFailed(
            f"an earlier stage left changes in this process that may affect results: {', '.join(remains[:SHOWN])}. "
            "Run with --workers 1, which ends the process after such a stage.",
            expected=True,
        )
    failure, modules = "", code_modules(stage)
    try:
        yield
    except Exception as error:
        failure = f" The stage also failed with {type(error).__name__}: {error}"
        raise
    finally:
        try:
            names, restored, lingering = WATCH.end(modules)
            WATCH.spoilt = WATCH.spoilt or bool(names or lingering or WATCH.lost)
        except BaseException:
            WATCH.spoilt = True
            WATCH.lost.append("code that could not be compared")
            raise
        if restored:
            runner.warn(f"it changed {', '.join(restored)}, which is restored before the next stage.")
        if lingering:
            fate = (
                "so its process ends" if WATCH.exclusive else "and other stages fail while they run: use --workers 1"
            )
            runner.warn(f"it left threads running ({', '.join(lingering)}), {fate}.")
        if names:
            _forget_results()
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise StageFailed(
                f"it replaced {', '.join(names[:SHOWN])}{more}, which other stages use, too. Nothing was "
                f"stored. A part must modify only its own objects, or restore what it replaces.{failure}",
                expected=True,
            )


def _forget_results() -> None:
    """Clear the caches of functions that compute, since replaced code may have filled them."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("bench_core.computing") or name.partition(".")[0] in WATCH.packages:
            for value in [*vars(module).values()]:
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


@contextmanager
def _remembering(runner: StageRunner, stage: Stage) -> Iterator[dict[Input, Reading]]:
    """Yield a mapping for the inputs of a stage; afterwards, reduce it to the undeclared ones and remember them."""
    found: dict[Input, Reading] = {}
    try:
        yield found
    finally:
        kept = undeclared(stage, {**found}, runner.data)
        found.clear()
        found.update(kept)
        remember(kept)


def _observed(
    runner: StageRunner, request: StageRequest, found: Mapping[Input, Reading], tell: bool = True
) -> Inputs:
    """Return the undeclared inputs of a stage until now, of its input artifacts, and of what it continues from."""
    stage = request.stage
    with reads():  # what this reads is none of its inputs
        inputs = with_earlier(stage, undeclared(stage, {**found}, runner.data), runner.data)
        if why := refusal(inputs, request.strict):
            raise StageFailed(why, expected=True)
        kept = digests(inputs)
        if (told := warning(inputs)) and tell:
            runner.warn(told)
        before = [runner.store.kept(*one).manifest.get("observed", {}) for one in stage.inputs.values()]
        moved = changed(runner.earlier)
    if moved:
        raise PluginError(
            f"{abridged(moved)}: changed after the training had read it, so nothing was stored. Run the suite again."
        )
    return united([*before, runner.earlier, kept])
