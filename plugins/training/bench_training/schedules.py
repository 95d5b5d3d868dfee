"""Schedules of learning rates: ours as formulas of the update, those of torch as they are, one after the other."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bench_core.errors import SuiteError
from bench_training.named_classes import OWN, class_of, tuples
from bench_training.settings import Schedule


@dataclass
class LearningRates:
    """Sets the learning rates of optimizers before each update, by a warm-up and a sequence of schedules.

    Updates are counted from the first one of the schedule. Each group of weights has its peak, `peak_lr`. All but
    `scale` follows from the number of the update, so that a resumed training needs to know no more.
    """

    optimizers: Sequence[torch.optim.Optimizer]
    schedules: Sequence[Schedule]
    warmup: int  # updates
    total: int  # updates
    epoch: int = 1  # updates of an epoch
    scale: float = 1.0  # by plateau schedules
    inside: list[Any] = field(default_factory=list)  # the schedule in force, if it is of torch, for each optimizer
    number: int = -1  # which one that is
    steps: int = 0  # that it has made

    def begin(self) -> None:
        """Compute everything anew from the peak rates, which may have changed."""
        self.inside = []

    def set(self, update: int) -> None:
        """Set the rates for an update, numbered from 1."""
        if update < self.warmup:
            self._scale(update / self.warmup)
            return
        number, begin, end = self._in_force(update)
        one = self.schedules[number]
        if one.name in OWN:
            self._scale(self._factor(one, update, begin, end))
            return
        if number != self.number or not self.inside:
            self._build(number, one)
        done = update - 1 - begin
        done = done if one.every == "update" else done // max(1, self.epoch)
        with warnings.catch_warnings(action="ignore"):  # of steps before the first update, where it is built anew
            for _ in range(done - self.steps):
                for each in self.inside:
                    each.step()
        self.steps = done

    def worse(self, update: int) -> None:
        """Reduce the rates after an evaluation without progress, if the schedule in force is a plateau."""
        one = self.schedules[self._in_force(update)[0]]
        if one.name == "plateau":
            self.scale *= one.more.get("factor", OWN["plateau"]["factor"])

    def _scale(self, factor: float) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak_lr"] * factor

    def _in_force(self, update: int) -> tuple[int, int, int]:
        """Return the number of the schedule in force, the updates before it, and those before its end."""
        begin = max(0, self.warmup - 1)
        for number, one in enumerate(self.schedules):
            lengths = [length for length in (one.updates, (one.epochs or 0) * self.epoch) if length]
            if one.share is not None:  # of the first, with the warm-up
                lengths.append(max(0, round(one.share * self.total) - (begin if number == 0 else 0)))
            end = begin + min(lengths) if lengths else max(self.total, begin)
            if update <= end or number == len(self.schedules) - 1:
                return number, begin, end
            begin = end
        raise AssertionError("there is at least one schedule")

    def _factor(self, one: Schedule, update: int, begin: int, end: int) -> float:
        """Return the factor of one of our schedules."""
        first = self.warmup if begin < self.warmup else begin  # the last update of the warm-up has the peak rate
        done = min(1.0, (update - first) / max(1, end - first))
        low = one.more.get("end", 0.0)
        if one.name == "linear":
            return float(low + (1 - low) * (1 - done))
        if one.name == "cosine":
            return float(low + (1 - low) * 0.5 * (1 + math.cos(math.pi * done)))
        if one.name == "inverse-sqrt":
            return math.sqrt(self.warmup / update)
        return self.scale if one.name == "plateau" else float(one.more.get("factor", 1.0))

    def _build(self, number: int, one: Schedule) -> None:
        """Build a schedule of torch, one for each optimizer, in its state before its first step."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group.update(group["given"], lr=group["peak_lr"])
                group.pop("initial_lr", None)  # of the schedule before
        self.inside, self.number, self.steps = [_built(one, each) for each in self.optimizers], number, 0


def _built(one: Schedule, optimizer: torch.optim.Optimizer) -> Any:
    try:
        return class_of("schedule", one.name)(optimizer, **tuples(one.more))
    except (TypeError, ValueError, KeyError) as error:
        raise SuiteError(f"schedule {one.name!r} cannot be built with these settings: {error}") from None
