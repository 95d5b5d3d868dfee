"""The cross-attention cache of a decoder, shared by all rows with the same source."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from bench_core import State
from bench_huggingface.kv_cache import Pair, cache_of


@dataclass(frozen=True)
class CachedSources(State):
    """Encoded sources; reordering rows with the same source, as in a beam, does not copy them."""

    layers: tuple[Pair, ...]
    states: Tensor  # [N, S, H] encoder states
    mask: Tensor  # [N, S] positions that are not padding
    owner: Tensor  # [N] first row with the same source

    def select(self, rows: Tensor) -> Self:
        owner = self.owner[rows]
        if len(owner) == len(self.owner) and torch.equal(owner, self.owner):
            return self
        return super().select(rows)

    @cached_property
    def cache(self) -> DynamicCache:
        """The sources as a cache, which networks do not modify."""
        return cache_of([_layer(*pair) for pair in self.layers])


def cached_sources(cache: DynamicCache, states: Tensor, mask: Tensor) -> CachedSources:
    """Return the sources in the cache of a network after its first step."""
    layers = tuple((layer.keys, layer.values) for layer in cache.layers)
    return CachedSources(layers, states, mask, torch.arange(len(mask), device=mask.device))


def _layer(keys: Tensor, values: Tensor) -> DynamicLayer:
    layer = DynamicLayer()
    layer.update(keys, values)
    return layer
