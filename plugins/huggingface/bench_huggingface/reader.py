"""Reads tokens with a causal network of transformers, starting from a state."""

import inspect
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, RwkvPreTrainedModel

from bench_huggingface.kv_cache import Past, as_state
from bench_huggingface.network import cache_name
from bench_huggingface.recurrent_states import RecurrentBlocks, RecurrentState, WithBlocks, concatenate


class NetworkReader:
    """Calls a network, and converts its cache to a State."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.cache = cache_name(type(network)) or ""
        self.arguments = set(inspect.signature(type(network).forward).parameters)
        self.blocks = RecurrentBlocks(network)
        self.mixes_rows = isinstance(network, RwkvPreTrainedModel)  # RWKV, if it reads one token per row

    def __call__(self, tokens: Tensor, past: Any = None, last: int = 1, **more: Tensor | None) -> tuple[Tensor, Any]:
        """Read more tokens; return the logits at the final `last` positions [N, last, M], and the new state.

        `more` are further arguments of the network; unsupported arguments are ignored.
        """
        if self.mixes_rows and tokens.shape[1] == 1 and len(tokens) > 1:
            return self._row_by_row(tokens, past)
        if self.blocks.blocks:
            return self._with_blocks(tokens, past, last, more)
        return self._call(tokens, past and past.reserve(), last, more)

    def logits(self, tokens: Tensor, last: int) -> Tensor:
        """Read tokens without a previous state; return the logits at the final `last` positions [N, last, M]."""
        output: Tensor = self.network(input_ids=tokens, use_cache=False, **self._last(last)).logits
        return _last_logits(output, last)

    def returns_cache(self, tokens: Tensor) -> bool:
        """Return whether the network returns a cache to continue from."""
        return bool(self.blocks.blocks) or self.cache in self.network(input_ids=tokens, use_cache=True)

    def _call(self, tokens: Tensor, cache: Any, last: int, more: dict[str, Any]) -> tuple[Tensor, Past]:
        arguments = {name: value for name, value in more.items() if value is not None and name in self.arguments}
        if cache is not None:
            arguments[self.cache] = cache
        output = self.network(input_ids=tokens, use_cache=True, **self._last(last), **arguments)
        after = as_state(cache if self.blocks.blocks else output[self.cache], tokens)
        return _last_logits(output.logits, last), after

    def _row_by_row(self, tokens: Tensor, past: RecurrentState | None) -> tuple[Tensor, RecurrentState]:
        rows = torch.split(torch.arange(len(tokens), device=tokens.device), 1)
        results = [self(tokens[row], past and past.select(row), 1) for row in rows]
        states = concatenate([after.states for _, after in results])
        return torch.cat([logits for logits, _ in results]), replace(results[0][1], states=states)

    def _with_blocks(
        self, tokens: Tensor, past: WithBlocks | None, last: int, more: dict[str, Any]
    ) -> tuple[Tensor, WithBlocks]:
        cache = past.cache.reserve() if past else DynamicCache(config=self.network.config)
        self.blocks.put(past.blocks if past else None)
        try:
            logits, after = self._call(tokens, cache, last, more)
        finally:
            states = self.blocks.take()
        return logits, WithBlocks(after, states)

    def _last(self, last: int) -> dict[str, int]:
        return {"logits_to_keep": last} if "logits_to_keep" in self.arguments else {}


def _last_logits(logits: Tensor, last: int) -> Tensor:
    """Return the last logits [N, last, M]; slice only if needed, because slicing allocates a full-size gradient."""
    return logits if logits.shape[1] == last else logits[:, -last:]
