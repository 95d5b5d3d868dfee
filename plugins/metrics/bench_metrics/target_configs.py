"""Configs of metrics of the log-probabilities of single targets."""

from math import inf
from typing import Literal

from pydantic import Field

from bench_core import MetricConfig, Scorer


class TargetProbabilityConfig(MetricConfig):
    """Mean probability of reference targets: the expected share of exact matches among samples.

    Perplexity is dominated by improbable targets, this mean by probable ones. For a bound, it is a lower bound.
    """

    name, target = "target-probability", "bench_metrics.target_scores:TargetProbability"
    needs = Scorer
    range = 0, inf  # estimated probabilities may exceed 1

    by: str | None = None  #: likelihood of the model to use; default: its first likelihood


class NatsPercentileConfig(MetricConfig):
    """A percentile of the negative log-probabilities of reference targets; higher percentiles are harder targets."""

    name, target = "nats-percentile", "bench_metrics.target_scores:NatsPercentile"
    needs = Scorer
    range = -inf, inf  # estimated probabilities may exceed 1

    percentile: float = Field(50.0, gt=0, le=100)  #: share of targets with at most this value, in percent
    per: Literal["token", "target"] = "token"  #: negative log-probability per token, EOS included, or per target
    by: str | None = None  #: likelihood of the model to use; default: its first likelihood
