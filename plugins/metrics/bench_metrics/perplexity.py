"""Perplexity, cross-entropy and log-probability of the references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from math import exp, inf, isnan, nan
from typing import Self

from bench_core import Additive, Outcome, PluginError, SuiteError, TaskInfo
from bench_metrics.plugin import PerplexityConfig


class Perplexity(Additive[Sequence[float | None]]):
    """exp(-sum of log-probabilities / number of tokens or words), over the whole cell, in float64.

    Infinite if any target is impossible, undefined (nan) where there is nothing to count.
    """

    label = "Perplexity"
    better, unit, scale = -1, "", "log"
    may_be_nan = True
    may_be_infinite = True

    def __init__(self, config: PerplexityConfig) -> None:
        super().__init__(config)
        self.signature = f"log:nats|per:{config.unit}|stop:included|by:{config.by or 'default'}"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with the number of parts that a stream was read in, if not as a whole."""
        told = copy(self)
        told.signature += f"|parts:{info.extras['parts']}" if "parts" in info.extras else ""
        return told

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[Sequence[float | None]]:
        """Yield the weighted log-probability, None for -inf, and the weighted count of each example.

        Raises PluginError where a score is missing or not a log-probability, SuiteError where words are not counted.
        """
        if self.config.unit == "word" and outcomes and not any(outcome.target_words for outcome in outcomes):
            raise SuiteError(
                "perplexity per word cannot be computed: the targets count no words. Set `unit: token` for this task."
            )
        return map(self._part, outcomes)

    def row(self, part: Sequence[float | None]) -> Sequence[float]:
        log_prob, count = part
        return [log_prob or 0.0, count or 0.0, log_prob is None]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        log_prob, count, impossible = sums or (0, 0, 0)
        if not count:
            return nan
        try:
            return inf if impossible else exp(-log_prob / count)
        except OverflowError:
            return inf

    def _part(self, outcome: Outcome) -> Sequence[float | None]:
        log_prob, weight = outcome.target_log_prob, outcome.weight
        if log_prob is None or isnan(log_prob) or log_prob == inf:
            raise PluginError(
                f"perplexity cannot be computed: the score of example {outcome.id} is {log_prob}. "
                "The model's `score` must give the natural logarithm of a probability, -inf where that is 0; "
                "nan mostly means that its weights have diverged."
            )
        if not weight:
            return [0.0, 0.0]
        count = outcome.target_words if self.config.unit == "word" else outcome.target_tokens
        return [None if log_prob == -inf else weight * log_prob, weight * count]
