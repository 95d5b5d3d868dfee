"""Tests and intervals that allow for skewness, stay within bounds, and say nothing of trainings that differ in kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bench_reports.statistics.equivalence import SAME, Printed, beside, of_two_samples
from bench_reports.statistics.estimate import Estimate, Measured, contrast, difference
from bench_reports.statistics.looks import level_of, spent
from bench_reports.statistics.measurements import interval_of
from bench_reports.statistics.shares import share_of
from bench_reports.statistics.tails import LEVEL, MIN_P_VALUE, VariancePart, bent, straightened

DICE = np.random.default_rng(4)
SKEWED = Estimate(10.0, VariancePart(1.0, 4.0), VariancePart(0.5, 60.0), VariancePart(0.8, 60.0), skewness=0.7)


def of_examples(values, **settings):
    """Return means over examples [S, N] with replicates."""
    values = np.atleast_2d(np.asarray(values, dtype=float))
    count = values.shape[1]
    weights = np.random.default_rng(1).multinomial(count, [1 / count] * count, 1_000) / count
    return Measured(values.mean(1), (values @ weights.T)[:, None], count, sample="s", **settings)


def shares(*rates, count=100):
    """Return a share of trainings with so many cases in a hundred."""
    return of_examples(
        [[100.0] * rate + [0.0] * (count - rate) for rate in rates], scale="share", bounds=(0.0, 100.0)
    )


@pytest.mark.parametrize("skewness", [-2.0, -0.5, -1e-9, 0.0, 0.3, 1.0])
def test_the_transformation_is_monotone_and_undone(skewness):
    statistics = np.linspace(-8, 8, 401)
    found = np.array([straightened(t, skewness) for t in statistics])
    assert (np.diff(found) >= 0).all()
    assert [bent(one, skewness) for one in found] == pytest.approx(statistics, abs=1e-5)


def test_without_skewness_tests_are_students():
    found = contrast([Measured(np.array([1.0, 2.0, 4.0]))], [1.0])
    theirs = stats.ttest_1samp([1.0, 2.0, 4.0], 0, alternative="greater")
    assert found.p_above() == pytest.approx(theirs.pvalue)
    assert found.p() == pytest.approx(2 * theirs.pvalue)


@pytest.mark.parametrize("found", [SKEWED, SKEWED.only_these(), replace(SKEWED, skewness=-3.0)])
def test_a_stronger_statement_never_has_the_smaller_p_value(found):
    p = np.array([found.p_above(null) for null in np.linspace(-10, 30, 400)])
    assert (np.diff(p) >= 0).all()
    assert 0 < p.min() < p.max() < 1


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("found", [SKEWED, SKEWED.only_these(), replace(SKEWED, skewness=-0.4)])
def test_an_interval_ends_where_a_test_just_rejects(found, level):
    low, high = found.interval(level)
    assert found.p(low) == pytest.approx(level, rel=1e-6)
    assert found.p(high) == pytest.approx(level, rel=1e-6)
    assert found.p_above(low) == pytest.approx(level / 2, rel=1e-6)
    assert high - low == pytest.approx(2 * found.half_width(level))


def test_the_longer_tail_of_the_replicates_is_that_of_the_interval():
    (low, high), value = SKEWED.interval(), SKEWED.value
    assert high - value > value - low
    mirrored = SKEWED.negate()
    assert mirrored.interval() == pytest.approx((-high, -low))
    assert mirrored.p_above(-12.0) == pytest.approx(1 - SKEWED.p_above(12.0))


def test_the_skewness_of_a_contrast_is_that_of_its_examples():
    values = DICE.exponential(size=400)
    found = contrast([of_examples(values)], [1.0])
    assert found.skewness == pytest.approx(stats.skew(values) / 20 * (1 + 3 / 20), abs=0.25)
    assert contrast([of_examples(values)], [-1.0]).skewness == pytest.approx(-found.skewness)
    same = difference(of_examples(values), of_examples(values + 1))
    assert same.skewness == 0, "what examples add to both cancels"


@pytest.mark.parametrize(("count", "wrong"), [(30, 1), (100, 3), (3, 1)])
@pytest.mark.parametrize("best", [100.0, 0.0])
def test_intervals_end_where_the_metric_does(count, wrong, best):
    lines = np.full(count, best)
    lines[:wrong] = 50.0
    low, high = interval_of(of_examples(lines, bounds=(0.0, 100.0)))
    assert 0 <= low < lines.mean() < high <= 100
    assert best in (low, high) or count == 100


@pytest.mark.parametrize(
    ("rates", "mixed"),
    [
        ((0, 0, 60), True), ((0, 60), True), ((2, 1, 55), True), ((0, 0, 0), True), ((100, 100), True), ((5, 95), True),
        ((10, 14, 8), False), ((48, 55), False), ((2, 3, 1, 4), False), ((0, 3, 4, 5, 2), False), ((0,), False),
    ],
)  # fmt: skip
def test_trainings_that_differ_in_kind_have_no_interval(rates, mixed):
    one = shares(*rates)
    assert one.is_mixed == mixed
    assert (interval_of(one) is None) == mixed
    assert not replace(one, trained=False).is_mixed
    assert not replace(one, bounds=(-np.inf, np.inf)).is_mixed
    assert contrast([one], [1.0]).of_these_trainings == (mixed or len(rates) == 1)


def test_two_trainings_of_a_kind_leave_room_for_another():
    low, high = interval_of(shares(58, 62))
    assert low < 20 < high


def test_a_share_of_no_case_in_several_trainings_is_limited_by_its_examples():
    share = share_of(shares(0, 0, 0))
    assert share.p_below(1.0) == pytest.approx(0.99**100)
    assert share.p_above(0.0) == 1
    assert share_of(shares(0, 0, 1)) is None
    assert share_of(shares(100, 100)).p_above(99.0) == pytest.approx(0.99**100)


def test_no_p_value_is_0():
    assert contrast([Measured(np.array([8.0, 8.0]))], [1.0]).p(7.0) == MIN_P_VALUE
    assert share_of(shares(3)).p_above(0.0) == MIN_P_VALUE
    assert share_of(shares(0)).p_below(100.0) == MIN_P_VALUE


@pytest.mark.parametrize("looks", [1, 2, 20])
def test_all_looks_together_spend_the_level(looks):
    levels = [spent(look, looks) for look in range(1, looks + 1)]
    assert sum(levels) == pytest.approx(LEVEL)
    assert levels == sorted(levels)
    for look in (0, looks + 1):
        with pytest.raises(ValueError, match=f"look {look} is not one of {looks}"):
            spent(look, looks)


def test_a_run_says_at_which_look_it_is():
    assert level_of({}) == level_of({"asked": ["seeds=4"]}) == LEVEL
    assert level_of({"asked": ["limits.scored=9", "until=decided, look 2 of 3"]}) == pytest.approx(LEVEL / 3)


def test_a_published_number_of_another_test_set_has_an_error_of_its_own():
    """With n examples, sd s: the difference of two samples of the same size has the variance 2 s^2 / n."""
    values = DICE.normal(size=(3, 400)) * 5
    ours = of_examples(values - values.mean(1, keepdims=True) + np.array([[0.01], [0.0], [-0.01]]))
    error = np.sqrt(2 * 25 / 400 / 3)
    near = Printed(float(-1.5 * error))
    assert beside([*ours.values], near, None, 1).verdict == "better"
    assert beside([*ours.values], near, None, 1, samples=of_two_samples(ours)).verdict == "cannot tell"
    assert beside([*ours.values], Printed(-9 * error), None, 1, samples=of_two_samples(ours)).verdict == "better"
    same, four = of_two_samples(ours, 1.0)[1], of_two_samples(ours, 4.0)[1]
    assert four.variance == pytest.approx(2.5 * same.variance), "theirs is a fourth of ours"
    assert (
        beside([1.0, 1.0], Printed(0.0, exact=True), None, 1, samples=of_two_samples(ours)).difference.p()
        == MIN_P_VALUE
    )
    assert SAME[0].variance == SAME[1].variance == 0
