"""The tables of `bench plan`: costs of stages, and requirements of training."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bench_core.execution.progress import duration
from bench_core.terminal import count_of

if TYPE_CHECKING:
    from bench_core.planning.stages import Stage
    from bench_upkeep.cost_estimates import CostEstimates

UNKNOWN_COST = "not known"


def expected_cost(stages: Sequence[Stage], estimates: CostEstimates) -> dict[str, Any]:
    """Return the predicted CPU and wall time of stages, in seconds and as text, and how many costs are unknown."""
    from bench_upkeep.cost_estimates import total

    costs = [estimates.of(stage) for stage in stages]
    (cpu, unknown_cpu), (wall, unknown) = (
        total(cost.cpu_seconds for cost in costs),
        total(cost.seconds for cost in costs),
    )
    by_wall_alone = unknown_cpu == len(stages) > unknown  # e.g. on a GPU
    return {
        "CPU time": "" if by_wall_alone else _at_least(cpu, unknown_cpu, len(stages)),
        "cpu_seconds": None if by_wall_alone else cpu,
        "wall time": _at_least(wall, unknown, len(stages)), "seconds": wall, "unknown": unknown,
    }  # fmt: skip


def _at_least(seconds: float, unknown: int, number: int) -> str:
    """Return the total time of stages as text: a lower bound if some costs are unknown."""
    if unknown == number:
        return UNKNOWN_COST if number else ""
    return f"at least {duration(seconds)}" if unknown else duration(seconds)


def clocks(stages: Sequence[Stage], estimates: CostEstimates) -> Iterator[str]:
    """Yield the ratio of CPU to wall time, and the load during calibration."""
    from bench_upkeep.cost_estimates import on_gpu

    known = [stage for stage in stages if estimates.of(stage).seconds is not None and not on_gpu(stage)]
    if old := sum(estimates.of(stage).cpu_seconds is None for stage in known):
        yield f"Only wall time is known for {count_of(old, 'stage')}: version 0.2 did not record CPU time."
    trainings = [stage for stage in known if stage.about.trains]
    loads = [load for stage in trainings if (load := estimates.of(stage).load) is not None]
    span = " to ".join(dict.fromkeys(f"{load:.1f}" for load in (min(loads), max(loads)))) if loads else ""
    busy = f" when they were calibrated, at a load of {span} on {os.cpu_count()} cores" if span else ""
    for threads, rate in estimates.rates.items():
        if any(stage.settings["threads"] == threads for stage in trainings):
            yield (
                f"Wall time is CPU time / {rate:.2f}: training runs with {count_of(threads, 'thread')} got "
                f"{rate:.2f} CPU seconds per second{busy} (idle: up to 1 per thread)."
            )
