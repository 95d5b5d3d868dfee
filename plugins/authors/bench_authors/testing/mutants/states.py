"""Mutants of models whose steps modify earlier states."""

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

CAPACITY = 64  # actions


@dataclass(frozen=True)
class _ListState(State):
    batch: Batch
    taken: list[Tensor] = field(default_factory=list)  # actions [N] of each step

    def change(self, change: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, batch=self.batch.change(change), taken=[change(actions) for actions in self.taken])


def appends_to_a_list(case: Case) -> Case:
    """A step appends its actions to the list of the previous state."""

    def start(model: Stepper, batch: Batch) -> tuple[Tensor, _ListState]:
        return model.start(batch)[0], _ListState(batch)

    def step(model: Stepper, state: _ListState, actions: Tensor) -> tuple[Tensor, _ListState]:
        state.taken.append(actions)
        return _after(model, state.batch, state.taken), state

    return replace(case, model=patched(case.model, start=start, step=step))


@dataclass(frozen=True)
class _BufferState(State):
    batch: Batch
    buffer: Tensor  # [N, CAPACITY] actions of each step
    used: int = 0

    def select(self, rows: Tensor) -> Self:
        """Share the buffer if the rows are unchanged, like a cache that avoids copies."""
        if torch.equal(rows, torch.arange(len(self.batch), device=rows.device)):
            return self
        return super().select(rows)


def shares_a_buffer(case: Case) -> Case:
    """Two sequences that continue a state write into the same buffer."""

    def start(model: Stepper, batch: Batch) -> tuple[Tensor, _BufferState]:
        return model.start(batch)[0], _BufferState(batch, batch.ids.new_zeros(len(batch), CAPACITY))

    def step(model: Stepper, state: _BufferState, actions: Tensor) -> tuple[Tensor, _BufferState]:
        state.buffer[:, state.used] = actions
        state = replace(state, used=state.used + 1)
        return _after(model, state.batch, [*state.buffer[:, : state.used].unbind(1)]), state

    return replace(case, model=patched(case.model, start=start, step=step))


@dataclass(frozen=True)
class _CountingState(State):
    inner: State
    steps: int = 0


def counts_its_steps(case: Case) -> Case:
    """The model counts steps since `start`, as if all of them led to the current state."""
    turns = count()

    def start(model: Stepper, batch: Batch) -> tuple[Tensor, _CountingState]:
        nonlocal turns
        turns = count()
        log_probs, state = model.start(batch)
        return log_probs, _CountingState(state)

    def step(model: Stepper, state: _CountingState, actions: Tensor) -> tuple[Tensor, _CountingState]:
        log_probs, after = model.step(state.inner, actions)
        ahead = next(turns) - state.steps  # 0 for a single sequence
        return (log_probs * (1 + 0.1 * ahead)).log_softmax(1), _CountingState(after, state.steps + 1)

    return replace(case, model=patched(case.model, start=start, step=step))


def _after(model: Stepper, batch: Batch, chain: list[Tensor]) -> Tensor:
    """Return the log-probabilities [N, A] after actions, recomputed from the start."""
    log_probs, state = model.start(batch)
    for actions in chain:
        log_probs, state = model.step(state, actions)
    return log_probs
