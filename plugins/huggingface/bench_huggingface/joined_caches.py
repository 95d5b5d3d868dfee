"""Joins caches of rows of different lengths, so that a network can continue all rows at once.

Keys and values are right-aligned, so shorter rows begin with positions that must be masked. States of recurrent
layers have no positions.
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
from bench_huggingface.kv_cache import Buffered, BufferUse, Copied, Past, cache_of
from bench_huggingface.recurrent_states import RecurrentState, WithBlocks, concatenate

KINDS = (
    DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer, LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
)  # fmt: skip


def join_caches(parts: Sequence[Any], longest: int) -> Any:
    """Join the Pasts of several groups of rows; `longest` is the index of the group with the longest rows.

    Raises SuiteError for unsupported kinds of caches.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, Buffered):
        return _join_buffers(parts, longest)
    if isinstance(first, RecurrentState):
        return replace(first, states=concatenate([part.states for part in parts]))
    if isinstance(first, WithBlocks):
        cache = join_caches([part.cache for part in parts], longest)
        return WithBlocks(cache, concatenate([part.blocks for part in parts]))
    return _join_copies(parts, longest)


def has_places(past: Past | WithBlocks) -> bool:
    """Return whether a Past has keys and values, in which some positions may be empty."""
    if isinstance(past, WithBlocks):
        return has_places(past.cache)
    if isinstance(past, Copied):
        return any(getattr(layer, "keys", None) is not None for layer in past.cache.layers)
    return isinstance(past, Buffered)


def _join_buffers(parts: Sequence[Buffered], longest: int) -> Buffered:
    length = parts[longest].length
    whole = [
        [(keys[:, :, : part.length], values[:, :, : part.length]) for keys, values in part.layers] for part in parts
    ]
    layers = tuple(
        (_align([keys for keys, _ in layer]), _align([values for _, values in layer]))
        for layer in zip(*whole, strict=True)
    )
    return Buffered(layers, length, BufferUse(length))


def _join_copies(parts: Sequence[Copied], longest: int) -> Copied:
    caches = [part.reserve() for part in parts]
    kinds = {type(layer) for cache in caches for layer in getattr(cache, "layers", [None])}
    if not all(type(cache) is DynamicCache for cache in caches) or not kinds <= {*KINDS}:
        raise SuiteError("the model's cache does not support prompts of several lengths in a batch")
    layers = [_layer(list(several), longest) for several in zip(*(cache.layers for cache in caches), strict=True)]
    return Copied(cache_of(layers), torch.arange(sum(len(part.rows) for part in parts), device=parts[0].rows.device))


def _layer(layers: list[Any], longest: int) -> Any:
    """Concatenate the rows of cache layers."""
    merged = copy(layers[longest])
    if getattr(merged, "keys", None) is not None:
        for name in ("keys", "values"):
            setattr(merged, name, _align([getattr(layer, name) for layer in layers]))
    if isinstance(merged, LinearAttentionLayer):
        for name in ("conv_states", "recurrent_states"):
            setattr(merged, name, concatenate([getattr(layer, name) for layer in layers]))
    return merged


def _align(several: list[Tensor]) -> Tensor:
    """Concatenate keys or values [N, heads, K, size] of several groups, right-aligned."""
    longest = max(part.shape[2] for part in several)
    return torch.cat([pad(part, (0, 0, longest - part.shape[2], 0)) for part in several])
