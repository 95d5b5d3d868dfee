"""What the statistics of reports promise holds in worlds of known truth; what earlier versions did would be seen."""

from __future__ import annotations

import json

import numpy as np
import promises
import pytest

from bench_reports.statistics import tails
from bench_reports.statistics.equivalence import SAME
from bench_reports.statistics.estimate import Estimate, Measured

QUICK = [
    promises.differences,
    promises.designs,
    promises.estimators,
    promises.single,
    pytest.param(promises.columns, marks=pytest.mark.nightly, id="columns"),
    promises.claims,
]
QUICK += [promises.shares, promises.power, promises.published, promises.of_streams]
QUICK += [promises.other_cells, promises.gaussian_cells, promises.looks]
LONGER = [promises.other_worlds, promises.other_test_sets]


def outside(table, repetitions, seed=None, quick=False):
    study = promises.Study(repetitions, np.random.default_rng(seed), quick)
    return [text for row in table(study) for text in promises.misses(row, repetitions)]


@pytest.mark.quick(1, 6)
@pytest.mark.parametrize("table", QUICK, ids=lambda table: table.__name__)
def test_a_hundred_experiments_keep_every_promise(table):
    assert not outside(table, 100, 11, quick=True)


@pytest.mark.slow(1)
@pytest.mark.parametrize("table", LONGER, ids=lambda table: table.__name__)
def test_a_hundred_experiments_of_other_kinds_keep_every_promise(table):
    assert not outside(table, 100, 11, quick=True)


def quantiles_of_nested_draws(cells):
    """Return the 95 % interval of a difference as version 0.1 had it."""
    apart = cells[0].draws[:, 0] - cells[1].draws[:, 0]
    seeds = np.random.default_rng(0).integers(0, len(apart), (apart.shape[1], len(apart)))
    return np.quantile(apart[seeds, np.arange(apart.shape[1])[:, None]].mean(1), [0.025, 0.975])


def test_a_hundred_experiments_find_that_quantiles_of_nested_draws_cover_too_little(monkeypatch):
    monkeypatch.setattr(promises, "difference", lambda *cells: Quantiles(*quantiles_of_nested_draws(cells)))
    found = outside(promises.differences, 100, 11, quick=True)
    assert sum("S=2" in text or "S=3" in text for text in found) >= 2


class Quantiles:
    def __init__(self, low, high):
        self.interval = lambda: (low, high)


def test_a_hundred_experiments_find_normal_quantiles_in_the_place_of_students(monkeypatch):
    from statistics import NormalDist

    from bench_reports.statistics import tails

    monkeypatch.setattr(tails, "quantile", lambda freedom, level: -NormalDist().inv_cdf(level / 2))
    assert [text for text in outside(promises.differences, 100, 11, quick=True) if "S=2" in text]


@pytest.mark.slow
def test_a_hundred_experiments_find_an_error_of_examples_that_is_left_out(monkeypatch):
    monkeypatch.setattr(Estimate, "_parts", lambda self: [(self.seeds or self.alone,)])
    assert outside(promises.designs, 100, 11, quick=True)


def test_a_hundred_experiments_find_documents_that_are_taken_for_sentences(monkeypatch):
    world = promises.World(group=4, examples=480, told=False, seeds=1)
    study = promises.Study(300, np.random.default_rng(11))
    (share,) = study.covered(world, (0.0,))
    assert share < 90


def misses_of(worlds, most, count, repetitions=1_000):
    study = promises.Study(repetitions, np.random.default_rng(11), quick=True)
    rows = promises._false_claims(study, worlds, (count,), most)
    return [text for row in rows for text in promises.misses(row, repetitions)]


def test_hundreds_of_experiments_find_tests_that_rely_on_the_skewness_of_small_samples(monkeypatch):
    """Equal systems with outliers: their difference has no skewness, and that of a sample is chance."""
    world = promises.World("lognormal", seeds=1, examples=20)

    def covered():
        return promises.Study(400, np.random.default_rng(11)).covered(world, (0.0,))[0]

    assert covered() > 93
    monkeypatch.setattr(Estimate, "_spreads", property(lambda self: [(self.skewness, self.alone.variance)]))
    assert covered() < 90


@pytest.mark.slow
def test_a_thousand_experiments_find_students_test_where_skewed_means_stand_against_each_other(monkeypatch):
    opposed = {name: world for name, world in promises.EQUAL.items() if name.startswith("opposed")}
    assert opposed
    assert not misses_of(opposed, promises.MOST_FALSE, 1)
    monkeypatch.setattr(tails, "straightened", lambda t, skewness: t)
    assert misses_of(opposed, promises.MOST_FALSE, 1)


def test_a_hundred_experiments_find_intervals_of_trainings_that_differ_in_kind(monkeypatch):
    monkeypatch.setattr(Measured, "is_mixed", False)
    assert [
        text for text in outside(promises.other_cells, 100, 11, quick=True) if text.startswith("training runs at 0")
    ]


@pytest.mark.slow
def test_a_hundred_experiments_find_looks_that_spend_the_whole_level_each_time(monkeypatch):
    monkeypatch.setattr(promises, "spent", lambda look, looks: 0.05)
    assert outside(promises.looks, 200, 11, quick=True)


@pytest.mark.slow
def test_a_hundred_experiments_find_published_numbers_that_are_taken_for_those_of_our_examples(monkeypatch):
    monkeypatch.setattr(promises, "of_two_samples", lambda ours: SAME)
    assert outside(promises.other_test_sets, 100, 11, quick=True)


def test_the_page_of_statistics_gets_the_tables_that_are_recorded():
    rows = [{"label": "a", "shares": {"S=1": [5.0]}, "bounds": {}, "about": {}}]
    page = "# x\n\n**T: %.**\n\n| old |\n| --- |\n\nafter\n"
    found = promises.documented(page, {"t": {"title": "T: %.", "rows": rows}})
    assert found == "# x\n\n**T: %.**\n\n| | S=1 |\n| --- | --- |\n| a | 5.0 |\n\nafter\n"
    assert promises.documented(found, {"t": {"title": "T: %.", "rows": rows}}) == found
    new = promises.documented(f"{found}\n{promises.LAST}: x\n", {"u": {"title": "U.", "rows": rows}})
    assert new.endswith(f"after\n\n**U.**\n\n| | S=1 |\n| --- | --- |\n| a | 5.0 |\n\n{promises.LAST}: x\n")


def recorded():
    return json.loads(promises.RECORDED.read_text(encoding="utf-8"))


def test_what_is_recorded_keeps_every_promise():
    for table in recorded().values():
        assert table["repetitions"] >= 1_000
        for row in table["rows"]:
            assert not promises.misses(promises.Row(**row), table["repetitions"]), row["label"]


def test_the_documentation_has_the_tables_that_are_recorded():
    for name, table in recorded().items():
        page = promises.DOCS / ("statistics.md" if name in promises.IN_STATISTICS else "simulations.md")
        rows = [promises.Row(**row) for row in table["rows"]]
        assert promises.markdown(table["title"], rows) in page.read_text(encoding="utf-8"), name


@pytest.mark.nightly
@pytest.mark.parametrize("repetitions", [1_000, 5_000])
@pytest.mark.parametrize("table", promises.TABLES, ids=lambda table: table.__name__)
def test_thousands_of_experiments_keep_every_promise(table, repetitions):
    assert not outside(table, repetitions)
