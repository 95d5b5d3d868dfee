"""A metric: the share of outputs that are known words."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from copy import copy
from typing import Self

from bench_core import Additive, Prediction, TaskInfo
from bench_word_generation.distributions import Distributions
from bench_word_generation.plugin import KnownWordsConfig


class KnownWords(Additive[float]):
    """Share of the best hypotheses that are words of the corpus; truncated outputs do not count as words.

    With `unique`, the number of distinct words of the corpus among the outputs, divided by the number of outputs: if
    a word was generated k times, each of these outputs counts 1 / k, even when outputs are resampled.
    """

    label = "Known words"
    better, unit = 1, ""
    config: KnownWordsConfig
    words: Set[str] | None = None

    def __init__(self, config: KnownWordsConfig) -> None:
        super().__init__(config)
        self.signature = f"words of:{config.of}|counted:{'once each' if config.unique else 'as generated'}"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with its words; with `unique`, the number of outputs is added to the signature."""
        prepared = copy(self)
        prepared.words = Distributions.of(info, self.config.name).types(self.config.of)
        if self.config.unique:
            prepared.signature += f"|outputs:{len(references)}"
        return prepared

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[float]:
        """Yield 0 for unknown words and 1 for known words; with `unique`, 1 / k if k outputs are equal."""
        counts = Counter(filter(None, map(self._known_word, predictions))) if self.config.unique else None
        for word in map(self._known_word, predictions):
            yield 0.0 if word is None else 1.0 if counts is None else 1 / counts[word]

    def _known_word(self, prediction: Prediction) -> str | None:
        """Return the output if it is a known word."""
        assert self.words is not None, "call `prepare` first"
        is_known = prediction.hypotheses[0].finished and prediction.texts[0] in self.words
        return prediction.texts[0] if is_known else None
