"""The time limit of a run: which stages may still begin, and how long those that run have to stop.

Whatever the limit, a run stores something new: a stage, or a checkpoint of a training after at least one update.
So a run that is repeated until its exit code is 0 ends.
"""

import time
from dataclasses import dataclass

from bench_core.planning.stages import Stage

GRACE = 60.0  #: seconds that stages have to stop when time is up


@dataclass
class TimeLimit:
    """The time limit of a run; None for no limit."""

    until: float | None = None  # seconds since 1970
    progressed: bool = False  # whether the run has stored a stage or a checkpoint
    assured: str = ""  # key of the running stage that goes on past the limit until something is stored
    reached: float | None = None  # when the limit was first seen to be reached, by the clock of this process

    def is_over(self) -> bool:
        """Return whether the time limit is reached."""
        return self.until is not None and time.time() >= self.until

    def has_ended(self) -> bool:
        """Return whether no other stage may begin: the limit is reached, and something is stored."""
        return self.progressed and self.is_over()

    def must_wait(self) -> bool:
        """Return whether a stage that is ready must wait: past the limit, one at a time is to store something."""
        return bool(self.assured) and self.is_over()

    def begin(self, stage: Stage) -> None:
        """Record that a stage begins."""
        if not (self.until is None or self.progressed or self.assured):
            self.assured = stage.key

    def of(self, stage: Stage) -> float | None:
        """Return when a stage must stop, a training at a checkpoint."""
        return None if stage.key == self.assured and not stage.about.trains else self.until

    def end(self, stage: Stage, stored: bool) -> None:
        """Record that a stage ended, and whether it stored an artifact or a checkpoint."""
        self.progressed = self.progressed or stored
        if stage.key == self.assured:
            self.assured = ""

    def patience(self) -> float | None:
        """Return how long to wait for a stage: until the time limit, from when each has some time to stop.

        None if there is no limit, or nothing is stored yet. Stages have time even if the machine was suspended, and
        wakes up long after the limit.
        """
        if self.until is None or (left := self.until - time.time()) > 0:
            return None if self.until is None else left
        self.reached = self.reached or time.monotonic()
        if not self.progressed:
            return None
        return max(0.0, self.reached + GRACE - time.monotonic())

    def gives_up(self, stage: Stage) -> bool:
        """Return whether not to wait for a running stage any longer."""
        if self.patience() == 0:
            return True
        return self.has_ended() and self.of(stage) is None
