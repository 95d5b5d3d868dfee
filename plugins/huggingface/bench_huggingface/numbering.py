"""Maps between the tokenizer's token ids and those of the task."""

from __future__ import annotations

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
