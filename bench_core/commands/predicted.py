"""The tables of `bench plan`: what stages cost, and what each training needs."""

from __future__ import annotations

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


def expected(stages: Sequence[Stage], predictions: Predictions) -> str:
    """Return the predicted time of stages as text: at least that of those whose cost is known."""
    from bench_core.runs.predictions import total

    seconds, unknown = total(predictions.of(one) for one in stages)
    if not stages:
        return ""
    if unknown == len(stages):
        return NOT_KNOWN
    return f"at least {duration(seconds)}" if unknown else duration(seconds)


def trainings(stages: Iterable[Stage], predictions: Predictions, failures: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for the trainings of each model that take equally long: what is known of their cost.

    Models that are evaluated as they are have one only if they were measured.
    """
    from bench_core.runs.predictions import TRAININGS, is_extracted

    own = [one for one in stages if one.kind in TRAININGS and not is_extracted(one)]
    own = [one for one in own if one.action in TRAININGS or predictions.speed(one) or one.key in failures]
    numbers = Counter(predictions.keys.of_record(one) for one in own)
    firsts = {predictions.keys.of_record(one): one for one in reversed(own)}
    return [_training(firsts[key], number, predictions, failures) for key, number in numbers.items()]


def _training(stage: Stage, number: int, predictions: Predictions, failures: Mapping[str, str]) -> dict[str, Any]:
    from bench_core.planning.training_length import training_length

    found, speed = predictions.of(stage), predictions.speed(stage)
    row: dict[str, Any] = {
        "training": stage.label.rpartition(", ")[0], "number": number, "updates": None, "update_seconds": None,
        "evaluations": None, "evaluation_seconds": None, "memory": found.memory, "fits": None,
        "seconds": found.seconds, "source": found.source, "failure": failures.get(stage.key, ""),
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
    """Return rows of trainings for a terminal."""
    return [
        {
            "training": row["training"],
            "number": row["number"],
            "updates": "" if row["updates"] is None else f"{row['updates']:,}",
            "an update": brief(row["update_seconds"]),
            "an evaluation": brief(row["evaluation_seconds"]),
            "memory": "" if row["memory"] is None else f"{row['memory'] / 1e9:.1f} GB",
            "each": NOT_KNOWN if row["seconds"] is None else duration(row["seconds"]),
            "all": NOT_KNOWN if row["seconds"] is None else duration(row["number"] * row["seconds"]),
        }
        for row in rows
    ]


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
