"""The key-value cache of transformers, as a State.

Such a cache changes when a model goes on from it; a State must not. Plain keys and values lie in buffers with room
for more, which one of the states that share them may fill. Any other cache is copied before each step.
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
from bench_huggingface.attention import shown
from bench_huggingface.recurrent_states import Recurrent, xlstm_cache

Pair: TypeAlias = tuple[Tensor, Tensor]  # [N, heads, capacity, size] keys and values of a layer
REPLACING = (DynamicLayer, DynamicSlidingWindowLayer)  # layers that put new tensors in the place of old ones


@dataclass
class Claim:
    """How many tokens some buffers hold; a state that has read fewer copies these before it goes on."""

    length: int


class Room(DynamicLayer):  # type: ignore[misc]
    """One layer of a cache: the first `length` places of longer buffers."""

    def __init__(self, buffers: Pair, length: int, claim: Claim) -> None:
        super().__init__()
        self.buffers, self.claim = buffers, claim
        self.dtype, self.device = buffers[0].dtype, buffers[0].device
        self.is_initialized = True
        self._show(length)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **more: Any) -> Pair:
        """Write behind what is there; return all."""
        end = self.length + key_states.shape[2]
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[:, :, self.length : end] = states
        return self._show(end)

    def _show(self, length: int) -> Pair:
        self.length = length
        self.keys, self.values = (shown(buffer, length) for buffer in self.buffers)
        return self.keys, self.values


@dataclass(frozen=True)
class Buffered(State):
    """Plain keys and values."""

    layers: tuple[Pair, ...]
    length: int  # tokens read
    claim: Claim
    rows: Tensor | None = None  # [M] those selected, where they have yet to be copied

    def select(self, rows: Tensor) -> Self:
        """Note what is wanted; the next step copies it, once."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def change(self, change: Callable[[Tensor], Tensor]) -> Self:
        return super(Buffered, self._selected()).change(change)

    def opened(self) -> Cache:
        """Return a cache to which a model may add one token."""
        ready = self._selected()
        if ready.length != ready.claim.length or ready.length == ready.layers[0][0].shape[2]:
            ready = ready._moved()
        ready.claim.length = ready.length + 1
        return cache_of([Room(pair, ready.length, ready.claim) for pair in ready.layers])

    def _selected(self) -> Self:
        rows, number = self.rows, len(self.layers[0][0])
        if rows is None:
            return self
        if len(rows) == number and torch.equal(rows, torch.arange(number, device=rows.device)):
            return replace(self, rows=None)
        layers = tuple((keys.index_select(0, rows), values.index_select(0, rows)) for keys, values in self.layers)
        return replace(self, layers=layers, claim=Claim(self.length), rows=None)

    def _moved(self) -> Self:
        """Return the same in new buffers, with room for more."""
        layers = tuple((self._widened(keys), self._widened(values)) for keys, values in self.layers)
        return replace(self, layers=layers, claim=Claim(self.length))

    def _widened(self, buffer: Tensor) -> Tensor:
        rows, heads, _, size = buffer.shape
        wider = buffer.new_empty(rows, heads, self.length + max(16, self.length // 4), size)
        wider[:, :, : self.length], wider[:, :, self.length :] = buffer[:, :, : self.length], 0
        return wider


@dataclass(frozen=True)
class Copied(State):
    """Any other cache, such as one with sliding windows or with the states of recurrent layers."""

    cache: Cache
    rows: Tensor  # [N] their places: 0, 1, ...

    def select(self, rows: Tensor) -> Self:
        cache = self.opened()
        cache.reorder_cache(rows)
        return replace(self, cache=cache, rows=torch.arange(len(rows), device=rows.device))

    def change(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Follow a change that chooses rows."""
        return self.select(change(self.rows))

    def opened(self) -> Cache:
        """Return a copy, to which a model may add one token."""
        if type(self.cache) is not DynamicCache:
            return deepcopy(self.cache)
        return cache_of([copy(layer) if type(layer) in REPLACING else deepcopy(layer) for layer in self.cache.layers])


Past: TypeAlias = Buffered | Copied | Recurrent


def kept(cache: Any, tokens: Tensor) -> Past:
    """Return as a State what a model left in `cache` when it read `tokens` [N, K]."""
    if isinstance(cache, list):  # of RWKV, [N, H, layers] each
        return Recurrent(cache, list)
    if hasattr(cache, "rnn_state"):  # of xLSTM, by layer
        return Recurrent(cache.rnn_state, partial(xlstm_cache, cache))
    layers = cache.layers if type(cache) is DynamicCache else []
    kinds = {type(layer) for layer in layers}
    if kinds == {Room}:
        return Buffered(tuple(layer.buffers for layer in layers), layers[0].length, layers[0].claim)
    if kinds == {DynamicLayer} and len({layer.get_seq_length() for layer in layers}) == 1:
        length = layers[0].get_seq_length()
        return Buffered(tuple((layer.keys, layer.values) for layer in layers), length, Claim(length))
    return Copied(cache, torch.arange(len(tokens), device=tokens.device))


def cache_of(layers: list[Any]) -> DynamicCache:
    """Return a cache of layers."""
    cache = DynamicCache()
    cache.layers = layers
    return cache
