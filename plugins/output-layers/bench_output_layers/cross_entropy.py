"""Exact cross-entropy of a linear layer's softmax that never holds the logits of all tokens.

The forward pass computes logits in chunks of tokens and stores only their logsumexp [M]; the backward pass computes
each chunk again, and gradients from its probabilities.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_LOGITS = 2**22  # logits per chunk (16 MiB in float32): small chunks stay in the processor's cache


def chunked_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, smoothing: float = 0.0
) -> Tensor:
    """Return the cross-entropy [M] of `gold` [M] and the softmax of W h + b.

    Given are `hidden` [M, H], `weight` [V, H] and `bias` [V]. With label smoothing s, the target has probability
    1 - s + s / V, every other token s / V.
    """
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind):  # which does not reach into a custom function
        hidden, weight = (tensor.to(torch.get_autocast_dtype(kind)) for tensor in (hidden, weight))
    costs: Tensor = _ChunkedCrossEntropy.apply(hidden, weight, bias, gold, smoothing)  # type: ignore[no-untyped-call]
    return costs


class _ChunkedCrossEntropy(torch.autograd.Function):
    """logsumexp_v z_v - (1 - s) z_gold - s mean_v z_v, with z = W h + b."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, smoothing: float) -> Tensor:
        norm = bias.new_full((len(hidden),), -torch.inf, dtype=_precision(bias))
        for _, logits in _chunks(hidden, weight, bias):
            highest = torch.maximum(norm, logits.amax(1))
            total = (norm - highest).exp_() + logits.sub_(highest[:, None]).exp_().sum(1)
            torch.add(highest, total.log_(), out=norm)
        ctx.save_for_backward(hidden, weight, bias, gold, norm)
        ctx.smoothing = smoothing
        costs = norm - (1 - smoothing) * ((hidden * weight[gold]).sum(1, dtype=norm.dtype) + bias[gold])
        if smoothing:
            costs -= smoothing * (hidden.to(norm.dtype) @ weight.mean(0, dtype=norm.dtype) + bias.mean())
        return costs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        hidden, weight, bias, gold, norm = ctx.saved_tensors
        scaled = (hidden * grad[:, None]).to(hidden.dtype)
        grad_hidden = torch.zeros_like(hidden, dtype=norm.dtype)
        grad_weight, grad_bias = torch.empty_like(weight), torch.empty_like(bias)
        with torch.autocast(hidden.device.type, enabled=False):
            for part, logits in _chunks(hidden, weight, bias):
                by_logit = logits.sub_(norm[:, None]).exp_()  # d cost / d logit, completed in the next lines
                if ctx.smoothing:
                    by_logit -= ctx.smoothing / len(weight)
                place = (gold - part.start)[:, None]
                inside = (place >= 0) & (place < by_logit.shape[1])
                by_logit.scatter_add_(
                    1, place.clamp(0, by_logit.shape[1] - 1), (ctx.smoothing - 1) * inside.to(logits.dtype)
                )
                grad_bias[part] = grad @ by_logit
                by_logit = by_logit.to(weight.dtype)
                torch.mm(by_logit.T, scaled, out=grad_weight[part])
                grad_hidden += by_logit @ weight[part]
        return (grad_hidden * grad[:, None]).to(hidden.dtype), grad_weight, grad_bias, None, None


def _chunks(hidden: Tensor, weight: Tensor, bias: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield ranges of tokens and their logits [M, v], at least in float32; the next chunk overwrites them.

    Without a buffer, small tensors between freed chunks would keep the memory of all chunks.
    """
    rows = len(hidden)
    width = min(len(weight), max(1, CHUNK_LOGITS // max(1, rows)))
    buffer = bias.new_empty(rows * width, dtype=_precision(bias))
    for part in (slice(first, min(first + width, len(weight))) for first in range(0, len(weight), width)):
        logits = buffer[: rows * (part.stop - part.start)].view(rows, -1) if rows else buffer.view(0, width)
        if hidden.dtype == bias.dtype == buffer.dtype:
            torch.addmm(bias[part], hidden, weight[part].T, out=logits)
        else:
            logits.copy_(torch.addmm(bias[part].to(hidden.dtype), hidden, weight[part].T))
        yield part, logits


def _precision(bias: Tensor) -> torch.dtype:
    return torch.promote_types(bias.dtype, torch.float32)
