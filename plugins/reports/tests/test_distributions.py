"""Values of single examples, as counts: how they are kept, put into bins, and summed up by a box."""

from __future__ import annotations

import random
import statistics
from itertools import pairwise
from math import inf, isnan, nan

import pytest

from bench_core.errors import StoreError
from bench_core.runs.results import Run
from bench_reports.figures.distributions import DISTRIBUTIONS, Distribution, distribution, pool_counts
from bench_reports.figures.histograms import box, drawable, edges, heights, size

CELL = {"task": "words", "model": "rnn", "decoder": None, "split": "test", "hardware": "default", "seed": 0}


def test_values_are_counted_and_sorted():
    assert distribution(CELL, "length", [3, 1, 3, 2.5, 1, 3]).counts == [(1, 2), (2.5, 1), (3, 3)]


@pytest.mark.parametrize(
    ("odd", "shown"),
    [
        ([2, 5], "[2, 5]"),
        (10**21, "10000"),
        (None, "null"),
        ("ab", '"ab"'),
        (True, "true"),
        ("x" * 90, '"' + "x" * 39),
    ],
)
def test_what_is_not_one_number_has_no_distribution(odd, shown):
    found = distribution(CELL, "rate", [1, 2, odd])
    assert found.counts == ()
    assert found.reason.startswith(f"rate stores {shown}")
    assert len(found.reason) < 100


def test_distributions_are_read_as_they_were_written(tmp_path):
    run, path = Run(tmp_path, None, {}, []), tmp_path / DISTRIBUTIONS.file
    assert DISTRIBUTIONS.read(run) == []
    written = [
        distribution(CELL, "a", [2, 1, 2, 0.1, inf, nan, nan, -inf]),
        Distribution(CELL, "b", reason="why not"),
    ]
    DISTRIBUTIONS.write(path, written)
    first, second = DISTRIBUTIONS.read(run)
    assert second == Distribution(CELL, "b", [], reason="why not")
    assert first.counts[:3] == [(0.1, 1), (1, 1), (2, 2)]
    assert {(value, count) for value, count in first.counts[3:] if not isnan(value)} == {(inf, 1), (-inf, 1)}
    assert [count for value, count in first.counts if isnan(value)] == [2]
    assert "NaN" not in path.read_text()
    path.write_text('{"cell": {}}\n')
    with pytest.raises(StoreError, match=r"distributions.jsonl cannot be read \(cell"):
        DISTRIBUTIONS.read(run)


def test_counts_of_several_seeds_are_put_together():
    assert pool_counts([[(1, 2), (4, 1)], [(1, 1), (3, 5)]]) == [(1, 3), (3, 5), (4, 1)]
    (undefined,) = pool_counts([[(nan, 2)], [(nan, 3)]])
    assert undefined[1] == 5


def test_a_logarithmic_axis_has_no_place_for_0_and_below():
    counts = [(-1, 1), (0, 2), (0.5, 3), (inf, 4), (nan, 5)]
    assert drawable(counts, log=False) == [(-1, 1), (0, 2), (0.5, 3)]
    assert drawable(counts, log=True) == [(0.5, 3)]


def test_bins_and_heights_by_hand():
    assert edges([1, 2, 8], 4, False) == [0.5, 2.5, 4.5, 6.5, 8.5]
    assert heights([(1, 5), (2, 1), (3, 1), (8, 2)], [0.5, 2.5, 4.5, 6.5, 8.5]) == [6, 1, 0, 2]
    assert edges([0.0, 0.5, 1.5], 3, False) == [0.0, 0.5, 1.0, 1.5]
    assert heights([(0.0, 1), (0.5, 2), (1.5, 4)], [0.0, 0.5, 1.0, 1.5]) == [1, 2, 4]
    assert edges([0.1, 10.0], 2, True) == pytest.approx([0.1, 1.0, 10.0])
    assert pytest.approx(2.03, abs=0.01) == 17 ** (1 / 4), (
        "so bins begin with 17 / 2.03, 8 / 2.03, 3 / 2.03, rounded down"
    )
    assert edges([1, 16], 4, True) == [0.5, 2.5, 7.5, 16.5]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_bins_cover_all_values_in_at_most_as_many_as_asked_for(log, whole):
    draw = random.Random(0)
    for _ in range(300):
        most, scale = draw.randint(1, 60), draw.choice([1, 10, 2000])
        values = [draw.uniform(0.5, 1) * scale for _ in range(draw.randint(1, 40))]
        values = [int(value) + 1 for value in values] if whole else values
        counts = pool_counts([[(value, 1)] for value in values])
        bins = edges([value for value, _ in counts], most, log)
        assert 1 <= len(bins) - 1 <= most
        assert bins == sorted(set(bins))
        assert bins[0] <= min(values)
        assert bins[-2] <= max(values) <= bins[-1]
        found = heights(counts, bins)
        assert sum(found) == len(values) == size(counts)
        assert found[-1] > 0
        assert not log or bins[0] > 0


@pytest.mark.parametrize("log", [False, True])
def test_bins_of_whole_numbers_are_full_and_the_limit_ends_the_last(log):
    for low, high, most in [(1, 1500, 50), (2, 137, 50), (3, 40, 7), (5, 5, 9), (1, 2, 50)]:
        bins = edges([low, high], most, log)
        assert bins[-1] == high + 0.5
        assert all(edge % 1 == 0.5 for edge in bins)
        widths = [right - left for left, right in pairwise(bins)]
        assert widths == sorted(widths), "a bin that holds fewer numbers than one before would show as a dip"
        assert log or len(set(widths)) == 1


def test_a_single_value_has_a_bin_around_it():
    assert edges([7], 50, False) == edges([7], 50, True) == [6.5, 7.5]
    assert edges([0.5], 50, True) == [0.25, 0.75]
    assert edges([-0.5], 50, False) == [-0.75, -0.25]


def test_a_box_is_that_of_the_values_one_by_one():
    draw = random.Random(1)
    for _ in range(200):
        values = [draw.choice([1, 2, 2.5, 3, 4, 20, 50]) for _ in range(draw.randint(2, 30))]
        found = box(pool_counts([[(value, 1)] for value in values]))
        first, median, third = statistics.quantiles(values, n=4, method="inclusive")
        assert found[3:6] == pytest.approx((first, median, third))
        assert found.mean == pytest.approx(statistics.mean(values))
        assert found.examples == len(values)
        near = [value for value in values if abs(value - (first + third) / 2) <= 2 * (third - first) + 1e-9]
        assert found.whisker_low == pytest.approx(min([*near, first]))
        assert found.whisker_high == pytest.approx(max([*near, third]))
        assert set(found.beyond) == {v for v in values if not found.whisker_low <= v <= found.whisker_high}


def test_a_box_of_one_value_has_no_extent():
    assert box([(3, 5)]) == (5, 3, 3, 3, 3, 3, 3, ())
