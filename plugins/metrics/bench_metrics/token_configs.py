"""Configs of metrics of values that models report for each target token."""

from math import inf
from typing import Self

from pydantic import PositiveInt, model_validator

from bench_core import MetricConfig, Scorer


class BandPerplexityConfig(MetricConfig):
    """Perplexity of the target tokens in a band of frequency ranks of the training split; rank 1 is most frequent."""

    name, target = "band-perplexity", "bench_metrics.by_token:BandPerplexity"
    needs = Scorer
    range = 0, inf  # estimated probabilities may exceed 1

    first: PositiveInt = 1  #: first rank of the band
    last: PositiveInt | None = None  #: last rank of the band; default: the rank of the rarest token
    by: str | None = None  #: likelihood of the model to use; default: its first likelihood

    @model_validator(mode="after")
    def _has_ranks(self) -> Self:
        if self.last is not None and self.last < self.first:
            raise ValueError(f"`last` ({self.last}) is below `first` ({self.first}), so the band is empty. Swap them")
        return self


class TokenAccuracyConfig(MetricConfig):
    """Share of target tokens among the k most probable tokens, each after the gold tokens before it."""

    name, target = "token-accuracy", "bench_metrics.by_token:TokenAccuracy"
    needs = Scorer
    range = 0, 100

    k: PositiveInt = 1  #: number of tokens
    by: str | None = None  #: likelihood of the model to use; default: its first likelihood


class ReciprocalRankConfig(MetricConfig):
    """Mean of 1 / rank of the target tokens among all tokens by probability, each after the gold tokens before it."""

    name, target = "reciprocal-rank", "bench_metrics.by_token:ReciprocalRank"
    needs = Scorer
    range = 0, 1

    by: str | None = None  #: likelihood of the model to use; default: its first likelihood
