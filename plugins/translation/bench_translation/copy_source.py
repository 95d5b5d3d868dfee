"""The baseline that copies the source.

Its probabilities are 0 and 1, without states or logits: no `EncoderDecoder` of the kit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from bench_core import STOP, Batch, Loss, State, Stepper, SuiteError, TaskInfo, Training

if TYPE_CHECKING:
    from bench_translation.plugin import CopySourceConfig


@dataclass(frozen=True)
class Copying(State):
    """What is yet to be copied."""

    source: Tensor  # [N, S] ends with stop
    place: Tensor  # [N] of the next token


class CopySource(nn.Module, Stepper[Copying]):
    """Says the source again, token for token, with probability 1; raises SuiteError without a shared vocabulary.

    There is nothing to learn: the one weight, which trainings ask for, has no effect.
    """

    def __init__(self, config: CopySourceConfig, info: TaskInfo) -> None:
        super().__init__()
        if list(info.source_vocabulary) != list(info.vocabulary):
            raise SuiteError(
                f"{config.name} says the source's tokens as the target's, so both must have the same vocabulary. "
                "Set `shared: true` in the task."
            )
        self.tokens = len(info.vocabulary)
        self.weight = nn.Parameter(torch.zeros(()))

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return 0, and a gradient of 0."""
        return Loss(0 * self.weight, batch.length.sum())

    def start(self, batch: Batch) -> tuple[Tensor, Copying]:
        assert batch.source is not None
        assert batch.source_length is not None
        real = torch.arange(batch.source.shape[1], device=batch.ids.device) < batch.source_length[:, None]
        source = pad(batch.source.where(real, STOP), (0, 1), value=STOP)
        return self._next(Copying(source, torch.zeros_like(batch.ids)))

    def step(self, state: Copying, actions: Tensor) -> tuple[Tensor, Copying]:
        return self._next(replace(state, place=state.place + 1))

    def _next(self, state: Copying) -> tuple[Tensor, Copying]:
        last = state.source.shape[1] - 1  # a stop, where nothing but stop is left
        token = state.source.gather(1, state.place.clamp(max=last)[:, None])  # [N, 1]
        shut = torch.full((len(token), self.tokens), -torch.inf, dtype=self.weight.dtype, device=token.device)
        return shut.scatter(1, token, 0.0), state
