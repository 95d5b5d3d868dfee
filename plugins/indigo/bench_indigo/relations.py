"""Relative positions of items: relations, places and slots (Gu et al., 2019, section 3.1).

Items come in generation order: the boundaries `<s>` (0) and `</s>` (1), then words. The place z of an item is its
position in reading order; only the order of places matters, not their values. R is stored as int8.
"""

import torch
from torch import Tensor


def relations(places: Tensor) -> Tensor:
    """Return R [*, I, I] of places z [*, I]: r_ij = sign(z_i - z_j), which is -1 if i stands left of j."""
    return (places[..., :, None] - places[..., None, :]).sign().to(torch.int8)


def neighbours(places: Tensor, seen: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the items left and right [N, P] of the slots where places `wanted` [N, P] belong.

    `places` [N, I] are the places of all items. `seen` [N, P, I] marks items that exist, on both sides of each slot.
    """
    here, there = places[:, None], wanted[:, :, None]
    left = here.masked_fill(~(seen & (here < there)), torch.iinfo(places.dtype).min).argmax(2)
    right = here.masked_fill(~(seen & (here > there)), torch.iinfo(places.dtype).max).argmin(2)
    return left, right
