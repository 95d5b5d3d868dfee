"""Errors of cross entropies that are estimates: against truths that can be enumerated."""

from __future__ import annotations

from itertools import product
from math import exp, inf, log, sqrt

import numpy as np
import pytest

from bench_authors.testing import MetricCase, check_metric
from bench_core import AGAIN, QUARTERS, Hypothesis, Prediction, TaskInfo, sampling_error
from bench_word_generation.plugin import MutualInformationConfig, OmittedMassConfig, WordCrossEntropyConfig

LETTERS = "abc"
WORDS = ["".join(word) for size in (1, 2, 3) for word in product(LETTERS, repeat=size)]
COUNTS = np.random.default_rng(0).integers(1, 30, len(WORDS))
SPLITS = dict.fromkeys(("train", "valid", "test"), COUNTS.tolist())
INFO = TaskInfo(["<stop>", *LETTERS], extras={"words": WORDS, "word_counts": SPLITS})
P = COUNTS / COUNTS.sum()
FIRST = 2 * len(WORDS)  # the id of the first word of test


class Mixture:
    """P(w) = sum_m weight_m prod_t p_m(w_t): exact, and by trajectories, each of which stays in one component."""

    def __init__(self, components, sharpness):
        generator = np.random.default_rng(1)
        letters = np.exp(sharpness * generator.normal(size=(components, 1 + len(LETTERS))))
        letters /= letters.sum(1, keepdims=True)
        self.weights = generator.dirichlet(np.ones(components))
        symbols = [[*(LETTERS.index(letter) for letter in word), len(LETTERS)] for word in WORDS]
        self.probs = np.stack([letters[:, word].prod(1) for word in symbols], 1)  # [M, W]
        self.exact = np.log(self.weights @ self.probs)

    def scored(self, trajectories, key):
        """Return predictions by so many trajectories."""
        counts = np.random.default_rng(key).multinomial(trajectories // 4, self.weights, size=4)
        logs = np.log(counts @ self.probs / (trajectories // 4))  # [4, W]
        whole = np.log(np.exp(logs).mean(0))
        tenth = logs[0]  # any part of the trajectories
        return [
            Prediction(
                FIRST + word,
                target_log_prob=float(whole[word]),
                values={**dict(zip(QUARTERS, logs[:, word].tolist(), strict=True)), "tenth": float(tenth[word])},
            )
            for word in range(len(WORDS))
        ]

    def truth(self):
        return [Prediction(FIRST + word, target_log_prob=float(one)) for word, one in enumerate(self.exact)]


def measured(config, predictions):
    """Return a score and its own error."""
    metric = config.load()(config).prepare(INFO, {one.id: () for one in predictions})
    parts = [*metric.measure(predictions)]
    return metric.combine(parts), metric.error(parts)


@pytest.mark.quick(5, 5)
@pytest.mark.parametrize(
    "settings", [{}, {"unit": "bits"}, {"excess": True, "against": "train"}, {"floor": -9.0}, {"value": "tenth"}]
)
@pytest.mark.parametrize(("components", "sharpness", "trajectories"), [(3, 0.5, 400), (50, 2, 100), (300, 3, 20)])
def test_the_true_cross_entropy_is_within_two_errors_in_95_percent_of_runs(
    components, sharpness, trajectories, settings
):
    model, config = Mixture(components, sharpness), WordCrossEntropyConfig(**settings)
    truth, none = measured(config.model_copy(update={"value": None}), model.truth())
    found = np.array([measured(config, model.scored(trajectories, key)) for key in range(100)])
    assert none == 0
    assert (abs(found[:, 0] - truth) <= 2 * found[:, 1]).mean() >= 0.95 - 2 * sqrt(0.95 * 0.05 / 100)


def test_errors_of_words_that_share_trajectories_are_not_independent():
    """Were they added in quadrature, a fifth of the runs would be off by more than two errors."""
    model, config, inside = Mixture(50, 2), WordCrossEntropyConfig(), []
    truth, _ = measured(config, model.truth())
    for key in range(200):
        predictions = model.scored(400, key)
        found, _ = measured(config, predictions)
        alone = [
            sampling_error(-one.target_log_prob, [-one.values[name] for name in QUARTERS] + [-one.target_log_prob])
            for one in predictions
        ]
        inside.append(abs(found - truth) <= 2 * sqrt(((P * alone) ** 2).sum()))
    assert np.mean(inside) < 0.88


def test_the_omitted_mass_by_a_floor_has_the_error_of_words_that_may_fall_below_it():
    model, config = Mixture(50, 2), OmittedMassConfig(floor=-6.0)
    truth, none = measured(config, model.truth())
    found = np.array([measured(config, model.scored(200, key)) for key in range(100)])
    assert 0 < truth < 1
    assert none == 0
    assert (abs(found[:, 0] - truth) <= 2 * found[:, 1]).mean() >= 0.9
    assert measured(OmittedMassConfig(), model.scored(200, 1)) == (0.0, 0.0)


def test_bits_excess_and_weights_scale_the_error_as_they_scale_the_number():
    predictions = Mixture(50, 2).scored(100, 3)
    nats, error = measured(WordCrossEntropyConfig(), predictions)
    bits, of_bits = measured(WordCrossEntropyConfig(unit="bits"), predictions)
    assert (bits, of_bits) == (pytest.approx(nats / log(2)), pytest.approx(error / log(2), rel=1e-5))
    assert measured(WordCrossEntropyConfig(excess=True), predictions)[1] == pytest.approx(error, rel=1e-5)


def test_a_part_of_the_trajectories_is_as_uncertain_as_all_and_as_far_from_these():
    predictions = Mixture(300, 3).scored(40, 5)
    whole, error = measured(WordCrossEntropyConfig(), predictions)
    part, of_part = measured(WordCrossEntropyConfig(value="tenth"), predictions)
    assert of_part == pytest.approx(sqrt(error**2 + (part - whole) ** 2), rel=1e-6)


def test_a_bound_by_draws_of_each_word_has_errors_that_add_in_quadrature():
    """The bound is a mean of ln weights with deviation `deviations`, one draw for each word."""
    deviations, inside, errors = np.linspace(0.1, 2, len(WORDS)), [], []
    bound = -5 - np.arange(len(WORDS)) / 10
    for key in range(200):
        drawn = np.random.default_rng(key).normal(bound, deviations, (2, len(WORDS)))
        predictions = [
            Prediction(FIRST + word, target_log_prob=one, values={AGAIN: other})
            for word, (one, other) in enumerate(drawn.T.tolist())
        ]
        found, error = measured(WordCrossEntropyConfig(), predictions)
        inside.append(abs(found + P @ bound) <= 2 * error)
        errors.append(error)
    assert np.mean(inside) >= 0.95 - 2 * sqrt(0.95 * 0.05 / 200)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(sqrt((P**2) @ deviations**2), rel=0.1)


def test_an_omitted_word_has_no_error_and_neither_has_a_model_that_omits_all():
    predictions = Mixture(50, 2).scored(100, 3)
    assert measured(WordCrossEntropyConfig(floor=-1e-9), predictions) == (inf, 0.0)
    known = [one for one in predictions if one.target_log_prob > -6]
    hidden = [
        one if one in known else Prediction(one.id, target_log_prob=-50.0, values=one.values) for one in predictions
    ]
    config = WordCrossEntropyConfig(floor=-6)
    assert measured(config, hidden)[1] == pytest.approx(measured(config, predictions)[1])


def test_all_types_of_a_split_are_the_whole_and_some_of_them_a_sample():
    metric = WordCrossEntropyConfig().load()(WordCrossEntropyConfig())
    ids = range(FIRST, FIRST + len(WORDS))
    assert metric.prepare(INFO, dict.fromkeys(ids, ())).population == "whole"
    assert metric.prepare(INFO, dict.fromkeys(ids[:-1], ())).population == "sample"
    assert metric.population == "whole"
    rare = TaskInfo(INFO.vocabulary, extras={"words": WORDS, "word_counts": {**SPLITS, "valid": [1, *[0] * 38]}})
    assert metric.prepare(rare, {len(WORDS): ()}).population == "whole"


@pytest.mark.parametrize("config", [WordCrossEntropyConfig(unit="bits"), OmittedMassConfig(floor=-6)])
def test_metrics_of_estimates_keep_the_contracts(config):
    assert check_metric(MetricCase.of(config, Mixture(3, 1).scored(40, 1), info=INFO))


def informed(rows):
    names = ["information", "information_by_halves", "information_until_stop", "information_by_halves_until_stop"]
    return [
        Prediction(
            number,
            hypotheses=[Hypothesis([1], True, values=dict(zip([*names, "steps_until_stop"], row, strict=True)))],
            texts=["a"],
        )
        for number, row in enumerate(rows)
    ]


def test_the_bias_of_information_is_what_half_of_the_noise_makes_it_less():
    predictions = informed([(0.5, 0.4, 1.5, 1.2, 3.0), (0.7, 0.7, 0.7, 0.5, 1.0)])
    assert measured(MutualInformationConfig(), predictions) == (pytest.approx(0.6), pytest.approx(0.05))
    assert measured(MutualInformationConfig(until_stop=True), predictions) == (
        pytest.approx(0.55),
        pytest.approx(0.125),
    )
    assert measured(MutualInformationConfig(), [])[1] == 0


def test_a_uniform_error_in_all_words_is_that_of_their_mean():
    """All words err by the same in each quarter: nothing cancels."""
    quarters = [-5.2, -5.0, -4.8, -5.0]
    whole = log(np.mean([exp(one) for one in quarters]))
    predictions = [
        Prediction(FIRST + word, target_log_prob=whole, values=dict(zip(QUARTERS, quarters, strict=True)))
        for word in range(len(WORDS))
    ]
    halves = [log((exp(a) + exp(b)) / 2) for place, a in enumerate(quarters) for b in quarters[:place]]
    wanted = sampling_error(-whole, [*(-one for one in quarters), -sum(halves) / 6])
    assert measured(WordCrossEntropyConfig(), predictions)[1] == pytest.approx(wanted, rel=1e-6)
