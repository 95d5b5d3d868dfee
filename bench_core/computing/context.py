"""What a stage has access to: the store, its request, and the cached task and model."""

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

Tell: TypeAlias = Callable[[str, float], None]  #: hears what is going on, and the share that is done

Inputs: TypeAlias = dict[str, dict[str, str]]  #: digests by sort and name


@dataclass(frozen=True)
class Peer:
    """Which of the processes of a training on several devices this is, if it is not the first."""

    rank: int
    place: str  # file by which they find each other


@dataclass
class StageContext:
    """What stages work with; the last task and model stay loaded for the next stages."""

    store: Store
    data: Path
    tell: Tell = lambda text, share: None
    hear: Hear = silent  # hears of updates and evaluations, if the request says that somebody does
    request: StageRequest | None = None  # what is being performed, and for how long
    begun: Callable[[], None] = lambda: None  # hears that there is nothing left to wait for
    peer: Peer | None = None  # one of several processes that perform a training
    home: str = field(default_factory=os.getcwd)  # the working directory of every stage
    inputs: Callable[[], Inputs] = dict  # returns the digests of the undeclared inputs until now
    earlier: Inputs = field(default_factory=dict)  # those of earlier processes of a resumed training
    loaded: dict[str, tuple[str, Any]] = field(default_factory=dict)  # role -> key and what was loaded

    def input(self, stage: Stage, role: str) -> Artifact:
        """Return an input artifact of a stage."""
        return self.store.get(*stage.inputs[role])

    def warn(self, text: str) -> None:
        """Warn about the current stage."""
        self.store.warn(f"{self.request.stage.label}: {text}" if self.request else text)

    def report(self, event: Event) -> None:
        """Report an update or an evaluation to the observers of the run, if there are any."""
        if self.request and self.request.observed:
            self.hear(event)

    def report_progress(self, done: int, total: int) -> None:
        """Report progress; raise Stopped at the time limit."""
        if self.request and self.request.until is not None and time.time() >= self.request.until:
            raise Stopped
        self.tell(f"{done:,} examples", done / total if total else 0)
