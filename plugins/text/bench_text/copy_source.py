"""The baseline that copies the source.

Its probabilities are 0 and 1, without states or logits: no `EncoderDecoder` of the kit.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from bench_core import STOP, Batch, Loss, ModelConfig, State, Stepper, SuiteError, TaskInfo, Training


@dataclass(frozen=True)
class Copying(State):
    """What is to be copied, and how much of it has been."""

    source: Tensor  # [N, S]
    length: Tensor  # [N] of the source
    place: Tensor  # [N] of the next token


class CopySource(nn.Module, Stepper[Copying]):
    """Says the source again, or the bag as it stands, token for token, with probability 1.

    There is nothing to learn: the one weight, which trainings ask for, has no effect. Raises SuiteError without a
    shared vocabulary.
    """

    def __init__(self, config: ModelConfig, info: TaskInfo) -> None:
        super().__init__()
        check_shared(config, info)
        self.tokens = len(info.vocabulary)
        self.weight = nn.Parameter(torch.zeros(()))

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return 0, and a gradient of 0."""
        return Loss(0 * self.weight, batch.length.sum())

    def start(self, batch: Batch) -> tuple[Tensor, Copying]:
        assert batch.source is not None
        assert batch.source_length is not None
        return self._next(Copying(batch.source, batch.source_length, torch.zeros_like(batch.ids)))

    def step(self, state: Copying, actions: Tensor) -> tuple[Tensor, Copying]:
        return self._next(replace(state, place=state.place + 1))

    def _next(self, state: Copying) -> tuple[Tensor, Copying]:
        place = state.place.clamp(max=state.source.shape[1] - 1)[:, None]
        token = state.source.gather(1, place).where((state.place < state.length)[:, None], STOP)  # [N, 1]
        shut = torch.full((len(token), self.tokens), -torch.inf, dtype=self.weight.dtype, device=token.device)
        return shut.scatter(1, token, 0.0), state


def check_shared(config: ModelConfig, info: TaskInfo) -> None:
    """Raise SuiteError unless source and target have one vocabulary."""
    if list(info.source_vocabulary) != list(info.vocabulary):
        raise SuiteError(
            f"{config.name} says tokens of the source, so source and target must have the same vocabulary. Set "
            "`shared: true` in the task, or choose a task that shares it."
        )
