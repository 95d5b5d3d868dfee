"""KL divergences of inferred states, by hand."""

from math import isnan, log

import pytest

from bench_authors.testing import MetricCase, check_metric
from bench_core import Prediction, SuiteError, TaskInfo
from bench_word_generation.plugin import StateKLConfig

WORDS = ["a", "bb", "ccc", "dd"]
COUNTS = {"train": [4, 2, 1, 0], "valid": [1, 1, 0, 0], "test": [2, 0, 1, 1]}
INFO = TaskInfo(["<stop>", *"abcd"], extras={"words": WORDS, "word_counts": COUNTS})
STEPS = [[1.0, 0.5], [9.0, 9.0, 9.0], [2.0, 0.0, 1.0, 4.0], [3.0, -0.5, 0.0]]


def predictions(steps=STEPS):
    return [
        Prediction(2 * len(WORDS) + place, target_log_prob=-1.0, by_token=None if row is None else {"kl": row})
        for place, row in enumerate(steps)
    ]


def value(rows=None, **settings):
    config = StateKLConfig(by="elbo", unit="nats", **settings)
    metric = config.load()(config).prepare(INFO, {})
    return metric.combine([*metric.measure(predictions() if rows is None else rows)])


@pytest.mark.parametrize("config", [StateKLConfig(by="elbo"), StateKLConfig(position=2, against="train")])
def test_the_metric_keeps_the_contracts(config):
    assert check_metric(MetricCase.of(config, predictions(), info=INFO))


def test_words_weigh_as_they_occur_and_only_where_they_reach():
    assert value(position=1) == pytest.approx((2 * 1 + 2 + 3) / 4)
    assert value(position=3) == pytest.approx((1 + 0) / 2)
    assert value(position=4) == pytest.approx(4)
    assert isnan(value(position=5))
    assert value() == pytest.approx((2 * 1.5 + 7 + 2.5) / (2 * 2 + 4 + 3))


def test_bits_are_nats_over_ln_2():
    config = StateKLConfig(by="elbo", position=1)
    metric = config.load()(config).prepare(INFO, {})
    assert metric.combine([*metric.measure(predictions())]) == pytest.approx(7 / 4 / log(2))


def test_scores_without_divergences_are_refused():
    with pytest.raises(SuiteError, match=r"needs `kl` of each token, which the score of example 8 lacks.*`by: elbo`"):
        value(predictions([None] * 4))
