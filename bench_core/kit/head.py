"""Output heads, which map states of a language model to token probabilities."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import TypeVar

from bench_core.data import Batch, TaskInfo
from bench_core.errors import SuiteError
from bench_core.model import State, Training
from bench_core.random_numbers import Rng

S = TypeVar("S", bound=State, default=Any)

LOGITS = 2**25  # maximum number computed at once (128 MiB in float32), to bound memory for large batches


class Head(nn.Module, ABC, Generic[S]):
    """The output layer of a `LanguageModel`, if it is more than a map from states to softmax logits.

    It maps the states of K successive target steps [N, K, H] to probabilities of V tokens. It receives each target
    step of a row once, in order, and carries its own State from step to step. For a batch, it evaluates the M
    non-padding tokens of `gold`, row by row; `batch.at_real(states)` [M, H] are the states before these tokens.
    """

    continues: bool = True  #: whether its State after a window of a stream can be passed to the next window
    reads_prefix: bool = True  #: whether `start` needs the states of the prompt

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        """Compute buffers that are fixed before training, such as a codebook; by default does nothing."""

    def tie(self, embedding: nn.Embedding) -> None:
        """Use the embedding's weight [V, H] for the logits; by default raises SuiteError (not supported)."""
        raise SuiteError(f"{type(self).__name__} has no weight to tie to the embedding. Set `tied: false`.")

    def start(self, prefix: Tensor) -> S:
        """Return the State before the first target step; by default empty.

        `prefix` [N, P, H] are the earlier states, which predict the prompt; P may be 0.
        """
        return State()  # type: ignore[return-value]

    @abstractmethod
    def log_probs(self, states: Tensor, past: S) -> tuple[Tensor, S]:
        """Return log-probabilities [N, K, V] and the State after these steps."""

    def score(self, states: Tensor, batch: Batch, past: S, by: str) -> tuple[Tensor, S]:
        """Return the log-probabilities of the non-padding tokens of `gold` [M]; override it to avoid [N, K, V]."""
        log_probs, past = self.log_probs(states, past)
        return batch.at_real(log_probs.gather(2, batch.gold[:, :, None])[:, :, 0]), past

    def loss(self, states: Tensor, batch: Batch, past: S, training: Training) -> tuple[Tensor, S]:
        """Return the loss of each non-padding token of `gold` [M]; by default cross-entropy with label smoothing."""
        if not training.label_smoothing:
            log_probs, past = self.score(states, batch, past, "exact")
            return -log_probs, past
        every, past = self.log_probs(states, past)
        return smoothed(batch.at_real(every), batch.at_real(batch.gold), training.label_smoothing), past

    def padded_loss(self, states: Tensor, batch: Batch, past: S, training: Training) -> tuple[Tensor, S]:
        """Return the loss of each token of `gold`, including padding [N, T]; by default cross-entropy."""
        every, past = self.log_probs(states, past)
        costs = smoothed(every.flatten(0, 1), batch.gold.flatten(), training.label_smoothing)
        return costs.view(batch.gold.shape), past


class HeadLike(Protocol):
    """The attributes of a head that a language model uses."""

    continues: bool
    reads_prefix: bool

    def start(self, prefix: Tensor) -> Any: ...
    def log_probs(self, states: Tensor, past: Any) -> tuple[Tensor, Any]: ...
    def score(self, states: Tensor, batch: Batch, past: Any, by: str) -> tuple[Tensor, Any]: ...
    def loss(self, states: Tensor, batch: Batch, past: Any, training: Training) -> tuple[Tensor, Any]: ...
    def padded_loss(self, states: Tensor, batch: Batch, past: Any, training: Training) -> tuple[Tensor, Any]: ...


@dataclass
class Softmax:
    """The softmax head of a model whose `head` is a module that maps states [*, H] to logits [*, V]."""

    logits: nn.Module
    continues: bool = True  # its State is empty
    reads_prefix: bool = False

    def start(self, prefix: Tensor) -> State:
        return State()

    def log_probs(self, states: Tensor, past: State) -> tuple[Tensor, State]:
        return self.logits(states).log_softmax(-1), past

    def score(self, states: Tensor, batch: Batch, past: State, by: str) -> tuple[Tensor, State]:
        return -self._costs(states, batch), past

    def loss(self, states: Tensor, batch: Batch, past: State, training: Training) -> tuple[Tensor, State]:
        return self._costs(states, batch, training.label_smoothing), past

    def padded_loss(self, states: Tensor, batch: Batch, past: State, training: Training) -> tuple[Tensor, State]:
        logits = self.logits(states).transpose(1, 2)  # [N, V, T]
        smoothing = training.label_smoothing
        return cross_entropy(logits, batch.gold, reduction="none", label_smoothing=smoothing), past

    def _costs(self, states: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """Return -log p of each non-padding token of `gold` [M]; computes at most LOGITS logits at once."""
        states, golds = batch.at_real(states), batch.at_real(batch.gold)
        most = max(1, LOGITS // getattr(self.logits, "out_features", 1))
        if len(golds) <= most:  # torch.split would copy in the backward pass
            return cross_entropy(self.logits(states), golds, reduction="none", label_smoothing=smoothing)
        parts = zip(torch.split(states, most), torch.split(golds, most), strict=True)
        return torch.cat([
            cross_entropy(self.logits(few), gold, reduction="none", label_smoothing=smoothing) for few, gold in parts
        ])  # fmt: skip


def smoothed(log_probs: Tensor, gold: Tensor, smoothing: float) -> Tensor:
    """Return the cross-entropy [M] of log-probabilities [M, V] and targets [M] with label smoothing s.

    The target has probability 1 - s + s / V, every other token s / V (Szegedy et al., 2016, section 7).
    """
    target = log_probs.gather(1, gold[:, None])[:, 0]
    return -(1 - smoothing) * target - smoothing * log_probs.mean(1)
