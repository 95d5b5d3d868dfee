"""States of recurrent transformers networks without a `Cache`: RWKV, xLSTM and RecurrentGemma."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench_core import State


@dataclass(frozen=True)
class RecurrentState(State):
    """The states of recurrent layers, which a network modifies in place."""

    states: Any  # tensors, rows first, in tuples, lists and mappings
    wrap: Callable[[Any], Any]  # converts `states` to the network's input

    def reserve(self) -> Any:
        """Return a copy to which a network may append one token."""
        return self.wrap(self.change(Tensor.clone).states)


def xlstm_cache(like: Any, states: Any) -> Any:
    """Return a cache of xLSTM with the given states."""
    cache = copy(like)
    cache.rnn_state, cache.seqlen_offset = states, like.seqlen_offset.clone()
    return cache


@dataclass(frozen=True)
class WithBlocks(State):
    """The keys and values of RecurrentGemma, and the states of its recurrent blocks."""

    cache: Any  # a Past
    blocks: tuple[tuple[Tensor, Tensor], ...]  # [N, H, K - 1] for convolution and [N, H] for recurrence


class RecurrentBlocks:
    """The recurrent blocks of a RecurrentGemma network, which stores their states as attributes of modules."""

    def __init__(self, network: nn.Module) -> None:
        self.blocks: list[Any] = [module for module in network.modules() if hasattr(module, "conv1d_state")]

    def put(self, states: tuple[tuple[Tensor, Tensor], ...] | None) -> None:
        """Set the states of the blocks; None resets them."""
        for index, block in enumerate(self.blocks):
            block.conv1d_state, block.rg_lru.recurrent_states = states[index] if states else (None, None)

    def take(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Return the states of the blocks, and reset them."""
        states = tuple((block.conv1d_state, block.rg_lru.recurrent_states) for block in self.blocks)
        self.put(None)
        return states


def concatenate(parts: list[Any]) -> Any:
    """Concatenate the rows of nested tensors of the same structure."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(parts)
    if isinstance(first, dict):
        return {name: concatenate([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple | list):
        return type(first)(concatenate(list(several)) for several in zip(*parts, strict=True))
    return first
