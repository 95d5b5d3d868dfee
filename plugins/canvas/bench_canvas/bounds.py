"""Bounds of log p(canvas) for models that write one random place in each pass.

With a uniformly random order o of C places, log p(y) is at least the mean over orders of the chain rule,

    E_o sum_t log p(y_o(t) | y_o(<t)) = sum_k E_S (1 / k) sum_{i in S} log p(y_i | y outside S),

where S is a uniformly random set of k masked places: all places of S are equally likely to be next (Hoogeboom et al.,
2022, equation 3). This is the bound of masked diffusion with C discrete steps (Sahoo et al., 2024).
"""

from collections.abc import Sequence
from math import comb
from typing import Any

import torch
from torch import Tensor

from bench_canvas.canvas import MASK, Canvas
from bench_canvas.rows import sample_ranks
from bench_core import Rng, State, SuiteError

MAX_PLACES = 10  #: places of the widest canvas whose orders are all averaged, in 2^10 - 1 passes


def all_orders(model: Canvas[Any], known: State, target: Tensor, free: Tensor) -> Tensor:
    """Return the bound [N] of the tokens in the `free` places of `target` [N, C]: the mean over all C! orders.

    Takes 2^C - 1 passes. Raises SuiteError if more than MAX_PLACES places are free.
    """
    sizes: list[int] = free.sum(1).tolist()
    if max(sizes) > MAX_PLACES:
        raise SuiteError(
            f"`all-orders` needs 2^C - 1 passes for a canvas of C places; this canvas has {max(sizes)}, and at most "
            f"{MAX_PLACES} are possible. Use `by: sampled-orders`, or reduce `places`."
        )
    bit = (free.cumsum(1) - 1).clamp(min=0)
    total = torch.zeros(len(target), dtype=torch.float64, device=target.device)
    for subset in range(1, 2 ** max(sizes)):
        hidden = free & ((subset >> bit) & 1).bool()
        weights = total.new_tensor(_weights(subset, sizes))
        total += weights * hidden_log_probs(model, known, target, hidden).sum(1)
    return total


def _weights(subset: int, sizes: Sequence[int]) -> list[float]:
    """Return 1 / k times the share of a subset of k places among all such subsets; 0 if it exceeds a row's places."""
    k = subset.bit_count()
    return [1 / (k * comb(size, k)) if subset.bit_length() <= size else 0.0 for size in sizes]


def sampled_orders(
    model: Canvas[Any], known: State, target: Tensor, free: Tensor, ids: Tensor, rng: Rng, orders: int
) -> Tensor:
    """Return an unbiased estimate [N] of the bound of `all_orders`, from `orders` random orders of C passes each."""
    size = free.sum(1)
    total = torch.zeros(len(target), dtype=torch.float64, device=target.device)
    for number in range(orders):
        ranks = sample_ranks(ids, free, rng.fork(f"order {number}"))
        for k in range(1, int(size.max()) + 1):
            hidden = free & (ranks < k) & (k <= size)[:, None]
            total += hidden_log_probs(model, known, target, hidden).sum(1) / k
    return total / orders


def hidden_log_probs(model: Canvas[Any], known: State, target: Tensor, hidden: Tensor) -> Tensor:
    """Return log p [N, C] of the tokens of `target` in `hidden` places, given all others; 0 in other places."""
    log_probs = model.places(known, target.masked_fill(hidden, MASK))
    some = log_probs.gather(2, target.clamp(min=0)[:, :, None])[:, :, 0]
    return some.double().masked_fill(~hidden, 0.0)
