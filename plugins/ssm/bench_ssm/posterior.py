"""The inference network: a posterior over the noise of a trajectory, given the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bench_core import TaskInfo
from bench_rnn.api import Recurrent, Units

if TYPE_CHECKING:
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

    def read(self, gold: Tensor, length: Tensor, rows: Sequence[int] | None = None) -> Tensor:
        """Return what the hidden layer gets of a_t [N, T, H]; what pads a target [N, T] is never read before it.

        Where `rows` are given, the layers take their steps one by one, as copies in a stack have to, and step t of
        the first rows[t] rows alone.
        """
        places = torch.arange(gold.shape[1], device=gold.device)
        turned = torch.where(places < length[:, None], length[:, None] - 1 - places, places)
        tokens = self.embed(gold)
        backward, *forward = self.readers

        def run(reader: Any, inputs: Tensor) -> Tensor:
            found: Tensor = reader(inputs)[0] if rows is None else in_a_loop(reader, inputs, rows=rows)[0]
            return found

        read = _gather(run(backward, _gather(tokens, turned)), turned)
        contexts: Tensor = self.context(torch.cat([read, *(run(reader, tokens) for reader in forward)], 2))
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


def in_a_loop(
    layers: Recurrent, inputs: Tensor, units: Units | None = None, rows: Sequence[int] | None = None
) -> tuple[Tensor, Units]:
    """Run recurrent layers step by step, which `torch.func.vmap` can do where torch's own kernels have no rule."""
    return layers.unroll(inputs, units, lambda units, step: units, rows)


def _gather(steps: Tensor, places: Tensor) -> Tensor:
    """Return steps [N, T, E] at places [N, T]."""
    return steps.gather(1, places[:, :, None].expand(-1, -1, steps.shape[2]))
