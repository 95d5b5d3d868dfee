"""The likelihood of words, weighted by frequency."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from math import hypot, inf, isfinite, log, nan, sqrt
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bench_core import (
    AGAIN,
    Additive,
    PluginError,
    Prediction,
    Split,
    SuiteError,
    TaskInfo,
    estimates_of,
    sampling_error,
)
from bench_text.api import SPLITS
from bench_word_generation.distributions import Distributions, Floats
from bench_word_generation.plugin import OmittedMassConfig, ScoredWordsConfig, WordCrossEntropyConfig


class ScoredWords(Additive[list[float]]):
    """A sum over scored words, weighted by their probability in the corpus."""

    #: `whole` if all types of a split were scored; `sample` if only some types were scored.
    population: ClassVar[Literal["sample", "whole"]] = "whole"
    config: ScoredWordsConfig
    words: Distributions | None = None

    def __init__(self, config: ScoredWordsConfig) -> None:
        super().__init__(config)
        self.signature = "|".join(
            [
                f"against:{config.against or 'the split scored'}",
                f"by:{config.by or 'default'}",
                f"omitted:{'p=0' if config.floor is None else f'ln p<{config.floor:g}'}",
                *([f"value:{config.value}"] if config.value else []),
            ]
        )

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with words and their counts; raise SuiteError if the task has no word counts."""
        prepared = copy(self)
        prepared.words = Distributions.of(info, self.config.name)
        if 0 < len(references) < prepared.words.count_scored(min(references, default=0)):
            prepared.population = "sample"  # type: ignore[misc]
        return prepared

    def _weigh(self, predictions: Sequence[Prediction]) -> tuple[Floats, Floats]:
        """Return the probability [N] of each word in the corpus, and its log-probability [N] under the model."""
        assert self.words is not None, "call `prepare` first"
        ids = np.fromiter((prediction.id for prediction in predictions), np.int64)
        splits, types = np.divmod(ids, len(self.words.words))
        if not len(types):
            return np.zeros(0), np.zeros(0)
        split = self._reference_split(splits)
        log_probs = np.fromiter(map(self._log_prob, predictions), np.float64)
        wrong = np.flatnonzero(np.isnan(log_probs) | (log_probs == inf))
        if len(wrong):
            raise PluginError(
                f"{self.config.name} cannot be computed: the score of example {predictions[wrong[0]].id} is "
                f"{log_probs[wrong[0]]}. The model's `score` must return natural logarithms of probabilities, "
                "-inf for probability 0. NaN usually means that weights have diverged."
            )
        return self.words.probs(split)[types], log_probs

    def _reference_split(self, splits: NDArray[np.int64]) -> Split:
        """Return the split whose counts are the weights; raise SuiteError unless all of its words are scored."""
        if splits.min() != splits.max() or splits.max() >= len(SPLITS):
            raise SuiteError(f"{self.config.name} needs word-generation scores of one split. Set `splits`.")
        scored = SPLITS[int(splits[0])]
        reference: Split = self.config.against or scored
        if reference not in (scored, "train") or (scored, reference) == ("valid", "train"):
            raise SuiteError(
                f"{self.config.name} against {reference} cannot be computed from the words of {scored}. Set `splits: "
                f"[{'test' if reference == 'train' else reference}]`; test also has the words of train."
            )
        return reference

    def _log_prob(self, prediction: Prediction) -> float:
        """Return the log-probability of a word, or the reported value that `value` names; NaN without a score."""
        name = self.config.value
        if name is None:
            return nan if prediction.target_log_prob is None else prediction.target_log_prob
        if name not in prediction.values:
            available = ", ".join(sorted(prediction.values)) or "none"
            raise SuiteError(
                f"the score of example {prediction.id} has no value {name!r} (values: {available}). Choose another "
                "`value`, or leave this metric out for such models."
            )
        return prediction.values[name]

    def _is_covered(self, log_probs: Floats) -> NDArray[np.bool_]:
        """Return which words are not omitted [N]."""
        return log_probs > -inf if self.config.floor is None else log_probs >= self.config.floor


class WordCrossEntropy(ScoredWords):
    """H[P, P^] = -sum_w P(w) ln P^(w) / sum_w P(w), with sums over the words that the model does not omit.

    It is infinite if all words are omitted. The excess subtracts -sum_w P(w) ln P(w) / sum_w P(w) over the same
    words, which is the entropy of P if no word is omitted.
    """

    label = "Cross-entropy"
    better = -1
    config: WordCrossEntropyConfig
    may_be_nan = True
    may_be_infinite = True

    def __init__(self, config: WordCrossEntropyConfig) -> None:
        super().__init__(config)
        self.unit = config.unit  # type: ignore[misc]
        self.signature += f"|excess:{'yes' if config.excess else 'no'}"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[list[float]]:
        """Yield each word's probability, its weight (the probability, or 0 if omitted), and its weighted cost.

        For estimates from samples shared by all words, append the costs from subsets of the samples [5] and from all
        samples [1]; for estimates from independent samples, append the variance of the cost [1].
        """
        probs, log_probs = self._weigh(predictions)
        covered = self._is_covered(log_probs) & (probs > 0)
        baseline = self._baselines(predictions, np.where(covered, probs, 1))
        share = np.where(covered, probs, 0)
        costs = self._costs(baseline, np.where(covered, log_probs, 0), share)
        columns = zip(*(column.tolist() for column in (probs, share, costs, baseline)), strict=True)
        for prediction, (prob, weight, cost, base) in zip(predictions, columns, strict=True):
            estimates = estimates_of(prediction, partial(self._costs, base, share=weight))
            by_all = self._costs(base, prediction.target_log_prob, weight) if weight else 0.0
            again = [prediction.values[AGAIN]] if AGAIN in prediction.values else []
            variance = [(self._costs(base, sample, weight) - by_all) ** 2 / 2 for sample in again]
            yield [prob, weight, cost, *estimates, *([by_all] if estimates else variance)]

    def _baselines(self, predictions: Sequence[Prediction], probs: Floats) -> Floats:
        """Return the log-probability [N] to which the log-probability of each word is compared."""
        return np.log(probs) if self.config.excess else np.zeros(len(probs))

    def _costs(self, baseline: Any, log_probs: Any, share: Any) -> Any:
        """Return the costs of words, multiplied by their shares."""
        return (baseline - log_probs) * share / (log(2) if self.config.unit == "bits" else 1)

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        whole, covered, cost, *_ = sums or (0, 0, 0)
        if not covered:
            return inf if whole else nan
        return cost / covered

    def estimates(self, sums: Sequence[float], examples: int) -> Sequence[float]:
        return [self.from_sums([*sums[:2], cost], examples) for cost in sums[3:8]]

    def error(self, parts: Sequence[list[float]]) -> float:
        """Return the error of the model's score; for another reported value, also its difference from the score.

        It is 0 for exact scores, and if all words are omitted.
        """
        sums, examples = self.sums(parts), len(parts)
        if len(sums) < 4 or not sums[1]:
            return 0.0
        if len(sums) == 4:
            return sqrt(sums[3]) / sums[1]
        whole, by_all = (self.from_sums([*sums[:2], cost], examples) for cost in (sums[2], sums[8]))
        difference = abs(whole - by_all) if isfinite(whole) else 0.0
        return hypot(sampling_error(by_all, self.estimates(sums, examples)), difference)


class OmittedMass(ScoredWords):
    """The sum of P(w) over the words that the model omits, divided by the sum over all words."""

    label = "Omitted mass"
    better, unit, digits = -1, "", 4
    config: OmittedMassConfig
    may_be_nan = True

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[list[float]]:
        """Yield each word's probability, its omitted probability, and the latter by subsets of samples."""
        probs, log_probs = self._weigh(predictions)
        columns = np.stack([probs, probs * ~self._is_covered(log_probs)], 1).tolist()
        rows = zip(predictions, columns, strict=True)
        estimates = (estimates_of(prediction, partial(self._omitted, share=row[0])) for prediction, row in rows)
        return ([*row, *more] for row, more in zip(columns, estimates, strict=True))

    def _omitted(self, log_prob: float, share: float) -> float:
        return 0.0 if self._is_covered(np.array(log_prob)) else share

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        whole, omitted, *_ = sums or (0, 0)
        return omitted / whole if whole else nan

    def estimates(self, sums: Sequence[float], examples: int) -> Sequence[float]:
        return [self.from_sums([sums[0], omitted], examples) for omitted in sums[2:]]
