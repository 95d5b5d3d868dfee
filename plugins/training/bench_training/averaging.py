"""Weight averages over updates or evaluations, which are evaluated and stored in place of the last weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from bench_training.settings import Averaging

Weights = Mapping[str, Tensor]


@dataclass
class WeightAverage:
    """The average of a model's weights, in the dtype of the weights.

    Exponential: a <- decay a + (1 - decay) w after each update, initialized with the weights. Uniform: the mean over
    all updates after `start` (Polyak averaging). Checkpoints: the mean over the last evaluations (Vaswani et al.,
    2017, section 6.1). Buffers and frozen weights keep their values from the last update.
    """

    config: Averaging
    count: int = 0  # number of updates or evaluations averaged
    mean: dict[str, Tensor] = field(default_factory=dict)
    recent: list[dict[str, Tensor]] = field(default_factory=list)  # weights at the last evaluations

    @torch.no_grad()
    def add_update(self, model: nn.Module, step: int) -> None:
        """Add the weights after update number `step`."""
        if self.config.kind == "checkpoints" or step <= self.config.start:
            return
        weights = _weights(model)
        self.count += 1
        if self.count == 1:
            self.mean = {name: tensor.detach().clone() for name, tensor in weights.items()}
            return
        share = 1 - self.config.decay if self.config.kind == "exponential" else 1 / self.count
        torch._foreach_lerp_([*self.mean.values()], [weights[name] for name in self.mean], share)

    def add_evaluation(self, model: nn.Module) -> None:
        """Add the weights at an evaluation, before they are evaluated."""
        if self.config.kind == "checkpoints":
            now = {name: tensor.detach().clone() for name, tensor in _weights(model).items()}
            self.recent = [*self.recent, now][-self.config.last :]
            self.count = len(self.recent)
            self.mean = {name: sum(weights[name] / self.count for weights in self.recent) for name in now}  # type: ignore[misc]

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """Replace the model's weights with the average inside the block."""
        weights = _weights(model)
        originals = {name: weights[name].detach().clone() for name in self.mean}
        _copy(weights, self.mean)
        try:
            yield
        finally:
            _copy(weights, originals)

    def restart(self) -> None:
        """Reset the average for a new phase."""
        self.count, self.mean, self.recent = 0, {}, []

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"count": self.count, "mean": self.mean, "recent": self.recent}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state`."""
        self.count, self.mean, self.recent = state["count"], state["mean"], state["recent"]


@torch.no_grad()
def _copy(weights: Weights, values: Weights) -> None:
    for name, value in values.items():
        weights[name].copy_(value)


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the averaged weights by name."""
    return {
        name: weight
        for name, weight in model.named_parameters()
        if weight.is_floating_point() and weight.requires_grad
    }
