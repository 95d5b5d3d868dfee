"""Joins what a network has read of rows of different lengths, so that it goes on from all of them at once.

Keys and values are aligned at their ends: before those of shorter rows come places that nobody may attend to. The
states of recurrent layers have no places.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache
from transformers.cache_utils import (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
    LinearAttentionLayer,
)

from bench_core import SuiteError
from bench_huggingface.kv_cache import Buffered, Claim, Copied, Past, cache_of
from bench_huggingface.recurrent_states import Recurrent, WithBlocks, stacked

KINDS = (
    DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer, LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
)  # fmt: skip


def joined(parts: Sequence[Any], longest: int) -> Any:
    """Return as one the Pasts of several groups of rows, of which that at place `longest` has read the most.

    Raises SuiteError for caches of other kinds.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, Buffered):
        return _buffered(parts, longest)
    if isinstance(first, Recurrent):
        return replace(first, states=stacked([one.states for one in parts]))
    if isinstance(first, WithBlocks):
        cache = joined([one.cache for one in parts], longest)
        return WithBlocks(cache, stacked([one.blocks for one in parts]))
    return _copied(parts, longest)


def has_places(past: Past | WithBlocks) -> bool:
    """Return whether there are keys and values, among which some places may be empty."""
    if isinstance(past, WithBlocks):
        return has_places(past.cache)
    if isinstance(past, Copied):
        return any(getattr(layer, "keys", None) is not None for layer in past.cache.layers)
    return isinstance(past, Buffered)


def _buffered(parts: Sequence[Buffered], longest: int) -> Buffered:
    length = parts[longest].length
    whole = [[(keys[:, :, : one.length], values[:, :, : one.length]) for keys, values in one.layers] for one in parts]
    layers = tuple(
        (_aligned([keys for keys, _ in layer]), _aligned([values for _, values in layer]))
        for layer in zip(*whole, strict=True)
    )
    return Buffered(layers, length, Claim(length))


def _copied(parts: Sequence[Copied], longest: int) -> Copied:
    caches = [one.opened() for one in parts]
    kinds = {type(layer) for cache in caches for layer in getattr(cache, "layers", [None])}
    if not all(type(cache) is DynamicCache for cache in caches) or not kinds <= {*KINDS}:
        raise SuiteError("its cache does not let prompts of several lengths be read together")
    layers = [_layer(list(several), longest) for several in zip(*(one.layers for one in caches), strict=True)]
    return Copied(cache_of(layers), torch.arange(sum(len(one.rows) for one in parts), device=parts[0].rows.device))


def _layer(layers: list[Any], longest: int) -> Any:
    """Return a layer of a cache with the rows of several."""
    found = copy(layers[longest])
    if getattr(found, "keys", None) is not None:
        found.keys, found.values = (_aligned([getattr(one, name) for one in layers]) for name in ("keys", "values"))
    if isinstance(found, LinearAttentionLayer):
        for name in ("conv_states", "recurrent_states"):
            setattr(found, name, stacked([getattr(one, name) for one in layers]))
    return found


def _aligned(several: list[Tensor]) -> Tensor:
    """Return keys or values [N, heads, K, size] of several groups as one, aligned at their ends."""
    most = max(one.shape[2] for one in several)
    return torch.cat([pad(one, (0, 0, most - one.shape[2], 0)) for one in several])
