"""Predicts the costs of stages from records of the same stage with any seed, or from calibration of training.

Both come from this device. Without either, the cost is unknown: stages with other models or sizes are not used.

CPU time is predicted because other work on the machine hardly affects it. The wall-clock time of training is its
CPU time divided by a rate: the CPU seconds per second of all training stages of the plan with known costs. With
individual rates, the order of stages would depend on the load during measurement. On a GPU, and for files of version
0.2, only wall-clock time is predicted.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Literal

from bench_core.planning.cost_keys import CostKeys
from bench_core.planning.hardware import device_name
from bench_core.planning.stages import Stage
from bench_core.storage.costs import CostRecord, Costs

Source = Literal["record", "calibration", "none"]


@dataclass(frozen=True)
class CostEstimate:
    """The predicted cost of a stage."""

    seconds: float | None  # wall-clock time; None if unknown
    source: Source = "none"
    memory: int | None = None  # bytes; None if unknown
    cpu_seconds: float | None = None  # None if unknown, or on a GPU
    load: float | None = None  # average load of the machine during calibration


UNKNOWN = CostEstimate(None)


class CostEstimates:
    """Predictions for the stages of a plan."""

    def __init__(self, stages: Mapping[str, Stage], costs: Costs, keys: CostKeys | None = None) -> None:
        self.stages, self.keys, self.costs = stages, keys or CostKeys(stages), costs
        self._known: dict[str, CostEstimate] = {}  # record key -> prediction at its individual rate

    def of(self, stage: Stage) -> CostEstimate:
        """Return the predicted cost of a stage."""
        if stage.is_extracted:
            return CostEstimate(0.0, "record", 0, 0.0)
        estimate = self._at_individual_rate(stage)
        rate = self.rates.get(stage.settings["threads"]) if _is_training(stage) else None
        if estimate.cpu_seconds is None or rate is None:
            return estimate
        return replace(estimate, seconds=estimate.cpu_seconds / rate)

    @cached_property
    def rates(self) -> Mapping[int, float]:
        """The CPU seconds per wall-clock second of training stages with known costs, by number of threads."""
        sums: dict[int, list[float]] = {}
        trainings = {self.keys.of_record(stage): stage for stage in self.stages.values() if _is_training(stage)}
        for stage in trainings.values():
            if (estimate := self._at_individual_rate(stage)).cpu_seconds is not None:
                both = sums.setdefault(stage.settings["threads"], [0.0, 0.0])
                both[0] += estimate.cpu_seconds
                both[1] += estimate.seconds or 0.0
        return {threads: spent / wall for threads, (spent, wall) in sums.items() if spent and wall}

    def _at_individual_rate(self, stage: Stage) -> CostEstimate:
        """Return the predicted cost of a stage with its recorded or calibrated wall-clock time."""
        key = self.keys.of_record(stage)
        if key not in self._known:
            self._known[key] = self._from_record(stage, key) or self._from_calibration(stage) or UNKNOWN
        return self._known[key]

    def is_calibrated(self, stage: Stage) -> bool:
        """Return whether a stage is calibrated (in CPU seconds, unless it runs on a GPU)."""
        forecast = stage.about.forecaster
        return forecast is not None and forecast.is_calibrated(stage, self.costs, self.keys.of_speed(stage))

    def _from_record(self, stage: Stage, key: str) -> CostEstimate | None:
        record = self.costs.read(CostRecord, key, device_name(stage.settings.get("device", "cpu")))
        if record is None:
            return None
        return CostEstimate(record.seconds, "record", record.peak, None if on_gpu(stage) else record.cpu_seconds)

    def _from_calibration(self, stage: Stage) -> CostEstimate | None:
        forecast = stage.about.forecaster
        known = None if forecast is None else forecast.predicted(stage, self.costs, self.keys.of_speed(stage))
        if known is None:
            return None
        seconds, memory, cpu_seconds, load = known
        return CostEstimate(seconds, "calibration", memory, cpu_seconds, load)


def _is_training(stage: Stage) -> bool:
    """Return whether a stage performs updates itself."""
    return stage.about.trains and not stage.is_extracted


def total(seconds: Iterable[float | None]) -> tuple[float, int]:
    """Return the sum of the known seconds, and the number of unknown values."""
    values = [*seconds]
    known = [value for value in values if value is not None]
    return math.fsum(known), len(values) - len(known)


def on_gpu(stage: Stage) -> bool:
    """Return whether a stage runs on a GPU, where CPU seconds do not determine the time."""
    return stage.settings.get("device") == "cuda"


def ranks(stages: Sequence[Stage], estimates: CostEstimates, side_by_side: int) -> dict[str, float]:
    """Return a rank for each stage, by key; of all stages that can start, the lowest rank starts first.

    Training stages come first, longest first; the stages that use them follow in the order of the plan, so that a
    loaded model serves several stages. Without parallelism, all stages keep the order of the plan, which completes
    cells early.
    """
    places = {stage.key: float(place) for place, stage in enumerate(stages)}
    if side_by_side < 2:
        return places
    trainings = [stage for stage in stages if stage.about.trains]
    length = _lengths(trainings, estimates)
    longest = sorted(trainings, key=lambda stage: (-length[stage.key], places[stage.key]))
    return places | {stage.key: float(place - len(longest)) for place, stage in enumerate(longest)}


def _lengths(trainings: Sequence[Stage], estimates: CostEstimates) -> Mapping[str, float]:
    """Return the predicted seconds of training stages; if unknown, estimate them from rough size and known rates."""
    known = {stage.key: estimates.of(stage).seconds for stage in trainings}
    sizes = {
        stage.key: forecast.rough_size(stage.settings) for stage in trainings if (forecast := stage.about.forecaster)
    }
    rates = [seconds / sizes[key] for key, seconds in known.items() if seconds and sizes.get(key)]
    rate = median(rates) if rates else 1.0
    return {key: rate * sizes.get(key, 0.0) if seconds is None else seconds for key, seconds in known.items()}
