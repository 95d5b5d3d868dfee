"""Costs of stages: seconds, CPU seconds and peak memory."""

import resource
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from bench_core.computing.clocks import cpu_seconds
from bench_core.planning.hardware import device_name
from bench_core.planning.stages import StageRequest
from bench_core.storage.costs import CostRecord, Costs
from bench_core.storage.store import Store


def total(cost: Mapping[str, float], counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the costs of a stage together with its counts.

    If training resumed, `counts` include the wall-clock seconds of earlier processes. Their CPU seconds are estimated
    from the ratio of CPU to wall-clock time in this process.
    """
    costs = {**cost, **counts}
    if "seconds" in counts and "cpu_seconds" not in counts and cost["seconds"]:
        costs["cpu_seconds"] = round(cost["cpu_seconds"] * counts["seconds"] / cost["seconds"], 4)
    return costs


def record(store: Store, request: StageRequest, cost: Mapping[str, Any]) -> None:
    """Store the costs of a stage on this device, unless it only extracts a seed from joint training."""
    if request.cost_key and not request.stage.is_extracted:
        device = device_name(request.stage.settings.get("device", "cpu"))
        spent = {name: cost[name] for name in ("seconds", "cpu_seconds")}
        Costs(store).write(request.cost_key, CostRecord(device=device, peak=int(cost["peak_mib"] * 2**20), **spent))


@contextmanager
def measure_cost() -> Iterator[dict[str, float]]:
    """Yield a mapping that is filled after the block with wall-clock and CPU seconds and peak memory in MiB.

    Memory is measured on the GPU if torch uses a GPU, otherwise for the process.
    """
    cost: dict[str, float] = {}
    _reset_peak_memory()
    if cuda := _cuda():
        cuda.reset_peak_memory_stats()
    wall, processor = time.perf_counter(), cpu_seconds()
    yield cost
    if cuda := _cuda():
        cuda.synchronize()
    cost["seconds"] = round(time.perf_counter() - wall, 4)
    cost["cpu_seconds"] = round(cpu_seconds() - processor, 4)
    cost["peak_mib"] = round((cuda.max_memory_allocated() if cuda else _peak_memory()) / 2**20, 1)


def _cuda() -> Any:
    """Return torch.cuda if torch uses a GPU; does not import torch."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def _reset_peak_memory() -> None:
    """Forget the peak memory of earlier stages of this process, where the system allows it (Linux)."""
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as switch:
        switch.write("5")


def _peak_memory() -> int:
    """Return the peak memory of this process in bytes, since the last reset if the system allows resets."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
