"""The task class shared by the controls: examples with a right order and all needs of right orders."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bench_core import Batch, Purpose, Rng, Size, Split
from bench_order_controls.needs import RULES
from bench_order_controls.plugin import OrderControlConfig
from bench_text.api import Encoder, Example, SequenceTask

MAX_TRIES = 20  # to find a source that is in no other split


class Puzzle(NamedTuple):
    """A source and its only target."""

    source: str
    target: Sequence[str]  # tokens
    order: Sequence[int]  # a right order of the target's places
    extras: Mapping[str, Sequence[int]] = {}  # further integers for `Batch.extras`


class OrderControl(SequenceTask):
    """A generated task; `extras["order"]` [N, T] has a right order, `extras["needs"]` all needs of right orders.

    Training targets have all lengths equally often, other targets only the maximum length. No training source occurs
    in another split, unless there are too few sources. Random numbers come from `random.Random.random`, which is the
    same in all versions of Python.
    """

    config: OrderControlConfig

    @abstractmethod
    def puzzle(self, rng: Random, length: int) -> Puzzle:
        """Return a random puzzle whose target has `length` tokens."""

    @property
    @abstractmethod
    def words(self) -> tuple[Sequence[str], Sequence[str]]:
        """The words of sources and of targets."""

    def examples(self, split: Split, data: Path) -> Iterator[Example]:
        needs = RULES[self.config.name]
        for puzzle in self._puzzles(split):
            pairs = [number for need in needs(puzzle.source, puzzle.target) for number in need]
            extras = {"order": [*puzzle.order, -1], "needs": pairs, **puzzle.extras}
            yield Example(puzzle.source, " ".join(puzzle.target), source_text=puzzle.source, extras=extras)

    def _puzzles(self, split: Split) -> Iterator[Puzzle]:
        config, rng = self.config, Random(f"{self.config.seed} {split}")
        if split != "train":
            yield from (self.puzzle(rng, config.most) for _ in range(config.held_out))
            return
        others = {puzzle.source for other in self.splits[1:] for puzzle in self._puzzles(other)}
        for _ in range(config.examples):
            length = config.least + int((config.most - config.least + 1) * rng.random())
            tries = (self.puzzle(rng, length) for _ in range(MAX_TRIES))
            yield next((puzzle for puzzle in tries if puzzle.source not in others), None) or self.puzzle(rng, length)

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        """Yield batches of random rows of all lengths, unlike tasks that group training rows by length."""
        mixed = Purpose.SCORE if purpose is Purpose.TRAIN else purpose
        return super().batches(split, mixed, size, rng)

    def encoders(self, data: Path, found: Mapping[Split, Sequence[Example]]) -> tuple[Encoder | None, Encoder]:
        """Return vocabularies of all words, whether or not they occur."""
        source, target = (self.encoder(self.config.tokenizer, data, [" ".join(words)]) for words in self.words)
        return source, target

    def about(self, data: Path) -> dict[str, Any]:
        return {**super().about(data), "control": self.config.name}


def shuffled(rng: Random, number: int) -> list[int]:
    """Return a random permutation of 0, 1, ..., `number` - 1."""
    keys = [rng.random() for _ in range(number)]
    return sorted(range(number), key=keys.__getitem__)
