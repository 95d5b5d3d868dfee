"""What runs in the processes of Ray: stages, and the board on which they tell how far they are."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core import carry_out

if TYPE_CHECKING:
    from bench_core.computing.stages import Workshop

PAUSE = 0.5  # seconds between two words of a stage

_kept: dict[tuple[str, str], Workshop] = {}  # by store and data: that of the last stage, with what it loaded


class Board:
    """Remembers what each stage said last, until somebody asks."""

    def __init__(self) -> None:
        self.said: dict[str, tuple[str, float]] = {}

    def say(self, key: str, text: str, share: float) -> None:
        """Take note of how far a stage is."""
        self.said[key] = text, share

    def last(self, key: str) -> tuple[str, float] | None:
        """Return what a stage said since the last time, if anything."""
        return self.said.pop(key, None)


@dataclass
class Teller:
    """Passes on what a stage tells, now and then: a training tells of every step."""

    board: Any  # the handle of an actor
    key: str
    told: float = 0.0

    def __call__(self, text: str, share: float) -> None:
        now = time.monotonic()
        if now - self.told >= PAUSE:
            self.told = now
            self.board.say.remote(self.key, text, share)


def work(order: str, store: str, data: str, board: Any) -> str:
    """Perform an order; it and the answer are JSON. What was loaded is kept for the next stage in this process."""
    from bench_core.computing.stages import Workshop
    from bench_core.storage.store import Store

    asked, warned = json.loads(order), list[str]()
    workshop = _kept.get((store, data)) or Workshop(Store(Path(store)), Path(data))
    _kept.clear()
    _kept[store, data] = workshop
    workshop.store = Store(Path(store), warn=warned.append)
    workshop.tell = Teller(board, asked["stage"]["key"])
    workshop.tell(f"begun on {platform.node()}", 0.0)
    return json.dumps({**carry_out(asked, workshop), "warned": warned})
