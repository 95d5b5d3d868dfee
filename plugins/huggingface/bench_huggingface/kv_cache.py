"""The key-value cache of transformers, as a State.

A model modifies its cache, but a State must not change. Plain keys and values are stored in buffers with spare
capacity; only one of the states that share a buffer may fill it. Other caches are copied before each step.
"""

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeAlias

import torch
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from bench_core import State
from bench_huggingface.attention import view_of
from bench_huggingface.recurrent_states import RecurrentState, xlstm_cache

Pair: TypeAlias = tuple[Tensor, Tensor]  # [N, heads, capacity, size] keys and values of a layer
REPLACING = (DynamicLayer, DynamicSlidingWindowLayer)  # layers that replace their tensors instead of modifying them


@dataclass
class BufferUse:
    """The number of tokens in shared buffers; a state with fewer tokens must copy the buffers before it continues."""

    length: int


class BufferLayer(DynamicLayer):  # type: ignore[misc]
    """A cache layer that consists of the first `length` positions of longer buffers."""

    def __init__(self, buffers: Pair, length: int, claim: BufferUse) -> None:
        super().__init__()
        self.buffers, self.claim = buffers, claim
        self.dtype, self.device = buffers[0].dtype, buffers[0].device
        self.is_initialized = True
        self._set_length(length)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **more: Any) -> Pair:
        """Append to keys and values; return both."""
        end = self.length + key_states.shape[2]
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[:, :, self.length : end] = states
        return self._set_length(end)

    def _set_length(self, length: int) -> Pair:
        self.length = length
        self.keys, self.values = (view_of(buffer, length) for buffer in self.buffers)
        return self.keys, self.values


@dataclass(frozen=True)
class Buffered(State):
    """Plain keys and values in buffers."""

    layers: tuple[Pair, ...]
    length: int  # tokens read
    claim: BufferUse
    rows: Tensor | None = None  # [M] selected rows that have not been copied yet

    def select(self, rows: Tensor) -> Self:
        """Record the selected rows; the next step copies them."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def change(self, change: Callable[[Tensor], Tensor]) -> Self:
        return super(Buffered, self._with_rows_copied()).change(change)

    def reserve(self) -> Cache:
        """Return a cache to which a model may append one token."""
        ready = self._with_rows_copied()
        if ready.length != ready.claim.length or ready.length == ready.layers[0][0].shape[2]:
            ready = ready._reallocate()
        ready.claim.length = ready.length + 1
        return cache_of([BufferLayer(pair, ready.length, ready.claim) for pair in ready.layers])

    def _with_rows_copied(self) -> Self:
        rows, number = self.rows, len(self.layers[0][0])
        if rows is None:
            return self
        if len(rows) == number and torch.equal(rows, torch.arange(number, device=rows.device)):
            return replace(self, rows=None)
        layers = tuple((keys.index_select(0, rows), values.index_select(0, rows)) for keys, values in self.layers)
        return replace(self, layers=layers, claim=BufferUse(self.length), rows=None)

    def _reallocate(self) -> Self:
        """Copy to new buffers with spare capacity."""
        layers = tuple((self._enlarge(keys), self._enlarge(values)) for keys, values in self.layers)
        return replace(self, layers=layers, claim=BufferUse(self.length))

    def _enlarge(self, buffer: Tensor) -> Tensor:
        rows, heads, _, size = buffer.shape
        larger = buffer.new_empty(rows, heads, self.length + max(16, self.length // 4), size)
        larger[:, :, : self.length], larger[:, :, self.length :] = buffer[:, :, : self.length], 0
        return larger


@dataclass(frozen=True)
class Copied(State):
    """A cache that is copied before each step, e.g. with sliding windows or states of recurrent layers."""

    cache: Cache
    rows: Tensor  # [N] row indices 0, 1, ...

    def select(self, rows: Tensor) -> Self:
        cache = self.reserve()
        cache.reorder_cache(rows)
        return replace(self, cache=cache, rows=torch.arange(len(rows), device=rows.device))

    def change(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Apply a change that selects or reorders rows [N]."""
        return self.select(change(self.rows))

    def reserve(self) -> Cache:
        """Return a copy to which a model may append one token."""
        if type(self.cache) is not DynamicCache:
            return deepcopy(self.cache)
        return cache_of([copy(layer) if type(layer) in REPLACING else deepcopy(layer) for layer in self.cache.layers])


Past: TypeAlias = Buffered | Copied | RecurrentState


def as_state(cache: Any, tokens: Tensor) -> Past:
    """Convert the `cache` of a model after `tokens` [N, K] to a State."""
    if isinstance(cache, list):  # RWKV, [N, H, layers] each
        return RecurrentState(cache, list)
    if hasattr(cache, "rnn_state"):  # xLSTM, by layer
        return RecurrentState(cache.rnn_state, partial(xlstm_cache, cache))
    layers = cache.layers if type(cache) is DynamicCache else []
    kinds = {type(layer) for layer in layers}
    if kinds == {BufferLayer}:
        return Buffered(tuple(layer.buffers for layer in layers), layers[0].length, layers[0].claim)
    if kinds == {DynamicLayer} and len({layer.get_seq_length() for layer in layers}) == 1:
        length = layers[0].get_seq_length()
        return Buffered(tuple((layer.keys, layer.values) for layer in layers), length, BufferUse(length))
    return Copied(cache, torch.arange(len(tokens), device=tokens.device))


def cache_of(layers: list[Any]) -> DynamicCache:
    """Return a cache with the given layers."""
    cache = DynamicCache()
    cache.layers = layers
    return cache
