"""What this distribution offers; imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt

from bench_core import MetricConfig, Scorer, hookimpl

supports = (1, 1)


class PerplexityConfig(MetricConfig):
    """Perplexity of the reference targets, over all of them: exp(-log-probability / number of tokens or words)."""

    name, target = "perplexity", "bench_metrics.perplexity:Perplexity"
    needs = Scorer

    by: str | None = None  #: which of the model's likelihoods; by default its first
    unit: Literal["token", "word"] = "token"  #: what the log-probability is shared out among


class NonTerminationConfig(MetricConfig):
    """Share of outputs without stop among their first L tokens (Welleck et al., 2020, arXiv:2002.02492)."""

    name, target = "non-termination", "bench_metrics.termination:NonTermination"
    limits = {"limit": "max_tokens"}
    libraries = frozenset({"scipy"})

    limit: PositiveInt | None = None  #: L, stop included; None takes unfinished outputs at whatever length they have


class DistinctNonTerminatedConfig(MetricConfig):
    """Share of different outputs among those without stop in their first L tokens."""

    name, target = "distinct-non-terminated", "bench_metrics.termination:DistinctNonTerminated"
    limits = {"limit": "max_tokens"}

    limit: PositiveInt | None = None  #: as for non-termination


class LengthConfig(MetricConfig):
    """Mean length in tokens, stop included."""

    name, target = "length", "bench_metrics.length:Length"

    of: Literal["hypothesis", "reference"] = "hypothesis"


class LengthDistanceConfig(MetricConfig):
    """Distance of the lengths of outputs from those of the references, as distributions (1-Wasserstein)."""

    name, target = "length-distance", "bench_metrics.length:LengthDistance"


class RepetitionConfig(MetricConfig):
    """Share of n-grams that have already occurred in the same output."""

    name, target = "repetition", "bench_metrics.repetition:Repetition"

    n: PositiveInt = 4  #: tokens of an n-gram


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics of this plugin."""
    return [
        PerplexityConfig,
        NonTerminationConfig,
        DistinctNonTerminatedConfig,
        LengthConfig,
        LengthDistanceConfig,
        RepetitionConfig,
    ]
