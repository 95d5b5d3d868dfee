"""The k highest values with a fixed order of ties, on which beam search and truncation rely."""

from __future__ import annotations

import torch
from torch import Tensor


def topk_stable(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` highest values of each row [N, k] and their indices, descending; ties to the lower index.

    `topk` breaks ties arbitrarily: looking up one value more finds the rows with ties, which are sorted again.
    """
    k, size = min(k, values.shape[1]), values.shape[1]
    found, places = values.topk(min(k + 1, size), 1)
    tied = (found[:, 1:] == found[:, :-1]).any(1).nonzero()[:, 0]
    found, places = found[:, :k], places[:, :k]
    if len(tied):
        found[tied], places[tied] = _topk_of_ties(values[tied], k)
    return found, places


def _topk_of_ties(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    size = values.shape[1]
    least = values.topk(k, 1).values[:, -1:]
    place = torch.arange(size, device=values.device).expand_as(values)
    key = torch.where(values > least, place - size, torch.where(values == least, place, size))
    places = (key.topk(k, 1, largest=False).values % size).sort(1).values
    chosen, order = values.gather(1, places).sort(stable=True, dim=1, descending=True)
    return chosen, places.gather(1, order)
