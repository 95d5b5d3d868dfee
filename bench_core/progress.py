"""What a run tells while it works: one changing line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench_core.plan import Stage

PAUSE = 15.0  #: seconds between plain lines about the same stage
BLINK = 0.2  #: seconds between changes of the line on a terminal


class Lines:
    """Shows stages as they go by; metrics, which take moments, only when they fail."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.live: Any = None
        self.head, self.begun, self.told = "", 0.0, 0.0

    def __enter__(self) -> Lines:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.status import Status

            self.live = Status(self.label, console=Console(stderr=True))
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def begin(self, stage: Stage, number: int, total: int) -> None:
        """Name the stage and its place among those of the run."""
        self.head = f"[{number}/{total}] {stage.kind} {stage.label}"
        self.begun = self.told = time.monotonic()
        if self.live:
            self.live.update(_plain(self.head))
        elif stage.kind != "measure":
            self._print(self.head)

    def tell(self, text: str, share: float) -> None:
        """Say how far it is, and when it may be done."""
        now = time.monotonic()
        if now - self.told < (BLINK if self.live else PAUSE):
            return
        self.told = now
        left = (now - self.begun) * (1 - share) / share if 0.01 < share < 1 else None
        line = text if left is None else f"{text}, {duration(left)} left"
        if self.live:
            self.live.update(_plain(f"{self.head}: {line}"))
        else:
            self._print(f"    {line}")

    def end(self, stage: Stage, seconds: float, failure: str | None) -> None:
        """Say how long it took, or why it failed."""
        if failure:
            self._print(f"{self.head}: failed. {failure}")
        elif self.live and stage.kind != "measure":
            self._print(f"{self.head}: {duration(seconds)}")
        elif stage.kind != "measure":
            self._print(f"    {duration(seconds)}")

    def warn(self, text: str) -> None:
        """Say something that the reader of the results should know."""
        self._print(f"warning: {text}")

    def _print(self, text: str) -> None:
        if self.live:
            self.live.console.print(_plain(text), highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)


def _plain(text: str) -> str:
    """Return text in which rich finds no markup."""
    from rich.markup import escape

    return escape(text)


def duration(seconds: float) -> str:
    """Return a length of time for people."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
