"""Perplexity of the references, and bits per byte of their raw text."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import chain
from math import exp, inf, isnan, log, nan
from typing import Self

from bench_core import Additive, PluginError, Prediction, SuiteError, TaskInfo, estimates_of
from bench_metrics.languages import check_spaces
from bench_metrics.plugin import BitsPerByteConfig, PerplexityConfig


class LogProbabilities(Additive[Sequence[float | None]]):
    """A score computed from log-probabilities and a count, summed over the whole cell in float64.

    Infinite if any target has probability 0, NaN if the count is 0.
    """

    better = -1
    may_be_nan = True
    may_be_infinite = True
    title: str  #: name in messages

    @abstractmethod
    def count(self, prediction: Prediction) -> int:
        """Return the number of units of a target, such as tokens or bytes; raise SuiteError if it is unknown."""

    @abstractmethod
    def score(self, nats: float) -> float:
        """Return the score for a mean negative log-probability per unit, in nats."""

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with task info added to its signature.

        The signature gets the number of parts in which a stream was read, if more than one, and the separator of
        prompts and targets, if they are read as one text. Raises SuiteError if the metric counts words, no language
        is set, and references are in a script without spaces.
        """
        check_spaces(self.config, info, chain.from_iterable(references.values()))
        prepared = copy(self)
        for name in ("parts", "between"):
            prepared.signature += f"|{name}:{info.extras[name]}" if name in info.extras else ""
        return prepared

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[float | None]]:
        """Yield the weighted log-probability (None for -inf), the weighted count, and weighted estimates [0 or 5].

        At the end, adds to the signature the number of targets that tokens represent exactly, if not all, and the
        stride of windows over texts longer than a model's context. Raises PluginError if a score is missing or not
        a log-probability, SuiteError if the count is unknown.
        """
        strides, spelled = set[float](), 0
        for prediction in predictions:
            yield self._part(prediction)
            strides.add(prediction.values.get("stride", 0))
            spelled += prediction.target_words is not None
        fields = [field for field in self.signature.split("|") if not field.startswith(("spelled:", "stride:"))]
        fields += [f"spelled:{spelled} of {len(predictions)}"] if spelled < len(predictions) else []
        fields += [f"stride:{stride:g}" for stride in sorted(strides - {0})]
        self.signature = "|".join(fields)

    def row(self, part: Sequence[float | None]) -> Sequence[float]:
        log_prob, count, *estimates = part
        return [log_prob or 0.0, count or 0.0, log_prob is None, *(estimate or 0.0 for estimate in estimates)]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        log_prob, count, impossible, *_ = sums or (0, 0, 0)
        if not count:
            return nan
        return inf if impossible else self.score(-log_prob / count)

    def estimates(self, sums: Sequence[float], examples: int) -> Sequence[float]:
        return [self.from_sums([estimate, *sums[1:3]], examples) for estimate in sums[3:]]

    def _part(self, prediction: Prediction) -> Sequence[float | None]:
        log_prob, weight = check_log_prob(prediction, self.title), prediction.weight
        estimates = estimates_of(prediction, lambda nats: weight * nats)
        if not weight:
            return [0.0, 0.0, *estimates]
        return [None if log_prob == -inf else weight * log_prob, weight * self.count(prediction), *estimates]


def check_log_prob(prediction: Prediction, metric: str) -> float:
    """Return the log-probability of a target; raise PluginError if it is missing, NaN or infinity."""
    log_prob = prediction.target_log_prob
    if log_prob is None or isnan(log_prob) or log_prob == inf:
        raise PluginError(
            f"{metric} cannot be computed: the score of example {prediction.id} is {log_prob}. "
            "The model's `score` must return the natural logarithm of a probability, -inf for probability 0; "
            "NaN usually means that training diverged."
        )
    return log_prob


def unknown_text(metric: str, example: int) -> SuiteError:
    """Return the error of a metric per byte, character or word if the raw text of an example is unknown."""
    return SuiteError(
        f"{metric} cannot be computed: the raw text of example {example} is unknown. Its tokens do not reproduce it "
        "(`<unk>`, lower case, or whitespace that they cannot write), or a token spans the boundary of prompt and "
        "target (end the prompt without a space), or the task skipped examples of the split because of their tokens, "
        "or it does not count bytes, as in train. Choose a lossless tokenizer, such as `char` or `bpe`, use "
        "perplexity per token, or list the pair under `skip:`."
    )


class Perplexity(LogProbabilities):
    """exp(-sum of log-probabilities / number of tokens or words)."""

    label = "Perplexity"
    unit, scale, title = "", "log", "perplexity"
    config: PerplexityConfig

    def __init__(self, config: PerplexityConfig) -> None:
        super().__init__(config)
        self.signature = f"log:nats|per:{config.unit}|stop:included|by:{config.by or 'default'}"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[float | None]]:
        if (
            self.config.unit == "word"
            and predictions
            and all(prediction.target_words == 0 for prediction in predictions)
        ):
            raise SuiteError(
                "perplexity per word cannot be computed: targets have no word counts. Set `unit: token`."
            )
        return super().measure(predictions)

    def count(self, prediction: Prediction) -> int:
        if self.config.unit == "token":
            return prediction.target_tokens
        if prediction.target_words is None:
            raise unknown_text("perplexity per word", prediction.id)
        return prediction.target_words

    def score(self, nats: float) -> float:
        try:
            return exp(nats)
        except OverflowError:
            return inf


class BitsPerByte(LogProbabilities):
    """-(sum of log2 p) / (number of bytes or characters of the raw text of all targets)."""

    unit, digits, title = "bits", 3, "bits-per-byte"
    config: BitsPerByteConfig

    def __init__(self, config: BitsPerByteConfig) -> None:
        super().__init__(config)
        self.label = f"Bits per {config.per}"  # type: ignore[misc]
        self.signature = f"log:2|per:{config.per}|text:raw|stop:line break|by:{config.by or 'default'}"

    def count(self, prediction: Prediction) -> int:
        size = prediction.target_bytes if self.config.per == "byte" else prediction.target_characters
        if size is None:
            raise unknown_text("bits-per-byte", prediction.id)
        return size

    def score(self, nats: float) -> float:
        return nats / log(2)
