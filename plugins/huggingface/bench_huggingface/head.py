"""The output head: from logits to log-probabilities; the part that self-terminating models replace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic

from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import TypeVar

from bench_core import Batch, Noise, State, TaskInfo, Training

S = TypeVar("S", bound=State, default=Any)


class Head(nn.Module, ABC, Generic[S]):
    """Turns the logits of K successive target steps [N, K, V] into probabilities of V tokens; stop is token 0.

    It meets every target step of a row once and in order; what must last from step to step is in the memory that it
    returns. Of a batch it is given the logits that predict `gold`, and values each of the M real tokens there, row by
    row: `logits[batch.mask]` are the logits of these [M, V].
    """

    reads_prefix: bool = False  #: whether `start` is given the logits that predict the prefix

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        """Fill what is computed once before training; by default nothing."""

    def start(self, prefix: Tensor) -> S:
        """Return what it remembers before the first target step; by default nothing.

        `prefix` [N, P, V] are the logits that come before, those that predict the prefix; there are none (P = 0)
        unless it `reads_prefix`.
        """
        return State()  # type: ignore[return-value]

    @abstractmethod
    def log_probs(self, logits: Tensor, past: S) -> tuple[Tensor, S]:
        """Return log-probabilities [N, K, V], and what it remembers after them."""

    def score(self, logits: Tensor, batch: Batch, past: S, by: str) -> tuple[Tensor, S]:
        """Return the log-probability of each real token of `gold` [M]."""
        log_probs, past = self.log_probs(logits, past)
        return log_probs.gather(2, batch.gold[:, :, None])[:, :, 0][batch.mask], past

    def loss(self, logits: Tensor, batch: Batch, past: S, training: Training) -> tuple[Tensor, S]:
        """Return what to minimise for each real token of `gold` [M]; by default its negative log-probability."""
        log_probs, past = self.score(logits, batch, past, "exact")
        return -log_probs, past


class Softmax(Head[State]):
    """p(v) is proportional to exp(logit of v)."""

    def log_probs(self, logits: Tensor, past: State) -> tuple[Tensor, State]:
        return logits.log_softmax(2), past

    def score(self, logits: Tensor, batch: Batch, past: State, by: str) -> tuple[Tensor, State]:
        costs = cross_entropy(logits.flatten(0, 1), batch.gold.flatten(), reduction="none")
        return -costs[batch.mask.flatten()], past
