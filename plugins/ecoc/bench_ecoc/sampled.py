"""Sampled softmax: trains on the gold token and a sample of others."""

from math import log
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench_core import Batch, Noise, SuiteError, TaskInfo, Training, to_device
from bench_ecoc.layer import ByRows, chunks, counts_of


class Drawn(ByRows):
    """Learns a softmax from the gold token and from others drawn from Q, which is uniform or the unigram."""

    shares: Tensor  # [V] cumulative sums of Q, float64
    log_q: Tensor  # [V]

    def __init__(self, hidden: int, tokens: int, samples: int, sparse: bool = False) -> None:
        super().__init__(hidden, tokens, sparse)
        if samples < 1:
            raise SuiteError(f"{samples} drawn tokens cannot be. Set `samples` to 1 or more.")
        self.samples = samples
        self.register_buffer("shares", torch.zeros(tokens, dtype=torch.float64))
        self.register_buffer("log_q", torch.zeros(tokens))

    def draw_from(self, counts: Tensor) -> None:
        """Draw in proportion to counts [V]; those of 0 count as 1, for the log of 0 is none to correct by."""
        q = counts.double().clamp(min=1)
        q /= q.sum()
        self.shares.copy_(q.cumsum(0))
        self.log_q.copy_(q.log())

    def drawn(self, uniform: Tensor) -> Tensor:
        """Return tokens drawn from Q by numbers between 0 and 1 [*]."""
        uniform = to_device(uniform, self.shares.device) * self.shares[-1]
        return torch.searchsorted(self.shares, uniform, right=True).clamp(max=self.tokens - 1)

    def log_drawn(self, tokens: Tensor, samples: int) -> Tensor:
        """Return the log of how often tokens are among so many drawn ones, on average: log(k Q)."""
        return self.log_q[tokens] + log(samples)


class Sampled(Drawn):
    """Softmax over the gold token and S drawn ones, whose logits are lowered by log(S Q).

    Jean et al., 2015, arXiv:1412.2007. All positions of a batch share the drawn tokens; where one of them is gold,
    it counts once. Without training it is the softmax over all tokens.
    """

    def __init__(
        self, hidden: int, tokens: int, samples: int, by: Literal["uniform", "unigram"], sparse: bool = False
    ) -> None:
        super().__init__(hidden, tokens, samples, sparse)
        self.by = by

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        uniform = self.by == "uniform"
        self.draw_from(torch.ones(self.tokens) if uniform else counts_of(info, "this output layer draws tokens"))

    def costs(self, units: Tensor, gold: Tensor, batch: Batch, training: Training) -> Tensor:
        drawn = self.drawn(training.noise.shared("negatives", (self.samples,)))
        parts = chunks(self.samples, units, gold)
        return torch.cat([self.costs_against(drawn, *part) for part in parts])

    def costs_against(self, drawn: Tensor, units: Tensor, gold: Tensor) -> Tensor:
        """Return the cross-entropy of `gold` [M] after `units` [M, H] among itself and the tokens `drawn` [S]."""
        own = self.scores_of(units, gold) - self.log_drawn(gold, len(drawn))
        others = nn.functional.linear(units, self.rows(drawn), self.bias[drawn] - self.log_drawn(drawn, len(drawn)))
        others = others.masked_fill(gold[:, None] == drawn, -torch.inf)  # [M, S]
        logits = torch.cat([own[:, None], others], 1)
        return cross_entropy(logits, torch.zeros_like(gold), reduction="none")
