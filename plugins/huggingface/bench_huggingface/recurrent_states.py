"""States of recurrent networks of transformers that are no `Cache`: those of RWKV, xLSTM and RecurrentGemma."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench_core import State


@dataclass(frozen=True)
class Recurrent(State):
    """The states of recurrent layers, which a network changes in place."""

    states: Any  # tensors, rows first, in tuples, lists and mappings
    wrapped: Callable[[Any], Any]  # makes of them what the network takes

    def opened(self) -> Any:
        """Return a copy, to which a network may add one token."""
        return self.wrapped(self.change(Tensor.clone).states)


def xlstm_cache(like: Any, states: Any) -> Any:
    """Return a cache of xLSTM with other states."""
    cache = copy(like)
    cache.rnn_state, cache.seqlen_offset = states, like.seqlen_offset.clone()
    return cache


@dataclass(frozen=True)
class WithBlocks(State):
    """Keys and values, and besides them what the recurrent blocks of RecurrentGemma keep to themselves."""

    cache: Any  # a Past
    blocks: tuple[tuple[Tensor, Tensor], ...]  # [N, H, K - 1] of the convolution and [N, H] of the recurrence


class RecurrentBlocks:
    """The recurrent blocks of a RecurrentGemma, whose states are attributes of modules."""

    def __init__(self, network: nn.Module) -> None:
        self.blocks: list[Any] = [one for one in network.modules() if hasattr(one, "conv1d_state")]

    def put(self, states: tuple[tuple[Tensor, Tensor], ...] | None) -> None:
        """Let the blocks go on from such states; from none where there are none."""
        for place, block in enumerate(self.blocks):
            block.conv1d_state, block.rg_lru.recurrent_states = states[place] if states else (None, None)

    def taken(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Return the states of the blocks, which forget them."""
        found = tuple((block.conv1d_state, block.rg_lru.recurrent_states) for block in self.blocks)
        self.put(None)
        return found


def stacked(parts: list[Any]) -> Any:
    """Return nested tensors of the same form as one, the rows of each after those before."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(parts)
    if isinstance(first, dict):
        return {name: stacked([one[name] for one in parts]) for name in first}
    if isinstance(first, tuple | list):
        return type(first)(stacked(list(several)) for several in zip(*parts, strict=True))
    return first
