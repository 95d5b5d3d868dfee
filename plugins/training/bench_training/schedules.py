"""Learning rate schedules: built-in formulas and torch classes, in sequence."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bench_core.errors import SuiteError
from bench_training.named_classes import BUILT_IN_SCHEDULES, class_of, tuples
from bench_training.settings import Schedule


@dataclass
class LearningRates:
    """Sets the learning rates of optimizers before each update, according to a warm-up and a sequence of schedules.

    Updates are counted from the start of the schedule. Each weight group has its own peak rate, `peak_lr`. Everything
    except `scale` is a function of the update number, so checkpoints store only `scale`.
    """

    optimizers: Sequence[torch.optim.Optimizer]
    schedules: Sequence[Schedule]
    warmup: int  # number of updates
    total: int  # number of updates
    epoch: int = 1  # updates per epoch
    scale: float = 1.0  # product of all plateau reductions
    torch_schedules: list[Any] = field(default_factory=list)  # the current torch schedule of each optimizer
    number: int = -1  # index of the current torch schedule
    steps: int = 0  # number of steps of the current torch schedule

    def begin(self) -> None:
        """Recompute all rates from the peak rates, which may have changed."""
        self.torch_schedules = []

    def set(self, update: int) -> None:
        """Set the rates for an update, counted from 1."""
        if update < self.warmup:
            self._scale(update / self.warmup)
            return
        number, begin, end = self._in_force(update)
        schedule = self.schedules[number]
        if schedule.name in BUILT_IN_SCHEDULES:
            self._scale(self._factor(schedule, update, begin, end))
            return
        if number != self.number or not self.torch_schedules:
            self._build(number, schedule)
        done = update - 1 - begin
        done = done if schedule.every == "update" else done // max(1, self.epoch)
        with warnings.catch_warnings(action="ignore"):  # warns of steps before the first update after a rebuild
            for _ in range(done - self.steps):
                for each in self.torch_schedules:
                    each.step()
        self.steps = done

    def worse(self, update: int) -> None:
        """Reduce the rates after an evaluation without progress, if the current schedule is a plateau."""
        schedule = self.schedules[self._in_force(update)[0]]
        if schedule.name == "plateau":
            self.scale *= schedule.more.get("factor", BUILT_IN_SCHEDULES["plateau"]["factor"])

    def _scale(self, factor: float) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak_lr"] * factor

    def _in_force(self, update: int) -> tuple[int, int, int]:
        """Return the index of the current schedule, and the numbers of updates before its start and its end."""
        begin = max(0, self.warmup - 1)
        for number, schedule in enumerate(self.schedules):
            lengths = [length for length in (schedule.updates, (schedule.epochs or 0) * self.epoch) if length]
            if schedule.share is not None:  # the share of the first schedule includes the warm-up
                lengths.append(max(0, round(schedule.share * self.total) - (begin if number == 0 else 0)))
            end = begin + min(lengths) if lengths else max(self.total, begin)
            if update <= end or number == len(self.schedules) - 1:
                return number, begin, end
            begin = end
        raise AssertionError("there is at least one schedule")

    def _factor(self, schedule: Schedule, update: int, begin: int, end: int) -> float:
        """Return the factor of a built-in schedule."""
        first = self.warmup if begin < self.warmup else begin  # the warm-up ends at the peak rate
        done = min(1.0, (update - first) / max(1, end - first))
        low = schedule.more.get("end", 0.0)
        if schedule.name == "linear":
            return float(low + (1 - low) * (1 - done))
        if schedule.name == "cosine":
            return float(low + (1 - low) * 0.5 * (1 + math.cos(math.pi * done)))
        if schedule.name == "inverse-sqrt":
            return math.sqrt(self.warmup / update)
        return self.scale if schedule.name == "plateau" else float(schedule.more.get("factor", 1.0))

    def _build(self, number: int, schedule: Schedule) -> None:
        """Build a torch schedule for each optimizer, before its first step."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group.update(group["given"], lr=group["peak_lr"])
                group.pop("initial_lr", None)  # set by the previous schedule
        self.torch_schedules = [_torch_schedule(schedule, each) for each in self.optimizers]
        self.number, self.steps = number, 0


def _torch_schedule(schedule: Schedule, optimizer: torch.optim.Optimizer) -> Any:
    try:
        return class_of("schedule", schedule.name)(optimizer, **tuples(schedule.more))
    except (TypeError, ValueError, KeyError) as error:
        raise SuiteError(f"schedule {schedule.name!r} cannot be built with these settings: {error}") from None
