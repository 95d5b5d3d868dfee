from __future__ import annotations

import pytest

from bench_core import Hypothesis, Prediction, SuiteError
from bench_metrics.plugin import LogProbabilityConfig, ReportedConfig, ReportedScoreConfig

CELL = [
    Prediction(3, hypotheses=[Hypothesis([1], True, -1.5, values={"calls": 4.0}), Hypothesis([2], True, -9.0)]),
    Prediction(8, hypotheses=[Hypothesis([], True, -0.25, values={"calls": 1.0})], values={"work": 6.0}),
]


def value(config, predictions=CELL):
    metric = config.load()(config)
    return metric.combine([*metric.measure(predictions)])


def test_what_the_first_hypotheses_carry_is_averaged():
    assert value(ReportedConfig(value="calls")) == 2.5


def test_what_a_score_carries_is_another_thing():
    assert value(ReportedScoreConfig(value="work"), CELL[1:]) == 6.0
    with pytest.raises(SuiteError, match=r"the score of example 8 has no value 'calls' \(its values: work\)"):
        value(ReportedScoreConfig(value="calls"), CELL[1:])


def test_a_value_that_is_missing_is_named_with_those_that_are_there():
    with pytest.raises(SuiteError, match=r"the hypothesis of example 3 has no value 'steps' \(its values: calls\)"):
        value(ReportedConfig(value="steps"))


def test_the_log_probability_is_that_of_first_hypotheses():
    assert value(LogProbabilityConfig()) == -0.875
    with pytest.raises(SuiteError, match="example 5 has no log-probability"):
        value(LogProbabilityConfig(), [Prediction(5, hypotheses=[Hypothesis([1], True)])])
