"""The time limit of a run: which stages may still begin, and how long running stages have to stop.

Whatever the limit, every run stores something new: a stage, or a training checkpoint after at least one update.
Therefore, repeating a run until its exit code is 0 terminates.
"""

import time
from dataclasses import dataclass

from bench_core.planning.stages import Stage

GRACE = 60.0  #: seconds for stages to stop after the time limit


@dataclass
class TimeLimit:
    """The time limit of a run."""

    until: float | None = None  # seconds since 1970; None: no limit
    progressed: bool = False  # whether a stage or checkpoint has been stored
    assured: str = ""  # key of the stage that may exceed the limit until something is stored
    reached: float | None = None  # monotonic time at which the limit was first observed

    def is_over(self) -> bool:
        """Return whether the time limit is reached."""
        return self.until is not None and time.time() >= self.until

    def has_ended(self) -> bool:
        """Return whether no further stage may begin: the limit is reached, and something is stored."""
        return self.progressed and self.is_over()

    def must_wait(self) -> bool:
        """Return whether a stage that is ready must wait, because another stage is exceeding the limit."""
        return bool(self.assured) and self.is_over()

    def begin(self, stage: Stage) -> None:
        """Record that a stage begins."""
        if not (self.until is None or self.progressed or self.assured):
            self.assured = stage.key

    def of(self, stage: Stage) -> float | None:
        """Return the time at which a stage must stop (during training, at a checkpoint), or None."""
        return None if stage.key == self.assured and not stage.about.trains else self.until

    def end(self, stage: Stage, stored: bool) -> None:
        """Record that a stage ended, and whether it stored an artifact or a checkpoint."""
        self.progressed = self.progressed or stored
        if stage.key == self.assured:
            self.assured = ""

    def patience(self) -> float | None:
        """Return how long to wait for a stage, in seconds: until the time limit, then for the grace period.

        Returns None without a limit, and after the limit if nothing is stored yet. The grace period begins when
        the limit is observed, so that it is granted even if the machine was suspended meanwhile.
        """
        if self.until is None or (left := self.until - time.time()) > 0:
            return None if self.until is None else left
        self.reached = self.reached or time.monotonic()
        if not self.progressed:
            return None
        return max(0.0, self.reached + GRACE - time.monotonic())

    def gives_up(self, stage: Stage) -> bool:
        """Return whether to stop waiting for a running stage."""
        if self.patience() == 0:
            return True
        return self.has_ended() and self.of(stage) is None
