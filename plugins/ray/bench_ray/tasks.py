"""The code that runs in Ray's processes: stages, and the actor that collects their progress."""

import json
import platform
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from bench_core import Event, carry_out, event_to_json

PAUSE = 0.5  # seconds between two words of a stage


class Board:
    """Remembers what each stage said last, and all of its events, until somebody asks."""

    def __init__(self) -> None:
        self.said: dict[str, tuple[str, float]] = {}
        self.events: dict[str, list[str]] = {}

    def say(self, key: str, text: str, share: float) -> None:
        """Take note of how far a stage is."""
        self.said[key] = text, share

    def last(self, key: str) -> tuple[str, float] | None:
        """Return what a stage said since the last time, if anything."""
        return self.said.pop(key, None)

    def add(self, key: str, event: str) -> None:
        """Take note of an event of a stage, for observers of the run."""
        self.events.setdefault(key, []).append(event)

    def take(self, key: str) -> list[str]:
        """Return the events of a stage since the last time."""
        return self.events.pop(key, [])


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
    sent: list[Any] = []

    def hear(event: Event) -> None:
        sent.append(board.add.remote(asked["stage"]["key"], json.dumps(event_to_json(event))))

    answer = carry_out(asked, Path(store), Path(data), tell, hear)
    with suppress(RayError):  # what it reported is not worth a failure
        ray.get(sent[-1:])  # calls of one process are in order: they are all there before the answer is
    return json.dumps(answer)
