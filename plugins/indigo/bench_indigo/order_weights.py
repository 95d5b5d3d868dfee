"""Weights of the orders found in a search: equal, or by their probabilities."""

from dataclasses import replace

import torch
from torch import Tensor

from bench_indigo.plugin import IndigoConfig
from bench_indigo.prefixes import Prefixes, shares


def sharpness(config: IndigoConfig, progress: float) -> float | None:
    """Return 1 / T of the weights at a share of a phase's updates; None if weights are uniform."""
    if config.weights == "uniform":
        return None
    start, end = (0.0, 0.0) if config.weights == "posterior" else config.rise
    return 1.0 if progress >= end else max(0.0, (progress - start) / (end - start))


def order_log_probs(tree: Prefixes, steps: Tensor, stops: Tensor) -> Tensor:
    """Return log p(y, pi | x) [N, W] of all orders in a tree, float64; -inf for orders that do not exist.

    `steps` [N, I] are the costs of items, 0 for item 0; `stops` [N, W] are the costs of the ends.
    """
    total = -stops.double() - steps.double().gather(1, tree.path.flatten(1)).view(tree.path.shape).sum(2)
    return total.masked_fill(tree.weight == 0, -torch.inf)


def weighted(tree: Prefixes, log_probs: Tensor, sharpness: float) -> Prefixes:
    """Return a tree whose orders have weights proportional to p(y, pi | x) ** sharpness, without gradients.

    With `sharpness` 1, sum_pi weight_pi log p(y, pi | x) has the gradient of log sum_pi p(y, pi | x).
    """
    missing = log_probs == -torch.inf
    logits = sharpness * log_probs.detach().masked_fill(missing, 0.0)  # 0 * inf is nan
    weight = logits.masked_fill(missing, -torch.inf).softmax(1).to(tree.weight.dtype)
    return replace(tree, weight=weight, share=shares(tree.path, weight, tree.share.shape[1]))
