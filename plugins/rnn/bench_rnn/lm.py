"""Recurrent language models."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from bench_core import Batch, Scoring, TaskInfo, Training
from bench_core.kit import Head, LanguageModel, LanguageModelState
from bench_rnn.bptt import through_time
from bench_rnn.cells import Recurrent, Units
from bench_rnn.plugin import RNNLMConfig


class RecurrentLM(LanguageModel):
    """p(y) = prod_t p(y_t | h_t), with h_t from stacked recurrent layers over y_<t.

    The head maps h_t to probabilities; by default, it is a linear layer with a softmax.
    """

    def __init__(self, config: RNNLMConfig, info: TaskInfo, head: Head | None = None) -> None:
        super().__init__()
        self.cell, self.bptt = config.cell, config.bptt
        tokens = len(info.vocabulary)
        width = tokens if config.embedding == "one-hot" else config.embedding or config.hidden
        self.embed = OneHot(tokens) if config.embedding == "one-hot" else nn.Embedding(tokens, width)
        self.rnn = Recurrent(config.cell, width, config.hidden, config.layers, config.dropout, variant=config.variant)
        self.head = head or nn.Linear(config.hidden, tokens)
        self.dropout = nn.Dropout(config.dropout)
        if config.tied:
            assert isinstance(self.embed, nn.Embedding)
            tie(self.head, self.embed)
        if config.initial_scale is not None:
            init_small(self, config.initial_scale)

    def forward(
        self, tokens: Tensor, past: Units | None = None, layers: Callable[..., tuple[Tensor, Units]] | None = None
    ) -> tuple[Tensor, Units]:
        """Return h [N, K, H] after each of `tokens` and the final state; `layers` replaces the recurrent layers."""
        hidden, units = (layers or self.rnn)(self.dropout(self.embed(tokens)), past)
        return self.dropout(hidden), units

    def predict(self, batch: Batch, given: Training | Scoring, **more: Any) -> tuple[Tensor, LanguageModelState]:
        if isinstance(given, Training) and torch.is_grad_enabled() and not more:
            more["layers"] = partial(through_time, self.rnn, bptt=self.bptt, ids=batch.ids, rng=given.rng)
        return super().predict(batch, given, **more)


def tie(head: nn.Module, embedding: nn.Embedding) -> None:
    """Use the embedding's weight [V, H] for the logits."""
    if isinstance(head, Head):
        head.tie(embedding)
    else:
        head.weight = embedding.weight


class OneHot(nn.Module):
    """One-hot vectors in place of an embedding."""

    weight: Tensor  # [0]; sets the dtype of the vectors

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.register_buffer("weight", torch.empty(0), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return a one-hot vector for each token [N, T, V]."""
        return one_hot(tokens, self.tokens).to(self.weight.dtype)


def init_small(model: nn.Module, scale: float) -> None:
    """Sample matrices from N(0, scale^2) and set biases to 0, as in the RNN notes."""
    for weights in model.parameters():
        if weights.dim() > 1:
            nn.init.normal_(weights, std=scale)
        else:
            nn.init.zeros_(weights)
