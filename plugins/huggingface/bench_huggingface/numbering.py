"""Renumbering of a model's tokens so that EOS is 0, and log-probabilities for models with several EOS tokens."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bench_core import STOP


@dataclass(frozen=True)
class Numbering:
    """Swaps tokens 0 and `stop`, the EOS ids of the task and of the model.

    If the model's embedding is padded, it has more tokens than the task; the extra tokens come last and are never
    predicted.
    """

    tokens: int  # the task's vocabulary size
    stop: int = STOP  # the model's EOS id

    def of_model(self, tokens: Tensor) -> Tensor:
        """Convert the task's tokens to ids of the model."""
        if self.stop == STOP:
            return tokens
        other = torch.where(tokens == self.stop, STOP, tokens)
        return torch.where(tokens == STOP, self.stop, other)

    def of_task(self, logits: Tensor) -> Tensor:
        """Reorder the model's logits [..., M] to the task's tokens [..., V]; may reuse their memory."""
        if logits.shape[-1] > self.tokens:  # slicing allocates a full-size gradient
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
class CheckpointNumbering(Numbering):
    """Swaps the first EOS token and token 0; the probability of EOS is the sum over all EOS tokens.

    Further EOS tokens, and tokens that the checkpoint forbids, are never actions.
    """

    ends: tuple[int, ...] = ()  # further EOS ids of the model
    never: tuple[int, ...] = ()  # forbidden token ids of the model
    dtype: torch.dtype = torch.float32  # dtype of log-probabilities

    def log_probs(self, logits: Tensor) -> Tensor:
        """Convert logits of the model [..., M] to log-probabilities of actions [..., V]."""
        logits = logits[..., : self.tokens].to(self.dtype, copy=True)
        if self.never:
            logits[..., [*self.never]] = -torch.inf
        result = self.of_task(logits).log_softmax(-1)
        if self.ends:
            others = self.swap([*self.ends])
            result[..., STOP] = result[..., [STOP, *others]].logsumexp(-1)
            result[..., others] = -torch.inf
        return result

    def swap(self, tokens: list[int]) -> list[int]:
        """Convert token ids of the model to actions, or vice versa."""
        other = {STOP: self.stop, self.stop: STOP}
        return [other.get(token, token) for token in tokens]
