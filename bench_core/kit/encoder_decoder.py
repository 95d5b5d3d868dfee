"""Encoder-decoder models: `encode` reads the source once; `forward` works as in a `LanguageModel`."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from bench_core.data import STOP, Batch
from bench_core.host_copies import by_host
from bench_core.kit.language_model import LanguageModel, LanguageModelState
from bench_core.model import State

Scores: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # [B, *, Q, D] and [B, *, S, D] to [B, *, Q, S]


def dot_products(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the scores q . k [B, *, Q, S] of queries [B, *, Q, D] and keys [B, *, S, D]."""
    return queries @ keys.mT


@dataclass(frozen=True)
class SourceStates(State):
    """Encoder states of B sources; rows with the same source share them, as in beam search.

    `encode` returns `SourceStates(keys, values, mask)`, and `forward` calls `source.attend(queries)`.
    """

    keys: Tensor  # [B, S, D] or [B, heads, S, D]
    values: Tensor  # [B, S, D] or [B, heads, S, D]
    mask: Tensor  # [B, S], false at padding
    rows: Tensor | None = None  # [N] index of the source of each row; None for 0, 1, ...

    def select(self, rows: Tensor) -> Self:
        """Select rows; drop unused sources once they are at least half of all sources."""
        owner = rows if self.rows is None else self.rows[rows]
        used = torch.unique(owner)
        if 2 * len(used) > len(self.keys):
            return replace(self, rows=owner)
        rows = torch.searchsorted(used, owner)
        return replace(self, keys=self.keys[used], values=self.values[used], mask=self.mask[used], rows=rows)

    def attend(self, queries: Tensor, scores: Scores = dot_products) -> Tensor:
        """Return the softmax-weighted mean of values for each query [N, K, D] or [N, heads, K, D].

        `scores` maps queries [B, *, Q, D] and keys [B, *, S, D] to scores [B, *, Q, S]; by default unscaled q . k.
        """
        if self.rows is None:
            return self.weights(queries, scores) @ self.values
        (place, width), steps = self._places, queries.shape[-2]
        table = queries.new_zeros(len(self.keys), width, *queries.shape[1:])  # [B, W, *, K, D]
        table[self.rows, place] = queries
        table = table.movedim(1, -3).flatten(-3, -2)  # [B, *, W K, D]
        means = self.weights(table, scores) @ self.values
        split: Tensor = means.view(*means.shape[:-2], width, steps, -1)
        return split.movedim(-3, 1)[self.rows, place]

    @cached_property
    def _places(self) -> tuple[Tensor, int]:
        """Return the index of each row among the rows of its source [N], and the maximum row count of a source."""
        assert self.rows is not None
        sharing = self.rows.bincount(minlength=len(self.keys))  # [B]
        order = self.rows.argsort(stable=True)
        place = torch.empty_like(self.rows)
        first = (sharing.cumsum(0) - sharing)[self.rows[order]]
        place[order] = torch.arange(len(place), device=place.device) - first
        return place, int(sharing.max())

    def weights(self, queries: Tensor, scores: Scores = dot_products) -> Tensor:
        """Return the attention weights [B, *, Q, S] of queries [B, *, Q, D] over the positions of each source."""
        mask = self.mask.view(len(self.mask), *[1] * (queries.dim() - 2), -1)
        return scores(queries, self.keys).masked_fill(~mask, -torch.inf).softmax(-1)


class EncoderDecoder(LanguageModel):
    """p(y | x) = prod_t p(y_t | y_<t, x), with `encode` for x, and `forward` as in a `LanguageModel`.

    `encode(source, mask)` returns a representation of the source for `forward`: `SourceStates` to attend to, or
    tensors whose first dimension is the row, in tuples, lists, mappings or States. It is called once per batch or
    generation, and its result is passed to `forward(tokens, source)` or `forward(tokens, source, past=None)`.
    """

    continues = False  # every batch has its own sources

    @abstractmethod
    def encode(self, source: Tensor, mask: Tensor) -> Any:
        """Encode `source`: tokens or a bag [N, S], a vector [N, D], a grid [N, S, D], or images [N, 3, H, W].

        `mask` [N, S] is false at padding and true for at least one position per row: an empty source is a single EOS.
        Tokens are padded with EOS. For vectors and images, the mask is [N, 1].
        """

    @abstractmethod
    def forward(self, tokens: Tensor, source: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a state after each of `tokens` [N, K, H], optionally with a `past`; see `LanguageModel`."""

    def begin(self, batch: Batch) -> LanguageModelState:
        return LanguageModelState(source=self.encode(*_source_and_mask(batch)))


def _source_and_mask(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the source, padded with EOS, and its mask [N, S]."""
    source, length = batch.source, batch.source_length
    assert source is not None, "the Config of the model declares that it takes a source"
    if length is None:
        mask = torch.ones(source.shape[: 2 if source.dim() == 3 else 1], dtype=torch.bool, device=source.device)
        return source, mask[:, None] if mask.dim() == 1 else mask
    source = pad(source, (0, 0) * (source.dim() - 2) + (0, not source.shape[1]))
    places = torch.arange(source.shape[1], device=source.device)
    real = (places < length[:, None]).view(*source.shape[:2], *[1] * (source.dim() - 2))
    mask = by_host(lambda length: _mask(length.clamp(min=1), source.shape[1]), length)
    return source.where(real, STOP), mask


def _mask(length: Tensor, steps: int) -> Tensor:
    """Return the mask [N, steps] of non-padding positions."""
    return torch.arange(steps, device=length.device) < length[:, None]
