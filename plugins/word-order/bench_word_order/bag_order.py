"""The baseline that keeps the order of the bag.

Its probabilities are 0 and 1, without states or logits: no `EncoderDecoder` of the kit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bench_core import STOP, Batch, Loss, ModelConfig, State, Stepper, SuiteError, TaskInfo, Training

if TYPE_CHECKING:
    from bench_word_order.plugin import BagOrderConfig


@dataclass(frozen=True)
class Reading(State):
    """What is yet to be said."""

    bag: Tensor  # [N, S]
    length: Tensor  # [N]
    place: Tensor  # [N] of the next token


class BagOrder(nn.Module, Stepper[Reading]):
    """Says the bag token for token, with probability 1; raises SuiteError without a shared vocabulary.

    There is nothing to learn: the one weight, which trainings ask for, has no effect.
    """

    def __init__(self, config: BagOrderConfig, info: TaskInfo) -> None:
        super().__init__()
        check_shared(config, info)
        self.tokens = len(info.vocabulary)
        self.weight = nn.Parameter(torch.zeros(()))

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return 0, and a gradient of 0."""
        return Loss(0 * self.weight, batch.length.sum())

    def start(self, batch: Batch) -> tuple[Tensor, Reading]:
        assert batch.source is not None
        assert batch.source_length is not None
        return self._next(Reading(batch.source, batch.source_length, torch.zeros_like(batch.ids)))

    def step(self, state: Reading, actions: Tensor) -> tuple[Tensor, Reading]:
        return self._next(replace(state, place=state.place + 1))

    def _next(self, state: Reading) -> tuple[Tensor, Reading]:
        place = state.place.clamp(max=state.bag.shape[1] - 1)[:, None]
        token = state.bag.gather(1, place).where((state.place < state.length)[:, None], STOP)  # [N, 1]
        shut = torch.full((len(token), self.tokens), -torch.inf, dtype=self.weight.dtype, device=token.device)
        return shut.scatter(1, token, 0.0), state


def check_shared(config: ModelConfig, info: TaskInfo) -> None:
    """Raise SuiteError unless tokens of the bag are tokens of the target."""
    if list(info.source_vocabulary) != list(info.vocabulary):
        raise SuiteError(
            f"{config.name} says the tokens of the bag, so source and target must have the same vocabulary, as in "
            "the task `word-order`."
        )
