"""Which numbers of a table are bold, what p-values and intervals stand beside them, and what notes say of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench_small.runs import run_of, sampled, shown

from bench_reports.content.grid import Column, GridEntry
from bench_reports.content.result_tables import results_table
from bench_reports.content.table_notes import footnotes
from bench_reports.content.tables import grids
from bench_reports.render.records import records
from bench_reports.statistics.comparisons import with_best
from bench_reports.statistics.measurements import interval_of


def rates(*means, seed=0, examples=200, spread=1.0):
    """Return rates by example of one seed for each mean; the examples are as hard for all."""
    dice = np.random.default_rng(seed)
    hard = np.random.default_rng(9).normal(size=examples)
    return [(mean + hard + spread * dice.normal(size=examples)).tolist() for mean in means]


def table(tmp_path, samples, better=-1, settings=None, **about):
    cells = sampled(tmp_path, samples, **about)
    cells = [replace(one, numbers={"rate": replace(one.numbers["rate"], better=better)}) for one in cells]
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": [], **(settings or {})}, names=[*samples])
    return run, grids(run)[0]


def bold(grid):
    return [row.label for row, entries in zip(grid.rows, grid.entries, strict=True) if entries[0].best]


def test_the_best_is_bold_only_if_it_is_better_by_more_than_chance(tmp_path):
    run, grid = table(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2), "c": rates(6, seed=3)})
    assert bold(grid) == ["a"], "lower is better"
    assert shown(run)["a"]["rate"].startswith("**")
    (note,) = [note for note in footnotes(run, grid) if note.startswith("Bold")]
    assert "over examples; single seed, training variance unknown" in note
    _, grid = table(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2), "c": rates(5.001, seed=3)})
    assert bold(grid) == []
    assert any(note.startswith("No entry is significantly better than all others") for note in footnotes(run, grid))


def test_where_higher_is_better_the_highest_is_bold(tmp_path):
    assert bold(table(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2)}, better=1)[1]) == ["b"]
    assert not table(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2)}, better=0)[1].tests


def test_p_values_are_those_of_the_engine_and_bold_follows_from_them(tmp_path):
    _, grid = table(
        tmp_path, {"a": rates(5, 5.2, 4.9, seed=1), "b": rates(5.3, 5.6, 5.4, seed=2), "c": rates(9, 9, 9)}
    )
    rows = [[*entries[0].measured] for entries in grid.entries]
    for test, comparison in zip(grid.tests, with_best(rows, -1), strict=True):
        assert (test.p, test.adjusted) == (comparison.p, comparison.adjusted)
        assert test.interval == comparison.estimate.interval()
        assert grid.entries[test.other[0]][0].p == comparison.adjusted
    assert bold(grid) == (["a"] if max(test.p for test in grid.tests) < 0.05 else [])


def test_pairing_sees_what_the_spread_of_examples_would_hide(tmp_path):
    """Examples differ far more than systems do, and alike for both."""
    _, grid = table(tmp_path, {"a": rates(5.0, seed=1, spread=0.1), "b": rates(5.1, seed=2, spread=0.1)})
    assert bold(grid) == ["a"]


def test_a_difference_that_seeds_do_not_agree_on_is_not_bold(tmp_path):
    examples = {"a": rates(5.0, 7.0, 5.0), "b": rates(6.0, 6.0, 6.0, seed=5)}
    assert bold(table(tmp_path, examples)[1]) == []
    alone = {name: seeds[:1] for name, seeds in examples.items()}
    assert bold(table(tmp_path, alone)[1]) == ["a"], "one seed cannot know"


def test_numbers_of_other_examples_and_without_draws_are_not_compared(tmp_path):
    cells = sampled(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2)})
    other = replace(cells[1], numbers={"rate": replace(cells[1].numbers["rate"], sample="x")})
    run = run_of(tmp_path, [cells[0], other], {"rows": ["model"], "columns": []}, names=["a", "b"])
    assert not grids(run)[0].tests
    (tmp_path / "run" / "draws.safetensors").unlink()
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": []}, names=["a", "b"])
    assert not grids(run)[0].tests
    assert "Some numbers are not tested: the run stores no bootstrap replicates" in " ".join(
        footnotes(run, grids(run)[0])
    )


def test_runs_of_older_versions_are_shown_without_tests(tmp_path):
    run, grid = table(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2)}, scale="")
    assert not grid.tests
    assert "measured by an older version" in " ".join(footnotes(run, grid))
    assert shown(run)["a"]["rate"].startswith("4.96")


def test_the_smallest_difference_that_would_have_shown_is_told(tmp_path):
    run, grid = table(tmp_path, {"a": rates(5, seed=1), "b": rates(7, seed=2)})
    (note,) = [note for note in footnotes(run, grid) if note.startswith("Minimum detectable")]
    assert float(note.rpartition(" ")[2].rstrip(".")) == pytest.approx(2.83 * np.sqrt(2 / 200), rel=0.15)


def test_on_a_log_scale_it_is_a_percentage(tmp_path):
    positive = {name: np.exp(np.array(rates(mean, seed=mean)) / 9).tolist() for name, mean in (("a", 5), ("b", 7))}
    run, grid = table(tmp_path, positive, scale="log")
    (note,) = [note for note in footnotes(run, grid) if note.startswith("Minimum detectable")]
    assert note.endswith(" %.")
    assert bold(grid) == ["a"]
    low, high = grid.tests[0].interval
    assert low < high < 1, "the ratio of the better to the worse"
    columns, entries = (
        [*grid.columns, Column("theirs", None, "rate")],
        [[*row, GridEntry("none")] for row in grid.entries],
    )
    assert note in footnotes(run, replace(grid, columns=columns, entries=entries)), (
        "what is only published has no scale"
    )


def test_files_hold_intervals_p_values_and_which_are_best(tmp_path):
    _, grid = table(tmp_path, {"a": rates(5, 5.1, seed=1), "b": rates(5.2, 5.3, seed=2)})
    first, second = records(grid)
    assert first["p"] is None
    assert 0 < second["p"] <= 1
    assert (first["low"], first["high"]) == interval_of(*grid.entries[0][0].measured)
    assert first["low"] < first["mean"] < first["high"]


def test_a_baseline_is_compared_with_all_others_and_nothing_is_bold(tmp_path):
    samples = {"a": rates(5, seed=1), "b": rates(7, seed=2), "c": rates(5.01, seed=3)}
    run, grid = table(tmp_path, samples, settings={"baseline": "b"})
    assert [grid.rows[test.first[0]].label for test in grid.tests] == ["b", "b"]
    assert bold(grid) == []
    assert [entries[0].p is None for entries in grid.entries] == [False, True, False]
    assert any(note.startswith("Stars: significantly different from b; * p < 0.05") for note in footnotes(run, grid))
    run, grid = table(tmp_path, samples, better=0, settings={"baseline": "b"})
    assert grid.tests, "a difference needs no direction"


def test_numbers_that_differ_from_a_baseline_are_marked_where_differences_are_not_shown(tmp_path):
    samples = {"a": rates(5, seed=1), "b": rates(7, seed=2), "c": rates(7.01, seed=3)}
    for differences in (False, True):
        run, grid = table(tmp_path, samples, settings={"baseline": "b", "differences": differences})
        cells = [row[1].spans for row in results_table(run, grid).rows]
        marked = [[span.text for span in spans if span.style == "raised"] for spans in cells]
        assert marked == [[], [], []] if differences else [["**"], [], []]
        assert ["**" in "".join(span.text for span in spans) for spans in cells] == [True, False, False]


def test_estimates_show_their_own_error_and_are_not_bold_by_less(tmp_path):
    samples = {"a": rates(5, 5.01, 4.99, seed=1), "b": rates(6, 6.01, 5.99, seed=2)}
    assert bold(table(tmp_path, samples)[1]) == ["a"]
    run, grid = table(tmp_path, samples, error=2.0)
    assert bold(grid) == []
    assert records(grid)[0]["error"] == 2.0
    assert "Standard errors of the sampling estimates: rate 2." in footnotes(run, grid)


def test_sums_over_a_whole_population_have_no_interval_with_one_seed(tmp_path):
    _, grid = table(tmp_path, {"a": rates(5), "b": rates(6, seed=2)}, units=0)
    assert grid.entries[0][0].interval is None
    assert not grid.tests, "nothing is left to chance but the training, of which there is one"
    _, grid = table(tmp_path, {"a": rates(5, 7, 6), "b": rates(5.5, 6.5, 6.1, seed=2)}, units=0)
    assert grid.entries[0][0].interval is not None
    assert bold(grid) == []
