"""The interfaces of models: train, sample, step, score.

A model inherits the capabilities it has, so its class header says which decoders and metrics can use it. Nothing
here imports torch: models bring it, the core does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import TypeVar

from bench_core.rows import Rows
from bench_core.walking import draw, walk

if TYPE_CHECKING:
    from torch import Tensor

    from bench_core.data import Batch, Facts, Hypothesis
    from bench_core.noise import Noise

S = TypeVar("S", bound="State", default=Any)


@dataclass(frozen=True)
class State(Rows):
    """What N generations in progress remember; a frozen dataclass to inherit."""


@dataclass(frozen=True)
class Training:
    """What a loss may depend on besides its batch."""

    step: int  # updates done before this one
    steps: int  # updates planned
    epoch: int
    epochs: int
    noise: Noise  # of this step
    memory: Any = None  # the State that the last batch left, where this one continues it
    phase: Mapping[str, Any] = field(default_factory=dict)  # settings of the Config's `by_phase` in force


@dataclass(frozen=True)
class Loss:
    """What one batch costs."""

    value: Tensor  # [] to minimise, per target token
    weight: Tensor  # [] the target tokens behind it, to add up unequal batches
    parts: Mapping[str, Tensor] = field(default_factory=dict)  # what the log shows, [] each; any may miss at times
    memory: State | None = None


@dataclass(frozen=True)
class Scoring:
    """What a score may depend on besides its batch."""

    by: str  # one of the likelihoods in the model's Config
    noise: Noise
    memory: Any = None


@dataclass(frozen=True)
class Scores:
    """How probable the targets of one batch are."""

    log_probs: Tensor  # [N] nats, stop included
    values: Mapping[str, Tensor] = field(default_factory=dict)  # [N] what only the model knows
    memory: State | None = None


class Model(ABC):
    """Something that learns from batches; built as `Class(config, facts)`.

    Shapes: N rows of a batch, T target tokens, A actions open at a step. Probabilities are natural logarithms
    (nats). The constructor only allocates, so that a model can be built on the meta device.
    """

    def setup(self, facts: Facts, noise: Noise) -> None:
        """Fill what is computed once before training, such as a codebook; by default nothing."""

    def survey(self, batches: Callable[[], Iterator[Batch]], noise: Noise) -> None:
        """Learn from a look at the training split what no update teaches, such as word vectors; by default nothing.

        Called once, after `setup` and before the first update; `batches()` yields one epoch in file order.
        """

    def about(self) -> Mapping[str, str]:
        """Return what readers of its numbers should know, such as its word vectors; by default nothing."""
        return {}

    @abstractmethod
    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return what to minimise, per target token, and how many tokens are behind it."""


class Sampler(Model):
    """Draws whole sequences by a process of its own."""

    @abstractmethod
    def sample(self, batch: Batch, max_tokens: int, noise: Noise) -> list[Hypothesis]:
        """Draw one target for each row."""


class Stepper(Sampler, Generic[S]):
    """Builds a sequence by a chain of choices, one *action* a step.

    An action is an integer and 0 is always `stop`, -inf where a row cannot stop. Left to right, actions are tokens;
    an insertion model alternates a word and a slot (slot s is action s + 1), all rows in one phase. A may change
    from step to step. Decoders choose actions; only the model knows what they mean. Nothing is drawn at random
    inside: the probability of a chain is the product of its steps.
    """

    actions_per_token: ClassVar[int] = 1

    @abstractmethod
    def start(self, batch: Batch) -> tuple[Tensor, S]:
        """Read source and opening; return the first actions' log-probabilities [N, A] and the state."""

    @abstractmethod
    def step(self, state: S, actions: Tensor) -> tuple[Tensor, S]:
        """Take `actions` [N], none of them 0; return the next log-probabilities [N, A] and state."""

    def limit(self, batch: Batch) -> Tensor | None:
        """Return the most target tokens that each row may take [N]; by default None, no limit of its own."""
        return None

    def read(self, actions: list[int]) -> list[int]:
        """Turn a chain of actions, without its last 0, into target tokens; by default they are the tokens."""
        return actions

    def chain(self, batch: Batch, noise: Noise) -> Tensor:
        """Return a chain that reads as `gold` [N, K], 0-padded: the one that `score` weighs; by default `gold`."""
        return batch.gold

    def sample(self, batch: Batch, max_tokens: int, noise: Noise) -> list[Hypothesis]:
        """Draw every action in proportion to its probability."""
        return walk(self, batch, draw(noise), max_tokens)


class Stackable(Model):
    """Can be trained as several copies at once, which see the same batches (`training: {together: true}`)."""

    def stacked_loss(self, batch: Batch, training: Training) -> Loss:
        """Return what `loss` does, within `torch.func.vmap` over the copies; by default `loss`.

        So it does without what vmap has no rule for, such as torch's own recurrent layers, without torch's generator,
        which dropout draws from, and without a memory; and no Python number or branch may come of weights or noise.
        Buffers that are not kept with the weights are those of the first copy.
        """
        return self.loss(batch, training)


class Scorer(Model):
    """Knows how probable a given target is."""

    @abstractmethod
    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Return log p(target, stop | source, prefix) of each row, by `scoring.by` of its Config's likelihoods."""
