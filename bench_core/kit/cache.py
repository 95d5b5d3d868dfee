"""The key-value cache of models that attend to the tokens before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from bench_core.errors import PluginError
from bench_core.model import State

ROOM, SHARE = 16, 4  # a full buffer gets room for ROOM tokens more, or for a SHARE-th of those it holds


@dataclass(frozen=True)
class Layer:
    """Keys and values of one layer: the first `length` columns of buffers, which several caches may share.

    The first of these to go on writes behind what is there; any other copies the buffers first.
    """

    keys: Tensor  # [N, heads, capacity, D]
    values: Tensor
    length: int
    written: list[int]  # columns of the buffers that any cache has written

    @classmethod
    def of(cls, keys: Tensor, values: Tensor) -> Layer:
        """Return a layer of its own, without room for more."""
        return cls(keys, values, keys.shape[2], [keys.shape[2]])

    def pair(self) -> tuple[Tensor, Tensor]:
        """Return keys and values [N, heads, length, D]."""
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def change(self, change: Callable[[Tensor], Tensor]) -> Layer:
        """Return a layer of its own, with `change` applied to both buffers."""
        return Layer(change(self.keys), change(self.values), self.length, [self.length])

    def select(self, rows: Tensor | None) -> Layer:
        """Return `rows` [M] in a layer of their own; the layer itself if that is None."""
        return self if rows is None else self.change(lambda buffer: buffer.index_select(0, rows))

    def extended(self, keys: Tensor, values: Tensor) -> Layer:
        """Return the layer with more columns [N, heads, K, D]."""
        if torch.is_grad_enabled():  # autograd forbids writing into a buffer
            return Layer.of(*(torch.cat(parts, 2) for parts in zip(self.pair(), (keys, values), strict=True)))
        length = self.length + keys.shape[2]
        ready = self
        if self.written[0] != self.length or length > self.keys.shape[2]:
            capacity = length + max(ROOM, length // SHARE)
            ready = self.change(lambda buffer: self._copied(buffer, capacity))
        ready.keys[:, :, self.length : length], ready.values[:, :, self.length : length] = keys, values
        ready.written[0] = length
        return Layer(ready.keys, ready.values, length, ready.written)

    def _copied(self, buffer: Tensor, capacity: int) -> Tensor:
        rows, heads, _, size = buffer.shape
        copy = buffer.new_zeros(rows, heads, capacity, size)
        copy[:, :, : self.length] = buffer[:, :, : self.length]
        return copy


@dataclass(frozen=True)
class Cache(State):
    """Keys and values of all tokens read so far, layer by layer.

    `forward(tokens, past=None)` begins with `cache = Cache.after(past)` and returns `states, cache`. In between, each
    layer in turn calls `cache.attend`, where without a cache it would call `scaled_dot_product_attention` with
    `is_causal=True`. `cache.positions(tokens)` are the positions of the new tokens.
    """

    before: tuple[Layer, ...] = ()  # the layers as they were
    rows: Tensor | None = None  # [N] of these, the rows selected since; None if all
    layers: list[Layer] = field(default_factory=list)  # the layers with the new tokens, as far as they were computed

    @classmethod
    def after(cls, past: Cache | None) -> Cache:
        """Return a cache that continues `past`, which stays as it is; an empty one after None."""
        if past is None:
            return cls()
        layers, rows = (past.layers, None) if past.layers else (past.before, past.rows)
        if not layers:
            raise PluginError("A Cache was returned to which no layer had added: let each call its `attend`.")
        if rows is not None and len(rows) == len(layers[0].keys):
            rows = None if torch.equal(rows, torch.arange(len(rows), device=rows.device)) else rows
        return cls(tuple(layers), rows)

    def positions(self, tokens: Tensor) -> Tensor:
        """Return the positions [K] of `tokens` [N, K], which come next."""
        first = self.before[0].length if self.before else 0
        return torch.arange(first, first + tokens.shape[1], device=tokens.device)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return what the new tokens attend to [N, heads, K, D]: each to itself and to all tokens before it.

        All arguments are [N, heads, K, D]. Every layer calls it once, in the same order each time.
        """
        known = self.before[0].length if self.before else 0
        keys, values = self.extend(keys, values)
        number = queries.shape[2]
        if known and number > 1:
            seen = torch.ones(number, known + number, dtype=torch.bool, device=queries.device).tril(known)
            return scaled_dot_product_attention(queries, keys, values, seen)
        return scaled_dot_product_attention(queries, keys, values, is_causal=not known)

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values of new tokens [N, heads, K, D]; return those of all tokens, for another attention."""
        if self.before and len(self.layers) == len(self.before):
            raise PluginError(f"`attend` or `extend` of a Cache of {len(self.before)} layers was called once more.")
        if self.before:
            layer = self.before[len(self.layers)].select(self.rows)
            self.layers.append(layer.extended(keys, values))
        else:
            self.layers.append(Layer.of(keys, values))
        return self.layers[-1].pair()

    def select(self, rows: Tensor) -> Self:
        """Note which rows are selected; the next step copies them, once."""
        if self.layers:
            return type(self)(tuple(self.layers), rows)
        return type(self)(self.before, rows if self.rows is None else self.rows[rows])

    def change(self, change: Callable[[Tensor], Tensor]) -> Self:
        cache = Cache.after(self)
        return type(self)(tuple(layer.select(cache.rows).change(change) for layer in cache.before))
