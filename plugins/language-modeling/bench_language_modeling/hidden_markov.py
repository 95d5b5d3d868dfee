"""Hidden Markov models with known parameters, and their exact probabilities; does not import torch.

Random numbers come from `random.Random.random`, whose results are the same in all versions of Python. Recursions are
in float64 and scaled at every step (Rabiner, 1989, section V), so they neither under- nor overflow.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
TOLERANCE = 1e-9  # difference of a sum of probabilities from 1


@dataclass(frozen=True)
class HiddenMarkov:
    """A chain of S hidden states, each of which emits one of V symbols before the next transition."""

    initial: Floats  # [S] p(first state)
    transitions: Floats  # [S, S] p(next state | state)
    emissions: Floats  # [S, V] p(symbol | state)

    @classmethod
    def of(cls, initial: ArrayLike, transitions: ArrayLike, emissions: ArrayLike) -> HiddenMarkov:
        """Return a checked model; raise ValueError for wrong shapes, sums, unreachable states or absent symbols."""
        model = cls(*(np.asarray(each, np.float64) for each in (initial, transitions, emissions)))
        _check_distributions(model)
        if missing := model.unreachable():
            raise ValueError(f"states {missing} of the hidden Markov model cannot be reached from its initial states")
        if absent := np.flatnonzero(model.emissions.sum(0) == 0).tolist():
            raise ValueError(f"symbols {absent} of the hidden Markov model have probability 0 in all states")
        return model

    def unreachable(self) -> list[int]:
        """Return the states with probability 0 at every step."""
        reached = self.initial > 0
        for _ in range(len(reached)):
            reached = reached | (self.transitions[reached] > 0).any(0)
        return [int(state) for state in np.flatnonzero(~reached)]

    def filter_states(self, tokens: Sequence[int]) -> tuple[Floats, Floats]:
        """Return p(state before its symbol | earlier symbols) [T, S] and ln p(symbol | earlier symbols) [T].

        After a symbol of probability 0, states are those without the symbol.
        """
        before, costs = np.empty((len(tokens), len(self.initial))), np.empty(len(tokens))
        state = self.initial
        for step, token in enumerate(tokens):
            before[step] = state
            joint = state * self.emissions[:, token]
            total = joint.sum()
            costs[step] = np.log(total) if total else -np.inf
            state = (joint / total if total else state) @ self.transitions
        return before, costs

    def backward(self, tokens: Sequence[int]) -> Floats:
        """Return p(symbols after t | state at t) [T, S], each row scaled to a maximum of 1."""
        after = np.ones((len(tokens), len(self.initial)))
        for step in range(len(tokens) - 1, 0, -1):
            row = self.transitions @ (self.emissions[:, tokens[step]] * after[step])
            after[step - 1] = row / row.max() if row.max() else row
        return after

    def log_prob(self, tokens: Sequence[int]) -> float:
        """Return the log-probability of the sequence and any continuation, in nats."""
        return float(self.filter_states(tokens)[1].sum())

    def posterior(self, tokens: Sequence[int]) -> Floats:
        """Return p(state at t | all symbols) [T, S]."""
        joint = self.filter_states(tokens)[0] * self.emissions[:, list(tokens)].T * self.backward(tokens)
        return _normalize(joint)

    def predict(self, tokens: Sequence[int]) -> Floats:
        """Return p(symbol at t | symbols before t) [T, V], the optimum of models that read from left to right."""
        probs: Floats = self.filter_states(tokens)[0] @ self.emissions
        return probs

    def predict_from_both_sides(self, tokens: Sequence[int]) -> Floats:
        """Return p(symbol at t | all other symbols) [T, V], the optimum of models that read in both directions."""
        return _normalize((self.filter_states(tokens)[0] * self.backward(tokens)) @ self.emissions)

    def log_probs(self, rows: NDArray[np.integer], lengths: NDArray[np.integer]) -> Floats:
        """Return the log-probabilities [N] of sequences, the first `lengths` [N] symbols of `rows` [N, T]."""
        state: Floats = np.tile(self.initial, (len(rows), 1))
        total = np.zeros(len(rows))
        for step in range(int(lengths.max(initial=0))):
            joint = state * self.emissions.T[rows[:, step]]
            prob = joint.sum(1)
            with np.errstate(divide="ignore"):
                total += np.where(step < lengths, np.log(prob), 0)
            state = (joint / np.where(prob > 0, prob, 1)[:, None]) @ self.transitions
        return total

    def stationary(self) -> Floats:
        """Return the stationary distribution of the states [S]."""
        size = len(self.initial)
        return np.linalg.solve(self.transitions.T - np.eye(size) + 1, np.ones(size)).astype(np.float64)

    def sample(self, random: Random) -> Iterator[int]:
        """Yield the symbols of an endless sequence."""
        draw = self._sampler(random)
        while True:
            yield from draw(lambda symbol: False)

    def sample_words(self, random: Random, number: int, end: int = 0) -> Iterator[tuple[int, ...]]:
        """Yield sequences from the initial states, each without its last symbol, `end`."""
        draw = self._sampler(random)
        return (tuple(draw(lambda symbol: symbol == end)) for _ in range(number))

    def _sampler(self, random: Random) -> Callable[[Callable[[int], bool]], Iterator[int]]:
        first, *tables = ([*accumulate(row)] for row in (self.initial, *self.transitions, *self.emissions))
        transitions, emissions = tables[: len(first)], tables[len(first) :]

        def draw(is_end: Callable[[int], bool]) -> Iterator[int]:
            state = _sample(first, random)
            while not is_end(symbol := _sample(emissions[state], random)):
                yield symbol
                state = _sample(transitions[state], random)

        return draw


def random_model(states: int, symbols: int, seed: int, successors: int | None = None) -> HiddenMarkov:
    """Return a model with random, uneven parameters that starts in its stationary distribution.

    With `successors`, each state is followed by that many states. State s + 1 always follows state s, so all states
    are reachable.
    """
    random = Random(f"{seed}/hidden states")
    transitions = _uneven_rows(random, states, states, 0.01)
    if successors:
        transitions = np.array(
            [_largest(row, (place + 1) % states, successors) for place, row in enumerate(transitions)]
        )
    emissions = _uneven_rows(random, states, symbols, 0.1 / symbols)
    model = HiddenMarkov(np.full(states, 1 / states), transitions, emissions)
    return HiddenMarkov.of(model.stationary(), transitions, emissions)


def with_ends(model: HiddenMarkov, end: float) -> HiddenMarkov:
    """Return a model of words: symbol 0 is their end, which the last half of the states emit with probability `end`.

    Words start in the first half of the states, so none is empty.
    """
    size = len(model.initial)
    starts = np.arange(size) < size // 2
    ends = np.where(starts, 0, end)[:, None]
    emissions = np.concatenate([ends, (1 - ends) * model.emissions], 1)
    return HiddenMarkov.of(model.initial * starts / model.initial[starts].sum(), model.transitions, emissions)


def _check_distributions(model: HiddenMarkov) -> None:
    size = len(model.initial)
    if (
        model.initial.shape != (size,)
        or model.transitions.shape != (size, size)
        or model.emissions.shape[:1] != (size,)
    ):
        shapes = [each.shape for each in (model.initial, model.transitions, model.emissions)]
        raise ValueError(f"a hidden Markov model has shapes [S], [S, S] and [S, V], not {shapes}")
    for name in ("initial", "transitions", "emissions"):
        probs = getattr(model, name)
        if not ((probs >= 0).all() and np.allclose(probs.sum(-1), 1, rtol=0, atol=TOLERANCE)):
            raise ValueError(f"the {name} probabilities of the hidden Markov model must be at least 0 and sum to 1")


def _uneven_rows(random: Random, rows: int, columns: int, floor: float) -> Floats:
    weights = np.array([[random.random() ** 8 + floor for _ in range(columns)] for _ in range(rows)])
    return _normalize(weights)


def _largest(row: Floats, always: int, number: int) -> Floats:
    """Keep the `number` largest weights and, in place of the smallest of them if necessary, index `always`."""
    order = [int(place) for place in np.argsort(-row, kind="stable")]
    top = order[:number]
    top = top if always in top else [*top[:-1], always]
    kept = np.zeros_like(row)
    kept[top] = row[top]
    return kept / kept.sum()  # type: ignore[no-any-return]


def _normalize(rows: Floats) -> Floats:
    normalized: Floats = rows / rows.sum(-1, keepdims=True)
    return normalized


def _sample(cumulative: list[float], random: Random) -> int:
    """Sample an index, given the cumulative sums of its probabilities."""
    return min(bisect(cumulative, random.random() * cumulative[-1]), len(cumulative) - 1)
