"""The interfaces of models: train, sample, step, score.

A model inherits the capabilities it has, so its class header says which decoders and metrics can use it. Nothing
here imports torch; models do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import TypeVar

from bench_core.errors import PluginError
from bench_core.generation_loop import draw, generate
from bench_core.tensor_rows import Rows

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from bench_core.data import Batch, Hypothesis, Prompt, TaskInfo
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
    label_smoothing: float = 0.0  # share of each target that is spread over all tokens; heeded by `smooths_labels`
    rows: tuple[int, ...] | None = None  # of seeds together: how many rows at most, of any seed, have a t-th token


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


@dataclass(frozen=True)
class TextScore:
    """The log-probability of a target as text."""

    log_prob: float  # nats
    tokens: int  # of its system, behind that number
    stop: bool = False  # whether both include stop


@dataclass(frozen=True)
class Generation:
    """What the outputs of a text generator, or the scores of a TextScorer, may depend on besides the texts."""

    settings: Any  # the Config of the decoder; None where targets are scored
    split: str  # that the prompts are of
    seed: int  # of the cell
    noise: Noise  # of the seed
    folder: Path  # in the store, for answers that other stages may need again; the generator may make it
    warn: Callable[[str], None] = lambda text: None  # tells the user
    examples: int | None = None  # that the split has, of which fewer may be decoded; None where that is not known


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

    def compiled_loss(self) -> Callable[[Batch, Training], Loss]:
        """Return the loss for `training: {compile: true}`; by default all of it is compiled by `torch.compile`.

        Override it where only a part of a loss gains from that.
        """
        import torch

        return torch.compile(self.loss, dynamic=True)


class TextGenerator(Model):
    """Turns prompts into texts by itself, as recorded or remote systems do; it is never trained.

    Its outputs do not pass the vocabulary of a task. Each kind of generator is a subclass of this one, which its
    Config names as a capability and its decoders need, so that a suite pairs it with these decoders alone.
    """

    @abstractmethod
    def generate(self, prompts: Sequence[Prompt], generation: Generation) -> Sequence[Sequence[Hypothesis]]:
        """Return the hypotheses of each prompt, best first, at least one per prompt, each with its `text`."""

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Raise PluginError: there is nothing to train."""
        raise PluginError(f"{type(self).__name__} is not trained. Leave out its `training`.")


class OwnVocabulary(Model):
    """Reads prompts as text, with a tokenizer of its own; it is evaluated, not trained.

    It is a Stepper or a Scorer besides. It gets batches that its own `encode` returns, and what decoders choose are
    tokens of its own vocabulary.
    """

    vocabulary_size: int  #: tokens of its own
    weights_in_files: ClassVar[tuple[str, ...]] = ()  #: how the names of the weights begin that `read_weights` reads

    def read_weights(self) -> None:
        """Read the weights in files of its Config, if it has such; by default there are none.

        The store keeps their digests and no copies. Called instead of `setup` where a stored model is loaded, after
        all other weights were; `setup` calls it itself.
        """

    @abstractmethod
    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Batch:
        """Return a row for each prompt [N], with the id of its example, in main memory.

        `gold` is the target with stop; without targets it is stop alone. Of targets, `extras["spelled"]` says
        whether their tokens, read back, are their texts [N]; where that is false or missing, there is no number by
        byte, character or word.
        """

    @abstractmethod
    def text(self, tokens: list[int]) -> str:
        """Convert tokens of its own, without stop, to text."""

    def output(self, tokens: list[int], prompt: Prompt) -> str:
        """Convert tokens that go on from a prompt to text, without the separator; by default as `text` does."""
        return self.text(tokens)

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Raise PluginError: it is not trained."""
        raise PluginError(f"{type(self).__name__} is not trained. Leave out its `training`.")


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
    """Can train several seeds at once, by `torch.func.vmap` (`training: {together: true}`)."""

    def vmap_loss(self, batch: Batch, training: Training) -> Loss:
        """Return the same as `loss`, inside `torch.func.vmap` over the seeds; by default calls `loss`.

        It may not use operations without a batching rule (such as torch's recurrent layers), torch's generator (such
        as dropout), a memory, or Python control flow that depends on weights, noise or the content of the batch:
        each seed has its own, and which tokens are real differs. `training.rows` says for each step how many rows,
        of any seed, go so far: a loop over steps may leave the others out, once rows are sorted by falling length.
        Non-persistent buffers are those of the first seed.
        """
        return self.loss(batch, training)


class Scorer(Model):
    """Computes the log-probability of a given target."""

    @abstractmethod
    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Return log p(target, stop | source, prefix) of each row, by the likelihood `scoring.by`."""


class TextScorer(Scorer):
    """Computes the log-probability of a given target as text, in tokens that only its system has.

    It is never trained.
    """

    @abstractmethod
    def score_texts(
        self, prompts: Sequence[Prompt], targets: Sequence[str], generation: Generation
    ) -> Sequence[TextScore]:
        """Return log p(target | prompt) of each row."""

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Raise PluginError: it scores texts, not tokens."""
        raise PluginError(f"{type(self).__name__} scores texts, by `score_texts`.")

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Raise PluginError: there is nothing to train."""
        raise PluginError(f"{type(self).__name__} is not trained. Leave out its `training`.")
