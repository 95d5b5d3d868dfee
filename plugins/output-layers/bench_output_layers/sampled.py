"""Sampled softmax: trains on the gold token and sampled tokens."""

from math import log
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench_core import Batch, Rng, SuiteError, TaskInfo, Training, to_device
from bench_output_layers.layer import RowwiseHead, chunks, counts_of


class SampledHead(RowwiseHead):
    """Trains a softmax on the gold token and tokens sampled from Q, which is uniform or the unigram distribution."""

    shares: Tensor  # [V] cumulative sums of Q, float64
    log_q: Tensor  # [V]

    def __init__(self, hidden: int, tokens: int, samples: int, sparse: bool = False) -> None:
        super().__init__(hidden, tokens, sparse)
        if samples < 1:
            raise SuiteError(f"cannot sample {samples} tokens. Set `samples` to 1 or more.")
        self.samples = samples
        self.register_buffer("shares", torch.zeros(tokens, dtype=torch.float64))
        self.register_buffer("log_q", torch.zeros(tokens))

    def draw_from(self, counts: Tensor) -> None:
        """Sample in proportion to counts [V]; zeros count as 1, since the correction needs log Q."""
        q = counts.double().clamp(min=1)
        q /= q.sum()
        self.shares.copy_(q.cumsum(0))
        self.log_q.copy_(q.log())

    def draw(self, uniform: Tensor) -> Tensor:
        """Return tokens sampled from Q, given numbers between 0 and 1 [*]."""
        uniform = to_device(uniform, self.shares.device) * self.shares[-1]
        return torch.searchsorted(self.shares, uniform, right=True).clamp(max=self.tokens - 1)

    def log_expected_count(self, tokens: Tensor, samples: int) -> Tensor:
        """Return the log of the expected count of tokens among `samples` sampled tokens: log(k Q)."""
        return self.log_q[tokens] + log(samples)


class SampledSoftmax(SampledHead):
    """Softmax over the gold token and S sampled tokens, with log(S Q) subtracted from logits.

    Jean et al., 2015, arXiv:1412.2007. All positions of a batch share the sample; if it contains the gold token, this
    token still counts once. In evaluation, the softmax is over all tokens.
    """

    def __init__(
        self, hidden: int, tokens: int, samples: int, by: Literal["uniform", "unigram"], sparse: bool = False
    ) -> None:
        super().__init__(hidden, tokens, samples, sparse)
        self.by = by

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        uniform = self.by == "uniform"
        self.draw_from(torch.ones(self.tokens) if uniform else counts_of(info, "this output layer samples tokens"))

    def costs(self, units: Tensor, gold: Tensor, batch: Batch, training: Training) -> Tensor:
        drawn = self.draw(training.rng.shared("negatives", (self.samples,)))
        parts = chunks(self.samples, units, gold)
        return torch.cat([self.costs_against(drawn, *part) for part in parts])

    def costs_against(self, drawn: Tensor, units: Tensor, gold: Tensor) -> Tensor:
        """Return the cross-entropy of `gold` [M] in a softmax over it and tokens `drawn` [S], for `units` [M, H]."""
        targets = self.scores_of(units, gold) - self.log_expected_count(gold, len(drawn))
        others = nn.functional.linear(
            units, self.rows(drawn), self.bias[drawn] - self.log_expected_count(drawn, len(drawn))
        )
        others = others.masked_fill(gold[:, None] == drawn, -torch.inf)  # [M, S]
        logits = torch.cat([targets[:, None], others], 1)
        return cross_entropy(logits, torch.zeros_like(gold), reduction="none")
