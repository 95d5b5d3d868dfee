"""Errors of estimates by draws that all examples share: by hand, and by simulation of what is known."""

from __future__ import annotations

from itertools import combinations
from math import exp, inf, log, nan, sqrt

import numpy as np
import pytest

from bench_core import QUARTERS, Additive, Prediction, estimates_of, sampling_error

T_3 = 3.182446 / 1.959964  # the value of Student's t for 3 degrees of freedom by that of the normal


def prediction(quarters, log_prob=-1.0):
    return Prediction(0, target_log_prob=log_prob, values=dict(zip(QUARTERS, quarters, strict=True)))


def estimates(quarters, by_pair):
    return [*quarters, by_pair]


def test_scores_by_quarters_that_scatter_alone_have_the_error_of_four_numbers():
    assert sampling_error(5.0, [4.0, 6.0, 4.0, 6.0, 5.0]) == pytest.approx(T_3 * sqrt(4 / 3 / 4))


@pytest.mark.parametrize(
    ("bias", "error"),
    [
        (lambda share: 1 / share, 3.0),  # in proportion to the draws: what quarters are off by
        (lambda share: share**-0.5, 1.0),  # by their root: likewise, all that is left
        (lambda share: share**-0.2, 1.0),  # more slowly: what a geometric series leaves
        (lambda share: share**-0.1, 1.0),
        (lambda share: 0.0, 0.0),
    ],
)
def test_a_bias_that_falls_by_a_power_is_covered(bias, error):
    quarters, halves, whole = (bias(share) for share in (1 / 4, 1 / 2, 1))
    assert sampling_error(whole, [*[quarters] * 4, halves]) == pytest.approx(error)


def test_a_bias_that_does_not_fall_more_slowly_each_time_is_not_taken_to_fall_for_ever():
    assert sampling_error(0.0, [2.0] * 4 + [1.0]) == pytest.approx(19), "r = 0.95 at most"
    assert sampling_error(0.0, [1.0] * 4 + [1.0]) == pytest.approx(1), "nothing fell the first time"


def test_an_error_goes_with_the_unit_and_not_with_the_origin():
    found = [5.1, 5.4, 4.9, 5.0, 4.95]
    error = sampling_error(4.8, found)
    assert sampling_error(2 * 4.8, [2 * one for one in found]) == pytest.approx(2 * error)
    assert sampling_error(4.8 - 7, [one - 7 for one in found]) == pytest.approx(error)
    assert sampling_error(-4.8, [-one for one in found]) == pytest.approx(error)


def test_what_is_exact_infinite_or_undefined_has_no_error():
    assert sampling_error(3.0, []) == 0
    assert sampling_error(inf, [1.0] * 5) == 0
    assert sampling_error(1.0, [1.0, nan, 1.0, 1.0, 1.0]) == 0


def test_estimates_are_by_quarters_and_the_mean_by_two_of_them():
    quarters = [-1.0, -2.0, -3.0, -700.0]
    pairs = [log((exp(one) + exp(other)) / 2) for one, other in combinations(quarters, 2)]
    assert estimates_of(prediction(quarters)) == pytest.approx([*quarters, sum(pairs) / 6], rel=1e-7)
    assert estimates_of(prediction(quarters), lambda nats: -2 * nats)[:4] == [2.0, 4.0, 6.0, 1400.0]
    assert estimates_of(prediction([-1e9] * 4))[4] == -1e9
    assert estimates_of(Prediction(0, target_log_prob=-1.0)) == []


class Bits(Additive):
    better, unit, signature = -1, "", "bits"

    def __init__(self, scale):
        self.scale = scale

    def measure(self, predictions):
        return ([-one.target_log_prob, *estimates_of(one, lambda nats: -nats)] for one in predictions)

    def from_sums(self, sums, examples):
        mean = sums[0] / examples
        return exp(mean) if self.scale == "log" else mean

    def estimates(self, sums, examples):
        return [self.from_sums([one], examples) for one in sums[1:]]


def test_a_metric_of_a_log_scale_has_the_error_of_its_logarithm_in_its_own_unit():
    cell = [prediction([-1.0, -1.2, -0.8, -1.0], -0.9), prediction([-3.0, -3.3, -2.9, -3.0], -2.8)]
    linear, scaled = Bits("linear"), Bits("log")
    parts = [*linear.measure(cell)]
    wanted = sampling_error(1.85, [2.0, 2.25, 1.85, 2.0, parts[0][5] / 2 + parts[1][5] / 2])
    assert linear.error(parts) == pytest.approx(wanted)
    assert scaled.error(parts) == pytest.approx(exp(1.85) * wanted)
    assert linear.error([[1.0], [2.0]]) == scaled.error([[1.0]]) == 0


def repeated(logs, weights):
    """Return the mean of log p by each experiment [R], its errors, and those without what is made of the bias.

    `logs(generator)` draws ln f_n(w) [N, W]; P(w) = E[f_n(w)] = 1.
    """
    found = []
    for key in range(200):
        drawn = np.exp(logs(np.random.default_rng(key)))
        quarters = np.log(drawn.reshape(4, -1, len(weights)).mean(1))
        whole = float(-np.log(drawn.mean(0)) @ weights)
        rows = [estimates_of(prediction(column)) for column in quarters.T.tolist()]
        sums = (-np.array(rows).T @ weights).tolist()
        found.append((whole, sampling_error(whole, sums), T_3 * np.std(sums[:4], ddof=1) / 2))
    return np.array(found).T


@pytest.mark.parametrize(
    ("sigma", "shared", "draws"), [(1, 0.7, 200), (1, 0.0, 2000), (2, 0.7, 2000), (0.3, 1.0, 20)]
)
def test_the_truth_is_within_two_errors_in_95_percent_of_experiments(sigma, shared, draws):
    """Whether targets agree on the draws that are good for them or not; 3 % are two errors of the simulation."""
    weights = np.full(8, 1 / 8)

    def logs(generator):
        common, own = generator.normal(size=(draws, 1)), generator.normal(size=(draws, 8))
        return sigma * (shared * common + sqrt(1 - shared**2) * own) - sigma**2 / 2

    whole, error, _ = repeated(logs, weights)
    assert (abs(whole) <= 2 * error).mean() >= 0.92
    assert error.mean() < 4 * np.sqrt((whole**2).mean()), "it is no excuse for any result"


@pytest.mark.quick(2, 1)
@pytest.mark.parametrize(("sigma", "draws"), [(3, 20), (3, 200), (4, 200), (5, 200)])
def test_with_too_few_draws_the_error_covers_a_bias_that_scatter_does_not_show(sigma, draws):
    """One draw of thousands decides: all four quarters are nats too high, and agree."""
    weights = np.full(100, 1 / 100)
    whole, error, scatter = repeated(
        lambda generator: sigma * generator.normal(size=(draws, 100)) - sigma**2 / 2, weights
    )
    assert whole.mean() > 0.4
    assert (abs(whole) <= 2 * error).mean() >= 0.85
    assert (abs(whole) <= 2 * scatter).mean() < 0.3
