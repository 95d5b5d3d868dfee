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

LEAST, MOST = -6.0, 2.0  # of ln sigma


class Posterior(nn.Module):
    """q(xi_t) = N(mu_t, sigma_t^2), from a_t, which a GRU leaves that has read the target from its end back to t.

    One hidden layer reads a_t and, where the model has it do so, the state before and a state that the generative
    flow might go to next.
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
        """Return what the hidden layer gets of a_t [N, T, H]; what pads a target [N, T] is never read before it."""
        turned = _turned(torch.arange(gold.shape[1], device=gold.device), length[:, None])
        tokens = self.embed(gold)
        backward, *forward = self.readers
        read = _gather(backward(_gather(tokens, turned))[0], turned)
        contexts: Tensor = self.context(torch.cat([read, *(reader(tokens)[0] for reader in forward)], 2))
        return contexts

    def walk(self, gold: Tensor, length: Tensor, rows: Sequence[int], steps: Tensor, who: Tensor) -> Tensor:
        """Return the same [M, H] for each step [M] of each row `who` [M], by operations that copies in a stack share.

        Step t is taken by the first rows[t] rows; steps stand one after the other.
        """
        turned = _turned(steps, length[who])
        begin = to_device(torch.tensor([0, *accumulate(rows)]), gold.device)
        backward, *forward = self.readers
        own, *more = torch.split(self.context.weight, self.context.in_features // len(self.readers), 1)
        read = linear(walked(backward, self.embed(gold[who, turned]), rows), own, self.context.bias)
        contexts = read[begin[turned] + who]
        for reader, weight in zip(forward, more, strict=True):
            contexts = contexts + linear(walked(reader, self.embed(gold[who, steps]), rows), weight)
        return contexts

    def forward(self, context: Tensor, state: Tensor, peek: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return mu and ln sigma [N, K, d]; K is 1 unless there are states to `peek` at [N, K, d]."""
        hidden = context[:, None]
        if self.state is not None:
            hidden = hidden + self.state(state)[:, None]
        if self.peek is not None and peek is not None:
            hidden = hidden + self.peek(peek)
        mean, log_std = self.proposal(torch.tanh(hidden)).to(state.dtype).chunk(2, -1)
        return mean, log_std.clamp(LEAST, MOST)


def walked(reader: Any, inputs: Tensor, rows: Sequence[int]) -> Tensor:
    """Return what a reader leaves [M, H] of inputs [M, E] that stand step by step."""
    found: Tensor = reader.walk(inputs, rows)
    return found


def _turned(steps: Tensor, length: Tensor) -> Tensor:
    """Return at which place of a target step t reads that is read from its end; behind the end, t itself."""
    return torch.where(steps < length, length - 1 - steps, steps)


def _gather(steps: Tensor, places: Tensor) -> Tensor:
    """Return steps [N, T, E] at places [N, T]."""
    return steps.gather(1, places[:, :, None].expand(-1, -1, steps.shape[2]))
