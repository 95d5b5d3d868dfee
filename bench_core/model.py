"""The interfaces of models: training, sampling, stepping and scoring.

A model class inherits its capabilities, which determine the decoders and metrics that can use it. This module does
not import torch; models do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import TypeVar

from bench_core.errors import PluginError
from bench_core.former_names import warn_of_former
from bench_core.generation_loop import draw, generate
from bench_core.tensor_rows import Rows

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from bench_core.data import Batch, Hypothesis, Prompt, TaskInfo
    from bench_core.random_numbers import Rng

S = TypeVar("S", bound="State", default=Any)


@dataclass(frozen=True)
class State(Rows):
    """The state of N generations in progress; subclass it as a frozen dataclass of tensors, rows first."""


class _FormerNoise:
    """The former name of `rng`."""

    @property
    def noise(self) -> Rng:
        warn_of_former(f"{type(self).__name__}.noise", "rng")
        return self.rng  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True)
class Training(_FormerNoise):
    """The inputs of a loss besides the batch."""

    step: int  # completed updates
    steps: int  # planned updates
    epoch: int  # 0-based
    epochs: int  # planned epochs
    rng: Rng  # differs between steps
    memory: Any = None  # `Loss.memory` of the previous batch, if this batch continues it
    phase: Mapping[str, Any] = field(default_factory=dict)  # current values of the Config's `by_phase` settings
    label_smoothing: float = 0.0  # share of probability spread over all tokens; see `ModelConfig.smooths_labels`
    rows: tuple[int, ...] | None = None  # vmapped seeds only: number of rows with a t-th token, maximum over seeds
    progress: float = 1.0  # completed share of the current phase's planned updates; 1 in evaluations


@dataclass(frozen=True)
class Loss:
    """The loss of one batch."""

    value: Tensor  # [] loss to minimise, per target token
    weight: Tensor  # [] number of target tokens, to combine batches of unequal size
    parts: Mapping[str, Tensor] = field(default_factory=dict)  # components to log, [] each; may vary between batches
    memory: State | None = None  # passed to the next batch if it continues this batch


@dataclass(frozen=True)
class Scoring(_FormerNoise):
    """The inputs of a score besides the batch."""

    by: str  # a key of `ModelConfig.likelihoods`
    rng: Rng  # used by Monte Carlo estimates
    memory: Any = None  # see `Training.memory`


@dataclass(frozen=True)
class Scores:
    """The log-probabilities of the targets of one batch."""

    log_probs: Tensor  # [N] nats, including EOS
    values: Mapping[str, Tensor] = field(default_factory=dict)  # [N] each, model-specific
    memory: State | None = None  # see `Loss.memory`
    by_token: Mapping[str, Tensor] = field(default_factory=dict)  # [N, T] each, for every token of `gold`


@dataclass(frozen=True)
class TextScore:
    """The log-probability of a target text."""

    log_prob: float  # nats
    tokens: int  # number of tokens, as counted by the system's own tokenizer
    stop: bool = False  # whether both numbers include EOS


@dataclass(frozen=True)
class Generation(_FormerNoise):
    """The inputs of a text generator or TextScorer besides the texts."""

    settings: Any  # the Config of the decoder; None for scoring
    split: str
    seed: int  # the cell's seed
    rng: Rng  # derived from the seed
    folder: Path  # folder in the store that caches responses for other stages; may not exist yet
    warn: Callable[[str], None] = lambda text: None  # prints a warning
    examples: int | None = None  # size of the split, even if fewer examples are decoded; None if unknown


class Model(ABC):
    """A trainable model; built as `Class(config, info)`.

    Shapes: N rows of a batch, T target tokens, A actions available at a step. Log-probabilities are in nats. The
    constructor only allocates parameters, because models are also built on the meta device.
    """

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        """Compute buffers that are fixed before training, such as a codebook; by default does nothing."""

    def fit_statistics(self, batches: Callable[[], Iterator[Batch]], rng: Rng) -> None:
        """Fit statistics of the training split, such as counts or word vectors; by default does nothing.

        Called once, after `setup` and before the first update. `batches()` yields one epoch in file order.
        """

    def fit_on_validation(self, batches: Iterable[Batch], rng: Rng) -> None:
        """Fit settings of the evaluation, such as a temperature, on the validation split; by default does nothing.

        Called after the weights are loaded, in evaluation mode, if `Config.fits_on_validation()`. The fitted settings
        are not stored with the weights, so they must not be parameters or buffers.
        """

    def notes(self) -> Mapping[str, str]:
        """Return notes for reports by name, such as the word vectors used; by default none."""
        return {}

    @abstractmethod
    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return the loss per target token and the number of tokens."""

    def compiled_loss(self) -> Callable[[Batch, Training], Loss]:
        """Return the loss for `training: {compile: true}`; by default `torch.compile` of the whole loss.

        Override it if only a part of the loss benefits.
        """
        import torch

        return torch.compile(self.loss, dynamic=True)


class TextGenerator(Model):
    """A model that maps prompts to texts, such as a recorded or remote system; never trained.

    Its outputs bypass the task's vocabulary. Each kind of generator is a subclass, declared as a capability by its
    Config and required by its decoders, so that suites pair it only with these decoders.
    """

    @abstractmethod
    def generate(self, prompts: Sequence[Prompt], generation: Generation) -> Sequence[Sequence[Hypothesis]]:
        """Return the hypotheses of each prompt with `text` set, best first, at least one per prompt."""

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Raise PluginError: there is nothing to train."""
        raise PluginError(f"{type(self).__name__} cannot be trained. Remove its `training`.")


class OwnVocabulary(Model):
    """A pretrained model with its own tokenizer, which reads prompts as text.

    It is also a Stepper or a Scorer. Its batches come from its own `encode`, and decoders choose tokens of its own
    vocabulary.
    """

    vocabulary_size: int  #: size of its own vocabulary
    weights_in_files: ClassVar[tuple[str, ...]] = ()  #: name prefixes of the weights that `read_weights` reads

    def read_weights(self) -> None:
        """Read weights from files of its Config; by default there are none.

        The store keeps digests of these weights instead of copies. `setup` must call this method. When a stored model
        is loaded, this method is called instead of `setup`, after the other weights are loaded.
        """

    @abstractmethod
    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Batch:
        """Return a batch in host memory with one row per prompt [N] and the prompts' ids.

        `gold` is the target followed by EOS, or EOS alone without targets. `extras["spelled"]` states whether the
        tokens of a target decode to its exact text [N]; if this is false or missing, numbers per byte, character or
        word are unavailable for the target.
        """

    @abstractmethod
    def text(self, tokens: list[int]) -> str:
        """Convert tokens of the model's own vocabulary, without EOS, to text."""

    def output(self, tokens: list[int], prompt: Prompt) -> str:
        """Convert tokens that continue a prompt to text, without the separator; by default calls `text`."""
        return self.text(tokens)

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Raise PluginError: pretrained models have no loss."""
        raise PluginError(f"{type(self).__name__} cannot be trained. Remove its `training`.")


class Sampler(Model):
    """Samples whole sequences."""

    @abstractmethod
    def sample(self, batch: Batch, max_tokens: int, rng: Rng) -> list[Hypothesis]:
        """Sample one target for each row."""


class Stepper(Sampler, Generic[S]):
    """Generates sequences step by step, one *action* per step.

    An action is an integer; 0 is always EOS, with log-probability -inf for rows that cannot stop. In left-to-right
    models, actions are tokens; an insertion model alternates words and slots (slot s is action s + 1), synchronously
    in all rows. A may vary between steps. Decoders choose actions without interpreting them. Steps are deterministic:
    the probability of an action sequence is the product over its steps.
    """

    actions_per_token: ClassVar[int] = 1  #: steps per target token

    @abstractmethod
    def start(self, batch: Batch) -> tuple[Tensor, S]:
        """Encode source and prompt; return the log-probabilities of the first actions [N, A] and the state."""

    @abstractmethod
    def step(self, state: S, actions: Tensor) -> tuple[Tensor, S]:
        """Apply nonzero `actions` [N]; return the next log-probabilities [N, A] and the next state."""

    def limit(self, batch: Batch) -> Tensor | None:
        """Return the maximum number of target tokens of each row [N]; by default None (no limit)."""
        return None

    def read(self, actions: list[int]) -> list[int]:
        """Convert an action sequence without the final 0 to target tokens; by default the identity."""
        return actions

    def chain(self, batch: Batch, rng: Rng) -> Tensor:
        """Return the 0-padded action sequences [N, K] that generate `gold`, as in `score`; by default `gold`."""
        return batch.gold

    def sample(self, batch: Batch, max_tokens: int, rng: Rng) -> list[Hypothesis]:
        """Sample every action from its distribution."""
        return generate(self, batch, draw(rng), max_tokens)


class Vmappable(Model):
    """Supports training several seeds at once by `torch.func.vmap` (`training: {vmap_seeds: true}`)."""

    def vmap_loss(self, batch: Batch, training: Training) -> Loss:
        """Return the same value as `loss` inside `torch.func.vmap` over the seeds; by default calls `loss`.

        It must not use operations without a batching rule (such as torch's recurrent layers), torch's generator (such
        as dropout), a memory, or Python control flow that depends on weights, random numbers or the content of the
        batch, including its padding: all of these differ between seeds. `training.rows` is the number of rows that
        reach each step, maximized over seeds: if rows are sorted by decreasing length, a loop over steps may skip all
        other rows. Non-persistent buffers are taken from the first seed.
        """
        return self.loss(batch, training)


class Scorer(Model):
    """Computes the log-probability of given targets."""

    @abstractmethod
    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Return log p(target, EOS | source, prompt) of each row, under the likelihood `scoring.by`."""


class TextScorer(Scorer):
    """Computes the log-probability of target texts with its own tokenizer; never trained."""

    @abstractmethod
    def score_texts(
        self, prompts: Sequence[Prompt], targets: Sequence[str], generation: Generation
    ) -> Sequence[TextScore]:
        """Return log p(target | prompt) of each row."""

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Raise PluginError: it scores texts, not tokens."""
        raise PluginError(f"{type(self).__name__} scores texts, not batches: call `score_texts`.")

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Raise PluginError: there is nothing to train."""
        raise PluginError(f"{type(self).__name__} cannot be trained. Remove its `training`.")
