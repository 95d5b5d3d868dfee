"""Mean losses since the last evaluation, and checks for divergence, without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bench_core.errors import Fault
from bench_core.model import Loss

READ_EVERY = 50  #: updates between readings of the log; each reading waits for the GPU


@dataclass
class Average:
    """Mean losses of several batches, weighted by target tokens; only `values` waits for the device.

    A term that is missing in some batches is averaged over the other batches.
    """

    totals: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)

    def add(self, loss: Loss, gradient_norm: Tensor | None = None, parts: Sequence[Loss] | None = None) -> None:
        """Add a batch and the loss terms of the parts in which it was computed (default: the whole batch)."""
        self._add({"loss": loss.value}, loss.weight)
        for part in [loss] if parts is None else parts:
            self._add(part.parts, part.weight)
        if gradient_norm is not None:
            self._add({"gradient_norm": gradient_norm}, loss.weight)

    def _add(self, terms: Mapping[str, Tensor], weight: Tensor) -> None:
        weight = weight.detach().double()
        for name, value in terms.items():
            self.totals[name] = self.totals.get(name, 0) + value.detach().double() * weight
            self.weights[name] = self.weights.get(name, 0) + weight

    def means(self) -> dict[str, Tensor]:
        """Return the current means: [] for a single model, [S] for copies."""
        return {name: total / self.weights[name] for name, total in self.totals.items()}

    def values(self) -> dict[str, float]:
        """Return the current means of a single model."""
        return {name: float(mean) for name, mean in self.means().items()}

    def copy(self) -> Average:
        """Return a copy, to be passed to `since` later."""
        return Average({**self.totals}, {**self.weights})

    def since(self, before: Average) -> Average:
        """Return the average of the batches added since the copy `before` was made."""
        average = Average()
        for name, total in self.totals.items():
            if before.weights.get(name) is not self.weights[name]:
                average.totals[name] = total - before.totals.get(name, 0)
                average.weights[name] = self.weights[name] - before.weights.get(name, 0)
        return average

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"totals": self.totals, "weights": self.weights}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state`."""
        self.totals, self.weights = dict(state["totals"]), dict(state["weights"])


class DivergenceMonitor:
    """Records the first update whose loss or gradient is not finite, or whose loss has no positive weight.

    The record stays on the device; `failures` waits for it.
    """

    def __init__(self) -> None:
        self.first: Tensor | None = None  # [4], or [S, 4] for copies: step (0 if none), loss, weight, norm

    def record(self, step: int, loss: Loss, norm: Tensor, scaled: bool = False) -> None:
        """Check an update; with loss scaling, the gradient may be infinite, because the update is then skipped."""
        if loss.value.device.type == "cpu" and loss.value.dim() == 0 and not scaled and _is_sound(loss, norm):
            return  # fast path: numbers in main memory
        value, weight = loss.value.detach().double(), loss.weight.detach().double()
        is_sound = torch.isfinite(value) & (weight > 0) & (weight < math.inf)
        if not scaled:
            is_sound &= torch.isfinite(norm)
        steps = torch.full_like(value, step)
        row = torch.stack((steps, value, weight, norm.double().expand_as(value)), -1)
        row = torch.where(is_sound[..., None], torch.zeros_like(row), row)
        self.first = row if self.first is None else torch.where(self.first[..., :1] > 0, self.first, row)

    def failures(self) -> list[str | None]:
        """Return the failure of each copy, or of the single model; None if there is no failure."""
        if self.first is None:
            return [None]
        return [_message(*row) if row[0] else None for row in self.first.reshape(-1, 4).tolist()]


def _is_sound(loss: Loss, norm: Tensor) -> bool:
    value, weight, size = loss.value.item(), loss.weight.item(), norm.item()
    return math.isfinite(value) and 0 < weight < math.inf and math.isfinite(size)


def _message(step: float, value: float, weight: float, norm: float) -> Fault:
    if not 0 < weight < math.inf:
        return f"step {step:.0f}: the weight of the loss is {weight:g}; it must be the number of target tokens."
    return (
        f"step {step:.0f}: the loss is {value:g} and the gradient's norm {norm:g}. "
        "Lower `lr`, set `clip`, or train in fp32."
    )
