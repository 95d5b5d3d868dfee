"""The code that runs in a job: one stage, and the files that report its progress."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from bench_core import carry_out

ANSWER, TOLD = "answer.json", "told.json"  # in the folder of a job
PAUSE = 1.0  # seconds between two words of a stage


def job(request: str, store: str, data: str, place: str, seconds: float | None) -> None:
    """Do what `perform` does in a process of its own; told to end, it leaves nothing half-written."""
    # submitit would ignore the one, and have the job begin again on the other, in place of Slurm.
    signal.signal(signal.SIGTERM, _end)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    perform(request, store, data, place, seconds)


def perform(request: str, store: str, data: str, place: str, seconds: float | None) -> None:
    """Perform an order, which is JSON; leave in the folder `place` how far it is, and then the answer.

    A training stops at a checkpoint after so many seconds.
    """
    asked = json.loads(request)
    if seconds is not None and asked["stage"]["kind"] in ("train", "together"):
        asked["until"] = min(time.time() + seconds, asked["until"] or float("inf"))
    _write(Path(place) / ANSWER, carry_out(asked, Path(store), Path(data), Teller(Path(place))))


@dataclass
class Teller:
    """Passes on what a stage tells, now and then: a training tells of every step."""

    place: Path
    told: float = 0.0

    def __call__(self, text: str, share: float) -> None:
        now = time.monotonic()
        if now - self.told >= PAUSE:
            self.told = now
            _write(self.place / TOLD, [text, share])


def read(path: Path) -> Any:
    """Return what a file holds, or None where there is none yet; even where a file system remembers that too long."""
    try:
        os.listdir(path.parent)
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write(path: Path, content: Any) -> None:
    """Write a file atomically."""
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: cleaning up is not to be interrupted
    sys.exit(1)
