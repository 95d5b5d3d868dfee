"""Gradient clipping: by global norm, by the norm of each weight's gradient, or by value."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bench_training.optimizers import gradient_entries
from bench_training.settings import Clip


def clip_gradients(weights: Sequence[nn.Parameter], clip: Clip | None) -> Tensor:
    """Clip the gradients of weights; return the global norm before clipping [].

    `norm` scales the whole gradient g by min(1, norm / ||g||), `each` scales the gradient of each weight in this way,
    and `value` limits the absolute value of every entry.
    """
    gradients = [gradient_entries(each) for each in weights if each.grad is not None]
    norm = nn.utils.get_total_norm(gradients)
    if clip is None:
        return norm
    if clip.norm is not None:
        torch._foreach_mul_(gradients, (clip.norm / norm).clamp(max=1.0))
    elif clip.each is not None:
        torch._foreach_mul_(gradients, [_factor(each, clip.each) for each in torch._foreach_norm(gradients)])
    elif clip.value is not None:
        torch._foreach_clamp_min_(gradients, -clip.value)
        torch._foreach_clamp_max_(gradients, clip.value)
    return norm


def clip_copies(weights: Sequence[nn.Parameter], clip: Clip | None) -> Tensor:
    """Clip the gradients of stacked copies [S, *] separately; return their norms before clipping [S]."""
    gradients = [each.grad for each in weights if each.grad is not None]
    flat = [gradient.reshape(len(gradient), -1) for gradient in gradients]
    norm: Tensor = torch.linalg.vector_norm(torch.cat(flat, 1), dim=1)
    if clip is None:
        return norm
    for gradient, rows in zip(gradients, flat, strict=True):
        if clip.norm is not None:
            gradient.mul_(_along(_factor(norm, clip.norm), gradient))
        elif clip.each is not None:
            gradient.mul_(_along(_factor(torch.linalg.vector_norm(rows, dim=1), clip.each), gradient))
        elif clip.value is not None:
            gradient.clamp_(-clip.value, clip.value)
    return norm


def _factor(norm: Tensor, max_norm: float) -> Tensor:
    return (max_norm / norm).clamp(max=1.0)


def _along(factors: Tensor, like: Tensor) -> Tensor:
    return factors.view(-1, *[1] * (like.dim() - 1))
