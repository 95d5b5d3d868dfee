"""The clock of CPU time, by which stages and calibrations are timed: other work on the machine hardly disturbs it."""

import resource
import time


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, all its threads included, and of its children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # to the microsecond; os.times() drops less than a tick
    return time.process_time() + ended.ru_utime + ended.ru_stime
