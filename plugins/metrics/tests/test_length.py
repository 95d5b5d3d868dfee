from __future__ import annotations

import pytest

from bench_core import Hypothesis, Prediction, SuiteError
from bench_metrics.length import Length, LengthDistance
from bench_metrics.plugin import LengthConfig, LengthDistanceConfig

CELL = [
    Prediction(0, hypotheses=[Hypothesis([4, 5], True), Hypothesis([4] * 50, True)], target_tokens=9),
    Prediction(1, hypotheses=[Hypothesis([6] * 10, False)], target_tokens=4),
    Prediction(2, hypotheses=[Hypothesis([], True)], target_tokens=1),
]


def length(of):
    return Length(LengthConfig(of=of))


def test_stop_counts_where_there_is_one():
    assert [*length("hypothesis").measure(CELL)] == [3, 10, 1]
    assert length("hypothesis").combine([3, 10, 1]) == pytest.approx(14 / 3)


def test_references_are_measured_beside_hypotheses():
    assert [*length("reference").measure(CELL)] == [9, 4, 1]


def test_an_output_equal_to_its_reference_is_as_long():
    same = [Prediction(0, hypotheses=[Hypothesis([1] * n, True)], target_tokens=n + 1) for n in range(5)]
    assert [*length("hypothesis").measure(same)] == [*length("reference").measure(same)]


def test_a_reference_of_unknown_length_is_an_error():
    with pytest.raises(SuiteError, match=r"example 8 .*Leave this metric out"):
        [*length("reference").measure([*CELL, Prediction(8)])]


def test_hypotheses_and_references_have_signatures_of_their_own():
    assert length("hypothesis").signature != length("reference").signature


def distance(*pairs):
    return LengthDistance(LengthDistanceConfig()).combine(pairs)


def test_the_distance_of_lengths_is_that_of_their_distributions():
    from scipy.stats import wasserstein_distance

    pairs = [(1500, 12), (3, 40), (17, 9), (17, 30)]
    assert distance(*pairs) == pytest.approx(wasserstein_distance(*zip(*pairs, strict=True)))
    assert distance((3, 9), (9, 3)) == 0  # which output belongs to which reference does not matter
    assert distance((10, 4), (3, 4)) == 3.5


def test_the_distance_counts_stops_and_needs_references():
    metric = LengthDistance(LengthDistanceConfig())
    assert [*metric.measure(CELL)] == [[3, 9], [10, 4], [1, 1]]
    with pytest.raises(SuiteError, match="example 8"):
        [*metric.measure([*CELL, Prediction(8, hypotheses=[Hypothesis([], True)])])]
