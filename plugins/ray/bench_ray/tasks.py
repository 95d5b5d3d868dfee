"""The code that runs in Ray's processes: stages, and the actor that collects their progress."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_core import carry_out

PAUSE = 0.5  # seconds between two words of a stage


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


def work(request: str, store: str, data: str, board: Any) -> str:
    """Perform an order; it and the answer are JSON. What was loaded is kept for the next stage in this process."""
    asked = json.loads(request)
    tell = Teller(board, asked["stage"]["key"])
    tell(f"begun on {platform.node()}", 0.0)
    return json.dumps(carry_out(asked, Path(store), Path(data), tell))
