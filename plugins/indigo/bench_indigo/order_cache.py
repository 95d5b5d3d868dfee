"""A cache of searched orders, reused in later updates."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench_core import Batch

ABOUT = 4  # numbers before the orders of an example: its id, when they end, how many there are, and of how many words


class KeptOrders(nn.Module):
    """The orders found for examples, each kept for so many epochs, of which the one of the search is the first.

    In training they are a part of the `state_dict`, so that a checkpoint has them, and it ends alike whether it was
    broken off or not. Of a model that is judged or done they are none: weights that are chosen are without them, and
    the next phase begins with none.
    """

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self.epochs = epochs
        self.found: dict[int, tuple[int, Tensor]] = {}  # the epoch that is the first without them, and [W, n]
        self.nothing = torch.zeros(0, dtype=torch.int32)

    def missing(self, batch: Batch, epoch: int) -> Tensor:
        """Return the rows [M] of which orders must be found."""
        rows = zip(batch.ids.tolist(), batch.length.tolist(), strict=True)
        found = [row for row, (id, length) in enumerate(rows) if not self._has(id, length - 1, epoch)]
        return torch.tensor(found, dtype=torch.long)

    def keep(self, batch: Batch, orders: Tensor, alive: Tensor, epoch: int) -> None:
        """Keep the orders [N, W, T] that are `alive` [N, W]."""
        rows = zip(batch.ids.tolist(), batch.length.tolist(), orders.cpu().int(), alive.cpu(), strict=True)
        for id, length, found, there in rows:
            self.found[id] = epoch + self.epochs, found[there, : length - 1].clone()

    def orders(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the orders of all rows [N, W, T], and which of them there are [N, W]."""
        found = [self.found[id][1] for id in batch.ids.tolist()]
        steps, width = batch.gold.shape[1], max(len(one) for one in found)
        orders = torch.arange(steps).repeat(len(found), width, 1)
        alive = torch.zeros(len(found), width, dtype=torch.bool)
        for row, one in enumerate(found):
            orders[row, : len(one), : one.shape[1]] = one
            alive[row, : len(one)] = True
        return orders.to(batch.ids.device), alive.to(batch.ids.device)

    def get_extra_state(self) -> Tensor:
        """Return all that is kept, as numbers in a row; nothing where it is not trained."""
        if not self.training or not self.found:
            return self.nothing
        parts = []
        for id, (until, orders) in self.found.items():
            parts += [torch.tensor([id, until, *orders.shape], dtype=torch.int32), orders.flatten()]
        return torch.cat(parts)

    def set_extra_state(self, state: Tensor) -> None:
        """Keep what `get_extra_state` told, and nothing else."""
        numbers, self.found, first = state.cpu(), {}, 0
        while first < len(numbers):
            id, until, width, words = numbers[first : first + ABOUT].tolist()
            last = first + ABOUT + width * words
            self.found[id] = until, numbers[first + ABOUT : last].view(width, words).clone()
            first = last

    def _has(self, id: int, words: int, epoch: int) -> bool:
        until, orders = self.found.get(id, (0, self.nothing[None]))
        return epoch < until and orders.shape[1] == words
