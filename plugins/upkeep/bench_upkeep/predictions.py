"""Predicts what stages cost: by records of the same stage with any seed, or by a calibration of its training.

Both are of this device. What has neither is unknown: trainings of another model or size say nothing about it.

CPU time is predicted, which other work on the machine hardly changes. Wall-clock time of trainings is CPU time over a
rate: the CPU seconds per second that all known trainings of the plan got. The rate of each alone would order them by
who else was at work when it was measured. On a GPU, and by files of version 0.2, only wall-clock time is predicted.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from bench_core.planning.cost_keys import CostKeys
from bench_core.planning.hardware import device_name
from bench_core.planning.stages import Stage
from bench_core.storage.costs import Costs, Record

Source = Literal["record", "calibration", "none"]


@dataclass(frozen=True)
class Prediction:
    """The predicted cost of a stage."""

    seconds: float | None  # of wall-clock time; None if unknown
    source: Source = "none"
    memory: int | None = None  # bytes; None if unknown
    cpu_seconds: float | None = None  # None if unknown, or on a GPU
    load: float | None = None  # of the machine, when it was calibrated


UNKNOWN = Prediction(None)


class Predictions:
    """Predictions for the stages of a plan."""

    def __init__(self, stages: Mapping[str, Stage], costs: Costs, keys: CostKeys | None = None) -> None:
        self.stages, self.keys, self.costs = stages, keys or CostKeys(stages), costs
        self._known: dict[str, Prediction] = {}  # by key of the record, at the rate of its own

    def of(self, stage: Stage) -> Prediction:
        """Return the predicted cost of a stage."""
        if stage.is_taken:
            return Prediction(0.0, "record", 0, 0.0)
        found = self._own(stage)
        rate = self.rates.get(stage.settings["threads"]) if _is_training(stage) else None
        if found.cpu_seconds is None or rate is None:
            return found
        return replace(found, seconds=found.cpu_seconds / rate)

    @cached_property
    def rates(self) -> Mapping[int, float]:
        """Return the CPU seconds per wall-clock second that known trainings got, by their number of threads."""
        sums: dict[int, list[float]] = {}
        trainings = {self.keys.of_record(one): one for one in self.stages.values() if _is_training(one)}
        for stage in trainings.values():
            if (found := self._own(stage)).cpu_seconds is not None:
                both = sums.setdefault(stage.settings["threads"], [0.0, 0.0])
                both[0] += found.cpu_seconds
                both[1] += found.seconds or 0.0
        return {threads: spent / wall for threads, (spent, wall) in sums.items() if spent and wall}

    def _own(self, stage: Stage) -> Prediction:
        """Return the predicted cost of a stage, its wall-clock time as it was recorded or calibrated."""
        key = self.keys.of_record(stage)
        if key not in self._known:
            self._known[key] = self._recorded(stage, key) or self._calibrated(stage) or UNKNOWN
        return self._known[key]

    def is_calibrated(self, stage: Stage) -> bool:
        """Return whether there is a calibration of a stage, in CPU seconds unless it is on a GPU."""
        forecast = stage.about.forecaster
        return forecast is not None and forecast.is_calibrated(stage, self.costs, self.keys.of_speed(stage))

    def _recorded(self, stage: Stage, key: str) -> Prediction | None:
        found = self.costs.read(Record, key, device_name(stage.settings.get("device", "cpu")))
        if found is None:
            return None
        return Prediction(found.seconds, "record", found.peak, None if on_gpu(stage) else found.cpu_seconds)

    def _calibrated(self, stage: Stage) -> Prediction | None:
        forecast = stage.about.forecaster
        known = None if forecast is None else forecast.predicted(stage, self.costs, self.keys.of_speed(stage))
        if known is None:
            return None
        seconds, memory, cpu_seconds, load = known
        return Prediction(seconds, "calibration", memory, cpu_seconds, load)


def _is_training(stage: Stage) -> bool:
    """Return whether a stage makes updates, so that it computes, and waits for nothing else."""
    return stage.about.trains and not stage.is_taken


def total(seconds: Iterable[float | None]) -> tuple[float, int]:
    """Return the sum of the known seconds, and how many are unknown."""
    every = [*seconds]
    known = [one for one in every if one is not None]
    return math.fsum(known), len(every) - len(known)


def on_gpu(stage: Stage) -> bool:
    """Return whether a stage computes on a GPU, of whose time CPU seconds say nothing."""
    return stage.settings.get("device") == "cuda"
