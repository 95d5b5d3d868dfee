"""The inference network: a posterior over the noise of a trajectory, given the target."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bench_core import TaskInfo, to_device
from bench_rnn.api import Recurrent
from bench_ssm.plugin import DeepSSMConfig

MIN_LOG_STD, MAX_LOG_STD = -6.0, 2.0


class Posterior(nn.Module):
    """q(xi_t) = N(mu_t, sigma_t^2), given a_t, the state of a GRU that reads the target from its end back to t.

    One hidden layer reads a_t and, depending on the settings, the previous state and a possible next state of the
    generative flow.
    """

    def __init__(self, config: DeepSSMConfig, info: TaskInfo) -> None:
        super().__init__()
        size = config.embedding or config.state
        directions = 1 + config.bidirectional
        self.embed = nn.Embedding(len(info.vocabulary), size)
        self.readers = nn.ModuleList(Recurrent("gru", size, config.reader, 1, 0.0) for _ in range(directions))
        self.context = nn.Linear(directions * config.reader, config.posterior)
        self.state = nn.Linear(config.state, config.posterior, bias=False) if config.q_sees_state else None
        self.peek = nn.Linear(config.state, config.posterior, bias=False) if config.samples > 1 else None
        self.proposal = nn.Linear(config.posterior, 2 * config.state)

    def read(self, gold: Tensor, length: Tensor) -> Tensor:
        """Return the hidden layer's projection of a_t [N, T, H]; padding is read after the tokens of a target."""
        backwards = _reverse(torch.arange(gold.shape[1], device=gold.device), length[:, None])
        tokens = self.embed(gold)
        backward, *forward = self.readers
        read = _gather(backward(_gather(tokens, backwards))[0], backwards)
        contexts: Tensor = self.context(torch.cat([read, *(reader(tokens)[0] for reader in forward)], 2))
        return contexts

    def walk(self, gold: Tensor, length: Tensor, rows: Sequence[int], steps: Tensor, index: Tensor) -> Tensor:
        """Compute `read` [M, H] for each step [M] and row `index` [M], with operations that vmap supports.

        The first rows[t] rows take step t; entries are ordered by step.
        """
        backwards = _reverse(steps, length[index])
        begin = to_device(torch.tensor([0, *accumulate(rows)]), gold.device)
        backward, *forward = self.readers
        first, *more = torch.split(self.context.weight, self.context.in_features // len(self.readers), 1)
        read = linear(run_reader(backward, self.embed(gold[index, backwards]), rows), first, self.context.bias)
        contexts = read[begin[backwards] + index]
        for reader, weight in zip(forward, more, strict=True):
            contexts = contexts + linear(run_reader(reader, self.embed(gold[index, steps]), rows), weight)
        return contexts

    def forward(self, context: Tensor, state: Tensor, peek: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return mu and ln sigma [*, K, d] given possible next states `peek` [*, K, d]; without `peek`, K is 1."""
        hidden = context[..., None, :]
        if self.state is not None:
            hidden = hidden + self.state(state)[..., None, :]
        if self.peek is not None and peek is not None:
            hidden = hidden + self.peek(peek)
        mean, log_std = self.proposal(torch.tanh(hidden)).to(state.dtype).chunk(2, -1)
        return mean, log_std.clamp(MIN_LOG_STD, MAX_LOG_STD)


def run_reader(reader: Any, inputs: Tensor, rows: Sequence[int]) -> Tensor:
    """Return the hidden states [M, H] of a reader for inputs [M, E] that are ordered by step."""
    hidden: Tensor = reader.walk(inputs, rows)
    return hidden


def _reverse(steps: Tensor, length: Tensor) -> Tensor:
    """Return the position that step t reads when a target is read from its end, or t if t is padding."""
    return torch.where(steps < length, length - 1 - steps, steps)


def _gather(steps: Tensor, places: Tensor) -> Tensor:
    """Return steps [N, T, E] at places [N, T]."""
    return steps.gather(1, places[:, :, None].expand(-1, -1, steps.shape[2]))
