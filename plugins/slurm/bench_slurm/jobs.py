"""The code that runs in a job: one stage, and the files that report its progress."""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from bench_core import Event, StageRequest, carry_out, event_from_json, event_to_json

ANSWER, TOLD, EVENTS = "answer.json", "told.json", "events.jsonl"  # in the folder of a job
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
    if seconds is not None and StageRequest.from_json(asked).stage.about.trains:
        asked["until"] = min(time.time() + seconds, asked["until"] or float("inf"))
    events = EventWriter(Path(place) / EVENTS)
    answer = carry_out(asked, Path(store), Path(data), Teller(Path(place)), events)
    events.flush()  # before the answer, after which nobody reads
    _write(Path(place) / ANSWER, answer)


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


@dataclass
class EventWriter:
    """Appends what observers of the run are to hear to a file, now and then, in whole lines."""

    path: Path
    lines: list[str] = field(default_factory=list)  # not yet written
    written: float = 0.0  # when it last wrote

    def __call__(self, event: Event) -> None:
        self.lines.append(json.dumps(event_to_json(event)) + "\n")
        if time.monotonic() - self.written >= PAUSE:
            self.flush()

    def flush(self) -> None:
        """Write all events."""
        if self.lines:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(self.lines)
            self.lines.clear()
        self.written = time.monotonic()


@dataclass
class EventReader:
    """Reads the whole lines of a file of events, each once."""

    path: Path
    read: int = 0  # bytes

    def __call__(self) -> list[Event]:
        """Return the events since the last call; none where there is no file yet."""
        try:
            os.listdir(self.path.parent)
            with self.path.open("rb") as file:
                file.seek(self.read)
                *lines, _ = file.read().split(b"\n")
        except OSError:
            return []
        self.read += sum(len(line) + 1 for line in lines)
        return [event_from_json(json.loads(line)) for line in lines]


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
