"""Metrics of values that models report for each target token: the rank of the token, and its log-probability."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, inf, nan
from typing import Self

from bench_core import Additive, Prediction, SuiteError, TaskInfo
from bench_metrics.perplexity import LogProbabilities
from bench_metrics.token_configs import BandPerplexityConfig, ReciprocalRankConfig, TokenAccuracyConfig


def token_values(prediction: Prediction, name: str) -> Sequence[float]:
    """Return a value of each target token; raise SuiteError if the model does not report it."""
    reported = prediction.by_token or {}
    if name not in reported:
        known = ", ".join(sorted(reported)) or "none"
        raise SuiteError(
            f"the score of example {prediction.id} has no {name!r} by token (its values by token: {known}). Leave "
            "this metric out for such models, or set `by` to a likelihood that is a distribution over tokens."
        )
    return reported[name]


class RankMetric(Additive[Sequence[float]]):
    """The mean of a function of the rank of a target token, over all tokens of the cell."""

    better, may_be_nan = 1, True

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[float]]:
        for prediction in predictions:
            ranks, weight = token_values(prediction, "rank"), prediction.weight
            yield [weight * sum(map(self.gain, ranks)), weight * len(ranks)]

    def gain(self, rank: float) -> float:
        """Return the number to average, for a rank from 1."""
        raise NotImplementedError

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        total, tokens = sums or (0.0, 0.0)
        return self.factor * total / tokens if tokens else nan


class TokenAccuracy(RankMetric):
    """Share of target tokens among the k most probable tokens, after the gold tokens."""

    unit, factor = "%", 100.0
    config: TokenAccuracyConfig

    def __init__(self, config: TokenAccuracyConfig) -> None:
        super().__init__(config)
        self.label = f"Accuracy@{config.k}"  # type: ignore[misc]

    def gain(self, rank: float) -> float:
        return float(rank <= self.config.k)


class ReciprocalRank(RankMetric):
    """Mean of 1 / rank of target tokens among all tokens by probability, after the gold tokens."""

    label, unit, digits = "Reciprocal rank", "", 3
    config: ReciprocalRankConfig

    def gain(self, rank: float) -> float:
        return 1 / rank


class BandPerplexity(LogProbabilities):
    """Perplexity of the target tokens whose frequency rank in the training split is in a band."""

    label, unit, scale, title = "Perplexity", "", "log", "perplexity of a frequency band"
    config: BandPerplexityConfig
    band: frozenset[int] | None = None  # token ids; None for all tokens

    def __init__(self, config: BandPerplexityConfig) -> None:
        super().__init__(config)
        ranks = f"{config.first}-{config.last or ''}"
        self.signature = f"log:nats|per:token|ranks:{ranks}|by:{config.by or 'default'}"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with the tokens of its band; raise SuiteError if the task does not count tokens."""
        prepared = super().prepare(info, references)
        if self.config.first == 1 and self.config.last is None:
            return prepared
        if len(info.counts) != len(info.vocabulary):
            raise SuiteError(
                f"{self.title} cannot be computed: the task has counts for {len(info.counts)} of its "
                f"{len(info.vocabulary)} tokens. Use perplexity of all tokens."
            )
        by_rank = sorted(range(len(info.counts)), key=lambda token: -info.counts[token])  # ties go to the lower id
        prepared.band = frozenset(by_rank[self.config.first - 1 : self.config.last])
        return prepared

    def count(self, prediction: Prediction) -> int:
        return sum(map(self._is_inside, token_values(prediction, "gold")))

    def score(self, nats: float) -> float:
        try:
            return exp(nats)
        except OverflowError:
            return inf

    def _part(self, prediction: Prediction) -> Sequence[float | None]:
        log_prob, weight = sum(self._log_probs(prediction)), prediction.weight
        return [None if log_prob == -inf else weight * log_prob, weight * self.count(prediction)]

    def _log_probs(self, prediction: Prediction) -> Iterable[float]:
        pairs = zip(token_values(prediction, "gold"), token_values(prediction, "log_prob"), strict=True)
        return (log_prob for token, log_prob in pairs if self._is_inside(token))

    def _is_inside(self, token: float) -> bool:
        return self.band is None or token in self.band
