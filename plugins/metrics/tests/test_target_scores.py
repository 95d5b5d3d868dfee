"""The mean probability of targets, and percentiles of their negative log-probabilities."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf, isnan, log

import numpy as np
import pytest
from pydantic import ValidationError

from bench_core import PluginError, Prediction, SuiteError
from bench_metrics.perplexity import Perplexity
from bench_metrics.plugin import NatsPercentileConfig, PerplexityConfig, TargetProbabilityConfig
from bench_metrics.target_scores import NatsPercentile, TargetProbability

CELL = [
    Prediction(0, target_log_prob=log(0.5), target_tokens=2),
    Prediction(1, target_log_prob=log(0.1), target_tokens=1),
    Prediction(2, target_log_prob=log(0.3), target_tokens=4, weight=2.0),
]


def value(metric, cell=CELL):
    return metric.combine([*metric.measure(cell)])


def probability(cell=CELL):
    return value(TargetProbability(TargetProbabilityConfig()), cell)


def percentile(share, cell=CELL, per="target"):
    return value(NatsPercentile(NatsPercentileConfig(percentile=share, per=per)), cell)


def test_probabilities_are_averaged_with_the_weights_of_examples():
    assert probability() == pytest.approx(100 * (0.5 + 0.1 + 2 * 0.3) / 4)


def test_an_impossible_target_costs_its_share_of_the_mean_but_all_of_the_perplexity():
    cell = [*CELL[:2], Prediction(3, target_log_prob=-inf, target_tokens=1)]
    assert probability(cell) == pytest.approx(100 * 0.6 / 3)
    assert value(Perplexity(PerplexityConfig()), cell) == inf


def test_models_of_equal_perplexity_differ_in_their_mean_probability():
    flat, uneven = (
        [Prediction(n, target_log_prob=-nats, target_tokens=2) for n, nats in enumerate(both)]
        for both in ([2, 2], [0.5, 3.5])
    )
    assert value(Perplexity(PerplexityConfig()), flat) == pytest.approx(value(Perplexity(PerplexityConfig()), uneven))
    assert probability(uneven) > 2 * probability(flat)


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_probability_is_at_least_the_geometric_mean(seed):
    nats = np.random.default_rng(seed).exponential(3, 20)
    cell = [Prediction(n, target_log_prob=-cost, target_tokens=1) for n, cost in enumerate(nats)]
    assert probability(cell) >= 100 * exp(-nats.mean())


@pytest.mark.parametrize(
    ("share", "nats"),
    [(1, log(2)), (33, log(2)), (34, log(1 / 0.3)), (66, log(1 / 0.3)), (67, log(10)), (100, log(10))],
)
def test_a_percentile_is_the_smallest_value_that_so_many_targets_do_not_exceed(share, nats):
    assert percentile(share) == pytest.approx(nats)


def test_nats_are_divided_by_tokens_unless_they_are_of_targets():
    assert percentile(100, per="token") == pytest.approx(log(10))
    assert percentile(50, per="token") == pytest.approx(log(2) / 2)
    assert percentile(1, per="token") == pytest.approx(log(1 / 0.3) / 4)


@pytest.mark.parametrize("share", [10, 30, 50, 70, 90, 100])
def test_percentiles_are_those_of_numpy(share):
    nats = np.random.default_rng(3).exponential(3, 37)
    cell = [Prediction(n, target_log_prob=-cost, target_tokens=1) for n, cost in enumerate(nats)]
    assert percentile(share, cell) == pytest.approx(np.percentile(nats, share, method="inverted_cdf"))


def test_percentiles_rise_with_their_share():
    nats = np.random.default_rng(4).exponential(3, 20)
    cell = [Prediction(n, target_log_prob=-cost, target_tokens=1) for n, cost in enumerate(nats)]
    values = [percentile(share, cell) for share in range(1, 101)]
    assert values == sorted(values)
    assert {*values} == {*nats.tolist()}


def test_resampled_percentiles_are_those_of_the_repeated_examples():
    metric = NatsPercentile(NatsPercentileConfig(percentile=40))
    parts = [*metric.measure([replace(each, id=n) for n, each in enumerate(CELL * 3)])]
    counts = np.random.default_rng(0).multinomial(9, [1 / 9] * 9, size=20)
    repeated = [[part for part, times in zip(parts, row, strict=True) for _ in range(times)] for row in counts]
    assert metric.resample(parts, counts) == [metric.combine(sample) for sample in repeated]


def test_an_impossible_target_has_infinite_nats():
    cell = [*CELL, Prediction(3, target_log_prob=-inf, target_tokens=1)]
    assert percentile(75, cell) == pytest.approx(log(10))
    assert percentile(76, cell) == inf


def test_without_targets_both_are_nan():
    assert isnan(probability([]))
    assert isnan(percentile(50, []))
    assert isnan(probability([replace(CELL[0], weight=0.0)]))


@pytest.mark.parametrize("log_prob", [None, inf, float("nan")])
@pytest.mark.parametrize(
    "metric", [TargetProbability(TargetProbabilityConfig()), NatsPercentile(NatsPercentileConfig())]
)
def test_scores_that_are_no_log_probabilities_are_refused(log_prob, metric):
    with pytest.raises(PluginError, match=f"the score of example 7 is {log_prob}"):
        value(metric, [Prediction(7, target_log_prob=log_prob, target_tokens=1)])


def test_nats_per_token_need_a_length():
    cell = [Prediction(7, target_log_prob=-1.0)]
    assert percentile(50, cell) == 1
    with pytest.raises(SuiteError, match=r"example 7 is unknown\. Set `per: target`"):
        percentile(50, cell, per="token")


@pytest.mark.parametrize("share", [0, -1, 100.5])
def test_shares_beyond_all_targets_are_refused(share):
    with pytest.raises(ValidationError):
        NatsPercentileConfig(percentile=share)


def test_signatures_tell_percentiles_and_likelihoods_apart():
    settings = [{"percentile": 10}, {"percentile": 90}, {"per": "target"}, {"by": "elbo"}]
    assert len({NatsPercentile(NatsPercentileConfig(**each)).signature for each in settings}) == 4
    assert TargetProbability(TargetProbabilityConfig(by="elbo")).signature.endswith("by:elbo")
