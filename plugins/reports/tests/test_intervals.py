from __future__ import annotations

from math import inf, isnan, nan, sqrt

import pytest

from bench_reports.statistics.intervals import Summary, summary


def test_the_spread_is_that_of_a_sample():
    assert summary([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]) == Summary(5.0, pytest.approx(sqrt(32 / 7)), 8)


def test_one_value_has_a_mean_but_no_spread():
    assert summary([1.5]) == Summary(1.5, None, 1)


def test_equal_values_have_exactly_their_value_and_no_spread():
    assert summary([0.1] * 10) == Summary(0.1, 0.0, 10)


def test_no_values_have_no_mean():
    none = summary([])
    assert isnan(none.mean)
    assert none.std is None
    assert none.n == 0


def test_an_infinite_value_makes_the_mean_infinite_and_the_spread_unknown():
    assert summary([1.0, inf, 3.0]) == Summary(inf, None, 3)
    assert summary([-inf, 3.0]) == Summary(-inf, None, 2)
    assert summary([inf, inf]) == Summary(inf, None, 2)
    assert summary([inf]) == Summary(inf, None, 1)


@pytest.mark.parametrize("values", [[1.0, nan], [nan], [inf, nan], [inf, -inf]])
def test_an_undefined_value_is_not_left_out(values):
    found = summary(values)
    assert isnan(found.mean)
    assert found.std is None
    assert found.n == len(values)


def test_the_order_of_values_does_not_matter():
    values = [1e16, 1.0, -1e16, 3.3, 1e-9]
    assert summary(values) == summary(values[::-1]) == summary(sorted(values))


def test_a_large_offset_does_not_swallow_the_spread():
    assert summary([1e9 + 1, 1e9 + 2, 1e9 + 3]) == Summary(1e9 + 2, 1.0, 3)


def test_large_values_do_not_overflow():
    assert summary([1e308, 1e308, 1e308]) == Summary(1e308, 0.0, 3)


def test_whole_numbers_give_real_ones():
    found = summary([1, 3])
    assert isinstance(found.mean, float)
    assert found == Summary(2.0, pytest.approx(sqrt(2)), 2)
