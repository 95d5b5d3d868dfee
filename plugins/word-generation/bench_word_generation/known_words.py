"""A metric: the share of outputs that are known words."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from copy import copy
from typing import Self

from bench_core import Additive, Outcome, TaskInfo
from bench_word_generation.distributions import Distributions
from bench_word_generation.plugin import KnownWordsConfig


class KnownWords(Additive[float]):
    """Share of the first hypotheses that are words of the corpus; one that was cut short is none.

    With `unique`, the number of different such words in the cell, divided by the number of outputs: each output
    counts as one over how often its word was generated, and so it does when outputs are resampled.
    """

    label = "Known words"
    better, unit = 1, ""
    config: KnownWordsConfig
    words: Set[str] | None = None

    def __init__(self, config: KnownWordsConfig) -> None:
        super().__init__(config)
        self.signature = f"words of:{config.of}|counted:{'once each' if config.unique else 'as generated'}"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric that knows the words; of different ones, it tells of how many outputs they are."""
        knowing = copy(self)
        knowing.words = Distributions.of(info, self.config.name).types(self.config.of)
        if self.config.unique:
            knowing.signature += f"|outputs:{len(references)}"
        return knowing

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[float]:
        """Yield 1 for each word, or its share of 1 if it was generated more than once, and 0 for all else."""
        times = Counter(filter(None, map(self._word, outcomes))) if self.config.unique else None
        for word in map(self._word, outcomes):
            yield 0.0 if word is None else 1.0 if times is None else 1 / times[word]

    def _word(self, outcome: Outcome) -> str | None:
        """Return the output if it is a known word."""
        assert self.words is not None, "`prepare` comes first"
        known = outcome.hypotheses[0].finished and outcome.texts[0] in self.words
        return outcome.texts[0] if known else None
