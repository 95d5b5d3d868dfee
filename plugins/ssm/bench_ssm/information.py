"""Entropy of tokens given states, and mutual information of tokens and noise, in bits."""

from collections.abc import Mapping
from math import log

import torch
from torch import Tensor

from bench_core import Hypothesis

BITS_PER_NAT = 1 / log(2)


def entropy(log_probs: Tensor) -> Tensor:
    """Return entropies in bits [*] of distributions [*, V]."""
    bits: Tensor = torch.special.entr(log_probs.exp()).sum(-1) * BITS_PER_NAT
    return bits


def information(log_probs: Tensor) -> Tensor:
    """Return the mutual information [*] of tokens and noise in bits, given log-probabilities per sample [*, K, V]."""
    mean = (log_probs.logsumexp(-2) - log(log_probs.shape[-2])).clamp(max=0)
    return (entropy(mean) - entropy(log_probs).mean(-1)).clamp(min=0)


def by_halves(log_probs: Tensor) -> Tensor:
    """Return the mean [*] of the information estimates from both halves of the noise; halving doubles their bias."""
    half = log_probs.shape[-2] // 2
    return (information(log_probs[..., :half, :]) + information(log_probs[..., half:, :])) / 2


def summary(sample: Hypothesis, values: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the statistics of a sample's trajectory that metrics can read, given its values by step."""
    alive = min(len(sample.tokens) + sample.finished, len(values["information"]))
    summary = {"steps_until_stop": float(alive)}
    for name, steps in values.items():
        summary[name] = sum(steps) / len(steps)
        summary |= {f"{name}_{t}": value for t, value in enumerate(steps, 1)}
        if name != "entropy":
            summary[f"{name}_until_stop"] = sum(steps[:alive])
    return summary
