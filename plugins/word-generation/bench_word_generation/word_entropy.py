"""The entropy of the words of a hidden Markov model.

It has no closed form. The entropy of a symbol given all symbols before it is at most its entropy given the last k
symbols, and at least its entropy given these and the state before them (Cover and Thomas, 2006, section 4.5). Both
sums over positions are exact, their difference falls exponentially with k, and half of it bounds the error of their
mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log

import numpy as np

from bench_language_modeling.api import HiddenMarkov
from bench_word_generation.distributions import Floats

MAX_PROBS = 2**18  # probabilities of k + 1 symbols and the state before them, which determines k


@dataclass(frozen=True)
class WordEntropy:
    """The entropy of words with an allowed length."""

    nats: float
    error: float  # maximum difference from the exact entropy, in nats
    mass: float  # probability of the allowed lengths under the model


@dataclass(frozen=True)
class Position:
    """The model at one position of a word, given that the length of the word is allowed."""

    emissions: Floats  # [S, V] p(symbol | state); symbol 0 is EOS
    transitions: Floats  # [S, S] p(next state | state, no EOS)


def word_entropy(model: HiddenMarkov, shortest: int, longest: int, max_probs: int = MAX_PROBS) -> WordEntropy:
    """Return the entropy of words of `shortest` to `longest` symbols before EOS, which is symbol 0.

    Raises ValueError if no word has such a length.
    """
    positions, initial = _positions(model, shortest, longest)
    mass = float(initial.sum())
    if mass <= 0:
        raise ValueError(f"no word of the hidden Markov model has {shortest} to {longest} symbols")
    states, symbols = len(initial), max(2, model.emissions.shape[1] - 1)
    window = max(0, int(log(max(1, max_probs / states)) / log(symbols) + 1e-9) - 1)
    alive = [*_alive(positions, initial / mass)]
    low = high = 0.0
    for place in range(len(positions)):
        start = max(0, place - window)
        following = positions[start : place + 1]
        high += _conditional_entropy(alive[start][None], following)
        low += _conditional_entropy(np.diag(alive[start]) if start else alive[start][None], following)
    return WordEntropy((low + high) / 2, (high - low) / 2, mass)


def _positions(model: HiddenMarkov, shortest: int, longest: int) -> tuple[list[Position], Floats]:
    """Return the positions after 0 to `longest` symbols, and p(first state, allowed length) [S]."""
    end, letters = model.emissions[:, :1], model.emissions[:, 1:]
    completed = np.zeros(len(end))  # p(allowed length | state)
    positions = []
    for length in range(longest, -1, -1):
        going_on = model.transitions @ completed
        joint = np.concatenate([end * (length >= shortest), letters * going_on[:, None]], 1)
        transitions = _divide(model.transitions * completed, going_on)
        completed = joint.sum(1)
        positions.append(Position(_divide(joint, completed), transitions))
    return positions[::-1], model.initial * completed


def _alive(positions: list[Position], initial: Floats) -> Iterator[Floats]:
    """Yield p(no EOS before, state) [S] at each position."""
    state = initial
    for position in positions:
        yield state
        state = (state * (1 - position.emissions[:, 0])) @ position.transitions


def _conditional_entropy(rows: Floats, positions: list[Position]) -> float:
    """Return the entropy of the symbol at the last position, given the row [K, S] and the symbols at others.

    It is multiplied by the probability that there is no EOS before.
    """
    *before, last = positions
    for position in before:
        emitted = rows[:, None] * position.emissions[:, 1:].T  # [K, V, S]
        rows = emitted.reshape(-1, rows.shape[1]) @ position.transitions
    return float(_surprise(rows @ last.emissions).sum() - _surprise(rows.sum(1)).sum())


def _divide(rows: Floats, totals: Floats) -> Floats:
    """Divide rows [S, *] by totals [S]; rows with a total of 0 remain 0."""
    return rows / np.where(totals > 0, totals, 1)[:, None]


def _surprise(probs: Floats) -> Floats:
    """Return -p ln p, which is 0 for p = 0."""
    surprise: Floats = -probs * np.log(np.where(probs > 0, probs, 1))
    return surprise
