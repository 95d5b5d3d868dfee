"""Mutants of models whose states are changed by the steps that go on from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from bench_authors.testing.contracts import patched
from bench_core import Batch, State, Stepper

if TYPE_CHECKING:
    from bench_authors.testing.cases import Case

ROOM = 64  # actions that a buffer holds


@dataclass(frozen=True)
class _Listed(State):
    batch: Batch
    taken: list[Tensor] = field(default_factory=list)  # [N] the actions of each step

    def change(self, change: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, batch=self.batch.change(change), taken=[change(actions) for actions in self.taken])


def appends_to_a_list(case: Case) -> Case:
    """A state lists all actions so far, and a step appends to the list of the state that it was given."""

    def start(model: Stepper, batch: Batch) -> tuple[Tensor, _Listed]:
        return model.start(batch)[0], _Listed(batch)

    def step(model: Stepper, state: _Listed, actions: Tensor) -> tuple[Tensor, _Listed]:
        state.taken.append(actions)
        return _after(model, state.batch, state.taken), state

    return replace(case, model=patched(case.model, start=start, step=step))


@dataclass(frozen=True)
class _Buffered(State):
    batch: Batch
    buffer: Tensor  # [N, ROOM] the actions of each step, and room for more
    used: int = 0

    def select(self, rows: Tensor) -> Self:
        """Share the buffer where all rows stay in their places, as a cache that saves copies does."""
        if torch.equal(rows, torch.arange(len(self.batch), device=rows.device)):
            return self
        return super().select(rows)


def shares_a_buffer(case: Case) -> Case:
    """Two chains that go on from one state write into the same buffer."""

    def start(model: Stepper, batch: Batch) -> tuple[Tensor, _Buffered]:
        return model.start(batch)[0], _Buffered(batch, batch.ids.new_zeros(len(batch), ROOM))

    def step(model: Stepper, state: _Buffered, actions: Tensor) -> tuple[Tensor, _Buffered]:
        state.buffer[:, state.used] = actions
        state = replace(state, used=state.used + 1)
        return _after(model, state.batch, [*state.buffer[:, : state.used].unbind(1)]), state

    return replace(case, model=patched(case.model, start=start, step=step))


@dataclass(frozen=True)
class _Counted(State):
    inner: State
    steps: int = 0


def counts_its_steps(case: Case) -> Case:
    """The model itself counts the steps since `start`, as if all of them led to the state that it is given."""
    turns = count()

    def start(model: Stepper, batch: Batch) -> tuple[Tensor, _Counted]:
        nonlocal turns
        turns = count()
        log_probs, state = model.start(batch)
        return log_probs, _Counted(state)

    def step(model: Stepper, state: _Counted, actions: Tensor) -> tuple[Tensor, _Counted]:
        log_probs, after = model.step(state.inner, actions)
        ahead = next(turns) - state.steps  # 0 where there is but one chain
        return (log_probs * (1 + 0.1 * ahead)).log_softmax(1), _Counted(after, state.steps + 1)

    return replace(case, model=patched(case.model, start=start, step=step))


def _after(model: Stepper, batch: Batch, chain: list[Tensor]) -> Tensor:
    """Return the log-probabilities [N, A] after a chain of actions, all read again."""
    log_probs, state = model.start(batch)
    for actions in chain:
        log_probs, state = model.step(state, actions)
    return log_probs
