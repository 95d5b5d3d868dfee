"""A baseline that copies the source.

Its probabilities are 0 and 1, and it has no hidden states or logits, so it is not an `EncoderDecoder` of the kit.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from bench_core import STOP, Batch, Loss, ModelConfig, State, Stepper, SuiteError, TaskInfo, Training


@dataclass(frozen=True)
class CopyState(State):
    """The source and the position of the next token."""

    source: Tensor  # [N, S]
    length: Tensor  # [N], source tokens
    place: Tensor  # [N], index of the next token


class CopySource(nn.Module, Stepper[CopyState]):
    """Copies the source token by token with probability 1; a bag is copied in its stored order.

    It learns nothing: its only weight, which training requires, has no effect. Raises SuiteError without a shared
    vocabulary.
    """

    def __init__(self, config: ModelConfig, info: TaskInfo) -> None:
        super().__init__()
        check_shared(config, info)
        self.tokens = len(info.vocabulary)
        self.weight = nn.Parameter(torch.zeros(()))

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return a loss of 0 with zero gradient."""
        return Loss(0 * self.weight, batch.length.sum())

    def start(self, batch: Batch) -> tuple[Tensor, CopyState]:
        assert batch.source is not None
        assert batch.source_length is not None
        return self._next(CopyState(batch.source, batch.source_length, torch.zeros_like(batch.ids)))

    def step(self, state: CopyState, actions: Tensor) -> tuple[Tensor, CopyState]:
        return self._next(replace(state, place=state.place + 1))

    def _next(self, state: CopyState) -> tuple[Tensor, CopyState]:
        place = state.place.clamp(max=state.source.shape[1] - 1)[:, None]
        token = state.source.gather(1, place).where((state.place < state.length)[:, None], STOP)  # [N, 1]
        log_probs = torch.full((len(token), self.tokens), -torch.inf, dtype=self.weight.dtype, device=token.device)
        return log_probs.scatter(1, token, 0.0), state


def check_shared(config: ModelConfig, info: TaskInfo) -> None:
    """Raise SuiteError unless source and target share a vocabulary."""
    if list(info.source_vocabulary) != list(info.vocabulary):
        raise SuiteError(
            f"{config.name} copies source tokens, so source and target must have the same vocabulary. Set "
            "`shared: true` in the task, or choose a task with a shared vocabulary."
        )
