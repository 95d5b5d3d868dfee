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
    Outcome,
    PluginError,
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
    """What is summed over scored words, each weighing as much as its probability in the corpus."""

    #: The whole, of all types of a split; a sample, if only some of them were scored.
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
        """Return the metric that knows the words and their counts; raise SuiteError if the task tells of none."""
        knowing = copy(self)
        knowing.words = Distributions.of(info, self.config.name)
        if 0 < len(references) < knowing.words.scored(min(references, default=0)):
            knowing.population = "sample"  # type: ignore[misc]
        return knowing

    def _weighed(self, outcomes: Sequence[Outcome]) -> tuple[Floats, Floats]:
        """Return the probability of each word by the corpus, and its log-probability by the model [N]."""
        assert self.words is not None, "`prepare` comes first"
        ids = np.fromiter((outcome.id for outcome in outcomes), np.int64)
        splits, types = np.divmod(ids, len(self.words.words))
        if not len(types):
            return np.zeros(0), np.zeros(0)
        split = self._against(splits)
        log_probs = np.fromiter(map(self._log_prob, outcomes), np.float64)
        wrong = np.flatnonzero(np.isnan(log_probs) | (log_probs == inf))
        if len(wrong):
            raise PluginError(
                f"{self.config.name} cannot be computed: the score of example {outcomes[wrong[0]].id} is "
                f"{log_probs[wrong[0]]}. The model's `score` must give the natural logarithm of a probability, -inf "
                "where that is 0; nan mostly means that its weights have diverged."
            )
        return self.words.probs(split)[types], log_probs

    def _against(self, splits: NDArray[np.int64]) -> Split:
        """Return the split whose counts weigh; raise SuiteError if the words scored are not all of its words."""
        if splits.min() != splits.max() or splits.max() >= len(SPLITS):
            raise SuiteError(f"{self.config.name} is about the types of one split of word-generation.")
        scored = SPLITS[int(splits[0])]
        wanted: Split = self.config.against or scored
        if wanted not in (scored, "train") or (scored, wanted) == ("valid", "train"):
            raise SuiteError(
                f"{self.config.name} against {wanted} cannot be had from the words of {scored}. Set `splits: "
                f"[{'test' if wanted == 'train' else wanted}]`; test has the words of train too."
            )
        return wanted

    def _log_prob(self, outcome: Outcome) -> float:
        """Return what a score says of a word; NaN if it says nothing."""
        name = self.config.value
        if name is None:
            return nan if outcome.target_log_prob is None else outcome.target_log_prob
        if name not in outcome.values:
            known = ", ".join(sorted(outcome.values)) or "none"
            raise SuiteError(
                f"nothing is called {name!r} among what the score of example {outcome.id} carries (values: {known}). "
                "Name another, or leave this metric out for such models."
            )
        return outcome.values[name]

    def _told(self, log_probs: Floats) -> NDArray[np.bool_]:
        """Return which words are not omitted [N]."""
        return log_probs > -inf if self.config.floor is None else log_probs >= self.config.floor


class WordCrossEntropy(ScoredWords):
    """H[P, P^] = -sum_w P(w) ln P^(w) / sum_w P(w), sums over the words that the model does not omit.

    Infinite if it omits all. The excess is over -sum_w P(w) ln P(w) / sum_w P(w) of the same words: where none is
    omitted, over the entropy of P.
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

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[list[float]]:
        """Yield the probability of each word, the same or 0 if it is omitted, and what it costs times that.

        Of an estimate by draws that words share, also what the word costs by parts of them [5] and by all [1]; by
        draws of its own, the variance of that [1].
        """
        probs, log_probs = self._weighed(outcomes)
        told = self._told(log_probs) & (probs > 0)
        least = np.log(np.where(told, probs, 1)) if self.config.excess else np.zeros(len(probs))
        share = np.where(told, probs, 0)
        costs = self._costs(least, np.where(told, log_probs, 0), share)
        columns = zip(*(column.tolist() for column in (probs, share, costs, least)), strict=True)
        for outcome, (prob, own, cost, low) in zip(outcomes, columns, strict=True):
            estimates = estimates_of(outcome, partial(self._costs, low, share=own))
            by_all = self._costs(low, outcome.target_log_prob, own) if own else 0.0
            again = [outcome.values[AGAIN]] if AGAIN in outcome.values else []
            variance = [(self._costs(low, one, own) - by_all) ** 2 / 2 for one in again]
            yield [prob, own, cost, *estimates, *([by_all] if estimates else variance)]

    def _costs(self, least: Any, log_probs: Any, share: Any) -> Any:
        """Return what words cost, each a share of all."""
        return (least - log_probs) * share / (log(2) if self.config.unit == "bits" else 1)

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        whole, told, cost, *_ = sums or (0, 0, 0)
        if not told:
            return inf if whole else nan
        return cost / told

    def estimates(self, sums: Sequence[float], examples: int) -> Sequence[float]:
        return [self.from_sums([*sums[:2], cost], examples) for cost in sums[3:8]]

    def error(self, parts: Sequence[list[float]]) -> float:
        """Return that of the model's score; of another value that it reports, also how far that is from the score.

        0 of an exact score, and where all words are omitted.
        """
        sums, examples = self.sums(parts), len(parts)
        if len(sums) < 4 or not sums[1]:
            return 0.0
        if len(sums) == 4:
            return sqrt(sums[3]) / sums[1]
        whole, by_all = (self.from_sums([*sums[:2], cost], examples) for cost in (sums[2], sums[8]))
        apart = abs(whole - by_all) if isfinite(whole) else 0.0
        return hypot(sampling_error(by_all, self.estimates(sums, examples)), apart)


class OmittedMass(ScoredWords):
    """The sum of P(w) over the words that the model omits, as a share of all."""

    label = "Omitted mass"
    better, unit, digits = -1, "", 4
    config: OmittedMassConfig
    may_be_nan = True

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[list[float]]:
        """Yield the probability of each word, and the same or 0 if it is not omitted; by parts of the draws, too."""
        probs, log_probs = self._weighed(outcomes)
        columns = np.stack([probs, probs * ~self._told(log_probs)], 1).tolist()
        rows = zip(outcomes, columns, strict=True)
        estimates = (estimates_of(one, partial(self._omitted, share=row[0])) for one, row in rows)
        return ([*row, *more] for row, more in zip(columns, estimates, strict=True))

    def _omitted(self, log_prob: float, share: float) -> float:
        return 0.0 if self._told(np.array(log_prob)) else share

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        whole, omitted, *_ = sums or (0, 0)
        return omitted / whole if whole else nan

    def estimates(self, sums: Sequence[float], examples: int) -> Sequence[float]:
        return [self.from_sums([sums[0], omitted], examples) for omitted in sums[2:]]
