"""Predicts what stages cost: by records of the same stage with any seed, or by a calibration of its training.

Both are of this device. What has neither is unknown: trainings of another model or size say nothing about it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from bench_core.planning.cost_keys import CostKeys
from bench_core.planning.hardware import device_name
from bench_core.planning.stages import Stage
from bench_core.planning.training_length import training_length
from bench_core.storage.costs import Costs, Record, TrainingSpeed

TRAININGS = ("together", "train")  #: kinds of stages that train

Source = Literal["record", "calibration", "none"]


@dataclass(frozen=True)
class Prediction:
    """The predicted cost of a stage."""

    seconds: float | None  # None if unknown
    source: Source = "none"
    memory: int | None = None  # bytes; None if unknown


UNKNOWN = Prediction(None)


class Predictions:
    """Predictions for the stages of a plan."""

    def __init__(self, stages: Mapping[str, Stage], costs: Costs) -> None:
        self.keys, self.costs = CostKeys(stages), costs
        self._known: dict[str, Prediction] = {}  # by key of the record

    def of(self, stage: Stage) -> Prediction:
        """Return the predicted cost of a stage."""
        if is_extracted(stage):
            return Prediction(0.0, "record", 0)
        key = self.keys.of_record(stage)
        if key not in self._known:
            self._known[key] = self._recorded(stage, key) or self._calibrated(stage) or UNKNOWN
        return self._known[key]

    def speed(self, stage: Stage) -> TrainingSpeed | None:
        """Return the calibration of a training, if there is one."""
        return self.costs.read(TrainingSpeed, self.keys.of_speed(stage), _device(stage))

    def _recorded(self, stage: Stage, key: str) -> Prediction | None:
        found = self.costs.read(Record, key, _device(stage))
        return Prediction(found.seconds, "record", found.peak) if found else None

    def _calibrated(self, stage: Stage) -> Prediction | None:
        speed = self.speed(stage) if stage.kind in TRAININGS else None
        return Prediction(training_seconds(stage, speed), "calibration", speed.memory.total) if speed else None


def is_extracted(stage: Stage) -> bool:
    """Return whether a training is only taken out of a joint one, which costs nothing."""
    return "together" in stage.inputs


def training_seconds(stage: Stage, speed: TrainingSpeed) -> float:
    """Return the seconds of a whole training, unless patience ends it before."""
    lengths = training_length(stage.settings["training"], speed.updates_per_epoch)
    phases = zip(lengths, speed.updates, strict=True)
    return speed.setup + sum(one.updates * each + one.evaluations * speed.evaluation for one, each in phases)


def total(predictions: Iterable[Prediction]) -> tuple[float, int]:
    """Return the sum of the known seconds, and how many are unknown."""
    seconds = [one.seconds for one in predictions]
    known = [one for one in seconds if one is not None]
    return math.fsum(known), len(seconds) - len(known)


def _device(stage: Stage) -> str:
    return device_name(stage.settings.get("device", "cpu"))
