"""Reads tokens with a causal network of transformers, from where it left off."""

import inspect
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, RwkvPreTrainedModel

from bench_huggingface.kv_cache import Past, kept
from bench_huggingface.network import cache_name
from bench_huggingface.recurrent_states import Recurrent, RecurrentBlocks, WithBlocks, stacked


class Reader:
    """Calls a network, and turns what it is to remember into a State."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.cache = cache_name(type(network)) or ""
        self.arguments = set(inspect.signature(type(network).forward).parameters)
        self.blocks = RecurrentBlocks(network)
        self.mixes_rows = isinstance(network, RwkvPreTrainedModel)  # where it reads one token of each

    def __call__(self, tokens: Tensor, past: Any = None, last: int = 1, **more: Tensor | None) -> tuple[Tensor, Any]:
        """Return the logits after the `last` of more tokens [N, last, M], and what is to be remembered of all.

        `more` are arguments of the network, which it is given as far as it has them.
        """
        if self.mixes_rows and tokens.shape[1] == 1 and len(tokens) > 1:
            return self._row_by_row(tokens, past)
        if self.blocks.blocks:
            return self._with_blocks(tokens, past, last, more)
        return self._called(tokens, past and past.opened(), last, more)

    def logits(self, tokens: Tensor, last: int) -> Tensor:
        """Return the logits after the `last` of tokens that stand alone [N, last, M]."""
        found: Tensor = self.network(input_ids=tokens, use_cache=False, **self._last(last)).logits
        return _of_last(found, last)

    def remembers(self, tokens: Tensor) -> bool:
        """Return whether the network gives what it goes on from."""
        return bool(self.blocks.blocks) or self.cache in self.network(input_ids=tokens, use_cache=True)

    def _called(self, tokens: Tensor, cache: Any, last: int, more: dict[str, Any]) -> tuple[Tensor, Past]:
        given = {name: value for name, value in more.items() if value is not None and name in self.arguments}
        if cache is not None:
            given[self.cache] = cache
        found = self.network(input_ids=tokens, use_cache=True, **self._last(last), **given)
        return _of_last(found.logits, last), kept(cache if self.blocks.blocks else found[self.cache], tokens)

    def _row_by_row(self, tokens: Tensor, past: Recurrent | None) -> tuple[Tensor, Recurrent]:
        rows = torch.split(torch.arange(len(tokens), device=tokens.device), 1)
        found = [self(tokens[row], past and past.select(row), 1) for row in rows]
        states = stacked([after.states for _, after in found])
        return torch.cat([logits for logits, _ in found]), replace(found[0][1], states=states)

    def _with_blocks(
        self, tokens: Tensor, past: WithBlocks | None, last: int, more: dict[str, Any]
    ) -> tuple[Tensor, WithBlocks]:
        cache = past.cache.opened() if past else DynamicCache(config=self.network.config)
        self.blocks.put(past.blocks if past else None)
        try:
            logits, after = self._called(tokens, cache, last, more)
        finally:
            states = self.blocks.taken()
        return logits, WithBlocks(after, states)

    def _last(self, last: int) -> dict[str, int]:
        return {"logits_to_keep": last} if "logits_to_keep" in self.arguments else {}


def _of_last(logits: Tensor, last: int) -> Tensor:
    """Return the logits [N, last, M] that are asked for; a cut of all would have a gradient to be filled anew."""
    return logits if logits.shape[1] == last else logits[:, -last:]
