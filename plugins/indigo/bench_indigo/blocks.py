"""Transformer blocks: attention with relative positions, and residual layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

Pair: TypeAlias = tuple[Tensor, Tensor]  # keys and values [N, m, K, e]


@dataclass(frozen=True)
class Shape:
    """The sizes of a Transformer."""

    width: int  # d, of every state
    heads: int  # m, each of d / m = e numbers
    feed_forward: int
    dropout: float
    relative: bool  # whether self-attention knows relations


@dataclass(frozen=True)
class Sight:
    """What Q queries of each row may attend to among K keys, and what of that stands left of them."""

    shut: Tensor  # [N, 1, Q, K] 0, or -inf where nothing is to be seen
    right: Tensor | None = None  # [N, 1, Q, K] 1 where the query stands right of the key, 0 elsewhere
    own: Tensor | None = None  # [N, 1, Q, 1] the key of the query itself


@dataclass(frozen=True)
class Room:
    """Buffers of keys and values [N, m, K, e] with room for more, of which new ones fill a few columns."""

    pair: Pair
    columns: slice

    def filled(self, keys: Tensor, values: Tensor) -> Pair:
        """Write new keys and values [N, m, Q, e]; return all there is room for."""
        for buffer, new in zip(self.pair, (keys, values), strict=True):
            buffer[:, :, self.columns] = new
        return self.pair


@dataclass(frozen=True)
class Sources:
    """What there is to see of B sources, for each layer that attends to them."""

    pairs: tuple[Pair, ...]  # [B, m, S, e] each
    shut: Tensor  # [B, 1, 1, S] 0, or -inf at padding
    more: Tensor | None = None  # [B, *] whatever else belongs to each

    def change(self, change: Callable[[Tensor], Tensor]) -> Sources:
        """Return sources whose tensors went through `change`."""
        pairs = tuple((change(keys), change(values)) for keys, values in self.pairs)
        return Sources(pairs, change(self.shut), None if self.more is None else change(self.more))


def shut(seen: Tensor, like: Tensor) -> Tensor:
    """Return 0 where something is `seen`, and -inf elsewhere."""
    return torch.zeros(seen.shape, dtype=like.dtype, device=like.device).masked_fill(~seen, -torch.inf)


def sight(seen: Tensor, known: Tensor | None, like: Tensor) -> Sight:
    """Return what items see of each other: what is `seen` [N, I, I], by relations `known` [N, I, I] if there are any.

    Every item sees itself.
    """
    if known is None:
        return Sight(shut(seen[:, None], like))
    own = torch.arange(seen.shape[1], device=seen.device)[None, None, :, None]
    return Sight(shut(seen[:, None], like), (known > 0)[:, None].to(like.dtype), own)


class SelfAttention(nn.Module):
    """score_ij = u_i Q . (u_j K + A[r_ij]) / sqrt(e) for each head, with one table A of three relations for all.

    A softmax does not change where all its scores do. So A[-1] is taken off the others, and (u_i Q) . A[r_ij] becomes
    what is added where i stands right of j, and at i itself: nothing of size (T, T, e), and no lookup (T, T).
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.scale = shape.heads, (shape.width // shape.heads) ** -0.5
        self.inward = nn.Linear(shape.width, 3 * shape.width)
        self.outward = nn.Linear(shape.width, shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        self.relation = nn.Parameter(torch.empty(3, shape.width // shape.heads)) if shape.relative else None
        if self.relation is not None:
            nn.init.normal_(self.relation, std=self.scale)
        for part in self.inward.weight.chunk(3):
            nn.init.xavier_uniform_(part)
        nn.init.zeros_(self.inward.bias)
        _initialise(self.outward)

    def forward(self, states: Tensor, sight: Sight, room: Room | None = None) -> Tensor:
        """Return what `states` [N, Q, d] attend to [N, Q, d]: among themselves, or in a room that they fill."""
        rows, number, width = states.shape
        parts = self.inward(states).view(rows, number, 3, self.heads, -1)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4).unbind()  # [N, m, Q, e] each
        queries = queries * self.scale
        if room is not None:
            keys, values = room.filled(keys, values)
        scores = self._related(queries, queries @ keys.transpose(2, 3), sight) + sight.shut
        found = self.dropout(scores.softmax(3)) @ values
        outward: Tensor = self.outward(found.transpose(1, 2).reshape(rows, number, width))
        return outward

    def _related(self, queries: Tensor, scores: Tensor, sight: Sight) -> Tensor:
        """Return scores [N, m, Q, K] that know relations."""
        if self.relation is None or sight.right is None or sight.own is None:
            return scores
        own, right = (queries @ (self.relation[1:] - self.relation[:1]).T).chunk(2, 3)  # [N, m, Q, 1] each
        scores = torch.addcmul(scores, sight.right, right)
        places = sight.own.expand(*scores.shape[:3], 1)
        return scores.scatter_add_(3, places, own.to(scores.dtype))


class CrossAttention(nn.Module):
    """Attention to the states of a source."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.scale = shape.heads, (shape.width // shape.heads) ** -0.5
        self.queries = nn.Linear(shape.width, shape.width)
        self.sources = nn.Linear(shape.width, 2 * shape.width)
        self.outward = nn.Linear(shape.width, shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        for part in self.sources.weight.chunk(2):
            nn.init.xavier_uniform_(part)
        nn.init.zeros_(self.sources.bias)
        _initialise(self.queries)
        _initialise(self.outward)

    def read(self, source: Tensor) -> Pair:
        """Return keys and values of a source [B, S, d]."""
        parts = self.sources(source).view(*source.shape[:2], 2, self.heads, -1)
        keys, values = parts.permute(2, 0, 3, 1, 4).contiguous().unbind()
        return keys, values

    def forward(self, states: Tensor, pair: Pair, shut: Tensor) -> Tensor:
        """Return what `states` [B, Q, d] attend to in their sources."""
        rows, number, width = states.shape
        queries = self.queries(states).view(rows, number, self.heads, -1).transpose(1, 2) * self.scale
        scores = queries @ pair[0].transpose(2, 3) + shut
        found = self.dropout(scores.softmax(3)) @ pair[1]
        outward: Tensor = self.outward(found.transpose(1, 2).reshape(rows, number, width))
        return outward


class Layer(nn.Module):
    """x := norm(x + dropout(f(x))), with f self-attention, then attention to a source if there is one, then maps."""

    def __init__(self, shape: Shape, crossing: bool) -> None:
        super().__init__()
        self.attention = SelfAttention(shape)
        self.cross = CrossAttention(shape) if crossing else None
        self.widen = nn.Linear(shape.width, shape.feed_forward)
        self.narrow = nn.Linear(shape.feed_forward, shape.width)
        self.norms = nn.ModuleList(nn.LayerNorm(shape.width) for _ in range(2 + crossing))
        self.dropout = nn.Dropout(shape.dropout)
        _initialise(self.widen)
        _initialise(self.narrow)

    def forward(
        self, states: Tensor, sight: Sight, room: Room | None = None, source: tuple[Pair, Tensor] | None = None
    ) -> Tensor:
        """Return the next layer's input [N, Q, d]; `source` is a pair of its own, and what of that is shut."""
        norms = iter(self.norms)
        states = next(norms)(states + self.dropout(self.attention(states, sight, room)))
        if self.cross is not None and source is not None:
            states = next(norms)(states + self.dropout(self.cross(states, *source)))
        widened = self.dropout(self.widen(states).relu())
        last: Tensor = next(norms)(states + self.dropout(self.narrow(widened)))
        return last


class Embedding(nn.Embedding):
    """Embeddings, read as sqrt(d) times what is stored, so that they can be the matrix of logits as well."""

    def reset_parameters(self) -> None:
        """Draw weights anew."""
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return [*, d] for tokens [*]."""
        scale: float = self.embedding_dim**0.5
        return super().forward(tokens) * scale


class Words(nn.Module):
    """p(word) is proportional to exp((h F) . e_word), with F only if `mapped`; `tied` to the embeddings, or not."""

    def __init__(self, width: int, tokens: int, tied: bool, mapped: bool) -> None:
        super().__init__()
        self.tokens = tokens
        self.map = nn.Linear(width, width, bias=False) if mapped else nn.Identity()
        self.weight = None if tied else nn.Parameter(torch.empty(tokens, width))
        if self.weight is not None:
            nn.init.normal_(self.weight, std=width**-0.5)
        if isinstance(self.map, nn.Linear):
            _initialise(self.map)

    def forward(self, states: Tensor, embedding: nn.Embedding) -> Tensor:
        """Return logits [*, V] of the first V embeddings; there may be more, which are never predicted."""
        weight = embedding.weight[: self.tokens] if self.weight is None else self.weight
        logits: Tensor = linear(self.map(states), weight)
        return logits


def sinusoids(first: int, number: int, like: Tensor) -> Tensor:
    """Return [number, d] for positions from `first` on (Vaswani et al., 2017, section 3.5)."""
    width = like.shape[-1]
    rates = torch.exp(torch.arange(0, width, 2, device=like.device) * (-log(10_000) / width))
    angles = torch.arange(first, first + number, device=like.device)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, :width].to(like.dtype)


def _initialise(layer: nn.Linear) -> None:
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
