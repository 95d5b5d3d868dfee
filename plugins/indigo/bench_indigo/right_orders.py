"""Which orders of a target are right, according to the task."""

import torch
from torch import Tensor

from bench_core import Batch

NEEDS = "needs"  #: key in `Batch.extras`; see `right`


def right_share(batch: Batch, orders: Tensor, log_probs: Tensor) -> dict[str, Tensor]:
    """Return the share of p(y, pi | x) on right orders among `orders` [N, W, T], as a value of scores.

    Empty if the task does not state which orders are right.
    """
    if NEEDS not in batch.extras:
        return {}
    mass = (log_probs.softmax(1) * right(batch.extras[NEEDS], orders)).sum(1)
    return {"right-orders": mass}


def right(needs: Tensor, orders: Tensor) -> Tensor:
    """Return which orders [N, W, T] meet all needs of their targets [N, W].

    `needs` [N, 2 C] are pairs, padded with -1: a place, and a set of places as bits, of which at least one must be
    generated before that place.
    """
    place, places = needs.view(len(needs), -1, 2).unbind(2) if needs.shape[1] else (needs, needs)  # [N, C]
    number = torch.arange(orders.shape[2], device=orders.device)
    is_member = ((places[:, :, None] >> number) & 1).bool()  # [N, C, T]
    turns = orders.argsort(2)  # [N, W, T]
    turn = turns.gather(2, place.clamp(min=0)[:, None].expand(-1, orders.shape[1], -1))  # [N, W, C]
    first = turns[:, :, None].masked_fill(~is_member[:, None], len(number)).amin(3)
    return ((first < turn) | (place < 0)[:, None]).all(2)
