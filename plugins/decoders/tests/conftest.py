"""Toy models in float64, batches, and all chains of a model by brute force."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from bench_core import Batch, Decoder, DecoderConfig, State, Stepper


class Toy(Stepper):
    def loss(self, batch: Batch, training: Any) -> Any:
        raise NotImplementedError

    def limit(self, batch: Batch) -> Tensor | None:
        return batch.extras.get("limit")


@dataclass(frozen=True)
class Read(State):
    words: Tensor  # [N, n]


class Table(Toy):
    """Probabilities of stop, 1, 2, ... as a function of what was chosen; remembers which prefixes it was asked for."""

    def __init__(self, probs: Callable[[tuple[int, ...]], Sequence[float]]) -> None:
        self.probs, self.asked = probs, list[list[tuple[int, ...]]]()

    def start(self, batch: Batch) -> tuple[Tensor, Read]:
        return self._look(Read(batch.gold.new_empty(len(batch), 0)))

    def step(self, state: Read, actions: Tensor) -> tuple[Tensor, Read]:
        assert (actions > 0).all()
        return self._look(Read(torch.cat([state.words, actions[:, None]], 1)))

    def _look(self, state: Read) -> tuple[Tensor, Read]:
        prefixes = [tuple(words) for words in state.words.tolist()]
        self.asked.append(prefixes)
        probs = {prefix: self.probs(prefix) for prefix in set(prefixes)}
        return torch.tensor([probs[prefix] for prefix in prefixes], dtype=torch.float64).log(), state


@dataclass(frozen=True)
class Units(State):
    hidden: Tensor  # [N, H]
    log_alpha: Tensor  # [N] a second memory that must be reordered too
    taken: Tensor  # [N] actions so far


class Recurrent(Toy):
    """Random weights; every example has a first state of its own, and stopping grows likelier."""

    def __init__(self, vocabulary: int = 5, seed: int = 0, size: int = 4) -> None:
        draw = torch.Generator().manual_seed(seed)
        rand = lambda *shape: torch.randn(*shape, generator=draw, dtype=torch.float64)  # noqa: E731
        self.embed, self.turn, self.out = rand(99, size), rand(size, size), 1.5 * rand(size, vocabulary)
        self.stepped = 0

    def start(self, batch: Batch) -> tuple[Tensor, Units]:
        hidden = (batch.ids[:, None] * torch.arange(1.0, 1 + len(self.turn), dtype=torch.float64)).sin()
        return self._look(Units(hidden, hidden.new_zeros(len(batch)), torch.zeros_like(batch.ids)))

    def step(self, state: Units, actions: Tensor) -> tuple[Tensor, Units]:
        assert (actions > 0).all()
        self.stepped += len(actions)
        hidden = (state.hidden @ self.turn + self.embed[actions]).tanh()
        return self._look(Units(hidden, state.log_alpha, state.taken + 1))

    def _look(self, state: Units) -> tuple[Tensor, Units]:
        logits = state.hidden @ self.out
        log_alpha = state.log_alpha + logits[:, 0].sigmoid().log()
        words = log_alpha[:, None] + logits[:, 1:].log_softmax(1)
        log_probs = torch.cat([torch.log(-torch.expm1(log_alpha))[:, None], words], 1)
        return log_probs, Units(state.hidden, log_alpha, state.taken)


class Insertion(Recurrent):
    """A word, then one of the slots between the words that are there; the number of actions grows."""

    actions_per_token = 2

    def _look(self, state: Units) -> tuple[Tensor, Units]:
        taken = int(state.taken[0])
        assert (state.taken == taken).all()
        if taken % 2 == 0:
            return super()._look(state)
        slots = (state.hidden[:, :1] * torch.arange(1.0, 2 + taken // 2, dtype=torch.float64)).sin().log_softmax(1)
        return torch.cat([torch.full_like(slots[:, :1], -torch.inf), slots], 1), state

    def read(self, actions: list[int]) -> list[int]:
        tokens: list[int] = []
        for word, slot in zip(actions[::2], actions[1::2], strict=True):
            tokens.insert(slot - 1, word)
        return tokens


def rows(number: int, limits: Sequence[int] | None = None, first: int = 0) -> Batch:
    ids = torch.arange(first, first + number)
    extras = {} if limits is None else {"limit": torch.tensor(limits)}
    blank = torch.zeros(number, 1, dtype=torch.long)
    return Batch(ids, blank, blank, torch.ones_like(ids), extras=extras)


class Chain(NamedTuple):
    """A chain with its stop, if it has one."""

    actions: list[int]
    log_prob: float
    before: float  # log-probability without the last action
    ended: bool  # by stop or by the limit


def every_chain(model: Toy, one: Batch, max_tokens: int) -> list[Chain]:
    """Return all chains and prefixes of positive probability, by walking the whole tree."""
    found: list[Chain] = []
    stack: list[Any] = [([], 0.0, *model.start(one))]
    while stack:
        chain, total, log_probs, state = stack.pop()
        for action, gain in enumerate(log_probs[0].tolist()):
            if gain == -math.inf:
                continue
            grown, after = [*chain, action], total + gain
            ended = action == 0 or len(grown) == max_tokens * model.actions_per_token
            found.append(Chain(grown, after, total, ended))
            if not ended:
                stack.append((grown, after, *model.step(state, torch.tensor([action]))))
    return found


def loaded(config: DecoderConfig) -> Decoder[Any]:
    return config.load()(config)


@dataclass(frozen=True)
class Trial:
    """How decoders are made of their Configs, which is where mutants differ, and what they are tried on."""

    load: Callable[[Any], Decoder[Any]] = loaded
    table: type[Table] = Table
    batch: Callable[..., Batch] = rows


@pytest.fixture
def trial() -> Trial:
    return Trial()


@pytest.fixture(scope="session")
def table() -> type[Table]:
    return Table


@pytest.fixture(scope="session")
def recurrent() -> type[Recurrent]:
    return Recurrent


@pytest.fixture(scope="session")
def insertion() -> type[Insertion]:
    return Insertion


@pytest.fixture(scope="session")
def batch() -> Callable[..., Batch]:
    return rows


@pytest.fixture(scope="session")
def chains() -> Callable[..., list[Chain]]:
    return every_chain
