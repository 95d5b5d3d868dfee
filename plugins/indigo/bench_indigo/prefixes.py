"""Several orders of one target as a prefix tree of items."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bench_core import Batch, Rows


@dataclass(frozen=True)
class Prefixes(Rows):
    """The items that W orders of each of N targets place, those of equal beginnings once.

    Items 0 and 1 are the boundaries. The state of item 1 predicts the first word of every order, that of a word what
    follows it: another word, or stop. A single order is a chain.
    """

    index: Tensor  # [N, I] where in `gold` each item's word is; 0 for boundaries and padding
    places: Tensor  # [N, I] z, of boundaries 0 and T
    parent: Tensor  # [N, I] the item whose state predicts this one
    seen: Tensor  # [N, I, I] whether the one sees the other: itself and all that were placed before it
    share: Tensor  # [N, I] of the orders, those that place this item there; 0 for boundaries and padding
    path: Tensor  # [N, W, T - 1] the items of each order; 0 after its last word
    last: Tensor  # [N, W] the item whose state predicts stop
    weight: Tensor  # [N, W] of each order, 1 in all


def prefixes(batch: Batch, orders: Tensor, alive: Tensor | None = None) -> Prefixes:
    """Return the items of `orders` [N, W, T], positions in `gold`; all orders alike, but those not `alive` [N, W]."""
    rows, width, steps = orders.shape[0], orders.shape[1], orders.shape[2] - 1
    orders = orders[:, :, :steps]
    if alive is None:
        alive = torch.ones(rows, width, dtype=torch.bool, device=orders.device)
    words = batch.length - 1
    real = torch.arange(steps, device=words.device) < words[:, None]  # [N, T - 1]

    alike = (orders[:, :, None] == orders[:, None]).to(torch.uint8).cumprod(3).bool() & alive[:, None, :, None]
    first = alike.to(torch.uint8).argmax(2)  # [N, W, T - 1] the first order that begins alike
    own = torch.arange(width, device=words.device)[:, None]
    new = (first == own) & real[:, None] & alive[:, :, None]
    number = 1 + new.transpose(1, 2).flatten(1).cumsum(1).view(rows, steps, width).transpose(1, 2)
    path = number.gather(1, first) * (real[:, None] & alive[:, :, None])  # [N, W, T - 1]
    items = 2 + int(new.flatten(1).sum(1).max())

    flat, ends = path.flatten(1), torch.cat([path.new_ones(rows, width, 1), path], 2)
    index = flat.new_zeros(rows, items).scatter(1, flat, orders.flatten(1))
    index[:, :2] = 0
    parent = flat.new_ones(rows, items).scatter(1, flat, ends[:, :, :-1].flatten(1))
    parent[:, :2] = 1
    places = index + 1
    places[:, 0], places[:, 1] = 0, steps + 1

    weight = alive / alive.sum(1, keepdim=True)
    share = weight.new_zeros(rows, items).scatter_add(1, flat, weight[:, :, None].expand(path.shape).flatten(1))
    share[:, :2] = 0
    last = ends.gather(2, words[:, None, None].expand(-1, width, 1))[:, :, 0]
    return Prefixes(index, places, parent, _seen(path, items), share, path, last.clamp(min=1), weight)


def _seen(path: Tensor, items: int) -> Tensor:
    """Return which items each sees [N, I, I]."""
    pairs = path[:, :, :, None] * items + path[:, :, None]  # [N, W, T - 1, T - 1], both in the order of one path
    pairs = pairs.tril() * (path > 0)[:, :, :, None]  # what is left over falls on item 0, which sees itself
    seen = torch.eye(items, dtype=torch.bool, device=path.device).repeat(len(path), 1, 1)
    seen.view(len(path), -1).scatter_(1, pairs.flatten(1), True)
    seen[:, 1:, 0] = True
    seen[:, 1:, 1] = True
    return seen
