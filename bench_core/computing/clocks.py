"""The clock of CPU time, by which stages and calibrations are timed: other work on the machine hardly disturbs it."""

from __future__ import annotations

import os
import time


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, all its threads included, and of its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system
