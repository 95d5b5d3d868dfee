"""The tables of `bench plan`: what stages cost, and what each training needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bench_core.execution.progress import duration
from bench_core.terminal import counted

if TYPE_CHECKING:
    from bench_core.planning.stages import Stage
    from bench_upkeep.predictions import Predictions

NOT_KNOWN = "not known"


def expected(stages: Sequence[Stage], predictions: Predictions) -> dict[str, Any]:
    """Return the predicted CPU and wall time of stages, as seconds and as text, and of how many it is unknown."""
    from bench_upkeep.predictions import total

    found = [predictions.of(one) for one in stages]
    (cpu, lacking), (wall, unknown) = total(one.cpu_seconds for one in found), total(one.seconds for one in found)
    by_wall_alone = lacking == len(stages) > unknown  # as on a GPU
    return {
        "CPU time": "" if by_wall_alone else _at_least(cpu, lacking, len(stages)),
        "cpu_seconds": None if by_wall_alone else cpu,
        "wall time": _at_least(wall, unknown, len(stages)), "seconds": wall, "unknown": unknown,
    }  # fmt: skip


def _at_least(seconds: float, unknown: int, number: int) -> str:
    """Return the time of a number of stages: at least that of those whose cost is known."""
    if unknown == number:
        return NOT_KNOWN if number else ""
    return f"at least {duration(seconds)}" if unknown else duration(seconds)


def clocks(stages: Sequence[Stage], predictions: Predictions) -> Iterator[str]:
    """Yield how CPU and wall time are related, and how busy the machine was when trainings were calibrated."""
    from bench_upkeep.predictions import on_gpu

    known = [one for one in stages if predictions.of(one).seconds is not None and not on_gpu(one)]
    if old := sum(predictions.of(one).cpu_seconds is None for one in known):
        yield f"Of {counted(old, 'stage')} wall time alone is known: version 0.2 kept no CPU time."
    own = [one for one in known if one.about.trains]
    loads = [load for one in own if (load := predictions.of(one).load) is not None]
    span = " to ".join(dict.fromkeys(f"{load:.1f}" for load in (min(loads), max(loads)))) if loads else ""
    busy = f" when they were calibrated, at a load of {span} on {os.cpu_count()} cores" if span else ""
    for threads, rate in predictions.rates.items():
        if any(one.settings["threads"] == threads for one in own):
            yield (
                f"Wall time is CPU time / {rate:.2f}: trainings with {counted(threads, 'thread')} got {rate:.2f} CPU "
                f"seconds per second{busy} (idle: up to 1 per thread)."
            )
