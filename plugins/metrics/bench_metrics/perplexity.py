"""Perplexity of the references, and bits per byte of their raw text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import chain
from math import exp, inf, isnan, log, nan
from typing import Self

from bench_core import Additive, Outcome, PluginError, SuiteError, TaskInfo, estimates_of
from bench_metrics.languages import check_said
from bench_metrics.plugin import BitsPerByteConfig, PerplexityConfig


class LogProbabilities(Additive[Sequence[float | None]]):
    """What is made of the sum of log-probabilities and of a count, over the whole cell, in float64.

    Infinite if any target is impossible, undefined (nan) where there is nothing to count.
    """

    better = -1
    may_be_nan = True
    may_be_infinite = True
    called: str  #: in messages

    @abstractmethod
    def count(self, outcome: Outcome) -> int:
        """Return what the log-probability of a target is shared out among; raise SuiteError if it is unknown."""

    @abstractmethod
    def score(self, nats: float) -> float:
        """Return the score of so many nats for each that is counted."""

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with the number of parts that a stream was read in, if not as a whole.

        Raises SuiteError if it counts words, and references are in a script without spaces, of no named language.
        """
        check_said(self.config, info, chain.from_iterable(references.values()))
        told = copy(self)
        told.signature += f"|parts:{info.extras['parts']}" if "parts" in info.extras else ""
        return told

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[Sequence[float | None]]:
        """Yield the weighted log-probability, None for -inf, the weighted count, and what an estimate adds [0 or 5].

        Raises PluginError where a score is missing or not a log-probability, SuiteError where nothing is counted.
        """
        return map(self._part, outcomes)

    def row(self, part: Sequence[float | None]) -> Sequence[float]:
        log_prob, count, *estimates = part
        return [log_prob or 0.0, count or 0.0, log_prob is None, *(one or 0.0 for one in estimates)]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        log_prob, count, impossible, *_ = sums or (0, 0, 0)
        if not count:
            return nan
        return inf if impossible else self.score(-log_prob / count)

    def estimates(self, sums: Sequence[float], examples: int) -> Sequence[float]:
        return [self.from_sums([one, *sums[1:3]], examples) for one in sums[3:]]

    def _part(self, outcome: Outcome) -> Sequence[float | None]:
        log_prob, weight = outcome.target_log_prob, outcome.weight
        if log_prob is None or isnan(log_prob) or log_prob == inf:
            raise PluginError(
                f"{self.called} cannot be computed: the score of example {outcome.id} is {log_prob}. "
                "The model's `score` must give the natural logarithm of a probability, -inf where that is 0; "
                "nan mostly means that its weights have diverged."
            )
        estimates = estimates_of(outcome, lambda nats: weight * nats)
        if not weight:
            return [0.0, 0.0, *estimates]
        return [None if log_prob == -inf else weight * log_prob, weight * self.count(outcome), *estimates]


class Perplexity(LogProbabilities):
    """exp(-sum of log-probabilities / number of tokens or words)."""

    label = "Perplexity"
    unit, scale, called = "", "log", "perplexity"
    config: PerplexityConfig

    def __init__(self, config: PerplexityConfig) -> None:
        super().__init__(config)
        self.signature = f"log:nats|per:{config.unit}|stop:included|by:{config.by or 'default'}"

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[Sequence[float | None]]:
        if self.config.unit == "word" and outcomes and not any(outcome.target_words for outcome in outcomes):
            raise SuiteError(
                "perplexity per word cannot be computed: the targets count no words. Set `unit: token` for this task."
            )
        return super().measure(outcomes)

    def count(self, outcome: Outcome) -> int:
        return outcome.target_words if self.config.unit == "word" else outcome.target_tokens

    def score(self, nats: float) -> float:
        try:
            return exp(nats)
        except OverflowError:
            return inf


class BitsPerByte(LogProbabilities):
    """-(sum of log2 p) / (bytes or characters of the raw text that all targets stand for)."""

    unit, digits, called = "bits", 3, "bits-per-byte"
    config: BitsPerByteConfig

    def __init__(self, config: BitsPerByteConfig) -> None:
        super().__init__(config)
        self.label = f"Bits per {config.per}"  # type: ignore[misc]
        self.signature = f"log:2|per:{config.per}|text:raw|stop:line break|by:{config.by or 'default'}"

    def count(self, outcome: Outcome) -> int:
        size = outcome.target_bytes if self.config.per == "byte" else outcome.target_characters
        if size is None:
            raise SuiteError(
                f"bits-per-byte cannot be computed: the raw text of example {outcome.id} is unknown. Its tokens do "
                "not spell it (`<unk>`, lower case, or white space that is no single space), or the task left out "
                "examples of the split by their tokens, or it counts no bytes, as of train. Choose a tokenizer that "
                "loses nothing, such as `char` or `bpe`, or list the pair under `skip:`."
            )
        return size

    def score(self, nats: float) -> float:
        return nats / log(2)
