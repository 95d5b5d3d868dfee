"""Gradient clipping: by the norm of the whole gradient, of that of each weight, or by value."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bench_training.optimizers import gradient_entries
from bench_training.settings import Clip


def clip_gradients(weights: Sequence[nn.Parameter], clip: Clip | None) -> Tensor:
    """Clip the gradients of weights; return the norm of the whole gradient before [].

    By `norm`, g becomes g min(1, norm / ||g||); by `each`, the gradient of each weight does so by itself; by `value`,
    every entry is at most that large.
    """
    gradients = [gradient_entries(each) for each in weights if each.grad is not None]
    norm = nn.utils.get_total_norm(gradients)
    if clip is None:
        return norm
    if clip.norm is not None:
        torch._foreach_mul_(gradients, (clip.norm / norm).clamp(max=1.0))
    elif clip.each is not None:
        torch._foreach_mul_(gradients, [_factor(one, clip.each) for one in torch._foreach_norm(gradients)])
    elif clip.value is not None:
        torch._foreach_clamp_min_(gradients, -clip.value)
        torch._foreach_clamp_max_(gradients, clip.value)
    return norm


def clip_copies(weights: Sequence[nn.Parameter], clip: Clip | None) -> Tensor:
    """Clip the gradients of stacked copies [S, *], each by itself; return their norms before [S]."""
    gradients = [each.grad for each in weights if each.grad is not None]
    flat = [one.reshape(len(one), -1) for one in gradients]
    norm: Tensor = torch.linalg.vector_norm(torch.cat(flat, 1), dim=1)
    if clip is None:
        return norm
    for one, rows in zip(gradients, flat, strict=True):
        if clip.norm is not None:
            one.mul_(_along(_factor(norm, clip.norm), one))
        elif clip.each is not None:
            one.mul_(_along(_factor(torch.linalg.vector_norm(rows, dim=1), clip.each), one))
        elif clip.value is not None:
            one.clamp_(-clip.value, clip.value)
    return norm


def _factor(norm: Tensor, most: float) -> Tensor:
    return (most / norm).clamp(max=1.0)


def _along(factors: Tensor, like: Tensor) -> Tensor:
    return factors.view(-1, *[1] * (like.dim() - 1))
