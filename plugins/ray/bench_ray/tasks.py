"""Code that runs in Ray's processes: stages, and the actor that collects their progress."""

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

PROGRESS_SECONDS = 0.5  # minimum interval between progress messages


class Board:
    """Stores the last progress message and all events of each stage until they are fetched."""

    def __init__(self) -> None:
        self.progress: dict[str, tuple[str, float]] = {}
        self.events: dict[str, list[str]] = {}

    def say(self, key: str, text: str, share: float) -> None:
        """Store the progress of a stage."""
        self.progress[key] = text, share

    def last(self, key: str) -> tuple[str, float] | None:
        """Return the last progress message of a stage if it is new, or None."""
        return self.progress.pop(key, None)

    def add(self, key: str, event: str) -> None:
        """Store an event of a stage for observers of the run."""
        self.events.setdefault(key, []).append(event)

    def take(self, key: str) -> list[str]:
        """Return the new events of a stage."""
        return self.events.pop(key, [])


@dataclass
class ProgressMessages:
    """Forwards progress messages of a stage at limited intervals."""

    board: Any  # the handle of an actor
    key: str
    last_report: float = 0.0

    def __call__(self, text: str, share: float) -> None:
        now = time.monotonic()
        if now - self.last_report >= PROGRESS_SECONDS:
            self.last_report = now
            self.board.say.remote(self.key, text, share)


def work(request: str, store: str, data: str, board: Any) -> str:
    """Run a stage; request and answer are JSON. Loaded tasks and models stay in the process for the next stage."""
    order = json.loads(request)
    tell = ProgressMessages(board, order["stage"]["key"])
    tell(f"begun on {platform.node()}", 0.0)
    sent: list[Any] = []

    def hear(event: Event) -> None:
        sent.append(board.add.remote(order["stage"]["key"], json.dumps(event_to_json(event))))

    answer = carry_out(order, Path(store), Path(data), tell, hear)
    with suppress(RayError):  # events are optional
        ray.get(sent[-1:])  # calls are ordered, so all events arrive before the answer
    return json.dumps(answer)
