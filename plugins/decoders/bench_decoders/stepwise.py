"""Greedy choice and sampling, for any Stepper."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from bench_core import STOP, Batch, Decoder, Hypothesis, Noise, Stepper, draw, walk
from bench_decoders.plugin import GreedyConfig, NucleusConfig


class Greedy(Decoder[Stepper]):
    """Take the most probable action at every step; of equal ones the lower."""

    def __init__(self, config: GreedyConfig):
        self.config = config

    def decode(self, model: Stepper, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
        return [
            [h] for h in walk(model, batch, lambda log_probs, ids, step: log_probs.argmax(1), self.config.max_tokens)
        ]


class Nucleus(Decoder[Stepper]):
    """Draw among the likeliest actions that together hold more than `mass` (Holtzman et al., 2020).

    A consistent one keeps stop open at every step (Welleck et al., 2020, section 4.1).
    """

    def __init__(self, config: NucleusConfig):
        self.config = config

    def decode(self, model: Stepper, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
        pick = draw(noise)
        among = lambda log_probs, ids, step: pick(self.trim(log_probs), ids, step)  # noqa: E731
        return [[h] for h in walk(model, batch, among, self.config.max_tokens)]

    def trim(self, log_probs: Tensor) -> Tensor:
        """Return log-probabilities [N, A] with all but the nucleus at minus infinity."""
        probs, order = log_probs.double().exp().sort(stable=True, dim=1, descending=True)
        outside = pad(probs.cumsum(1)[:, :-1], (1, 0)) > self.config.mass
        shut = torch.zeros_like(outside).scatter(1, order, outside)
        if self.config.consistent:
            shut[:, STOP] = False  # where it is impossible it stays so
        return log_probs.masked_fill(shut, -torch.inf)
