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

    width: int  # d, size of a state
    heads: int  # m, each with d / m = e dimensions
    feed_forward: int
    dropout: float
    relative: bool  # use relative positions in self-attention


@dataclass(frozen=True)
class AttentionMask:
    """The keys that each query may attend to, and whether a key stands left or right of the query."""

    mask: Tensor  # [N, 1, Q, K] 0, or -inf where attention is not allowed
    right: Tensor | None = None  # [N, 1, Q, K] 1 if the query stands right of the key, else 0
    self_key: Tensor | None = None  # [N, 1, Q, 1] the query's own key


@dataclass(frozen=True)
class KeyValueBuffer:
    """Buffers of keys and values [N, m, K, e], and the columns to write new entries to."""

    pair: Pair
    columns: slice

    def write(self, keys: Tensor, values: Tensor) -> Pair:
        """Write new keys and values [N, m, Q, e]; return the whole buffers."""
        for buffer, new in zip(self.pair, (keys, values), strict=True):
            buffer[:, :, self.columns] = new
        return self.pair


@dataclass(frozen=True)
class EncodedSources:
    """Keys and values of B sources, for each layer with cross-attention."""

    pairs: tuple[Pair, ...]  # [B, m, S, e] each
    mask: Tensor  # [B, 1, 1, S] 0, or -inf at padding
    more: Tensor | None = None  # [B, *] additional data per source

    def change(self, change: Callable[[Tensor], Tensor]) -> EncodedSources:
        """Return a copy with `change` applied to every tensor."""
        pairs = tuple((change(keys), change(values)) for keys, values in self.pairs)
        return EncodedSources(pairs, change(self.mask), None if self.more is None else change(self.more))


def additive_mask(seen: Tensor, like: Tensor) -> Tensor:
    """Return 0 where `seen`, and -inf elsewhere."""
    return torch.zeros(seen.shape, dtype=like.dtype, device=like.device).masked_fill(~seen, -torch.inf)


def attention_mask(seen: Tensor, known: Tensor | None, like: Tensor) -> AttentionMask:
    """Return the attention mask of items, from `seen` [N, I, I] and, if given, relations `known` [N, I, I].

    Every item sees itself.
    """
    if known is None:
        return AttentionMask(additive_mask(seen[:, None], like))
    self_key = torch.arange(seen.shape[1], device=seen.device)[None, None, :, None]
    return AttentionMask(additive_mask(seen[:, None], like), (known > 0)[:, None].to(like.dtype), self_key)


class SelfAttention(nn.Module):
    """score_ij = u_i Q . (u_j K + A[r_ij]) / sqrt(e) for each head; all heads share a table A of three relations.

    A softmax is invariant to adding a constant, so A[-1] is subtracted from the other rows. Then (u_i Q) . A[r_ij] is
    only added if i stands right of j or i = j, which needs no tensor of size (T, T, e) and no lookup of size (T, T).
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

    def forward(self, states: Tensor, attention: AttentionMask, buffer: KeyValueBuffer | None = None) -> Tensor:
        """Return the attention output [N, Q, d] of `states` [N, Q, d] over themselves or a buffer they extend."""
        rows, number, width = states.shape
        parts = self.inward(states).view(rows, number, 3, self.heads, -1)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4).unbind()  # [N, m, Q, e] each
        queries = queries * self.scale
        if buffer is not None:
            keys, values = buffer.write(keys, values)
        scores = self._add_relations(queries, queries @ keys.transpose(2, 3), attention) + attention.mask
        context = self.dropout(scores.softmax(3)) @ values
        outward: Tensor = self.outward(context.transpose(1, 2).reshape(rows, number, width))
        return outward

    def _add_relations(self, queries: Tensor, scores: Tensor, attention: AttentionMask) -> Tensor:
        """Add relation terms to the scores [N, m, Q, K]."""
        if self.relation is None or attention.right is None or attention.self_key is None:
            return scores
        self_score, right = (queries @ (self.relation[1:] - self.relation[:1]).T).chunk(2, 3)  # [N, m, Q, 1] each
        scores = torch.addcmul(scores, attention.right, right)
        places = attention.self_key.expand(*scores.shape[:3], 1)
        return scores.scatter_add_(3, places, self_score.to(scores.dtype))


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
        """Return the keys and values of a source [B, S, d]."""
        parts = self.sources(source).view(*source.shape[:2], 2, self.heads, -1)
        keys, values = parts.permute(2, 0, 3, 1, 4).contiguous().unbind()
        return keys, values

    def forward(self, states: Tensor, pair: Pair, mask: Tensor) -> Tensor:
        """Return the attention output of `states` [B, Q, d] over their sources."""
        rows, number, width = states.shape
        queries = self.queries(states).view(rows, number, self.heads, -1).transpose(1, 2) * self.scale
        scores = queries @ pair[0].transpose(2, 3) + mask
        context = self.dropout(scores.softmax(3)) @ pair[1]
        outward: Tensor = self.outward(context.transpose(1, 2).reshape(rows, number, width))
        return outward


class TransformerLayer(nn.Module):
    """x := norm(x + dropout(f(x))), with f self-attention, optional cross-attention, and a feed-forward map."""

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
        self,
        states: Tensor,
        attention: AttentionMask,
        buffer: KeyValueBuffer | None = None,
        source: tuple[Pair, Tensor] | None = None,
    ) -> Tensor:
        """Return the next layer's input [N, Q, d]; `source` is a pair of keys and values, and a padding mask."""
        norms = iter(self.norms)
        states = next(norms)(states + self.dropout(self.attention(states, attention, buffer)))
        if self.cross is not None and source is not None:
            states = next(norms)(states + self.dropout(self.cross(states, *source)))
        widened = self.dropout(self.widen(states).relu())
        last: Tensor = next(norms)(states + self.dropout(self.narrow(widened)))
        return last


class Embedding(nn.Embedding):
    """Embeddings, multiplied by sqrt(d) when read, so that the stored matrix can also produce logits."""

    def reset_parameters(self) -> None:
        """Reinitialize the weights."""
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the embeddings [*, d] of tokens [*]."""
        scale: float = self.embedding_dim**0.5
        return super().forward(tokens) * scale


class WordLogits(nn.Module):
    """p(word) is proportional to exp((h F) . e_word); F is omitted unless `mapped`, e is the embedding if `tied`."""

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
        """Return logits [*, V] of the first V embeddings; others, such as boundaries, are never predicted."""
        weight = embedding.weight[: self.tokens] if self.weight is None else self.weight
        logits: Tensor = linear(self.map(states), weight)
        return logits


def sinusoids(first: int, number: int, like: Tensor) -> Tensor:
    """Return sinusoids [number, d] for positions from `first` on (Vaswani et al., 2017, section 3.5)."""
    width = like.shape[-1]
    rates = torch.exp(torch.arange(0, width, 2, device=like.device) * (-log(10_000) / width))
    angles = torch.arange(first, first + number, device=like.device)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, :width].to(like.dtype)


def _initialise(layer: nn.Linear) -> None:
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
