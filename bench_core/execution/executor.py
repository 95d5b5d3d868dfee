"""The interface of executors, which perform stages in this process, in workers or on other machines."""

import os
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

from bench_core.computing.stage_runner import StageRunner
from bench_core.execution.failures import StageFailed
from bench_core.execution.performing import WATCH, check_same, perform
from bench_core.observer import Event, Hear, silent
from bench_core.planning.stages import Stage, StageRequest
from bench_core.storage.store import Store
from process_watch import reads

#: Receives a description of progress and the completed fraction (0 to 1).
Tell: TypeAlias = Callable[[str, float], None]

POLL_SECONDS = 0.2  # interval between checks for an artifact stored by another machine


class Executor(ABC):
    """Performs stages whose inputs are stored, and stores their artifacts."""

    capacity: int  #: maximum number of concurrent stages
    local: bool = False  #: whether all stages run on this machine
    shares_gpus: bool = False  #: whether stages can share a GPU
    per_gpu: int = 1  #: maximum number of concurrent stages on a GPU, if they share it
    warn: Callable[[str], None] = staticmethod(lambda text: None)  #: receives warnings of the store and of stages
    hear: Callable[[Stage, Event], None] = staticmethod(lambda stage, event: None)  #: receives training events

    @abstractmethod
    def submit(self, request: StageRequest, tell: Tell) -> Future[None]:
        """Start a stage; its future raises StageFailed."""

    def has_room(self, stage: Stage, memory: int | None) -> bool:
        """Return whether a stage that needs `memory` bytes (None if unknown) can start now; true by default."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Stop the executor and all running stages."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


@dataclass
class InProcess(Executor):
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
    """Return a listener whose reads do not count as inputs of the stage."""

    def listening(*event: Any) -> None:
        with reads():
            listen(*event)

    return listening


_runners: dict[tuple[Path, Path], StageRunner] = {}  # (store, data) -> the last runner, with loaded objects


def carry_out(request: Mapping[str, Any], store: Path, data: Path, tell: Tell, hear: Hear = silent) -> dict[str, Any]:
    """Perform a stage request from `StageRequest.to_json` in this process; return JSON data for `check_answer`.

    `hear` receives updates and evaluations if the request is `observed`; executors pass them on to their own `hear`.
    The result lists warnings under `warned`. Tasks and models stay loaded for the next request on the same store.
    """
    warned: list[str] = []
    WATCH.hosted, WATCH.uninterrupted = True, False
    runner = _runners.get((store, data)) or StageRunner(Store(store), data)
    _runners.clear()
    _runners[store, data] = runner
    runner.store, runner.tell, runner.hear = Store(store, warn=warned.append), tell, hear
    return {**answer(request, runner), "warned": warned}


def answer(request: Mapping[str, Any], runner: StageRunner) -> dict[str, Any]:
    """Perform a stage request from `StageRequest.to_json`; return the result as JSON data for `check_answer`."""
    parsed = StageRequest.from_json(request)
    result: dict[str, Any] = {"done": True}
    try:
        if parsed.again is None:
            check_same(parsed.stage)
        perform(runner, parsed)
    except StageFailed as failure:
        result = {"failed": {"text": str(failure), **vars(failure)}}
    return {**result, "spoilt": True} if WATCH.spoilt else result


def check_answer(answer: Mapping[str, Any]) -> None:
    """Raise StageFailed if the result of `carry_out` is a failure."""
    if "failed" in answer:
        raise StageFailed(**answer["failed"])


def await_artifact(store: Path, stage: Stage, seconds: float = 60.0) -> None:
    """Wait until an artifact stored by another machine is visible here; raise StageFailed after `seconds`.

    Network file systems cache the absence of files; listing the folder refreshes the cache.
    """
    opened, end = Store(store), time.monotonic() + seconds
    while not opened.has(stage.kind, stage.key):
        if time.monotonic() >= end:
            raise StageFailed(
                f"it finished, but its artifact is not in {store} on this machine ({platform.node()}). Put the store "
                "on a file system with the same path on all machines.",
                expected=True,
            )
        with suppress(OSError):
            os.listdir(opened.root / stage.kind)
        time.sleep(POLL_SECONDS)
