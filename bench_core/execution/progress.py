"""What a run tells while it works: one changing line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from bench_core.execution.remaining import Remaining
from bench_core.terminal import legible, say

if TYPE_CHECKING:
    from bench_core.planning.stages import Stage

PAUSE = 15.0  #: seconds between plain lines about the same stage
BRIEF = ("measure", "probe")  # kinds of stages that take moments
BLINK = 0.2  #: seconds between changes of the line on a terminal
WAITING = "another run is at work on it"  #: what stages tell once, however soon after their beginning


@dataclass
class Line:
    """What is known of a stage under way."""

    head: str
    begun: float
    told: float
    text: str = ""


class Lines:
    """Shows stages as they go by, several at a time; metrics, which take moments, only when they fail."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.live: Any = None
        self.lines: dict[str, Line] = {}  # of those under way, by key
        self.remaining = Remaining(())
        self.lock = Lock()

    def __enter__(self) -> Lines:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.status import Status

            self.live = Status(_plain(self.label), console=Console(stderr=True))
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def expect(self, kinds: Sequence[str], side_by_side: int, typical: Mapping[str, float]) -> None:
        """Note which stages are to do, for the time that is left of the run."""
        self.remaining = Remaining(kinds, side_by_side, typical)

    def begin(self, stage: Stage, number: int, total: int) -> None:
        """Name the stage and its place among those of the run."""
        now, head = time.monotonic(), f"[{number}/{total}] {stage.kind} {stage.label}"
        with self.lock:
            self.lines[stage.key] = Line(head, now, now)
            self.remaining.begin(stage.key, stage.kind, now)
            if self.live:
                self._show()
            elif stage.kind not in BRIEF:
                self._print(head)

    def tell(self, stage: Stage, text: str, share: float) -> None:
        """Say how far it is, and when it may be done."""
        now = time.monotonic()
        with self.lock:
            self.remaining.tell(stage.key, share)
            line = self.lines.get(stage.key)
            if line is None or (text != WAITING and now - line.told < (BLINK if self.live else PAUSE)):
                return
            line.told = now
            left = (now - line.begun) * (1 - share) / share if 0.01 < share < 1 else None
            line.text = text if left is None else f"{text}, {duration(left)} left"
            if self.live:
                self._show()
            elif stage.kind in BRIEF:  # of which nothing has been said
                self._print(f"{line.head}: {line.text}")
            else:
                self._print(f"    {self._name(line)}{line.text}{self._left(now)}")

    def end(self, stage: Stage, seconds: float, failure: str | None) -> None:
        """Say how long it took, or why it failed."""
        now = time.monotonic()
        with self.lock:
            self.remaining.end(stage.key, now)
            line = self.lines[stage.key]
            name = self._name(line)
            del self.lines[stage.key]
            if failure:
                self._print(f"{line.head}: failed. {failure}")
            elif self.live and stage.kind not in BRIEF:
                self._print(f"{line.head}: {duration(seconds)}")
            elif stage.kind not in BRIEF:
                self._print(f"    {name}{duration(seconds)}{self._left(now)}")

    def _show(self) -> None:
        """Put all stages under way on the line that changes."""
        parts = (f"{line.head}{f': {line.text}' if line.text else ''}" for line in self.lines.values())
        self.live.update(_plain(("   ".join(parts) or self.label) + self._left(time.monotonic())))

    def _left(self, now: float) -> str:
        """Say how long the whole run will still take, as far as that is known."""
        found = self.remaining.left(now)
        return f"; {'about' if found[1] else 'at least'} {duration(found[0])} left in all" if found else ""

    def _name(self, line: Line) -> str:
        """Return the number of a stage where it is not the only one under way."""
        return f"{line.head.partition(' ')[0]} " if len(self.lines) > 1 else ""

    def warn(self, text: str) -> None:
        """Say something that the reader of the results should know."""
        self._print(f"warning: {text}")

    def _print(self, text: str) -> None:
        if self.live:
            self.live.console.print(_plain(text), highlight=False)
        else:
            say(text, err=True)


def _plain(text: str) -> str:
    """Return text in which rich finds no markup, and a terminal nothing to do."""
    from rich.markup import escape

    return escape(legible(text))


def duration(seconds: float) -> str:
    """Return a length of time for people."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
