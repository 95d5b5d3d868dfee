"""The CPU clock for timing stages and calibrations; other load on the machine hardly affects it."""

import resource
import time


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, including all threads and terminated children."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # microsecond resolution; os.times() truncates to ticks
    return time.process_time() + ended.ru_utime + ended.ru_stime
