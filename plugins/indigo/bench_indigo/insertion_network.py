"""The network of the insertion model: items, and the slots between them (Gu et al., 2019, section 3)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bench_core import TaskInfo
from bench_indigo.blocks import EncodedSources
from bench_indigo.kv_cache import Note, Trail
from bench_indigo.network import TransformerNetwork
from bench_indigo.plugin import IndigoConfig
from bench_indigo.pointer import Pointer, slot_logits


class Surroundings(nn.Module):
    """Features of a slot for word prediction: a L for its left neighbour a, and b R for its right neighbour b."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, width, width))  # L and R
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the weights."""
        for part in self.weight:
            nn.init.xavier_uniform_(part)

    def sides(self, states: Tensor) -> Tensor:
        """Return the features [N, 2, I, d] of items [N, I, d] as left and as right neighbours of a slot."""
        projected: Tensor = linear(states, self.weight.flatten(0, 1))
        return projected.view(*states.shape[:2], 2, -1).transpose(1, 2)

    def forward(self, states: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return the word query [*, d], given the last item's state and the left and right features [*, d]."""
        return (states + left + right) * 3**-0.5


class InsertionNetwork(TransformerNetwork):
    """An encoder, a decoder with relative positions only, and a pointer to slots."""

    def __init__(self, config: IndigoConfig, info: TaskInfo) -> None:
        super().__init__(config, info, relative=True, others=2, mapped=True)
        self.config = config
        self.pointer = Pointer(config.d_model)
        if config.position_first:
            self.beside = Surroundings(config.d_model)

    def begin(self, sources: EncodedSources, note: Note) -> tuple[Tensor, Trail]:
        """Return the state [B, d] after both boundaries, and a trail, for each source."""
        boundaries = torch.tensor([self.tokens, self.tokens + 1], device=sources.mask.device)
        states = self.dropout(self.embed(boundaries.expand(len(sources.mask), -1)))
        states_out, trail = self.stack.begin(states, sources, note)
        return states_out[:, 1], trail

    def fit(self, queries: Tensor, trail: Trail, keys: Tensor) -> Tensor:
        """Return the scores [N, 2, I] of queries [N, d] for the keys of their items, which are columns of `keys`."""
        seats = trail.seats()
        scores = seats.table(queries) @ keys.flatten(1, 2).transpose(1, 2)  # [B, W, 2 K]
        columns = trail.columns[:, None].expand(-1, 2, -1)
        return seats.rows(scores).view(len(queries), 2, -1).gather(2, columns)

    def choices(self, scores: Tensor) -> Tensor:
        """Return the logits of slots [N, A], or of all their keys, given the key logits of all items [N, 2, I]."""
        if self.config.raw_keys:
            return torch.cat([scores[:, 1, :-1], scores[:, 0, 1:]], 1)
        return slot_logits(scores)

    def note(self, states: Tensor, sources: EncodedSources) -> tuple[Tensor, ...]:
        """Cache pointer keys and, if slots come first, the items' neighbour features."""
        keys = self.pointer.keys(states)
        return (keys, self.beside.sides(states)) if self.config.position_first else (keys,)
