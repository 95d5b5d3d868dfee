"""The key-value cache for causal attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from bench_core.errors import PluginError
from bench_core.model import State

MIN_GROWTH, GROWTH_DIVISOR = 16, 4  # a full buffer grows by MIN_GROWTH tokens, or its length / GROWTH_DIVISOR if more


@dataclass(frozen=True)
class CacheLayer:
    """Keys and values of a layer: the first `length` columns of buffers, which caches may share.

    The first cache to continue appends to the shared buffers; every other cache copies them first.
    """

    keys: Tensor  # [N, heads, capacity, D]
    values: Tensor
    length: int
    written: list[int]  # number of columns used by at least one of the caches that share the buffers

    @classmethod
    def of(cls, keys: Tensor, values: Tensor) -> CacheLayer:
        """Return a layer that owns its buffers, without spare capacity."""
        return cls(keys, values, keys.shape[2], [keys.shape[2]])

    def pair(self) -> tuple[Tensor, Tensor]:
        """Return keys and values [N, heads, length, D]."""
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def change(self, change: Callable[[Tensor], Tensor]) -> CacheLayer:
        """Return a layer that owns its buffers, with `change` applied to its keys and its values."""
        return CacheLayer(change(self.keys), change(self.values), self.length, [self.length])

    def select(self, rows: Tensor | None) -> CacheLayer:
        """Return a copy of `rows` [M]; the layer itself if `rows` is None."""
        return self if rows is None else self.change(lambda buffer: buffer.index_select(0, rows))

    def extend(self, keys: Tensor, values: Tensor) -> CacheLayer:
        """Return the layer with further columns [N, heads, K, D]."""
        if torch.is_grad_enabled():  # autograd forbids writing into a buffer
            return CacheLayer.of(*(torch.cat(parts, 2) for parts in zip(self.pair(), (keys, values), strict=True)))
        length = self.length + keys.shape[2]
        ready = self
        if self.written[0] != self.length or length > self.keys.shape[2]:
            capacity = length + max(MIN_GROWTH, length // GROWTH_DIVISOR)
            ready = self.change(lambda buffer: self._grow(buffer, capacity))
        ready.keys[:, :, self.length : length], ready.values[:, :, self.length : length] = keys, values
        ready.written[0] = length
        return CacheLayer(ready.keys, ready.values, length, ready.written)

    def _grow(self, buffer: Tensor, capacity: int) -> Tensor:
        rows, heads, _, size = buffer.shape
        copy = buffer.new_zeros(rows, heads, capacity, size)
        copy[:, :, : self.length] = buffer[:, :, : self.length]
        return copy


@dataclass(frozen=True)
class Cache(State):
    """Keys and values of all tokens read so far, by layer.

    `forward(tokens, past=None)` begins with `cache = Cache.after(past)` and returns `states, cache`. In between, each
    layer calls `cache.attend` in place of `scaled_dot_product_attention` with `is_causal=True`.
    `cache.positions(tokens)` are the positions of the new tokens.
    """

    before: tuple[CacheLayer, ...] = ()  # layers before the new tokens
    rows: Tensor | None = None  # [N] rows of `before` selected since; None for all
    layers: list[CacheLayer] = field(default_factory=list)  # layers computed so far, with the new tokens

    @classmethod
    def after(cls, past: Cache | None) -> Cache:
        """Return a new cache that extends `past`, which is not modified; an empty cache if `past` is None."""
        if past is None:
            return cls()
        layers, rows = (past.layers, None) if past.layers else (past.before, past.rows)
        if not layers:
            raise PluginError("an empty Cache was returned: every layer must call its `attend`.")
        if rows is not None and len(rows) == len(layers[0].keys):
            rows = None if torch.equal(rows, torch.arange(len(rows), device=rows.device)) else rows
        return cls(tuple(layers), rows)

    def positions(self, tokens: Tensor) -> Tensor:
        """Return the positions [K] of `tokens` [N, K], which come next."""
        first = self.before[0].length if self.before else 0
        return torch.arange(first, first + tokens.shape[1], device=tokens.device)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return causal attention of the new tokens to themselves and all earlier tokens [N, heads, K, D].

        All arguments are [N, heads, K, D]. Every layer calls it once, always in the same order.
        """
        length = self.before[0].length if self.before else 0
        keys, values = self.extend(keys, values)
        number = queries.shape[2]
        if length and number > 1:
            mask = torch.ones(number, length + number, dtype=torch.bool, device=queries.device).tril(length)
            return scaled_dot_product_attention(queries, keys, values, mask)
        return scaled_dot_product_attention(queries, keys, values, is_causal=not length)

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values of new tokens [N, heads, K, D]; return keys and values of all tokens.

        Use it instead of `attend` for other kinds of attention.
        """
        number = len(self.before)
        if number and len(self.layers) == number:
            raise PluginError(f"a Cache of {number} layers was called once more. Call `attend` once per layer.")
        if number:
            layer = self.before[len(self.layers)].select(self.rows)
            self.layers.append(layer.extend(keys, values))
        else:
            self.layers.append(CacheLayer.of(keys, values))
        return self.layers[-1].pair()

    def select(self, rows: Tensor) -> Self:
        """Select rows lazily; the next step copies them."""
        if self.layers:
            return type(self)(tuple(self.layers), rows)
        return type(self)(self.before, rows if self.rows is None else self.rows[rows])

    def change(self, change: Callable[[Tensor], Tensor]) -> Self:
        cache = Cache.after(self)
        return type(self)(tuple(layer.select(cache.rows).change(change) for layer in cache.before))
