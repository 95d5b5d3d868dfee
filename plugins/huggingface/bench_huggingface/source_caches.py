"""What a decoder keeps of the sources that it attends to, once for all rows about one source."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeAlias

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from bench_core import State
from bench_huggingface.kv_cache import cache_of

Pair: TypeAlias = tuple[Tensor, Tensor]  # [N, heads, S, size] keys and values of a layer


@dataclass(frozen=True)
class Sources(State):
    """Encoded sources; those of a beam change places without being copied, as all its rows are about one source."""

    layers: tuple[Pair, ...]
    states: Tensor  # [N, S, H] the encoder's
    mask: Tensor  # [N, S] which places are real
    owner: Tensor  # [N] the first of the rows that have the same source

    def select(self, rows: Tensor) -> Self:
        owner = self.owner[rows]
        if len(owner) == len(self.owner) and torch.equal(owner, self.owner):
            return self
        return super().select(rows)

    @cached_property
    def cache(self) -> DynamicCache:
        """Return them as a cache, which nothing changes."""
        return cache_of([_layer(*pair) for pair in self.layers])


def cached_sources(cache: DynamicCache, states: Tensor, mask: Tensor) -> Sources:
    """Return what a network left of its sources in a cache when it first read them."""
    layers = tuple((layer.keys, layer.values) for layer in cache.layers)
    return Sources(layers, states, mask, torch.arange(len(mask), device=mask.device))


def _layer(keys: Tensor, values: Tensor) -> DynamicLayer:
    layer = DynamicLayer()
    layer.update(keys, values)
    return layer
