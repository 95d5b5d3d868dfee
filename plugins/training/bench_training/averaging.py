"""Averages of weights over updates or evaluations, which are judged and kept in place of the last weights."""

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
    """The average of the weights of a model, in their own precision.

    Exponential: a <- decay a + (1 - decay) w after each update; it begins as the weights themselves. Uniform: the
    mean over all updates after `start` (Polyak averaging). Checkpoints: the mean over the last evaluations (as
    Vaswani et al., 2017, section 6.1). Buffers, and weights that are not trained, are those of the last update.
    """

    config: Averaging
    count: int = 0  # of updates or evaluations behind the average
    mean: dict[str, Tensor] = field(default_factory=dict)
    recent: list[dict[str, Tensor]] = field(default_factory=list)  # at the last evaluations

    @torch.no_grad()
    def updated(self, model: nn.Module, step: int) -> None:
        """Take in the weights after an update, of which there were `step`."""
        if self.config.kind == "checkpoints" or step <= self.config.start:
            return
        weights = _weights(model)
        self.count += 1
        if self.count == 1:
            self.mean = {name: tensor.detach().clone() for name, tensor in weights.items()}
            return
        share = 1 - self.config.decay if self.config.kind == "exponential" else 1 / self.count
        torch._foreach_lerp_([*self.mean.values()], [weights[name] for name in self.mean], share)

    def evaluated(self, model: nn.Module) -> None:
        """Take in the weights at an evaluation, which are about to be judged."""
        if self.config.kind == "checkpoints":
            now = {name: tensor.detach().clone() for name, tensor in _weights(model).items()}
            self.recent = [*self.recent, now][-self.config.last :]
            self.count = len(self.recent)
            self.mean = {name: sum(one[name] / self.count for one in self.recent) for name in now}  # type: ignore[misc]

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """Put the average in place of the weights of a model inside the block."""
        weights = _weights(model)
        own = {name: weights[name].detach().clone() for name in self.mean}
        _copy(weights, self.mean)
        try:
            yield
        finally:
            _copy(weights, own)

    def restart(self) -> None:
        """Forget all weights, as a new phase begins."""
        self.count, self.mean, self.recent = 0, {}, []

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"count": self.count, "mean": self.mean, "recent": self.recent}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        self.count, self.mean, self.recent = state["count"], state["mean"], state["recent"]


@torch.no_grad()
def _copy(weights: Weights, values: Weights) -> None:
    for name, value in values.items():
        weights[name].copy_(value)


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights that are averaged, by name."""
    return {name: one for name, one in model.named_parameters() if one.is_floating_point() and one.requires_grad}
