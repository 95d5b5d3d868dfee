"""Stop strings: a row in whose text one has appeared can only stop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench_core import STOP


@dataclass(frozen=True)
class StopStrings:
    """Where texts end by what they say."""

    strings: Sequence[str]
    text: Callable[[list[int]], str]  # of tokens, as a stepper numbers them

    def applied(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """Return log-probabilities [N, A] after `tokens` [N, K]: of stop alone where a text has a stop string."""
        over = torch.tensor([self._has(row) for row in tokens.tolist()], device=log_probs.device)
        only_stop = torch.full_like(log_probs[:1], -torch.inf)
        only_stop[:, STOP] = 0
        return torch.where(over[:, None], only_stop, log_probs)

    def scored(self, log_probs: Tensor, gold: Tensor, length: Tensor) -> Tensor:
        """Return the log-probabilities [N, T] of `gold` [N, T], of which `length` [N] are real, as steps give them.

        After a stop string, stop costs nothing and any other token is impossible.
        """
        found = log_probs.clone()
        for row, (tokens, size) in enumerate(zip(gold.tolist(), length.tolist(), strict=True)):
            for place in range(1, size):
                if self._has(tokens[:place]):
                    found[row, place] = 0.0 if tokens[place] == STOP else -torch.inf
        return found

    def _has(self, tokens: list[int]) -> bool:
        text = self.text(tokens)
        return any(one in text for one in self.strings)
