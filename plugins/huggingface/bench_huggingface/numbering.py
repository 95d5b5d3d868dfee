"""Numbers of tokens of a model with stop at 0, and log-probabilities where several tokens end a text."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bench_core import STOP


@dataclass(frozen=True)
class Numbering:
    """A task has stop at 0, a model has it at `stop`: these two tokens change places.

    A model may know more tokens than the task, to fill up its embedding; they come last and are never predicted.
    """

    tokens: int  # of the task
    stop: int = STOP  # in the model

    def of_model(self, tokens: Tensor) -> Tensor:
        """Return the model's numbers of the task's tokens."""
        if self.stop == STOP:
            return tokens
        other = torch.where(tokens == self.stop, STOP, tokens)
        return torch.where(tokens == STOP, self.stop, other)

    def of_task(self, logits: Tensor) -> Tensor:
        """Return the model's logits [..., M] in the order of the task's tokens [..., V]; may reuse their memory."""
        if logits.shape[-1] > self.tokens:  # the gradient of a part is as large as the whole, and filled anew
            logits = logits[..., : self.tokens]
        if self.stop == STOP:
            return logits
        first, last = logits[..., :1], logits[..., self.stop : self.stop + 1]
        if logits.requires_grad:
            return torch.cat([last, logits[..., 1 : self.stop], first, logits[..., self.stop + 1 :]], -1)
        first, last = first.clone(), last.clone()
        logits[..., :1], logits[..., self.stop : self.stop + 1] = last, first
        return logits


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
