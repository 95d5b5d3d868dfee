"""Costs of orders, and weights of the orders found in a search: equal, or by their probabilities."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bench_indigo.plugin import IndigoConfig
from bench_indigo.prefixes import Prefixes, shares


@dataclass(frozen=True)
class OrderCosts:
    """Costs of the predictions along the orders of N targets, in nats; 0 at padding."""

    words: Tensor  # [N, I] per item
    slots: Tensor  # [N, I] per item
    stops: Tensor  # [N, W] of EOS after each order
    ends: Tensor | None  # [N, W] of the slot of the end, if it is learned
    slots_first: bool = False  # whether the end is an alternative to slots

    def along(self, tree: Prefixes) -> tuple[Tensor, Tensor]:
        """Return -log p of the words and of the slots along each order of a tree, in float64 [N, W].

        EOS counts as a word, or as a slot if slots come first.
        """
        words, slots = (
            part.double().gather(1, tree.path.flatten(1)).view(tree.path.shape).sum(2)  # 0 for item 0
            for part in (self.words, self.slots)
        )
        if self.slots_first:
            return words, slots + self.stops
        return words + self.stops, slots if self.ends is None else slots + self.ends


def sharpness(config: IndigoConfig, progress: float) -> float | None:
    """Return 1 / T of the weights at a share of a phase's updates; None if weights are uniform."""
    if config.weights == "uniform":
        return None
    start, end = (0.0, 0.0) if config.weights == "posterior" else config.rise
    return 1.0 if progress >= end else max(0.0, (progress - start) / (end - start))


def weighted(tree: Prefixes, costs: OrderCosts, sharpness: float) -> Prefixes:
    """Return a tree whose orders have weights proportional to p(y, pi | x) ** sharpness, without gradients.

    With `sharpness` 1, sum_pi weight_pi log p(y, pi | x) has the gradient of log sum_pi p(y, pi | x).
    """
    words, slots = costs.along(tree)
    logits = -sharpness * (words + slots).detach()
    weight = logits.masked_fill(tree.weight == 0, -torch.inf).softmax(1).to(tree.weight.dtype)
    return replace(tree, weight=weight, share=shares(tree.path, weight, tree.share.shape[1]))
