"""A bidirectional tagger, which reads what it predicts; for the notes, not for comparison.

It cannot generate: no `LanguageModel` of the kit.
"""

from functools import partial

import torch
from torch import Tensor, nn

from bench_core import Batch, Loss, Scorer, Scores, Scoring, State, TaskInfo, Training, by_host
from bench_core.kit import Softmax
from bench_rnn.encoder import Encoder
from bench_rnn.plugin import BidirectionalLMConfig


class BidirectionalLM(nn.Module, Scorer):
    """Learns p(y_t | [f_t, g_t]), with f_t from what comes before y_t, and g_t from y_{t-1} and all that follows it.

    By `leak` it is scored as it is trained. These are no probabilities of the target, for g_t has read y_t itself. By
    `hidden` each y_t is predicted by an encoder that has read nothing but the tokens before it, so that g_t starts at
    y_{t-1}: an exact likelihood, at the cost of reading every prefix. Windows of a stream are read one by one.
    """

    def __init__(self, config: BidirectionalLMConfig, info: TaskInfo) -> None:
        super().__init__()
        tokens, width = len(info.vocabulary), config.embedding or config.hidden
        self.embed = nn.Embedding(tokens, width)
        self.encoder = Encoder(config.cell, width, config.hidden, config.layers, config.dropout, bidirectional=True)
        self.head = nn.Linear(2 * config.hidden, tokens)
        self.dropout = nn.Dropout(config.dropout)

    def loss(self, batch: Batch, training: Training) -> Loss:
        costs, _ = Softmax(self.head).loss(self._leaking(batch), batch, State(), training)  # [M] real tokens
        return Loss(costs.mean(), batch.length.sum())

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        hidden = self._leaking(batch) if scoring.by == "leak" else self._hiding(batch)
        real, _ = Softmax(self.head).score(hidden, batch, State(), scoring.by)  # [M] real tokens
        mask = batch.mask
        return Scores(real.new_zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, real.double()).sum(1))

    def _leaking(self, batch: Batch) -> Tensor:
        """Return the units [N, T, 2 H] at the token before each of `gold`, among all tokens."""
        read = self._read(batch.inputs, by_host(lambda length: batch.opening.shape[1] + length - 1, batch.length))
        return read[:, -batch.gold.shape[1] :]

    def _hiding(self, batch: Batch) -> Tensor:
        """Return the units [N, T, 2 H] at the token before each of `gold`, as if it were the last."""
        ends = range(batch.opening.shape[1], batch.inputs.shape[1] + 1)
        prefixes = [batch.inputs[:, :end] for end in ends]
        whole = [by_host(partial(torch.full_like, fill_value=prefix.shape[1]), batch.length) for prefix in prefixes]
        read = [self._read(prefix, length)[:, -1] for prefix, length in zip(prefixes, whole, strict=True)]
        return torch.stack(read, 1)

    def _read(self, tokens: Tensor, length: Tensor) -> Tensor:
        """Return the top layer's units [N, K, 2 H] at each of `tokens` [N, K], of which `length` [N] are real."""
        hidden: Tensor = self.dropout(self.encoder(self.dropout(self.embed(tokens)), length)[0])
        return hidden
