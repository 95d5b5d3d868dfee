"""A bidirectional model that reads the tokens it predicts, to illustrate the RNN notes.

It cannot generate, so it is not a `LanguageModel` of the kit.
"""

from functools import partial

import torch
from torch import Tensor, nn

from bench_core import Batch, Loss, Scorer, Scores, Scoring, State, TaskInfo, Training, by_host
from bench_core.kit import Softmax
from bench_rnn.encoder import RecurrentEncoder
from bench_rnn.plugin import BidirectionalLMConfig


class BidirectionalLM(nn.Module, Scorer):
    """Learns p(y_t | [f_t, g_t]), where f_t reads the tokens before y_t, and g_t reads y_{t-1} and all later tokens.

    `leak` scores are computed as in training; they are not likelihoods, because g_t has read y_t. For `hidden`, the
    encoder reads only the tokens before y_t, so g_t starts at y_{t-1}: exact, but every prefix must be encoded.
    Windows of a stream are independent.
    """

    def __init__(self, config: BidirectionalLMConfig, info: TaskInfo) -> None:
        super().__init__()
        tokens, width = len(info.vocabulary), config.embedding or config.hidden
        self.embed = nn.Embedding(tokens, width)
        self.encoder = RecurrentEncoder(
            config.cell, width, config.hidden, config.layers, config.dropout, bidirectional=True
        )
        self.head = nn.Linear(2 * config.hidden, tokens)
        self.dropout = nn.Dropout(config.dropout)

    def loss(self, batch: Batch, training: Training) -> Loss:
        costs, _ = Softmax(self.head).loss(self._leaky_states(batch), batch, State(), training)  # [M] real tokens
        return Loss(costs.mean(), batch.length.sum())

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        hidden = self._leaky_states(batch) if scoring.by == "leak" else self._causal_states(batch)
        real, _ = Softmax(self.head).score(hidden, batch, State(), scoring.by)  # [M] real tokens
        mask = batch.mask
        return Scores(real.new_zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, real.double()).sum(1))

    def _leaky_states(self, batch: Batch) -> Tensor:
        """Return the states [N, T, 2 H] at the token before each gold token, given all tokens."""
        states = self._encode(batch.inputs, by_host(lambda length: batch.prompt.shape[1] + length - 1, batch.length))
        return states[:, -batch.gold.shape[1] :]

    def _causal_states(self, batch: Batch) -> Tensor:
        """Return the states [N, T, 2 H] at the token before each gold token, computed without later tokens."""
        ends = range(batch.prompt.shape[1], batch.inputs.shape[1] + 1)
        prefixes = [batch.inputs[:, :end] for end in ends]
        whole = [by_host(partial(torch.full_like, fill_value=prefix.shape[1]), batch.length) for prefix in prefixes]
        states = [self._encode(prefix, length)[:, -1] for prefix, length in zip(prefixes, whole, strict=True)]
        return torch.stack(states, 1)

    def _encode(self, tokens: Tensor, length: Tensor) -> Tensor:
        """Return the top layer's states [N, K, 2 H] at `tokens` [N, K], the first `length` [N] of which are real."""
        hidden: Tensor = self.dropout(self.encoder(self.dropout(self.embed(tokens)), length)[0])
        return hidden
