"""Numbers of tokens of a checkpoint with stop at 0, and log-probabilities where several tokens end a text."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bench_core import STOP
from bench_huggingface.numbering import Numbering


@dataclass(frozen=True)
class OwnNumbering(Numbering):
    """The first end changes places with token 0; the probability of stop is that of all ends together.

    An end beside the first, and a token that the checkpoint forbids, is never an action.
    """

    ends: tuple[int, ...] = ()  # beside `stop`, in the model's numbers
    never: tuple[int, ...] = ()  # likewise
    dtype: torch.dtype = torch.float32  # of log-probabilities, whatever that of logits is

    def log_probs(self, logits: Tensor) -> Tensor:
        """Return log-probabilities of actions [..., V] for logits of the model [..., M]."""
        logits = logits[..., : self.tokens].to(self.dtype, copy=True)
        if self.never:
            logits[..., [*self.never]] = -torch.inf
        found = self.of_task(logits).log_softmax(-1)
        if self.ends:
            others = self.own([*self.ends])
            found[..., STOP] = found[..., [STOP, *others]].logsumexp(-1)
            found[..., others] = -torch.inf
        return found

    def own(self, tokens: list[int]) -> list[int]:
        """Return our numbers for the model's, or the model's for ours."""
        swap = {STOP: self.stop, self.stop: STOP}
        return [swap.get(token, token) for token in tokens]
