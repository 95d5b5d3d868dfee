"""Perplexity of the references, and bits per byte of their raw text."""

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
        """Return the metric with what its signature has from the task.

        That is the number of parts that a stream was read in, if not as a whole, and what stands between prompts and
        targets where both are read as one text. Raises SuiteError if it counts words, and references are in a script
        without spaces, of no named language.
        """
        check_said(self.config, info, chain.from_iterable(references.values()))
        told = copy(self)
        for name in ("parts", "between"):
            told.signature += f"|{name}:{info.extras[name]}" if name in info.extras else ""
        return told

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[Sequence[float | None]]:
        """Yield the weighted log-probability, None for -inf, the weighted count, and what an estimate adds [0 or 5].

        In the end the signature has the number of targets that their tokens spell, unless all do, and the stride of
        windows over texts longer than a model's positions. Raises PluginError where a score is missing or not a
        log-probability, SuiteError where nothing is counted.
        """
        strides, spelled = set[float](), 0
        for outcome in outcomes:
            yield self._part(outcome)
            strides.add(outcome.values.get("stride", 0))
            spelled += outcome.target_words is not None
        known = [field for field in self.signature.split("|") if not field.startswith(("spelled:", "stride:"))]
        known += [f"spelled:{spelled} of {len(outcomes)}"] if spelled < len(outcomes) else []
        known += [f"stride:{stride:g}" for stride in sorted(strides - {0})]
        self.signature = "|".join(known)

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


def unspelled(metric: str, example: int) -> SuiteError:
    """Return the error of a metric that is shared out among units of a text which is not the one that was scored."""
    return SuiteError(
        f"{metric} cannot be computed: the raw text of example {example} is unknown. Its tokens do not spell it "
        "(`<unk>`, lower case, or white space that they cannot write), or one of them spans the border of prompt and "
        "target (let the prompt end without a space), or the task left out examples of the split by their tokens, or "
        "it counts no bytes, as of train. Choose a tokenizer that loses nothing, such as `char` or `bpe`, take "
        "perplexity per token, or list the pair under `skip:`."
    )


class Perplexity(LogProbabilities):
    """exp(-sum of log-probabilities / number of tokens or words)."""

    label = "Perplexity"
    unit, scale, called = "", "log", "perplexity"
    config: PerplexityConfig

    def __init__(self, config: PerplexityConfig) -> None:
        super().__init__(config)
        self.signature = f"log:nats|per:{config.unit}|stop:included|by:{config.by or 'default'}"

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[Sequence[float | None]]:
        if self.config.unit == "word" and outcomes and all(outcome.target_words == 0 for outcome in outcomes):
            raise SuiteError(
                "perplexity per word cannot be computed: the targets count no words. Set `unit: token` for this task."
            )
        return super().measure(outcomes)

    def count(self, outcome: Outcome) -> int:
        if self.config.unit == "token":
            return outcome.target_tokens
        if outcome.target_words is None:
            raise unspelled("perplexity per word", outcome.id)
        return outcome.target_words

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
            raise unspelled("bits-per-byte", outcome.id)
        return size

    def score(self, nats: float) -> float:
        return nats / log(2)
