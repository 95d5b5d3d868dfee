"""Output heads: from the states of a language model to probabilities of tokens."""

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
from bench_core.random_numbers import Noise

S = TypeVar("S", bound=State, default=Any)

LOGITS = 2**25  # computed at a time, 128 MiB in float32, so that scoring needs no more for a larger batch


class Head(nn.Module, ABC, Generic[S]):
    """The last layer of a `LanguageModel`, where it is more than a map from states to the logits of a softmax.

    It turns the states of K successive target steps [N, K, H] into probabilities of V tokens. It is given each target
    step of a row once, in order; what it must remember from step to step is in the State that it returns. Of a batch
    it evaluates the M real tokens of `gold`, row by row; `batch.at_real(states)` [M, H] are the states before them.
    """

    continues: bool = True  #: whether its State of one window of a stream can be given to the next window
    reads_prefix: bool = True  #: whether `start` needs the states of the prefix

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        """Compute buffers that are fixed before training, such as a codebook; by default nothing."""

    def tie(self, embedding: nn.Embedding) -> None:
        """Share the embedding's weight [V, H] as that of the logits; by default there is none: SuiteError."""
        raise SuiteError(f"{type(self).__name__} has no weight that could be the embedding's. Set `tied: false`.")

    def start(self, prefix: Tensor) -> S:
        """Return its State before the first target step; by default an empty one.

        `prefix` [N, P, H] are the states before it, those that predict the prefix; P may be 0.
        """
        return State()  # type: ignore[return-value]

    @abstractmethod
    def log_probs(self, states: Tensor, past: S) -> tuple[Tensor, S]:
        """Return log-probabilities [N, K, V], and the State after these steps."""

    def score(self, states: Tensor, batch: Batch, past: S, by: str) -> tuple[Tensor, S]:
        """Return the log-probability of each real token of `gold` [M]; override it where [N, K, V] is too much."""
        log_probs, past = self.log_probs(states, past)
        return batch.at_real(log_probs.gather(2, batch.gold[:, :, None])[:, :, 0]), past

    def loss(self, states: Tensor, batch: Batch, past: S, training: Training) -> tuple[Tensor, S]:
        """Return the loss of each real token of `gold` [M]; by default its cross-entropy, with smoothed labels."""
        if not training.label_smoothing:
            log_probs, past = self.score(states, batch, past, "exact")
            return -log_probs, past
        every, past = self.log_probs(states, past)
        return smoothed(batch.at_real(every), batch.at_real(batch.gold), training.label_smoothing), past

    def padded_loss(self, states: Tensor, batch: Batch, past: S, training: Training) -> tuple[Tensor, S]:
        """Return the loss of each token of `gold`, real or not [N, T]; by default its cross-entropy."""
        every, past = self.log_probs(states, past)
        costs = smoothed(every.flatten(0, 1), batch.gold.flatten(), training.label_smoothing)
        return costs.view(batch.gold.shape), past


class HeadLike(Protocol):
    """What a language model calls of its head."""

    continues: bool
    reads_prefix: bool

    def start(self, prefix: Tensor) -> Any: ...
    def log_probs(self, states: Tensor, past: Any) -> tuple[Tensor, Any]: ...
    def score(self, states: Tensor, batch: Batch, past: Any, by: str) -> tuple[Tensor, Any]: ...
    def loss(self, states: Tensor, batch: Batch, past: Any, training: Training) -> tuple[Tensor, Any]: ...
    def padded_loss(self, states: Tensor, batch: Batch, past: Any, training: Training) -> tuple[Tensor, Any]: ...


@dataclass
class Softmax:
    """The head of a model whose `head` is any module that maps states [*, H] to logits [*, V]."""

    logits: nn.Module  # states to logits
    continues: bool = True  # its State is empty
    reads_prefix: bool = False  # likewise

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
        """Return -log p of each real token of `gold` [M], with at most LOGITS logits of a linear layer at a time."""
        states, golds = batch.at_real(states), batch.at_real(batch.gold)
        most = max(1, LOGITS // getattr(self.logits, "out_features", 1))
        if len(golds) <= most:  # the gradient of a division into parts is a copy
            return cross_entropy(self.logits(states), golds, reduction="none", label_smoothing=smoothing)
        parts = zip(torch.split(states, most), torch.split(golds, most), strict=True)
        return torch.cat([
            cross_entropy(self.logits(few), gold, reduction="none", label_smoothing=smoothing) for few, gold in parts
        ])  # fmt: skip


def smoothed(log_probs: Tensor, gold: Tensor, smoothing: float) -> Tensor:
    """Return the cross-entropy [M] of log-probabilities [M, V] and targets [M] that spread a share over all tokens.

    The target has probability 1 - s + s / V, every other token s / V (Szegedy et al., 2016, section 7).
    """
    own = log_probs.gather(1, gold[:, None])[:, 0]
    return -(1 - smoothing) * own - smoothing * log_probs.mean(1)
