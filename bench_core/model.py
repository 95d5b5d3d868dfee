"""The interfaces of models: train, sample, step, score.

A model inherits the capabilities it has, so its class header says which decoders and metrics can use it. Nothing
here imports torch; models do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import TypeVar

from bench_core.generation_loop import draw, generate
from bench_core.tensor_rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

    from bench_core.data import Batch, Hypothesis, TaskInfo
    from bench_core.random_numbers import Noise

S = TypeVar("S", bound="State", default=Any)


@dataclass(frozen=True)
class State(Rows):
    """The state of N generations in progress; inherit it as a frozen dataclass of tensors, rows first."""


@dataclass(frozen=True)
class Training:
    """What a loss may depend on besides the batch."""

    step: int  # updates done before this one
    steps: int  # updates planned
    epoch: int  # from 0
    epochs: int  # planned
    noise: Noise  # of this step
    memory: Any = None  # the State that the last batch left, where this one continues it
    phase: Mapping[str, Any] = field(default_factory=dict)  # settings of the Config's `by_phase` in force


@dataclass(frozen=True)
class Loss:
    """The loss of one batch."""

    value: Tensor  # [] to minimise, per target token
    weight: Tensor  # [] the target tokens behind it, to add up unequal batches
    parts: Mapping[str, Tensor] = field(default_factory=dict)  # what the log shows, [] each; any may miss at times
    memory: State | None = None  # for the next batch, if that continues this one


@dataclass(frozen=True)
class Scoring:
    """What a score may depend on besides the batch."""

    by: str  # one of the likelihoods in the model's Config
    noise: Noise  # for estimates by sampling
    memory: Any = None  # as in Training


@dataclass(frozen=True)
class Scores:
    """The log-probabilities of the targets of one batch."""

    log_probs: Tensor  # [N] nats, stop included
    values: Mapping[str, Tensor] = field(default_factory=dict)  # [N] what only the model knows
    memory: State | None = None  # as in Loss


class Model(ABC):
    """A trainable model; built as `Class(config, info)`.

    Shapes: N rows of a batch, T target tokens, A actions available at a step. Log-probabilities are in nats. The
    constructor only allocates parameters, so that a model can be built on the meta device.
    """

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        """Compute buffers that are fixed before training, such as a codebook; by default nothing."""

    def fit_statistics(self, batches: Callable[[], Iterator[Batch]], noise: Noise) -> None:
        """Fit statistics of the training split, such as counts or word vectors; by default nothing.

        Called once, after `setup` and before the first update; `batches()` yields one epoch in file order.
        """

    def notes(self) -> Mapping[str, str]:
        """Return notes for readers of its results, by name, such as the word vectors used; by default none."""
        return {}

    @abstractmethod
    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return the loss per target token, and the number of tokens."""


class Sampler(Model):
    """Samples whole sequences."""

    @abstractmethod
    def sample(self, batch: Batch, max_tokens: int, noise: Noise) -> list[Hypothesis]:
        """Sample one target for each row."""


class Stepper(Sampler, Generic[S]):
    """Generates a sequence step by step, one *action* per step.

    An action is an integer; 0 is always `stop`, with log-probability -inf where a row cannot stop. Left to right,
    actions are tokens; an insertion model alternates words and slots (slot s is action s + 1), all rows in step. A
    may change from step to step. Decoders choose actions, and only the model knows what they mean. Steps are
    deterministic: the probability of a chain of actions is the product over its steps.
    """

    actions_per_token: ClassVar[int] = 1  #: steps that a target token takes

    @abstractmethod
    def start(self, batch: Batch) -> tuple[Tensor, S]:
        """Read source and opening; return the log-probabilities of the first actions [N, A], and the state."""

    @abstractmethod
    def step(self, state: S, actions: Tensor) -> tuple[Tensor, S]:
        """Take `actions` [N], none of them 0; return the next log-probabilities [N, A], and the next state."""

    def limit(self, batch: Batch) -> Tensor | None:
        """Return the maximum number of target tokens of each row [N]; by default None, no limit."""
        return None

    def read(self, actions: list[int]) -> list[int]:
        """Convert a chain of actions, without the final 0, to target tokens; by default they are the tokens."""
        return actions

    def chain(self, batch: Batch, noise: Noise) -> Tensor:
        """Return the chain of actions that generates `gold` [N, K], 0-padded, as in `score`; by default `gold`."""
        return batch.gold

    def sample(self, batch: Batch, max_tokens: int, noise: Noise) -> list[Hypothesis]:
        """Sample every action from its distribution."""
        return generate(self, batch, draw(noise), max_tokens)


class Vmappable(Model):
    """Can train several seeds at once on the same batches, by `torch.func.vmap` (`training: {together: true}`)."""

    def vmap_loss(self, batch: Batch, training: Training) -> Loss:
        """Return the same as `loss`, inside `torch.func.vmap` over the seeds; by default calls `loss`.

        It may not use operations without a batching rule (such as torch's recurrent layers), torch's generator (such
        as dropout), a memory, or Python control flow that depends on weights or noise. Non-persistent buffers are
        those of the first seed.
        """
        return self.loss(batch, training)


class Scorer(Model):
    """Computes the log-probability of a given target."""

    @abstractmethod
    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Return log p(target, stop | source, prefix) of each row, by the likelihood `scoring.by`."""
