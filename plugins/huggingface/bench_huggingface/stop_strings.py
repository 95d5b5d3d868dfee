"""Stop strings: once a row contains a stop string, only EOS can follow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench_core import STOP


@dataclass(frozen=True)
class StopStrings:
    """Ends rows whose text contains a stop string."""

    strings: Sequence[str]
    text: Callable[[list[int]], str]  # decodes actions

    def apply(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """Return log-probabilities [N, A] after `tokens` [N, K], with only EOS possible after a stop string."""
        has_stop = torch.tensor([self._has(row) for row in tokens.tolist()], device=log_probs.device)
        only_stop = torch.full_like(log_probs[:1], -torch.inf)
        only_stop[:, STOP] = 0
        return torch.where(has_stop[:, None], only_stop, log_probs)

    def apply_to_targets(self, log_probs: Tensor, gold: Tensor, length: Tensor) -> Tensor:
        """Adjust log-probabilities [N, T] of targets `gold` [N, T] with `length` [N] tokens, like `apply` per step.

        After a stop string, EOS has probability 1 and other tokens 0.
        """
        result = log_probs.clone()
        for row, (tokens, size) in enumerate(zip(gold.tolist(), length.tolist(), strict=True)):
            for position in range(1, size):
                if self._has(tokens[:position]):
                    result[row, position] = 0.0 if tokens[position] == STOP else -torch.inf
        return result

    def _has(self, tokens: list[int]) -> bool:
        text = self.text(tokens)
        return any(string in text for string in self.strings)
