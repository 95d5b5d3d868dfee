"""Recurrent language models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from bench_core import Batch, Loss, Noise, Scorer, Scores, Scoring, State, Stepper, TaskInfo, Training
from bench_rnn.bptt import through_time
from bench_rnn.cells import Recurrent, Units
from bench_rnn.output import Output, Softmax

if TYPE_CHECKING:
    from bench_rnn.plugin import RNNLMConfig

Layers: TypeAlias = Callable[[Tensor, Units | None], tuple[Tensor, Units]]


@dataclass(frozen=True)
class Memory(State):
    """What is left of the tokens read so far."""

    units: Units  # [N, L, H] hidden units, and for the LSTM its cells
    output: State  # what the output layer remembers


class RecurrentLM(nn.Module, Stepper[Memory], Scorer):
    """p(y) = prod_t p(y_t | h_t), with h_t from stacked recurrent layers over y_<t.

    How h_t becomes a probability is up to the output layer, which another model hands over as `output`.
    """

    def __init__(self, config: RNNLMConfig, info: TaskInfo, output: Output | None = None) -> None:
        super().__init__()
        self.cell, self.bptt = config.cell, config.bptt
        tokens = len(info.vocabulary)
        width = tokens if config.embedding == "one-hot" else config.embedding or config.hidden
        self.embed = OneHot(tokens) if config.embedding == "one-hot" else nn.Embedding(tokens, width)
        self.rnn = Recurrent(config.cell, width, config.hidden, config.layers, config.dropout, variant=config.variant)
        self.output = output or Softmax(config.hidden, tokens)
        self.dropout = nn.Dropout(config.dropout)
        if config.tied:
            assert isinstance(self.embed, nn.Embedding)
            self.output.tie(self.embed)
        if config.initial_scale is not None:
            start_small(self, config.initial_scale)

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        self.output.setup(info, noise)

    def loss(self, batch: Batch, training: Training) -> Loss:
        learning = partial(through_time, self.rnn, bptt=self.bptt, ids=batch.ids, noise=training.noise)
        layers = learning if torch.is_grad_enabled() else self.rnn
        hidden, past = self._run(batch.inputs, batch.gold.shape[1], training.memory, layers)
        costs, output = self.output.loss(hidden, batch, past.output, training)  # [M] real tokens
        return Loss(costs.mean(), batch.length.sum(), memory=replace(past, output=output))

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        hidden, past = self._run(batch.inputs, batch.gold.shape[1], scoring.memory)
        real, output = self.output.score(hidden, batch, past.output, scoring.by)  # [M] real tokens
        mask = batch.mask
        log_probs = real.new_zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, real.double())
        return Scores(log_probs.sum(1), memory=replace(past, output=output))

    def start(self, batch: Batch) -> tuple[Tensor, Memory]:
        return self._next(batch.opening, None)

    def step(self, state: Memory, actions: Tensor) -> tuple[Tensor, Memory]:
        return self._next(actions[:, None], state)

    def _next(self, tokens: Tensor, past: Memory | None) -> tuple[Tensor, Memory]:
        hidden, past = self._run(tokens, 1, past)
        log_probs, output = self.output.log_probs(hidden, past.output)
        return log_probs[:, 0], replace(past, output=output)

    def _run(
        self, tokens: Tensor, last: int, past: Memory | None, layers: Layers | None = None
    ) -> tuple[Tensor, Memory]:
        """Return the units after the `last` tokens [N, last, H], and a memory that `output` has yet to see."""
        hidden, units = (layers or self.rnn)(self.dropout(self.embed(tokens)), past.units if past else None)
        hidden = self.dropout(hidden)
        output = past.output if past else self.output.start(hidden[:, :-last])
        return hidden[:, -last:], Memory(units, output)


class OneHot(nn.Module):
    """Stands for an embedding where the recurrent layers read tokens as they are."""

    weight: Tensor  # [0], whose type is that of the numbers

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.register_buffer("weight", torch.empty(0), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return a 1 among 0s for each token [N, T, V]."""
        return one_hot(tokens, self.tokens).to(self.weight.dtype)


def start_small(model: nn.Module, scale: float) -> None:
    """Draw matrices from N(0, scale^2) and set biases to 0, as the RNN notes begin."""
    for weights in model.parameters():
        if weights.dim() > 1:
            nn.init.normal_(weights, std=scale)
        else:
            nn.init.zeros_(weights)
