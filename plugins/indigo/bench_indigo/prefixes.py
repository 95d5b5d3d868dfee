"""Several orders of a target as a prefix tree of items."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bench_core import Batch, Rows


@dataclass(frozen=True)
class Prefixes(Rows):
    """The items of W orders for each of N targets, as a tree that shares common prefixes.

    Items 0 and 1 are the boundaries. The state of item 1 predicts the first word of every order; the state of a word
    predicts its successor, a word or EOS. A single order is a path.
    """

    index: Tensor  # [N, I] index of the item's word in `gold`; 0 for boundaries and padding
    places: Tensor  # [N, I] z; 0 and T for boundaries
    parent: Tensor  # [N, I] item whose state predicts this item
    seen: Tensor  # [N, I, I] whether item i sees item j: itself and all items placed before it
    share: Tensor  # [N, I] weight of the orders with this item; 0 for boundaries and padding
    path: Tensor  # [N, W, T - 1] items of each order; 0 after its last word
    last: Tensor  # [N, W] item whose state predicts EOS
    weight: Tensor  # [N, W] weight of each order; sums to 1


def prefixes(batch: Batch, orders: Tensor, alive: Tensor | None = None) -> Prefixes:
    """Build the tree of `orders` [N, W, T] (positions in `gold`); `alive` orders [N, W] have equal weights."""
    rows, width, steps = orders.shape[0], orders.shape[1], orders.shape[2] - 1
    orders = orders[:, :, :steps]
    if alive is None:
        alive = torch.ones(rows, width, dtype=torch.bool, device=orders.device)
    words = batch.length - 1
    real = torch.arange(steps, device=words.device) < words[:, None]  # [N, T - 1]

    alike = (orders[:, :, None] == orders[:, None]).to(torch.uint8).cumprod(3).bool() & alive[:, None, :, None]
    first = alike.to(torch.uint8).argmax(2)  # [N, W, T - 1] first order with the same prefix
    order = torch.arange(width, device=words.device)[:, None]
    new = (first == order) & real[:, None] & alive[:, :, None]
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
    share = shares(path, weight, items)
    last = ends.gather(2, words[:, None, None].expand(-1, width, 1))[:, :, 0]
    return Prefixes(index, places, parent, _seen(path, items), share, path, last.clamp(min=1), weight)


def shares(path: Tensor, weight: Tensor, items: int) -> Tensor:
    """Return the sum of the weights [N, W] of the orders with each item [N, I]; 0 for boundaries and padding."""
    weights = weight[:, :, None].expand(path.shape).flatten(1)
    share = weight.new_zeros(len(path), items).scatter_add(1, path.flatten(1), weights)
    share[:, :2] = 0
    return share


def _seen(path: Tensor, items: int) -> Tensor:
    """Return which items each item sees [N, I, I]."""
    pairs = path[:, :, :, None] * items + path[:, :, None]  # [N, W, T - 1, T - 1], pairs of items on a path
    pairs = pairs.tril() * (path > 0)[:, :, :, None]  # excluded pairs become (0, 0), which is set anyway
    seen = torch.eye(items, dtype=torch.bool, device=path.device).repeat(len(path), 1, 1)
    seen.view(len(path), -1).scatter_(1, pairs.flatten(1), True)
    seen[:, 1:, 0] = True
    seen[:, 1:, 1] = True
    return seen
