"""What a training has lost since its last evaluation, and whether it is sound, without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bench_core.errors import Fault
from bench_core.model import Loss

READ_EVERY = 50  #: updates between readings of the log on a GPU, each of which waits for it


@dataclass
class Average:
    """Mean losses of several batches, weighted by target tokens; does not wait for the device before `values`.

    A term that some batches lack is averaged over those that have it.
    """

    totals: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)

    def add(self, loss: Loss, gradient_norm: Tensor | None = None, parts: Sequence[Loss] | None = None) -> None:
        """Add a batch, with the terms of the parts that it was computed in; by default they are its own."""
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
        """Return the current means, of a single model [], or of copies [S]."""
        return {name: total / self.weights[name] for name, total in self.totals.items()}

    def values(self) -> dict[str, float]:
        """Return the current means of a single model."""
        return {name: float(mean) for name, mean in self.means().items()}

    def copy(self) -> Average:
        """Return what has been added so far."""
        return Average({**self.totals}, {**self.weights})

    def since(self, before: Average) -> Average:
        """Return what has been added since `before`, a copy of this."""
        found = Average()
        for name, total in self.totals.items():
            if before.weights.get(name) is not self.weights[name]:
                found.totals[name] = total - before.totals.get(name, 0)
                found.weights[name] = self.weights[name] - before.weights.get(name, 0)
        return found

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"totals": self.totals, "weights": self.weights}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        self.totals, self.weights = dict(state["totals"]), dict(state["weights"])


class Soundness:
    """Notes the first update whose loss or gradient is not finite, or whose loss has no weight.

    It is kept on the device; `broken` waits for it.
    """

    def __init__(self) -> None:
        self.found: Tensor | None = None  # [4], or [S, 4] of copies: step (0 if none), loss, weight, norm

    def note(self, step: int, loss: Loss, norm: Tensor, scaled: bool = False) -> None:
        """Look at an update; a gradient that loss scaling leaves out may be infinite."""
        if loss.value.device.type == "cpu" and loss.value.dim() == 0 and not scaled and _is_sound(loss, norm):
            return  # numbers in main memory are looked at with less work
        value, weight = loss.value.detach().double(), loss.weight.detach().double()
        sound = torch.isfinite(value) & (weight > 0) & (weight < math.inf)
        if not scaled:
            sound &= torch.isfinite(norm)
        steps = torch.full_like(value, step)
        now = torch.stack((steps, value, weight, norm.double().expand_as(value)), -1)
        now = torch.where(sound[..., None], torch.zeros_like(now), now)
        self.found = now if self.found is None else torch.where(self.found[..., :1] > 0, self.found, now)

    def broken(self) -> list[str | None]:
        """Return what is wrong, for each copy or the single model; None where all is well."""
        if self.found is None:
            return [None]
        rows = self.found.reshape(-1, 4).tolist()
        return [_sentence(*row) if row[0] else None for row in rows]


def _is_sound(loss: Loss, norm: Tensor) -> bool:
    value, weight, size = loss.value.item(), loss.weight.item(), norm.item()
    return math.isfinite(value) and 0 < weight < math.inf and math.isfinite(size)


def _sentence(step: float, value: float, weight: float, norm: float) -> Fault:
    if not 0 < weight < math.inf:
        return f"step {step:.0f}: the loss has the weight {weight:g}, not its target tokens."
    return (
        f"step {step:.0f}: the loss is {value:g} and the gradient's norm {norm:g}. "
        "Lower `lr`, set `clip`, or train in fp32."
    )
