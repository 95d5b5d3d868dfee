"""Language models that implement only `forward`, from which training, scoring and generation are derived."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from bench_core.data import Batch, TaskInfo
from bench_core.errors import PluginError, SuiteError
from bench_core.kit.cache import Cache
from bench_core.kit.head import Head, HeadLike, Softmax
from bench_core.model import Loss, Scorer, Scores, Scoring, State, Stepper, Training
from bench_core.random_numbers import Rng
from bench_core.tensor_rows import Rows


@dataclass(frozen=True)
class LanguageModelState(State):
    """The state of N generations in progress."""

    past: Any = None  # the `past` returned by `forward`; None if it returned only states
    tokens: Tensor | None = None  # [N, K] all tokens so far, if `forward` returned only states
    source: Any = None  # the result of `encode`, in an `EncoderDecoder`
    head: State = field(default_factory=State)


class LanguageModel(nn.Module, Stepper[LanguageModelState], Scorer):
    """p(y) = prod_t p(y_t | y_<t), with states that `forward` computes from y_<t.

    `forward(tokens)` returns a state after each of `tokens`, [N, K] -> [N, K, H]. `self.head` maps states to logits,
    computed for target tokens only: `nn.Linear`, any other module, or a `Head`. Without a head, the states are the
    logits [N, K, V].

    Such a model re-encodes all tokens at every step. For incremental generation, define `forward(tokens, past=None)`
    and return `states, past`, where `past` is the state carried to the next call: tensors whose first dimension is
    the row, in tuples, lists, mappings or States. It is also the memory passed from one window of a stream to the
    next. State that grows with every token must be a `Cache`, alone or in these containers; windows of a stream are
    then independent.

    With `extras["weight"]` [N] in a batch, the loss is the mean over target tokens, weighted by example.
    """

    head: nn.Module  # a `Head`, or a module that maps states to logits
    context_length: int | None = None  #: maximum number of tokens; None if unlimited
    continues: bool = True  #: whether windows of a stream pass their `past` to the next window

    @abstractmethod
    def forward(self, tokens: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Return a state after each of `tokens` [N, K, H], optionally with the `past` to continue from."""

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        if isinstance(head := self._head(), Head):
            head.setup(info, rng)

    def loss(self, batch: Batch, training: Training, **more: Any) -> Loss:
        """Return the loss; `more` is passed to `predict`, which passes it to `forward`."""
        states, state = self.predict(batch, training, **more)
        costs, head = self._head().loss(states, batch, state.head, training)  # [M]
        memory = self._memory(training.memory, state, head)
        if "weight" not in batch.extras:
            return Loss(costs.mean(), batch.length.sum(), memory=memory)
        weight = batch.at_real(batch.extras["weight"].to(costs.dtype)[:, None].expand_as(batch.gold))
        return Loss((costs * weight).sum() / weight.sum(), weight.sum(), memory=memory)

    def vmap_loss(self, batch: Batch, training: Training, **more: Any) -> Loss:
        """Return the same value as `loss` inside `torch.func.vmap`, for models that are `Vmappable`.

        Costs include padding and are masked, because padding differs between seeds.
        """
        states, state = self.predict(batch, training, **more)
        costs, head = self._head().padded_loss(states, batch, state.head, training)  # [N, T]
        weight = batch.mask.to(costs.dtype)
        if "weight" in batch.extras:
            weight = weight * batch.extras["weight"].to(costs.dtype)[:, None]
        total = weight.sum() if "weight" in batch.extras else batch.length.sum()
        return Loss((costs * weight).sum() / total, total, memory=self._memory(training.memory, state, head))

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        states, state = self.predict(batch, scoring)
        real, head = self._head().score(states, batch, state.head, scoring.by)  # [M]
        mask = batch.mask
        log_probs = real.new_zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, real.double())
        return Scores(log_probs.sum(1), memory=self._memory(scoring.memory, state, head))

    def limit(self, batch: Batch) -> Tensor | None:
        if self.context_length is None:
            return None
        room = self.context_length - batch.prompt.shape[1]
        return torch.full_like(batch.ids, room + 1)  # the last token is not read

    def start(self, batch: Batch) -> tuple[Tensor, LanguageModelState]:
        states, state = self._read(batch.prompt, self.begin(batch))
        return self._next(states, replace(state, head=self._head().start(states[:, :-1])))

    def step(self, state: LanguageModelState, actions: Tensor) -> tuple[Tensor, LanguageModelState]:
        states, state = self._read(actions[:, None], state)
        return self._next(states, state)

    def begin(self, batch: Batch) -> LanguageModelState:
        """Return the State before the first token; by default empty."""
        return LanguageModelState()

    def predict(self, batch: Batch, given: Training | Scoring, **more: Any) -> tuple[Tensor, LanguageModelState]:
        """Return the states that predict `gold` [N, T, H], and the State before the head reads them.

        Override it if training differs from scoring, for example by using the model's own predictions as inputs;
        `more` is passed to `forward`.
        """
        targets, memory = batch.gold.shape[1], given.memory
        states, state = self._read(batch.inputs, memory or self.begin(batch), **more)
        if memory is None:
            state = replace(state, head=self._head().start(states[:, :-targets]))
        return states[:, -targets:], state

    def _read(self, tokens: Tensor, state: LanguageModelState, **more: Any) -> tuple[Tensor, LanguageModelState]:
        """Return the states after `tokens` [N, K, H] (and earlier tokens, if re-read), and the State after them."""
        tokens = tokens if state.tokens is None else torch.cat([state.tokens, tokens], 1)
        if self.context_length is not None and tokens.shape[1] > self.context_length:
            raise SuiteError(
                f"{tokens.shape[1]} tokens exceed the context length {self.context_length} of {type(self).__name__}. "
                "Increase it, or exclude longer texts (the task's `longest:`)."
            )
        inputs = [part for part in (state.source, state.past) if part is not None]
        result = self(tokens, *inputs, **more)
        states, past = result if isinstance(result, tuple | list) and len(result) == 2 else (result, None)
        if not isinstance(states, Tensor) or states.shape[:2] != tokens.shape:
            what = f"states {[*states.shape]}" if isinstance(states, Tensor) else f"a {type(states).__name__}"
            raise PluginError(
                f"{type(self).__name__}.forward returned {what} for tokens {[*tokens.shape]}. It must return a state "
                "for each token [N, K, H], optionally with `past`."
            )
        if past is not None and state.past is None:
            _check_rows(past, len(tokens), type(self).__name__)
        return states, replace(state, past=past, tokens=tokens if past is None else None)

    def _next(self, states: Tensor, state: LanguageModelState) -> tuple[Tensor, LanguageModelState]:
        log_probs, head = self._head().log_probs(states[:, -1:], state.head)
        return log_probs[:, 0], replace(state, head=head)

    def _head(self) -> HeadLike:
        head = getattr(self, "head", None)
        return head if isinstance(head, Head) else Softmax(nn.Identity() if head is None else head)

    def _memory(self, before: Any, state: LanguageModelState, head: State) -> LanguageModelState | None:
        """Return the memory for the next window of a stream; raise PluginError if it grows between windows."""
        if state.past is None or not (self.continues and self._head().continues):
            return None
        if any(isinstance(part, Cache) for part in _parts(state.past)):
            return None
        after = LanguageModelState(state.past, head=head)
        if before is not None and _sizes(after) != _sizes(before):
            raise PluginError(
                f"the `past` of {type(self).__name__}.forward grows: its tensors had {_sizes(before)} elements per "
                f"row after a window of a stream, and {_sizes(after)} after the next. Return a `Cache` instead."
            )
        return after


def _sizes(state: Rows) -> list[int]:
    """Return the number of elements per row of each tensor."""
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor[0].numel())
        return tensor

    state.change(note)
    return sizes


def _parts(past: Any) -> Iterator[Any]:
    """Yield the leaves of nested tuples, lists and mappings."""
    if isinstance(past, tuple | list | Mapping):
        for item in past.values() if isinstance(past, Mapping) else past:
            yield from _parts(item)
    else:
        yield past


def _check_rows(past: Any, rows: int, model: str) -> None:
    """Raise PluginError if a part of `past` cannot be selected by row."""
    for part in _parts(past):
        if isinstance(part, Tensor) and (not part.dim() or len(part) != rows):
            raise PluginError(
                f"{model}.forward returned a `past` with a tensor {[*part.shape]}, but there are {rows} rows. The "
                "first dimension must be the row; use `BatchFirstRNN` for torch's recurrent layers."
            )
        if not (part is None or isinstance(part, Tensor | Rows | bool | int | float | str)):
            raise PluginError(
                f"{model}.forward returned a `past` with a {type(part).__name__}, whose rows cannot be selected. Use "
                "tensors in tuples, lists, mappings or a State, or a `Cache`."
            )
