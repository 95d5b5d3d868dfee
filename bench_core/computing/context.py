"""The context of a stage: the store, its request, and the cached task and model."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from bench_core.errors import Stopped
from bench_core.observer import Event, Hear, silent
from bench_core.planning.stages import Stage, StageRequest
from bench_core.storage.store import Artifact, Store

Inputs: TypeAlias = dict[str, dict[str, str]]  #: digests by kind and name


@dataclass(frozen=True)
class Peer:
    """The role of a process other than the first in training on several devices."""

    rank: int
    place: str  # rendezvous file


@dataclass
class StageContext:
    """The context of stages; the last task and model stay loaded for later stages."""

    store: Store
    data: Path
    tell: Callable[[str, float], None] = lambda text, share: None  # receives progress and the completed fraction
    hear: Hear = silent  # receives updates and evaluations if the request is `observed`
    request: StageRequest | None = None  # the current stage and its time limit
    begun: Callable[[], None] = lambda: None  # called when the stage starts to compute
    peer: Peer | None = None  # set in additional processes of a training stage
    home: str = field(default_factory=os.getcwd)  # working directory of every stage
    inputs: Callable[[], Inputs] = dict  # returns the digests of undeclared inputs so far
    earlier: Inputs = field(default_factory=dict)  # undeclared inputs of a training run before it resumed
    loaded: dict[str, tuple[str, Any]] = field(default_factory=dict)  # role -> key and loaded object

    def input(self, stage: Stage, role: str) -> Artifact:
        """Return an input artifact of a stage."""
        return self.store.get(*stage.inputs[role])

    def warn(self, text: str) -> None:
        """Warn about the current stage."""
        self.store.warn(f"{self.request.stage.label}: {text}" if self.request else text)

    def report(self, event: Event) -> None:
        """Report an update or evaluation if the run has observers."""
        if self.request and self.request.observed:
            self.hear(event)

    def report_progress(self, done: int, total: int) -> None:
        """Report progress; raise Stopped at the time limit."""
        if self.request and self.request.until is not None and time.time() >= self.request.until:
            raise Stopped
        self.tell(f"{done:,} examples", done / total if total else 0)
