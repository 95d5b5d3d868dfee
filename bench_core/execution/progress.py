"""Progress and remaining time of a run: a status line on a terminal, plain lines elsewhere.

The remaining time is estimated from comparable stages in this run, such as other seeds of a model, or from
predictions based on earlier runs and calibrations.
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

LINE_SECONDS = 15.0  #: minimum time between plain lines about the same stage
REFRESH_SECONDS = 0.2  #: minimum time between updates of the status line
WAITING = "another run is computing it"  #: progress text that is always printed immediately
MIN_SHARE = 0.01  #: fraction of a stage that must be completed before its own pace is used


@dataclass(frozen=True)
class Work:
    """A stage to perform; stages of a `group`, such as seeds of a model, take equally long."""

    group: str
    seconds: float | None = None  # predicted


@dataclass
class Running:
    """A running stage."""

    work: Work
    kind: str
    begun: float  # seconds on the caller's clock
    share: float = 0.0  # completed fraction
    head: str = ""  # first line of output
    text: str = ""  # last progress text
    printed: float = 0.0  # time of that text, in seconds on the caller's clock

    def pace(self, now: float) -> float | None:
        """Return the estimated total seconds at the current rate."""
        return (now - self.begun) / self.share if self.share >= MIN_SHARE else None


@dataclass
class RemainingTime:
    """The unfinished stages of a run and their durations, estimated from their groups or predictions."""

    works: Mapping[str, Work]  # all stages of the run, by key
    side_by_side: int = 1  # number of concurrent stages
    waiting: dict[str, Work] = field(init=False)
    running: dict[str, Running] = field(default_factory=dict)
    ended: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # group -> seconds

    def __post_init__(self) -> None:
        self.waiting = {**self.works}

    def begin(self, key: str, kind: str, now: float, head: str = "") -> None:
        """Record that a stage has started."""
        self.waiting.pop(key, None)
        self.running[key] = Running(self.works.get(key, Work(key)), kind, now, head=head, printed=now)

    def tell(self, key: str, share: float) -> Running | None:
        """Record the completed fraction of a stage; return the stage, or None if it has ended."""
        if stage := self.running.get(key):
            stage.share = share
        return stage

    def end(self, key: str, now: float) -> None:
        """Record that a stage has ended."""
        stage = self.running.pop(key)
        self.ended[stage.work.group].append(now - stage.begun)

    def left(self, now: float) -> tuple[float, bool] | None:
        """Return the remaining seconds and whether they include all stages; None if unknown or if no stage waits."""
        rest, groups = self._rest(now), {work.group: work for work in self.waiting.values()}
        by_group = {group: self._duration(work, now) for group, work in groups.items()}
        durations = [by_group[work.group] for work in self.waiting.values()]
        total = sum(rest) + sum(seconds for seconds in durations if seconds)
        if not durations or not total:
            return None
        return max([total / max(1, self.side_by_side), *rest]), None not in durations

    def _rest(self, now: float) -> list[float]:
        """Estimate the remaining seconds of each running stage from its own pace, its group, or its prediction."""
        rest = []
        for stage in self.running.values():
            whole = stage.pace(now) or self._duration(stage.work, now)
            rest.append(max(0.0, whole - (now - stage.begun)) if whole else 0.0)
        return rest

    def _duration(self, work: Work, now: float) -> float | None:
        """Estimate the seconds of a stage from ended or running stages of its group, or from its prediction."""
        if self.ended[work.group]:
            return median(self.ended[work.group])
        group = (stage for stage in self.running.values() if stage.work.group == work.group)
        paces = [pace for stage in group if (pace := stage.pace(now))]
        return median(paces) if paces else work.seconds


class ProgressDisplay:
    """Receives the events of a run and prints nothing."""

    def expect(self, works: Mapping[str, Work], side_by_side: int) -> None:
        """Receive all stages of the run by key, and the number of concurrent stages."""

    def begin(self, stage: Stage, number: int, total: int) -> None:
        """Receive the start of a stage."""

    def tell(self, stage: Stage, text: str, share: float) -> None:
        """Receive the progress of a stage; called from any thread."""

    def end(self, stage: Stage, seconds: float, failure: str | None) -> None:
        """Receive the end of a stage."""

    def warn(self, text: str) -> None:
        """Receive a warning about results."""

    def stop(self, text: str) -> None:
        """Receive an interruption of the run, with a summary of stored results, before stages are stopped."""


class Errors(ProgressDisplay):
    """Prints interruptions only."""

    def stop(self, text: str) -> None:
        """Print the summary of stored results."""
        say(f"interrupted: {text}", err=True)


class ProgressLines(ProgressDisplay):
    """Prints running stages; brief stages, such as metrics, only if they fail."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.live: Any = None
        self.remaining = RemainingTime({})
        self.lock = Lock()

    def __enter__(self) -> ProgressLines:
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
        """Record the stages of the run, to estimate the remaining time."""
        self.remaining = RemainingTime(works, side_by_side)

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
        """Print the progress and remaining time of a stage."""
        now = time.monotonic()
        with self.lock:
            line, pause = self.remaining.tell(stage.key, share), REFRESH_SECONDS if self.live else LINE_SECONDS
            if line is None or (text != WAITING and now - line.printed < pause):
                return
            line.printed = now
            left = (now - line.begun) * (1 - share) / share if 0.01 < share < 1 else None
            line.text = text if left is None else f"{text}, {duration(left)} left"
            if self.live:
                self._show()
            elif stage.about.brief:  # its start has not been printed
                self._print(f"{line.head}: {line.text}")
            else:
                self._print(f"    {self._name(line)}{line.text}{self._left(now)}")

    def end(self, stage: Stage, seconds: float, failure: str | None) -> None:
        """Print the duration of a stage, or why it failed."""
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
        """Return the remaining time of the run as text; empty if unknown."""
        left = self.remaining.left(now)
        return f"; {'about' if left[1] else 'at least'} {duration(left[0])} left in total" if left else ""

    def _name(self, line: Running) -> str:
        """Return the number of a stage, to be printed before its text; empty if only one stage is running."""
        return f"{line.head.partition(' ')[0]} " if len(self.remaining.running) > 1 else ""

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._print(f"warning: {text}")

    def stop(self, text: str) -> None:
        """Print the summary of stored results."""
        self._print(f"interrupted: {text}")

    def _print(self, text: str) -> None:
        if self.live:
            self.live.console.print(_plain(text), highlight=False)
        else:
            say(text, err=True)


def _plain(text: str) -> str:
    """Return text without rich markup or control characters."""
    from rich.markup import escape

    return escape(legible(text))


def duration(seconds: float) -> str:
    """Return a duration as text."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
