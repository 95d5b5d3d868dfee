"""The exact interval of a share of the examples of one training."""

from __future__ import annotations

import pytest
from bench_small.runs import run_of, sampled
from scipy.stats import binom, binomtest

from bench_reports.statistics.measurements import interval_of, measured
from bench_reports.statistics.shares import Share, share_of


def interval(k, n, level=0.95):
    return Share(k, n).interval(1 - level)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 20), (20, 20), (1, 20), (7, 20), (19, 20), (149, 9708)])
def test_the_interval_is_that_of_clopper_and_pearson(k, n, level):
    exact = binomtest(k, n).proportion_ci(level, method="exact")
    assert interval(k, n, level) == pytest.approx((100 * exact.low, 100 * exact.high), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("n", [1, 10, 9708])
def test_no_endless_output_among_n_bounds_the_ratio_in_closed_form(n):
    assert interval(0, n) == (0, pytest.approx(100 * (1 - 0.025 ** (1 / n))))
    assert interval(n, n) == (pytest.approx(100 * 0.025 ** (1 / n)), 100)


def test_the_interval_mirrors_when_endings_are_swapped():
    low, high = interval(3, 17)
    assert interval(14, 17) == pytest.approx((100 - high, 100 - low))
    assert low < 100 * 3 / 17 < high


@pytest.mark.parametrize("rate", [0.0001, 0.01, 0.1234, 0.5, 0.97])
@pytest.mark.parametrize("n", [5, 60])
def test_the_interval_covers_the_true_rate_at_least_as_often_as_it_says(n, rate):
    coverage = sum(
        binom.pmf(k, n, rate) for k in range(n + 1) if interval(k, n)[0] <= 100 * rate <= interval(k, n)[1]
    )
    assert coverage >= 0.95


def test_a_simulation_covers_as_often_as_promised():
    rate, n, repeats = 0.0153, 200, 2000
    counts = binom.rvs(n, rate, size=repeats, random_state=1)
    bounds = {k: interval(k, n) for k in set(counts.tolist())}
    hits = sum(bounds[k][0] <= 100 * rate <= bounds[k][1] for k in counts.tolist())
    assert hits / repeats > 0.95 - 3 * (0.95 * 0.05 / repeats) ** 0.5


@pytest.mark.parametrize("case", [0.0, 100.0])
def test_several_seeds_without_a_case_have_the_exact_limit_of_their_examples_and_none_for_other_trainings(
    tmp_path, case
):
    cells = sampled(tmp_path, {"rnn": [[case] * 500] * 3}, scale="share")
    found = measured(run_of(tmp_path, cells, {}), cells, "rate")
    assert interval_of(found) is None
    share = share_of(found)
    low, high = share.interval()
    assert case in (low, high)
    assert high - low == pytest.approx(100 * (1 - 0.025 ** (1 / 500)))
    beside = (share.p_below if case == 0 else share.p_above)(abs(case - 1))
    assert beside == pytest.approx(0.99**500), "that none of 500 is a case if 1 % are"
    counts = sampled(tmp_path, {"rnn": [[case] * 500] * 3}, scale="linear")
    assert interval_of(measured(run_of(tmp_path, counts, {}), counts, "rate")) is None
