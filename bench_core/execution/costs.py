"""What a stage costs, measured while it is performed."""

from __future__ import annotations

import sys
import time
from typing import Any


class Cost:
    """Wall and processor seconds of a block, and peak memory: of the GPU if one is at work, else of the process."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def __enter__(self) -> Cost:
        cuda = _cuda()
        if cuda is not None:
            cuda.reset_peak_memory_stats()
        self.wall, self.processor = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *failure: object) -> None:
        cuda = _cuda()
        if cuda is not None:
            cuda.synchronize()
        self.values["seconds"] = round(time.perf_counter() - self.wall, 4)
        self.values["cpu_seconds"] = round(time.process_time() - self.processor, 4)
        self.values["peak_mib"] = round((cuda.max_memory_allocated() if cuda else _resident()) / 2**20, 1)


def _cuda() -> Any:
    """Return torch.cuda if torch is at work on a GPU; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def _resident() -> int:
    """Return the most memory that this process has held, in bytes."""
    import psutil

    memory = psutil.Process().memory_info()
    return int(getattr(memory, "peak_wset", 0) or _peak() or memory.rss)


def _peak() -> int:
    try:
        import resource
    except ImportError:  # not on this system
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
