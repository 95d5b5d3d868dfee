"""Predicts training costs from calibrations, for any number of updates; torch is imported only for calibration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

from bench_core.execution.progress import duration
from bench_core.planning.hardware import device_name
from bench_core.planning.stages import Stage
from bench_core.storage.costs import Costs
from bench_core.terminal import count_of
from bench_training.speed import TrainingSpeed
from bench_training.training_length import training_length

if TYPE_CHECKING:
    from bench_core.computing.context import StageContext

NOT_KNOWN = "not known"
EPOCH = 1000  #: assumed updates per epoch if the data are unknown
ASSUMED_BATCH_SIZE = 256  #: assumed batch size for `batch_size: auto`
#: Training settings that affect the number of updates or their values, but not the duration of an update.
LENGTH = frozenset({"lr", "warmup", "schedule", "epochs", "updates", "evaluate_every", "patience"})


def calibrate(context: StageContext, stage: Stage, seconds: float) -> TrainingSpeed:
    """Return the speed of a training run on its device; each phase is measured for about `seconds`."""
    from bench_training import calibration

    return calibration.calibrate(context, stage, seconds)


def _speed(stage: Stage, costs: Costs, key: str) -> TrainingSpeed | None:
    """Return the calibration of a training stage, or None."""
    return costs.read(TrainingSpeed, key, device_name(stage.settings["device"]))


def speed_in_plan(stage: Stage, estimates: Any) -> TrainingSpeed | None:
    """Return the calibration of a training stage in a plan, or None."""
    return _speed(stage, estimates.costs, estimates.keys.of_speed(stage))


def is_calibrated(stage: Stage, costs: Costs, key: str) -> bool:
    """Return whether a training stage is calibrated (in CPU seconds, unless it runs on a GPU)."""
    speed = _speed(stage, costs, key)
    return speed is not None and (stage.settings["device"] == "cuda" or speed.cpu_rate is not None)


def predicted(stage: Stage, costs: Costs, key: str) -> tuple[float, int, float | None, float | None] | None:
    """Return wall-clock seconds, bytes, CPU seconds, and the load during the calibration; None if unknown."""
    speed = _speed(stage, costs, key)
    if speed is None:
        return None
    seconds, memory = training_seconds(stage, speed), speed.memory.total
    if speed.cpu_rate is None:
        return seconds, memory, None, speed.load
    return seconds / speed.cpu_rate, memory, seconds, speed.load


def training_seconds(stage: Stage, speed: TrainingSpeed) -> float:
    """Return the seconds (CPU or wall-clock, like its speed) of a training run that patience does not end early."""
    lengths = training_length(stage.settings["training"], speed.updates_per_epoch)
    phases = zip(lengths, speed.updates, strict=True)
    return speed.setup + sum(phase.updates * each + phase.evaluations * speed.evaluation for phase, each in phases)


def rough_size(settings: Mapping[str, Any]) -> float:
    """Return a number that grows with the cost of training, from the settings alone: for ordering, not a time.

    This is the number of updates times the batch size times the sum of squares of the sizes in the model's settings.
    """
    training = settings.get("training", {})
    updates = sum(phase.updates for phase in training_length(training, EPOCH))
    sizes = [value for value in settings.get("model", {}).values() if type(value) is int]
    batch = training.get("batch_size", 1)
    rows = float(ASSUMED_BATCH_SIZE if batch == "auto" else batch)
    return updates * rows * (1.0 + sum(value * value for value in sizes))


def without_length(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a stage that affect the duration of an update."""
    training = settings["training"]
    phases = [
        {name: value for name, value in phase.items() if name not in LENGTH} for phase in training.get("phases", ())
    ]
    other = {name: value for name, value in training.items() if name not in LENGTH}
    return {**settings, "training": {**other, "phases": phases}}


def rows(stages: Sequence[Stage], estimates: Any, failures: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row of costs for each group of training stages that take equally long."""
    trainings = [stage for stage in stages if stage.about.trains and not stage.is_extracted]
    numbers = Counter(estimates.keys.of_record(stage) for stage in trainings)
    firsts = {estimates.keys.of_record(stage): stage for stage in reversed(trainings)}
    return [_training(firsts[key], number, estimates, failures) for key, number in numbers.items()]


def _training(stage: Stage, number: int, estimates: Any, failures: Mapping[str, str]) -> dict[str, Any]:
    cost, speed = estimates.of(stage), speed_in_plan(stage, estimates)
    row: dict[str, Any] = {
        "training": stage.label.rpartition(", ")[0], "number": number, "updates": None, "update_seconds": None,
        "evaluations": None, "evaluation_seconds": None, "memory": cost.memory, "fits": None,
        "cpu_seconds": cost.cpu_seconds, "seconds": cost.seconds, "source": cost.source,
        "failure": failures.get(stage.key, ""),
    }  # fmt: skip
    if speed:
        lengths = training_length(stage.settings["training"], speed.updates_per_epoch)
        updates = sum(phase.updates for phase in lengths)
        spent = fsum(phase.updates * each for phase, each in zip(lengths, speed.updates, strict=True))
        row |= {
            "updates": updates, "update_seconds": spent / updates if updates else None,
            "evaluations": sum(phase.evaluations for phase in lengths), "evaluation_seconds": speed.evaluation,
            "fits": speed.memory.fits, "available": speed.memory.available, "share": speed.share,
        }  # fmt: skip
    return row


def table(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Format the rows of training stages for a terminal, without empty columns.

    The CPU column is empty for training stages whose CPU time is unknown.
    """
    table = [
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
    return [{name: text for name, text in row.items() if any(each[name] for each in table)} for row in table]


def _times(seconds: float | None, number: int = 1) -> str:
    return "" if seconds is None else duration(number * seconds)


def brief(seconds: float | None) -> str:
    """Format seconds with three significant digits."""
    return "" if seconds is None else f"{seconds:.3g} s"


def remarks(rows: Sequence[Mapping[str, Any]], only_calibrated: bool) -> Iterator[str]:
    """Yield remarks on training stages that do not fit, failed, or lack an estimate, and what to do."""
    for row in rows:
        if row["failure"]:
            yield f"{row['training']} could not be measured: {row['failure']}"
        elif row["fits"] is False:
            needed, available = row["memory"] / 1e9, row["available"] / 1e9
            yield (
                f"{row['training']} does not fit in memory: it needs about {needed:.1f} GB, but only "
                f"{available:.1f} GB were available. Its time assumes a device like this one with more memory. "
                "Lower `batch_size`."
            )
    unknown = sum(row["number"] for row in rows if row["seconds"] is None and not row["failure"])
    if unknown and not only_calibrated:
        yield (
            f"No estimate for {count_of(unknown, 'training run')}: nothing comparable has run on this device. "
            "Use --calibrate to measure some updates of each model; this takes seconds."
        )
