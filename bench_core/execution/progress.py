"""Progress of a run: one status line on a terminal, plain lines elsewhere; and its remaining time.

The remaining time is estimated from stages that take equally long, such as other seeds of a training: those of this
run, or those of earlier ones and calibrations, as predicted.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from threading import Lock
from typing import Any

from bench_core.planning.stages import Stage
from bench_core.terminal import legible, say

PAUSE = 15.0  #: seconds between plain lines about the same stage
BLINK = 0.2  #: seconds between changes of the line on a terminal
WAITING = "another run is computing it"  #: what stages tell once, however soon after their beginning
LEAST = 0.01  #: share of a stage that must be done before its own pace counts


@dataclass(frozen=True)
class Work:
    """A stage to do: those of a `group`, such as seeds of a training, take equally long."""

    group: str
    seconds: float | None = None  # predicted


@dataclass
class Running:
    """A running stage."""

    work: Work
    kind: str
    begun: float  # seconds, of the caller's clock
    share: float = 0.0  # done
    head: str = ""  # what is said of it at first
    text: str = ""  # what is said of it by now
    told: float = 0.0  # when that was

    def pace(self, now: float) -> float | None:
        """Return the estimated total seconds at the current rate."""
        return (now - self.begun) / self.share if self.share >= LEAST else None


@dataclass
class Remaining:
    """The unfinished stages of a run, and how long each takes: by others of its group, else as predicted."""

    works: Mapping[str, Work]  # of all stages to do, by key
    side_by_side: int = 1  # stages that run at a time
    waiting: dict[str, Work] = field(init=False)
    running: dict[str, Running] = field(default_factory=dict)
    ended: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # by group

    def __post_init__(self) -> None:
        self.waiting = {**self.works}

    def begin(self, key: str, kind: str, now: float, head: str = "") -> None:
        """Record that a stage starts."""
        self.waiting.pop(key, None)
        self.running[key] = Running(self.works.get(key, Work(key)), kind, now, head=head, told=now)

    def tell(self, key: str, share: float) -> Running | None:
        """Record the finished share of a stage; return the stage, or None if it has ended."""
        stage = self.running.get(key)
        if stage:
            stage.share = share
        return stage

    def end(self, key: str, now: float) -> None:
        """Record that a stage has ended."""
        stage = self.running.pop(key)
        self.ended[stage.work.group].append(now - stage.begun)

    def left(self, now: float) -> tuple[float, bool] | None:
        """Return the remaining seconds, and whether all stages are included; None if unknown or none are waiting."""
        rest = self._under_way(now)
        expected = self._expected_by_group(now)
        found = [expected[work.group] for work in self.waiting.values()]
        total = sum(rest) + sum(seconds for seconds in found if seconds)
        if not found or not total:
            return None
        return max([total / max(1, self.side_by_side), *rest]), None not in found

    def _under_way(self, now: float) -> list[float]:
        """Return the remaining seconds of each running stage, by its own rate, its group, or as predicted."""
        found = []
        for stage in self.running.values():
            whole = stage.pace(now) or self._expected(stage.work, now)
            found.append(max(0.0, whole - (now - stage.begun)) if whole else 0.0)
        return found

    def _expected_by_group(self, now: float) -> dict[str, float | None]:
        """Return the expected seconds of the stages that wait, once for each group."""
        groups = {work.group: work for work in self.waiting.values()}
        return {group: self._expected(work, now) for group, work in groups.items()}

    def _expected(self, work: Work, now: float) -> float | None:
        """Return the expected seconds of a stage: by its group in this run, at its current rate, or as predicted."""
        if self.ended[work.group]:
            return median(self.ended[work.group])
        own = (stage for stage in self.running.values() if stage.work.group == work.group)
        paces = [pace for stage in own if (pace := stage.pace(now))]
        return median(paces) if paces else work.seconds


class Progress:
    """Receives the events of a run, and prints nothing."""

    def expect(self, works: Mapping[str, Work], side_by_side: int) -> None:
        """Receive the stages to do, by key, and how many run at a time."""

    def begin(self, stage: Stage, number: int, total: int) -> None:
        """A stage starts."""

    def tell(self, stage: Stage, text: str, share: float) -> None:
        """A stage reports its progress, from any thread."""

    def end(self, stage: Stage, seconds: float, failure: str | None) -> None:
        """A stage has ended."""

    def warn(self, text: str) -> None:
        """Receive a warning for the reader of the results."""

    def stop(self, text: str) -> None:
        """The run is interrupted, and its stages are about to be ended; what it has stored."""


class Errors(Progress):
    """Prints only that the run was interrupted."""

    def stop(self, text: str) -> None:
        """Print what the run has stored."""
        say(f"interrupted: {text}", err=True)


class Lines(Progress):
    """Prints the running stages; metrics, which are short, only if they fail."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.live: Any = None
        self.remaining = Remaining({})
        self.lock = Lock()

    def __enter__(self) -> Lines:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.status import Status

            self.live = Status(_plain(self.label), console=Console(stderr=True))
            self.live.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if self.live:
            self.live.stop()

    def expect(self, works: Mapping[str, Work], side_by_side: int) -> None:
        """Record the stages to do, for the remaining time."""
        self.remaining = Remaining(works, side_by_side)

    def begin(self, stage: Stage, number: int, total: int) -> None:
        """Print the stage and its number."""
        now, head = time.monotonic(), f"[{number}/{total}] {stage.action} {stage.label}"
        with self.lock:
            self.remaining.begin(stage.key, stage.kind, now, head)
            if self.live:
                self._show()
            elif not stage.about.brief:
                self._print(head)

    def tell(self, stage: Stage, text: str, share: float) -> None:
        """Print its progress and remaining time."""
        now = time.monotonic()
        with self.lock:
            line = self.remaining.tell(stage.key, share)
            if line is None or (text != WAITING and now - line.told < (BLINK if self.live else PAUSE)):
                return
            line.told = now
            left = (now - line.begun) * (1 - share) / share if 0.01 < share < 1 else None
            line.text = text if left is None else f"{text}, {duration(left)} left"
            if self.live:
                self._show()
            elif stage.about.brief:  # of which nothing has been said
                self._print(f"{line.head}: {line.text}")
            else:
                self._print(f"    {self._name(line)}{line.text}{self._left(now)}")

    def end(self, stage: Stage, seconds: float, failure: str | None) -> None:
        """Print how long it took, or why it failed."""
        now = time.monotonic()
        with self.lock:
            line = self.remaining.running[stage.key]
            name = self._name(line)
            self.remaining.end(stage.key, now)
            if failure:
                self._print(f"{line.head}: failed. {failure}")
            elif self.live and not stage.about.brief:
                self._print(f"{line.head}: {duration(seconds)}")
            elif not stage.about.brief:
                self._print(f"    {name}{duration(seconds)}{self._left(now)}")

    def _show(self) -> None:
        """Update the status line with all running stages."""
        parts = (f"{line.head}{f': {line.text}' if line.text else ''}" for line in self.remaining.running.values())
        self.live.update(_plain(("   ".join(parts) or self.label) + self._left(time.monotonic())))

    def _left(self, now: float) -> str:
        """Return the remaining time of the run as text, if known."""
        found = self.remaining.left(now)
        return f"; {'about' if found[1] else 'at least'} {duration(found[0])} left in all" if found else ""

    def _name(self, line: Running) -> str:
        """Return the number of a stage if others are running too."""
        return f"{line.head.partition(' ')[0]} " if len(self.remaining.running) > 1 else ""

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._print(f"warning: {text}")

    def stop(self, text: str) -> None:
        """Print what the run has stored."""
        self._print(f"interrupted: {text}")

    def _print(self, text: str) -> None:
        if self.live:
            self.live.console.print(_plain(text), highlight=False)
        else:
            say(text, err=True)


def _plain(text: str) -> str:
    """Return text without markup of rich or control characters."""
    from rich.markup import escape

    return escape(legible(text))


def duration(seconds: float) -> str:
    """Return a duration as text."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
