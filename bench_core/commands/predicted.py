"""The tables of `bench plan`: what stages cost, and what each training needs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

from bench_core.execution.progress import duration
from bench_core.terminal import counted

if TYPE_CHECKING:
    from bench_core.planning.stages import Stage
    from bench_core.runs.predictions import Predictions

NOT_KNOWN = "not known"


def expected(stages: Sequence[Stage], predictions: Predictions) -> dict[str, Any]:
    """Return the predicted CPU and wall time of stages, as seconds and as text, and of how many it is unknown."""
    from bench_core.runs.predictions import total

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
    from bench_core.runs.predictions import on_gpu

    known = [one for one in stages if predictions.of(one).seconds is not None and not on_gpu(one)]
    if old := sum(predictions.of(one).cpu_seconds is None for one in known):
        yield f"Of {counted(old, 'stage')} wall time alone is known: version 0.2 kept no CPU time."
    own = [one for one in known if one.about.trains]
    speeds = [predictions.speed(one) for one in own if predictions.of(one).source == "calibration"]
    loads = [one.load for one in speeds if one and one.load is not None]
    span = " to ".join(dict.fromkeys(f"{load:.1f}" for load in (min(loads), max(loads)))) if loads else ""
    busy = f" when they were calibrated, at a load of {span} on {os.cpu_count()} cores" if span else ""
    for threads, rate in predictions.rates.items():
        if any(one.settings["threads"] == threads for one in own):
            yield (
                f"Wall time is CPU time / {rate:.2f}: trainings with {counted(threads, 'thread')} got {rate:.2f} CPU "
                f"seconds per second{busy} (idle: up to 1 per thread)."
            )


def trainings(stages: Iterable[Stage], predictions: Predictions, failures: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for the trainings of each model that take equally long: what is known of their cost."""
    own = [one for one in stages if one.about.trains and not one.is_taken]
    numbers = Counter(predictions.keys.of_record(one) for one in own)
    firsts = {predictions.keys.of_record(one): one for one in reversed(own)}
    return [_training(firsts[key], number, predictions, failures) for key, number in numbers.items()]


def _training(stage: Stage, number: int, predictions: Predictions, failures: Mapping[str, str]) -> dict[str, Any]:
    from bench_core.planning.training_length import training_length

    found, speed = predictions.of(stage), predictions.speed(stage)
    row: dict[str, Any] = {
        "training": stage.label.rpartition(", ")[0], "number": number, "updates": None, "update_seconds": None,
        "evaluations": None, "evaluation_seconds": None, "memory": found.memory, "fits": None,
        "cpu_seconds": found.cpu_seconds, "seconds": found.seconds, "source": found.source,
        "failure": failures.get(stage.key, ""),
    }  # fmt: skip
    if speed:
        lengths = training_length(stage.settings["training"], speed.updates_per_epoch)
        updates = sum(one.updates for one in lengths)
        spent = fsum(one.updates * each for one, each in zip(lengths, speed.updates, strict=True))
        row |= {
            "updates": updates, "update_seconds": spent / updates if updates else None,
            "evaluations": sum(one.evaluations for one in lengths), "evaluation_seconds": speed.evaluation,
            "fits": speed.memory.fits, "available": speed.memory.available, "share": speed.share,
        }  # fmt: skip
    return row


def shown(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of trainings for a terminal, without columns that are empty in all of them.

    The CPU column is empty for trainings of which only the wall time is known.
    """
    found = [
        {
            "training": row["training"],
            "number": f"{row['number']}",
            "updates": "" if row["updates"] is None else f"{row['updates']:,}",
            "an update": brief(row["update_seconds"]),
            "an evaluation": brief(row["evaluation_seconds"]),
            "memory": "" if row["memory"] is None else f"{row['memory'] / 1e9:.1f} GB",
            "CPU each": _times(row["cpu_seconds"]),
            "CPU all": _times(row["cpu_seconds"], row["number"]),
            "wall each": _times(row["seconds"]) if row["cpu_seconds"] is None else "",
            "wall all": _times(row["seconds"], row["number"]) or NOT_KNOWN,
        }
        for row in rows
    ]
    return [{name: text for name, text in row.items() if any(one[name] for one in found)} for row in found]


def _times(seconds: float | None, number: int = 1) -> str:
    return "" if seconds is None else duration(number * seconds)


def brief(seconds: float | None) -> str:
    """Return seconds with three digits."""
    return "" if seconds is None else f"{seconds:.3g} s"


def remarks(rows: Sequence[Mapping[str, Any]], only_calibrated: bool) -> Iterator[str]:
    """Yield what is to be known of the rows: trainings that do not fit, failed, or are unknown, and what to do."""
    for row in rows:
        if row["failure"]:
            yield f"{row['training']} could not be measured: {row['failure']}"
        elif row["fits"] is False:
            need, there = row["memory"] / 1e9, row["available"] / 1e9
            yield (
                f"{row['training']} does not fit in memory: it needs about {need:.1f} GB, and {there:.1f} GB were "
                "available. Its time is that of a device like this one with more memory. Lower `batch_size`."
            )
    unknown = sum(row["number"] for row in rows if row["seconds"] is None and not row["failure"])
    if unknown and not only_calibrated:
        yield (
            f"The cost of {counted(unknown, 'training')} is not known: none like it has run on this device. "
            "--calibrate measures some updates of each model, in seconds."
        )
