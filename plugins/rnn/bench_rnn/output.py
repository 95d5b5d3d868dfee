"""Output layers: from hidden states to log-probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import TypeVar

from bench_core import Batch, Noise, State, SuiteError, TaskInfo, Training

S = TypeVar("S", bound=State, default=Any)

LOGITS = 2**25  # computed at a time, 128 MiB in float32, so that scoring needs no more for a larger batch


class Output(nn.Module, ABC, Generic[S]):
    """Turns the hidden units of K successive target steps [N, K, H] into probabilities of V tokens.

    It meets every target step of a row once and in order; what must last from step to step is in the memory that it
    returns. Of a batch it is given the units that predict `gold`, and values each of the M
    real tokens there, row by row: `hidden[batch.mask]` are the units of these [M, H].
    """

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        """Fill what is computed once before training, such as a codebook; by default nothing."""

    def tie(self, embedding: nn.Embedding) -> None:
        """Share the embedding's matrix [V, H] as that of the logits; by default there is none: SuiteError."""
        raise SuiteError(f"{type(self).__name__} has no matrix that could be the embedding's. Set `tied: false`.")

    def start(self, prefix: Tensor) -> S:
        """Return what it remembers before the first target step; by default nothing.

        `prefix` [N, P, H] are the units that come before, those that predict the prefix; there may be none (P = 0).
        """
        return State()  # type: ignore[return-value]

    @abstractmethod
    def log_probs(self, hidden: Tensor, past: S) -> tuple[Tensor, S]:
        """Return log-probabilities [N, K, V], and what it remembers after them."""

    def score(self, hidden: Tensor, batch: Batch, past: S, by: str) -> tuple[Tensor, S]:
        """Return the log-probability of each real token of `gold` [M]; to override where [N, K, V] is too much."""
        log_probs, past = self.log_probs(hidden, past)
        return log_probs.gather(2, batch.gold[:, :, None])[:, :, 0][batch.mask], past

    def loss(self, hidden: Tensor, batch: Batch, past: S, training: Training) -> tuple[Tensor, S]:
        """Return what to minimise for each real token of `gold` [M]; by default its negative log-probability."""
        log_probs, past = self.score(hidden, batch, past, "exact")
        return -log_probs, past


class Softmax(Output[State]):
    """p(v) is proportional to exp(u_v . h + c_v); computed for real tokens only."""

    def __init__(self, hidden: int, tokens: int) -> None:
        super().__init__()
        self.logits = nn.Linear(hidden, tokens)

    def tie(self, embedding: nn.Embedding) -> None:
        self.logits.weight = embedding.weight

    def log_probs(self, hidden: Tensor, past: State) -> tuple[Tensor, State]:
        return self.logits(hidden).log_softmax(2), past

    def score(self, hidden: Tensor, batch: Batch, past: State, by: str) -> tuple[Tensor, State]:
        mask = batch.mask
        most = max(1, LOGITS // self.logits.out_features)
        parts = zip(torch.split(hidden[mask], most), torch.split(batch.gold[mask], most), strict=True)
        costs = [cross_entropy(self.logits(units), tokens, reduction="none") for units, tokens in parts]
        return -torch.cat(costs), past
