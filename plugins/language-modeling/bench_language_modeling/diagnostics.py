"""Generated streams with known entropy.

Random numbers come from `random.Random.random`, whose results are the same in all versions of Python.
"""

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import log
from random import Random

import numpy as np

from bench_core import Split
from bench_language_modeling.hidden_markov import HiddenMarkov, random_model
from bench_language_modeling.settings import Copy, Cycle, Diagnostic, HiddenChain, Lag, Markov
from bench_language_modeling.text import Text
from bench_text.api import SPLITS


def text(settings: Diagnostic, name: str) -> Text:
    """Return a stream, divided into lines of equal length; EOS follows only the lines of `copy`."""
    copies = isinstance(settings, Copy)
    width = 2 * settings.length + 1 if copies else settings.length
    lines = {split: max(1, settings.tokens // (width if split == "train" else 10 * width)) for split in SPLITS}

    def read(split: Split) -> list[str]:
        tokens = stream(settings, Random(f"{settings.seed}/{split}"))
        return [" ".join(next(tokens) for _ in range(width)) for _ in range(lines[split])]

    if isinstance(settings, HiddenChain):  # costs of these tokens, which cannot be expected in closed form
        nats = {split: -_hidden_log_prob(settings, read(split)) for split in ("valid", "test")}
    else:
        nats = {split: optimum(settings, width * number) for split, number in lines.items()}
    return Text(name, read, sentences=True, stops=copies, nats=nats)


def stream(settings: Diagnostic, random: Random) -> Iterator[str]:
    """Yield the tokens of an endless stream."""
    return _STREAMS[type(settings)](settings, random)


def optimum(settings: Diagnostic, tokens: int) -> float:
    """Return the expected cost in nats of the first `tokens` tokens under an optimal model; not for `hmm`."""
    match settings:
        case Copy():
            return tokens // (2 * settings.length + 1) * settings.length * log(settings.states)
        case Lag():
            other = settings.fresh / settings.states
            choice = [1 - settings.fresh + other, *[other] * (settings.states - 1)]
            first = min(settings.lag, tokens)
            return first * log(settings.states) + (tokens - first) * entropy(choice)
        case Markov():
            chain = transitions(settings)
            start = stationary(chain)
            rate = sum(p * entropy(row) for p, row in zip(start, chain, strict=True))
            return entropy(start) + (tokens - 1) * rate
    return 0.0


def entropy(probabilities: Sequence[float]) -> float:
    """Return the entropy of a distribution in nats."""
    return -sum(p * log(p) for p in probabilities if p)


def transitions(settings: Markov) -> list[list[float]]:
    """Return p(next | state) of a random Markov chain, uneven enough to be worth learning."""
    random = Random(f"{settings.seed}/transitions")
    weights = [[random.random() ** 8 + 0.01 for _ in range(settings.states)] for _ in range(settings.states)]
    if settings.successors:
        weights = [_largest(row, (state + 1) % len(row), settings.successors) for state, row in enumerate(weights)]
    return [[weight / sum(row) for weight in row] for row in weights]


def _largest(weights: list[float], always: int, number: int) -> list[float]:
    """Keep the `number` largest weights; if index `always` has none, it gets the smallest, to be reachable."""
    top = sorted(range(len(weights)), key=lambda place: -weights[place])[:number]
    shares = {place: weights[place] for place in top}
    if always not in shares:
        shares[always] = shares.pop(top[-1])
    return [shares.get(place, 0.0) for place in range(len(weights))]


def stationary(chain: list[list[float]]) -> list[float]:
    """Return the stationary distribution of a chain: pi = pi P, and pi sums to one."""
    size = len(chain)
    return [float(p) for p in np.linalg.solve(np.array(chain).T - np.eye(size) + 1, np.ones(size))]


def _cycle(settings: Cycle, random: Random) -> Iterator[str]:
    while True:
        yield from map(_token, range(settings.states))


def _lag(settings: Lag, random: Random) -> Iterator[str]:
    states = [_random_state(settings.states, random) for _ in range(settings.lag)]
    yield from map(_token, states)
    for place in range(10**18):
        if random.random() < settings.fresh:
            states[place % settings.lag] = _random_state(settings.states, random)
        yield _token(states[place % settings.lag])


def _markov(settings: Markov, random: Random) -> Iterator[str]:
    chain = transitions(settings)
    rows = [list(accumulate(row)) for row in chain]
    state = _sample(list(accumulate(stationary(chain))), random)
    while True:
        yield _token(state)
        state = _sample(rows[state], random)


def _hidden_chain(settings: HiddenChain, random: Random) -> Iterator[str]:
    return map(_token, _hidden_model(settings).sample(random))


def _hidden_model(settings: HiddenChain) -> HiddenMarkov:
    return random_model(settings.states, settings.symbols, settings.seed, settings.successors)


def _hidden_log_prob(settings: HiddenChain, lines: Sequence[str]) -> float:
    return _hidden_model(settings).log_prob([int(token[1:]) for token in " ".join(lines).split()])


def _copy(settings: Copy, random: Random) -> Iterator[str]:
    while True:
        half = [_token(_random_state(settings.states, random)) for _ in range(settings.length)]
        yield from (*half, "|", *half)


_STREAMS: Mapping[type[Diagnostic], Callable[..., Iterator[str]]] = {
    Copy: _copy, Cycle: _cycle, HiddenChain: _hidden_chain, Lag: _lag, Markov: _markov
}  # fmt: skip


def _token(state: int) -> str:
    return f"s{state}"


def _random_state(states: int, random: Random) -> int:
    return int(random.random() * states)


def _sample(cumulative: list[float], random: Random) -> int:
    """Sample an index, given the cumulative sums of its probabilities."""
    return bisect(cumulative, random.random() * cumulative[-1])
