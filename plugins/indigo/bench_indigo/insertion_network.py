"""The network of the insertion model: items, and the slots between them (Gu et al., 2019, section 3)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bench_core import TaskInfo
from bench_indigo.blocks import Sources
from bench_indigo.kv_cache import Note, Trail
from bench_indigo.network import EncoderDecoder
from bench_indigo.plugin import IndigoConfig
from bench_indigo.pointer import Pointer, slot_logits


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


class InsertionNetwork(EncoderDecoder):
    """An encoder, a decoder that knows only on which side of each other items stand, and a pointer to slots."""

    def __init__(self, config: IndigoConfig, info: TaskInfo) -> None:
        super().__init__(config, info, relative=True, others=2, mapped=True)
        self.config = config
        self.pointer = Pointer(config.d_model)
        if config.position_first:
            self.beside = Surroundings(config.d_model)

    def begin(self, sources: Sources, note: Note) -> tuple[Tensor, Trail]:
        """Return the state [B, d] after both boundaries, and a trail, for each source."""
        boundaries = torch.tensor([self.tokens, self.tokens + 1], device=sources.shut.device)
        states = self.dropout(self.embed(boundaries.expand(len(sources.shut), -1)))
        found, trail = self.stack.begin(states, sources, note)
        return found[:, 1], trail

    def fit(self, queries: Tensor, trail: Trail, keys: Tensor) -> Tensor:
        """Return how well queries [N, d] fit the keys [N, 2, I] of their items, which are in columns of `keys`."""
        seats = trail.seats()
        scores = seats.table(queries) @ keys.flatten(1, 2).transpose(1, 2)  # [B, W, 2 K]
        columns = trail.columns[:, None].expand(-1, 2, -1)
        return seats.rows(scores).view(len(queries), 2, -1).gather(2, columns)

    def choices(self, scores: Tensor) -> Tensor:
        """Return the logits of slots [N, A], or of all their keys, given those of all items' keys [N, 2, I]."""
        if self.config.raw_keys:
            return torch.cat([scores[:, 1, :-1], scores[:, 0, 1:]], 1)
        return slot_logits(scores)

    def note(self, states: Tensor, sources: Sources) -> tuple[Tensor, ...]:
        """Keep pointer keys; where slots come first, what items are to slots as well."""
        keys = self.pointer.keys(states)
        return (keys, self.beside.sides(states)) if self.config.position_first else (keys,)
