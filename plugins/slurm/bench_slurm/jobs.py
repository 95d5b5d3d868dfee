"""Code that runs in a job: one stage, and the files that report its progress."""

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

ANSWER, PROGRESS, EVENTS = "answer.json", "told.json", "events.jsonl"  # files in the folder of a job
REPORT_SECONDS = 1.0  # minimum interval between progress messages


def job(request: str, store: str, data: str, place: str, seconds: float | None) -> None:
    """Call `perform` in a separate process; on termination, no file is left incomplete."""
    # submitit would ignore the first of these signals, and requeue the job on the others.
    signal.signal(signal.SIGTERM, _end)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    perform(request, store, data, place, seconds)


def perform(request: str, store: str, data: str, place: str, seconds: float | None) -> None:
    """Run a stage from a JSON request; write progress and then the answer to the folder `place`.

    After `seconds`, training stops at a checkpoint.
    """
    order = json.loads(request)
    if seconds is not None and StageRequest.from_json(order).stage.about.trains:
        order["until"] = min(time.time() + seconds, order["until"] or float("inf"))
    events = EventWriter(Path(place) / EVENTS)
    answer = carry_out(order, Path(store), Path(data), ProgressFile(Path(place)), events)
    events.flush()  # before writing the answer, because later events would not be read
    _write(Path(place) / ANSWER, answer)


@dataclass
class ProgressFile:
    """Writes progress messages of a stage at limited intervals."""

    place: Path
    last_report: float = 0.0

    def __call__(self, text: str, share: float) -> None:
        now = time.monotonic()
        if now - self.last_report >= REPORT_SECONDS:
            self.last_report = now
            _write(self.place / PROGRESS, [text, share])


@dataclass
class EventWriter:
    """Appends events for observers of the run to a file, at limited intervals and in whole lines."""

    path: Path
    lines: list[str] = field(default_factory=list)  # lines not yet written
    last_write: float = 0.0

    def __call__(self, event: Event) -> None:
        self.lines.append(json.dumps(event_to_json(event)) + "\n")
        if time.monotonic() - self.last_write >= REPORT_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all events."""
        if self.lines:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(self.lines)
            self.lines.clear()
        self.last_write = time.monotonic()


@dataclass
class EventReader:
    """Reads the complete lines of an event file, each once."""

    path: Path
    read: int = 0  # number of bytes read

    def __call__(self) -> list[Event]:
        """Return the events since the last call; empty if the file does not exist yet."""
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
    """Return the content of a JSON file, or None if it does not exist yet; bypasses network file system caches."""
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
    signal.signal(number, signal.SIG_IGN)  # do not interrupt the cleanup
    sys.exit(1)
