"""Where stages are performed: in this process, in worker processes, on other machines; all over one store."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from bench_core.costs import Cost
from bench_core.errors import BenchError, StoreError
from bench_core.provenance import environment
from bench_core.store import Store

if TYPE_CHECKING:
    from bench_core.plan import Stage
    from bench_core.stages import Workshop

Tell: TypeAlias = Callable[[str, float], None]  # what is going on, and the share that is done


class StageFailed(Exception):
    """A stage was not done; its text is for people."""

    def __init__(self, text: str, details: str = "", expected: bool = False, stored: bool = False) -> None:
        super().__init__(text)
        self.details = details  # such as a traceback
        self.expected = expected  # it says itself what to do: nobody needs the details
        self.stored = stored  # an artifact that it reads may be damaged


class Executor(ABC):
    """Performs stages whose inputs are stored, and leaves their artifacts in the store."""

    capacity: int  #: how many stages it takes at a time
    warn: Callable[[str], None] = staticmethod(lambda text: None)  #: hears of what the store makes of its artifacts

    @abstractmethod
    def submit(self, stage: Stage, tell: Tell, build: bool = False) -> Future[None]:
        """Begin a stage; its future raises StageFailed. With `build` only try to build the model that it trains."""

    @abstractmethod
    def close(self) -> None:
        """Stop, whatever is under way."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class Here(Executor):
    """Performs stages in this process, one after the other."""

    store: Store
    data: Path
    capacity = 1
    workshop: Workshop | None = field(default=None)

    def submit(self, stage: Stage, tell: Tell, build: bool = False) -> Future[None]:
        from bench_core.stages import Workshop

        self.workshop = self.workshop or Workshop(replace(self.store, warn=self.warn), self.data)
        self.workshop.tell = tell
        future: Future[None] = Future()
        try:
            perform(self.workshop, stage, build)
            future.set_result(None)
        except StageFailed as failure:
            future.set_exception(failure)
        return future

    def close(self) -> None:
        self.workshop = None


def order_of(stage: Stage, build: bool = False) -> dict[str, Any]:
    """Return a stage as JSON data, for whoever performs it elsewhere."""
    return {"stage": asdict(stage), "build": build}


def carry_out(order: Mapping[str, Any], workshop: Workshop) -> dict[str, Any]:
    """Perform what `order_of` gave; return as JSON data how it went, for `check_answer`."""
    from bench_core.plan import stage_from_json

    try:
        perform(workshop, stage_from_json(order["stage"]), order["build"])
    except StageFailed as failure:
        return {"failed": {"text": str(failure), **vars(failure)}}
    return {"done": True}


def check_answer(answer: Mapping[str, Any]) -> None:
    """Raise StageFailed if what `carry_out` returned says so."""
    if "failed" in answer:
        raise StageFailed(**answer["failed"])


def perform(workshop: Workshop, stage: Stage, build: bool = False) -> None:
    """Do a stage and store its artifact, or try to build its model; raise StageFailed if anything goes wrong."""
    from bench_core.stages import check_builds

    try:
        if build:
            facts = workshop.store.get(*stage.inputs["task"]).json("facts.json")
            check_builds(stage.settings["model"], facts, workshop.data)
        else:
            _make(workshop, stage)
    except Exception as error:  # whatever a plugin raises
        known = isinstance(error, BenchError)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        details = "".join(traceback.format_exception(error))
        raise StageFailed(text, details, known, isinstance(error, StoreError)) from None


def _make(workshop: Workshop, stage: Stage) -> None:
    """Store the artifact of a stage, unless another run was faster."""
    store, about = workshop.store, {
        "label": stage.label, "ingredients": stage.ingredients, "provenance": environment(stage.settings),
    }  # fmt: skip
    with store.lock(stage.kind, stage.key, lambda: workshop.tell("another run is at work on it", 0.0)):
        if store.has(stage.kind, stage.key):
            return
        with store.writing(stage.kind, stage.key, about) as folder:
            with Cost() as cost:
                counts = workshop.perform(stage, folder)
            about["cost"] = {**cost.values, **counts}
