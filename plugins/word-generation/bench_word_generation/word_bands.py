"""Cross-entropies of some words, and in comparison with true probabilities."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Self

import numpy as np

from bench_core import Prediction, SuiteError, TaskInfo
from bench_word_generation.distributions import Floats
from bench_word_generation.likelihood import WordCrossEntropy
from bench_word_generation.plugin import BandCrossEntropyConfig, TrueExcessConfig


class TrueExcess(WordCrossEntropy):
    """sum_w P(w) (ln P*(w) - ln P^(w)), with P from the counts of a split and P* the true distribution of words.

    Its expectation over test splits is the Kullback-Leibler divergence from P* to P^.
    """

    label = "Excess over the truth"
    config: TrueExcessConfig
    log_probs: Floats | None = None  # [W] ln P*(w) of each type

    def __init__(self, config: TrueExcessConfig) -> None:
        super().__init__(config)
        self.signature += "|over:the true probabilities"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with the true probabilities; raise SuiteError if the task does not know them."""
        prepared = super().prepare(info, references)
        if "word_log_probs" not in info.extras:
            raise SuiteError(
                f"{self.config.name} needs words with known probabilities. Choose the corpus `hmm` of "
                "word-generation, or list the task under `skip:`."
            )
        prepared.log_probs = np.array(info.extras["word_log_probs"], np.float64)
        return prepared

    def _baselines(self, predictions: Sequence[Prediction], probs: Floats) -> Floats:
        assert self.log_probs is not None, "call `prepare` first"
        types = np.array([prediction.id for prediction in predictions], np.int64) % len(self.log_probs)
        return self.log_probs[types]


class BandCrossEntropy(WordCrossEntropy):
    """The cross-entropy of the words in a band of ranks and lengths, divided by their probability.

    The words of the task are sorted by their counts in the whole corpus, which are not those of the scored split.
    """

    label = "Cross-entropy of a band"
    config: BandCrossEntropyConfig

    def __init__(self, config: BandCrossEntropyConfig) -> None:
        super().__init__(config)
        ranks, letters = (config.first_rank, config.last_rank), (config.min_letters, config.max_letters)
        spans = (f"{first}-{'' if last is None else last}" for first, last in (ranks, letters))
        self.signature += "|ranks:{}|letters:{}".format(*spans)

    def _weigh(self, predictions: Sequence[Prediction]) -> tuple[Floats, Floats]:
        """Return the probability [N] of each word, 0 outside of the band, and its log-probability [N]."""
        probs, log_probs = super()._weigh(predictions)
        return probs * np.array([self._is_inside(prediction.id) for prediction in predictions], bool), log_probs

    def _is_inside(self, example: int) -> bool:
        assert self.words is not None, "call `prepare` first"
        config, place = self.config, example % len(self.words.words)
        is_frequent = config.first_rank <= place + 1 <= (config.last_rank or inf)
        return is_frequent and config.min_letters <= len(self.words.words[place]) <= (config.max_letters or inf)
