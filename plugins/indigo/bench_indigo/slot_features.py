"""Features of a slot, from which its word is predicted (Gu et al., 2019, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class Surroundings(nn.Module):
    """What a word may know of the slot that it is for: a L of its left neighbour, and b R of its right one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, width, width))  # L and R
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights anew."""
        for part in self.weight:
            nn.init.xavier_uniform_(part)

    def sides(self, states: Tensor) -> Tensor:
        """Return what items [N, I, d] are to slots [N, 2, I, d]: to the one right of them, then to the one left."""
        found: Tensor = linear(states, self.weight.flatten(0, 1))
        return found.view(*states.shape[:2], 2, -1).transpose(1, 2)

    def forward(self, states: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return what predicts a word [*, d], given the last items and what the neighbours are to its slot [*, d]."""
        return (states + left + right) * 3**-0.5
