"""The task class shared by the controls: examples with a right order and all needs of right orders."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bench_core import Split
from bench_order_controls.needs import RULES
from bench_order_controls.plugin import OrderControlConfig
from bench_text.api import Encoder, Example, SequenceTask


class Puzzle(NamedTuple):
    """A source and its only target."""

    source: str
    target: Sequence[str]  # tokens
    order: Sequence[int]  # a right order of the target's places
    extras: Mapping[str, Sequence[int]] = {}  # further integers for `Batch.extras`


class OrderControl(SequenceTask):
    """A generated task; `extras["order"]` [N, T] has a right order, `extras["needs"]` all needs of right orders.

    Training targets have all lengths equally often, other targets only the maximum length. Splits are sampled
    independently, so short sources recur. Random numbers come from `random.Random.random`, which is the same in all
    versions of Python.
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
        config, rng, needs = self.config, Random(f"{self.config.seed} {split}"), RULES[self.config.name]
        number, least = (config.examples, config.least) if split == "train" else (config.held_out, config.most)
        for _ in range(number):
            puzzle = self.puzzle(rng, least + int((config.most - least + 1) * rng.random()))
            pairs = [number for need in needs(puzzle.source, puzzle.target) for number in need]
            extras = {"order": [*puzzle.order, -1], "needs": pairs, **puzzle.extras}
            yield Example(puzzle.source, " ".join(puzzle.target), source_text=puzzle.source, extras=extras)

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
