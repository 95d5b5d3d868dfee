"""What stages cost: measured for every one, kept apart from results."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench_core.storage.csv_files import to_csv

COLUMNS = ["stage", "what", "key", "seconds", "cpu_seconds", "peak_mib", "examples", "tokens", "tokens_per_second"]
COLUMNS += ["ms_per_example", "parameters", "updates", "ms_per_update"]


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


def write_costs(path: Path, stages: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> None:
    """Write a line a stage: kind, what it was for, key, and its cost."""
    rows = (
        {"stage": kind, "what": label, "key": key[:16], **cost, **_rates(cost)} for kind, label, key, cost in stages
    )
    path.write_text(to_csv(rows, COLUMNS), encoding="utf-8", newline="")


def _rates(cost: Mapping[str, Any]) -> dict[str, float]:
    seconds, found = cost.get("seconds"), {}
    if seconds and cost.get("tokens"):
        found["tokens_per_second"] = round(cost["tokens"] / seconds, 1)
    if seconds and cost.get("examples"):
        found["ms_per_example"] = round(1000 * seconds / cost["examples"], 3)
    if seconds and cost.get("updates"):
        found["ms_per_update"] = round(1000 * seconds / cost["updates"], 3)  # with the evaluations between them
    return found
