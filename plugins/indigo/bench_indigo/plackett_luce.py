"""Distributions over the orders of a target's words: Plackett-Luce, and the bound that a posterior over orders gives.

Plackett-Luce draws words one by one without replacement, each in proportion to exp(score). Adding independent Gumbel
noise to the scores and sorting draws such an order at once (Gumbel top-k: Kool, van Hoof and Welling, 2019,
arXiv:1903.06059).
"""

from dataclasses import dataclass
from itertools import permutations
from math import factorial

import torch
from torch import Tensor

from bench_core import Rng


@dataclass(frozen=True)
class WeightedOrders:
    """W orders of each of N targets, to compute an expectation under a posterior q(pi | y, x)."""

    orders: Tensor  # [N, W, T], as input to `prefixes`
    alive: Tensor  # [N, W] which of them exist
    log_q: Tensor  # [N, W] log-probability of each order
    weight: Tensor  # [N, W] share of each order in the expectation; 0 if it does not exist

    def elbo(self, log_probs: Tensor) -> Tensor:
        """Return E_q[log p(y, pi | x) - log q(pi | y, x)] [N], given log p(y, pi | x) [N, W]."""
        return (self.weight * (log_probs - self.log_q).where(self.weight > 0, 0.0)).sum(1)

    def entropy(self) -> Tensor:
        """Return the entropy of q, in nats [N]."""
        return -(self.weight * self.log_q.where(self.weight > 0, 0.0)).sum(1)


def uniform(orders: Tensor, alive: Tensor) -> WeightedOrders:
    """Return the orders [N, W, T] that are `alive` [N, W], with equal probabilities."""
    number = alive.sum(1, keepdim=True).double()
    return WeightedOrders(orders, alive, -number.log().expand(alive.shape), alive / number)


def including(orders: Tensor, alive: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Return orders [N, W + 1, T] with another order [N, T], and which exist [N, W + 1]; it is counted once."""
    known = ((orders == order[:, None]).all(2) & alive).any(1, keepdim=True)
    return torch.cat([orders, order[:, None]], 1), torch.cat([alive, ~known], 1)


def sample_orders(scores: Tensor, number: Tensor, ids: Tensor, size: int, rng: Rng) -> Tensor:
    """Sample `size` orders of the first `number` [N] words of each row [N, size, T], given scores [N, T].

    The noise depends on the example's id. EOS and padding keep their places at the end.
    """
    steps = scores.shape[1]
    noise = torch.stack([rng.uniform(ids, each, steps) for each in range(size)], 1)  # [N, size, T]
    gumbel = -(-noise.log()).log()
    return _descending(scores.double()[:, None] + gumbel, number)


def best_order(scores: Tensor, number: Tensor) -> Tensor:
    """Return the most probable order of each row [N, T]: words by descending score, ties from left to right."""
    return _descending(scores[:, None], number)[:, 0]


def log_prob(scores: Tensor, orders: Tensor, number: Tensor) -> Tensor:
    """Return log q(pi) [N, W] of orders [N, W, T] of the first `number` [N] words, given scores [N, T]."""
    words = torch.arange(orders.shape[2], device=orders.device) < number[:, None, None]
    chosen = scores[:, None].expand(orders.shape).gather(2, orders)
    chosen = chosen.masked_fill(~words, torch.finfo(chosen.dtype).min / 2)  # -inf would have NaN gradients
    remaining = chosen.flip(2).logcumsumexp(2).flip(2)
    return (chosen - remaining).where(words, 0.0).sum(2)


def orders_to_score(scores: Tensor, number: Tensor, ids: Tensor, size: int, rng: Rng) -> WeightedOrders:
    """Return orders for an expectation under Plackett-Luce with scores [N, T] of `number` [N] words.

    If a target has at most `size` orders, these are all of its orders, so the expectation is exact; otherwise `size`
    sampled orders.
    """
    orders = sample_orders(scores, number, ids, size, rng)
    alive = torch.ones(orders.shape[:2], dtype=torch.bool, device=orders.device)
    exact = torch.zeros_like(number, dtype=torch.bool)
    for words in range(orders.shape[2]):
        if (count := factorial(words)) > size:
            break
        every = torch.tensor([*permutations(range(words))], dtype=torch.long, device=orders.device).view(count, words)
        table = torch.arange(orders.shape[2], device=orders.device).repeat(size, 1)
        table[:count, :words] = every
        row = number == words
        orders = torch.where(row[:, None, None], table, orders)
        alive = alive & ~(row[:, None] & (torch.arange(size, device=orders.device) >= count))
        exact = exact | row
    log_q = log_prob(scores.double(), orders, number)
    weight = torch.where(exact[:, None], log_q.exp() * alive, 1.0 / size)
    return WeightedOrders(orders, alive, log_q, weight)


def _descending(keys: Tensor, number: Tensor) -> Tensor:
    """Return the places of the first `number` [N] words by descending keys [N, W, T], followed by all others."""
    words = torch.arange(keys.shape[2], device=keys.device) < number[:, None, None]
    return (-keys).masked_fill(~words, torch.inf).argsort(dim=2, stable=True)
