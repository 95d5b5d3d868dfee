"""What models report position by position."""

from __future__ import annotations

from math import isnan

import pytest
from pydantic import ValidationError

from bench_authors.testing import MetricCase, check_metric
from bench_core import Hypothesis, Prediction, SuiteError
from bench_word_generation.plugin import LetterEntropyConfig, MutualInformationConfig

VALUES = [
    {"information": 1.0, "information_1": 1.5, "information_2": 0.5, "entropy": 2.0, "entropy_1": 3.0},
    {"information": 0.5, "information_1": 0.75, "information_2": 0.25, "entropy": 1.0, "entropy_1": 0.5},
]
UNTIL = [(2.0, 2.0), (0.75, 1.0)]
PREDICTIONS = [
    Prediction(
        number,
        hypotheses=[
            Hypothesis([1], True, values={**told, "information_until_stop": total, "steps_until_stop": steps})
        ],
        texts=["a"],
    )
    for number, (told, (total, steps)) in enumerate(zip(VALUES, UNTIL, strict=True))
]


def value(config, predictions=PREDICTIONS):
    metric = config.load()(config)
    return metric.combine([*metric.measure(predictions)])


@pytest.mark.parametrize(
    ("config", "mean"),
    [
        (MutualInformationConfig(), 0.75),
        (MutualInformationConfig(position=1), 1.125),
        (MutualInformationConfig(position=2), 0.375),
        (MutualInformationConfig(until_stop=True), 2.75 / 3),
        (LetterEntropyConfig(), 1.5),
        (LetterEntropyConfig(position=1), 1.75),
    ],
)
def test_values_are_averaged_over_outputs_and_up_to_stop_over_all_positions(config, mean):
    assert value(config) == pytest.approx(mean)
    assert isnan(value(config, []))
    assert check_metric(MetricCase.of(config, PREDICTIONS * 2))


def test_a_single_position_keeps_one_number_of_each_output_so_that_figures_can_draw_them():
    config = MutualInformationConfig(position=1)
    assert [*config.load()(config).measure(PREDICTIONS)] == [1.5, 0.75]


def test_no_two_numbers_share_a_signature():
    configs = [
        *(MutualInformationConfig(position=t) for t in (None, 1, 2)),
        MutualInformationConfig(until_stop=True),
        *(LetterEntropyConfig(position=t) for t in (None, 1)),
    ]
    assert len({config.load()(config).signature for config in configs}) == len(configs)


def test_outputs_that_tell_nothing_are_refused_with_what_they_tell():
    with pytest.raises(SuiteError, match=r"needs 'entropy_9', which .* \(values: entropy, entropy_1"):
        value(LetterEntropyConfig(position=9))
    with pytest.raises(SuiteError, match=r"values: none"):
        value(MutualInformationConfig(), [Prediction(0, hypotheses=[Hypothesis([1], True)], texts=["a"])])


def test_a_position_has_no_mean_until_stop():
    with pytest.raises(ValidationError, match="`until_stop` needs a mean"):
        MutualInformationConfig(position=1, until_stop=True)
