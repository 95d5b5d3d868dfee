"""Mutants of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from bench_authors.testing.contracts import instead_of, mutant, patched, posing, with_log_probs
from bench_authors.testing.mutants.accelerators import with_setup
from bench_core import (
    Batch,
    Config,
    Hypothesis,
    Kind,
    Loss,
    Model,
    ModelConfig,
    Rng,
    Sampler,
    Scorer,
    Scores,
    Scoring,
    Source,
    State,
    Stepper,
    TaskInfo,
    Training,
    Vmappable,
    generate,
    invert,
)

if TYPE_CHECKING:
    from bench_authors.testing.cases import Case


def claims_too_much(case: Case) -> Case:
    """The Config declares a capability that no class has."""

    class AbsentCapability(Model):
        pass

    return replace(case, config=posing(case.config, capabilities={*case.config.capabilities, AbsentCapability}))


def claims_too_little(case: Case) -> Case:
    """The Config omits a capability."""
    first = min(case.config.capabilities, key=lambda capability: capability.__name__)
    return replace(case, config=posing(case.config, capabilities={*case.config.capabilities} - {first}))


def claims_a_likelihood_it_lacks(case: Case) -> Case:
    """The Config declares likelihoods for a model without likelihoods, or omits a model's likelihoods."""
    return replace(case, config=posing(case.config, likelihoods={} if case.config.likelihoods else {"x": Kind.EXACT}))


def claims_every_source(case: Case) -> Case:
    """The Config declares sources that the class cannot read."""
    return replace(case, config=posing(case.config, sources=frozenset(Source)))


def allocates_on_a_device_of_its_own(case: Case) -> Case:
    """The constructor allocates a tensor on the CPU, as if it had computed it."""
    kind = case.config.load()

    def build(config: Config, info: TaskInfo) -> Model:
        model: Any = kind(config, info)
        model.register_buffer("table", torch.ones(1, device="cpu"))
        return model  # type: ignore[no-any-return]

    return replace(case, config=posing(case.config, load=classmethod(lambda cls: build)))


def _with_changed_log_probs(case: Case, change: Callable[[Tensor], Tensor]) -> Case:
    """Pass the log-probabilities of the model through `change`."""
    return replace(case, model=with_log_probs(case.model, change))


@mutant(_with_changed_log_probs)
def masks_after_the_softmax(log_probs: Tensor) -> Tensor:
    """The last of several actions is masked without renormalization."""
    if log_probs.shape[1] < 3:
        return log_probs
    return torch.cat([log_probs[:, :-1], torch.full_like(log_probs[:, -1:], -torch.inf)], 1)


def opens_an_action_too_many(case: Case) -> Case:
    """The mask of actions, such as slots, is off by one."""
    return _with_changed_log_probs(
        case, lambda log_probs: torch.cat([log_probs, log_probs[:, -1:]], 1).log_softmax(1)
    )


@mutant(_with_changed_log_probs)
def stops_anywhere(log_probs: Tensor) -> Tensor:
    """EOS is possible at every step, even within a token."""
    return torch.cat([log_probs[:, :1].clamp(min=-1.0), log_probs[:, 1:]], 1).log_softmax(1)


@mutant(instead_of("model", "score"))
def scores_a_shifted_target(model: Scorer, batch: Batch, scoring: Scoring) -> Scores:
    """The score reads gold one step late."""
    return model.score(replace(batch, gold=batch.gold.roll(1, 1)), scoring)


@dataclass(frozen=True)
class _Unshifted(Batch):
    @property
    def inputs(self) -> Tensor:
        return torch.cat([self.prompt[:, 1:], self.gold], 1)


@mutant(instead_of("model", "score"))
def reads_what_it_predicts(model: Scorer, batch: Batch, scoring: Scoring) -> Scores:
    """The inputs are not shifted: the score reads the token that it predicts. Affects models that read `inputs`."""
    return model.score(_Unshifted(**vars(batch)), scoring)


@mutant(instead_of("model", "score"))
def counts_padding(model: Scorer, batch: Batch, scoring: Scoring) -> Scores:
    """The score includes the padding of targets."""
    return model.score(replace(batch, length=torch.full_like(batch.length, batch.gold.shape[1])), scoring)


@mutant(instead_of("model", "score"))
def mixes_rows(model: Scorer, batch: Batch, scoring: Scoring) -> Scores:
    """The score of a row depends on other rows, as with batch statistics."""
    scores = model.score(batch, scoring)
    return replace(scores, log_probs=scores.log_probs + 1e-3 * scores.log_probs.mean())


@mutant(instead_of("model", "score"))
def scores_too_high(model: Scorer, batch: Batch, scoring: Scoring) -> Scores:
    """The score is one nat too high."""
    scores = model.score(batch, scoring)
    return replace(scores, log_probs=scores.log_probs + 1)


@mutant(instead_of("model", "sample"))
def samples_too_sharply(model: Sampler, batch: Batch, max_tokens: int, rng: Rng) -> list[Hypothesis]:
    """The sampler squares all probabilities, or all rows share a sample."""
    if isinstance(model, Stepper):
        return generate(model, batch, lambda p, ids, step: invert(2 * p, rng.uniform(ids, step)), max_tokens)
    return model.sample(replace(batch, ids=batch.ids // len(batch)), max_tokens, rng)


def trains_by_settings_of_evaluation(case: Case) -> Case:
    """The loss depends on settings declared as evaluation settings."""
    kind = case.config.load()

    class EvaluationSensitive(kind):  # type: ignore[misc,valid-type]
        def __init__(self, config: ModelConfig, info: TaskInfo) -> None:
            super().__init__(config, info)
            self.factor = 1 + 0.1 * sum(getattr(config, name) for name in config.evaluation)

        def loss(self, batch: Batch, training: Training) -> Loss:
            loss: Loss = super().loss(batch, training)
            return replace(loss, value=self.factor * loss.value)

    class SensitiveConfig(type(case.config)):  # type: ignore[misc]
        @classmethod
        def load(cls) -> type[Any]:
            return EvaluationSensitive

    return replace(case, config=SensitiveConfig(**case.config.model_dump()))


@mutant(instead_of("model", "vmap_loss"))
def loses_otherwise_in_a_stack(model: Vmappable, batch: Batch, training: Training) -> Loss:
    """The loss of a stack differs from the losses of its copies."""
    loss = model.vmap_loss(batch, training)
    return replace(loss, value=1.1 * loss.value)


@mutant(instead_of("model", "loss"))
def ignores_label_smoothing(model: Model, batch: Batch, training: Training) -> Loss:
    """The loss does not smooth labels."""
    return model.loss(batch, replace(training, label_smoothing=0.0))


@mutant(instead_of("model", "loss"))
def smooths_labels_twice(model: Model, batch: Batch, training: Training) -> Loss:
    """Labels are smoothed twice."""
    share = training.label_smoothing
    return model.loss(batch, replace(training, label_smoothing=1 - (1 - share) ** 2))


@mutant(instead_of("model", "vmap_loss"))
def draws_alike_in_all_copies(model: Vmappable, batch: Batch, training: Training) -> Loss:
    """All copies in a stack use the random numbers of the first copy."""
    return model.vmap_loss(batch, replace(training, rng=Rng(training.rng.key)))


@mutant(instead_of("model", "step"))
def takes_every_action_for_the_first(model: Stepper, state: State, actions: Tensor) -> tuple[Tensor, State]:
    """A step ignores the chosen action."""
    return model.step(state, torch.ones_like(actions))


def forgets_to_reorder(case: Case) -> Case:
    """A state keeps its first rows instead of the selected rows."""

    def start(model: Stepper, batch: Batch) -> tuple[Tensor, _FirstRowsState]:
        log_probs, state = model.start(batch)
        return log_probs, _FirstRowsState(state, len(log_probs))

    def step(model: Stepper, state: _FirstRowsState, actions: Tensor) -> tuple[Tensor, _FirstRowsState]:
        log_probs, after = model.step(state.inner, actions)
        return log_probs, _FirstRowsState(after, len(log_probs))

    return replace(case, model=patched(case.model, start=start, step=step))


@dataclass(frozen=True)
class _FirstRowsState(State):
    inner: State
    number: int

    def select(self, rows: Tensor) -> Self:
        first = torch.arange(len(rows), device=rows.device) % self.number
        return replace(self, inner=self.inner.select(first), number=len(rows))


def draws_inside(case: Case) -> Case:
    """A step depends on the number of previous calls."""
    turns = count()

    def change(log_probs: Tensor) -> Tensor:
        return (log_probs * (1 + 0.1 * torch.tensor(next(turns)).sin())).log_softmax(1)

    return _with_changed_log_probs(case, change)


@mutant(instead_of("model", "read"))
def reads_backwards(model: Stepper, actions: list[int]) -> list[int]:
    """Actions are read as tokens in reverse order."""
    return model.read(actions)[::-1]


@dataclass(frozen=True)
class _PositionalRng(Rng):
    """Random numbers that depend on the position in the batch."""

    def fork(self, purpose: str | int) -> Rng:
        return _PositionalRng(super().fork(purpose).key)

    def uniform(self, ids: Tensor, step: int = 0, size: int | None = None) -> Tensor:
        return super().uniform(torch.arange(len(ids), device=ids.device), step, size)


def draws_in_turn(case: Case) -> Case:
    """Random numbers depend on the position in the batch instead of the id of the example."""
    return replace(case, rng=_PositionalRng(case.rng.key))


@mutant(instead_of("model", "score"))
def forgets_its_memory(model: Scorer, batch: Batch, scoring: Scoring) -> Scores:
    """The score of a window ignores the memory of the previous window."""
    return model.score(batch, replace(scoring, memory=None))


def _with_loss(case: Case, change: Callable[[Loss, Batch], Loss]) -> Case:
    """Pass the loss of the model through `change`."""

    def loss(model: Model, batch: Batch, training: Training) -> Loss:
        return change(model.loss(batch, training), batch)

    return replace(case, model=patched(case.model, loss=loss))


def forgets_to_leave_a_memory(case: Case) -> Case:
    """Training starts every window of a stream without memory."""
    return _with_loss(case, lambda loss, batch: replace(loss, memory=None))


def sums_over_tokens(case: Case) -> Case:
    """The loss is a sum, so that larger batches take larger steps."""
    return _with_loss(case, lambda loss, batch: replace(loss, value=loss.value * loss.weight))


def learns_padding(case: Case) -> Case:
    """The loss includes padding."""
    return _with_loss(case, lambda loss, batch: replace(loss, value=loss.value + 0.01 * batch.gold.shape[1]))


@mutant(with_setup)
def sets_up_by_chance(model: Any) -> None:
    """`setup` uses random numbers from the operating system."""
    weights = next(iter(model.parameters()))
    weights.data += SystemRandom().random()


def weighs_padding(case: Case) -> Case:
    """The weight of a batch includes padding."""
    return _with_loss(case, lambda loss, batch: replace(loss, weight=torch.tensor(batch.gold.numel())))


def loses_its_gradient(case: Case) -> Case:
    """The loss is detached from the weights."""
    return _with_loss(case, lambda loss, batch: replace(loss, value=loss.value.detach()))


def loses_without_bounds(case: Case) -> Case:
    """The loss contains log 0."""
    return _with_loss(case, lambda loss, batch: replace(loss, value=loss.value - loss.value.new_zeros(()).log()))


def climbs(case: Case) -> Case:
    """The gradient has the wrong sign."""
    return _with_loss(case, lambda loss, batch: replace(loss, value=2 * loss.value.detach() - loss.value))


def keeps_something_to_itself(case: Case) -> Case:
    """A factor of the loss is not in the state_dict."""
    return _with_loss(case, lambda loss, batch: replace(loss, value=1.01 * loss.value))
