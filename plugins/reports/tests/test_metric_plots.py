"""Lines, bars and points of a metric: where they stand, how far their bands reach, and what is said of gaps."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise, product
from math import inf, nan, sqrt
from random import Random

import pytest
from bench_small.figures import canvas_of, measured, notes, plotted, rows, the_picture
from bench_small.runs import sampled, written
from bench_small.suites import SUITE
from matplotlib.collections import LineCollection
from scipy import stats

from bench_core.errors import SuiteError
from bench_core.suites.load import load
from bench_reports.figures.error_bars import mean_of_values
from bench_reports.figures.figures import cost_pictures, pictures

WIDTHS = {"greedy": {}, "beam-16": {"width": 16}, "beam-4": {"width": 4}}
SIZES = {
    "big": {"hidden": 512, "tied": True},
    "small": {"hidden": 64, "tied": False},
    "mid": {"hidden": 128, "tied": True},
}
ACROSS = {"kind": "line", "x": "decoder.width", "at": {"greedy": 1}, "y": "rate", "by": "model"}


def by_width(tmp_path, values, **figure):
    return plotted(tmp_path, measured(values), decoders=WIDTHS, **{**ACROSS, **figure})


def test_values_of_a_setting_ascend_and_a_name_without_it_stands_where_the_suite_says(tmp_path):
    run = by_width(
        tmp_path, {("rnn", name, 0): value for name, value in (("greedy", 1.0), ("beam-16", 3.0), ("beam-4", 2.0))}
    )
    found = rows(run, tmp_path / "report")
    assert [(row["series"], row["x"], row["mean"], row["seeds"]) for row in found] == [
        ("rnn", "1", "1.0", "1"), ("rnn", "4", "2.0", "1"), ("rnn", "16", "3.0", "1"),
    ]  # fmt: skip
    assert the_picture(run).ticks == [1, 4, 16]
    assert (the_picture(run).x_label, the_picture(run).y_label) == ("decoder width", "rate (%)")


def test_names_on_an_axis_follow_the_suite_and_numbers_of_bars_ascend(tmp_path):
    cells = measured({(m, "greedy", 0): 1.0 for m in SIZES})
    where = {"where": {"decoder": "greedy"}}
    run = plotted(tmp_path, cells, SIZES, kind="bar", x="model", y="rate", **where)
    assert the_picture(run).places == ["big", "small", "mid"]
    run = plotted(tmp_path, cells, SIZES, kind="bar", x="model.hidden", y="rate", **where)
    assert the_picture(run).places == ["64", "128", "512"]
    large = {name: {"hidden": 1000 * place + 10_000} for place, name in enumerate(SIZES)}
    run = plotted(tmp_path, cells, large, kind="bar", x="model.hidden", y="rate", **where)
    assert the_picture(run).places == ["10,000", "11,000", "12,000"]


def test_settings_that_are_no_numbers_are_names(tmp_path):
    cells = measured({(m, "greedy", 0): float(i) for i, m in enumerate(SIZES)})
    several = {"big": {"act": "tanh"}, "small": {"act": "relu"}, "mid": {"act": 3}}
    run = plotted(tmp_path, cells, several, kind="line", x="model.act", y="rate")
    assert the_picture(run).places == ["tanh", "relu", "3"]
    assert [point.x for point in the_picture(run).series[0].rows] == ["tanh", "relu", "3"]
    assert the_picture(run).ticks == []


def test_a_setting_of_training_is_that_of_the_model_or_else_of_the_suite(tmp_path):
    models = {"rnn": {"training": {"lr": 0.1}}, "lstm": {}, "gru": {"by_task": {"words": {"training": {"lr": 0.5}}}}}
    cells = measured({(m, "greedy", 0): 1.0 for m in models})
    run = plotted(tmp_path, cells, models, suite={"training": {"lr": 0.02}}, kind="line", x="training.lr", y="rate")
    assert [point.x for point in the_picture(run).series[0].rows] == [0.02, 0.1, 0.5]
    run = plotted(tmp_path, cells, models, kind="line", x="training.lr", y="rate")
    assert min(point.x for point in the_picture(run).series[0].rows) == 1e-3, "the default of the language"


def test_a_setting_that_differs_between_tasks_is_that_of_the_task_of_a_cell(tmp_path):
    models = {"rnn": {"bits": 14, "by_task": {"books": {"bits": 17}}}, "lstm": {"bits": 20}}
    tasks = {"words": {"name": "w"}, "books": {"name": "w"}}
    cells = measured({(m, "greedy", 0): 1.0 for m in models})
    cells += [type(one)(one.cell | {"task": "books"}, "done", "", one.numbers) for one in cells]
    run = plotted(tmp_path, cells, models, suite={"tasks": tasks}, kind="line", x="model.bits", y="rate", by="task")
    found = {one.label: [point.x for point in one.rows] for one in the_picture(run).series}
    assert found == {"words": [14, 20], "books": [17, 20]}


@pytest.mark.parametrize(
    ("labels", "y"), [({}, "Rate (%)"), ({"rate": "TTR"}, "TTR (%)"), ({"rate": "Share in %"}, "Share in %")]
)
def test_axes_have_the_labels_of_the_suite_or_of_metrics(tmp_path, labels, y):
    cells = measured({("rnn", "greedy", 0): 1.0, ("lstm", "greedy", 0): 2.0}, label="Rate")
    suite = {"labels": {**labels, "model": "System", "rnn": "Elman"}}
    picture = the_picture(plotted(tmp_path, cells, kind="bar", x="model", y="rate", suite=suite))
    assert (picture.x_label, picture.y_label) == ("System", y)
    assert "Elman" in picture.places


def test_series_are_told_apart_by_settings_and_named_by_labels(tmp_path):
    cells = measured({(m, "greedy", 0): 1.0 for m in SIZES})
    about = {"kind": "line", "x": "model.hidden", "y": "rate", "by": "model.tied"}
    assert [one.label for one in the_picture(plotted(tmp_path, cells, SIZES, **about)).series] == [
        "tied=true",
        "tied=false",
    ]
    run = plotted(tmp_path, cells, SIZES, labels={"tied=true": "tied", "x": "units", "y": "rate of it"}, **about)
    picture = the_picture(run)
    assert [one.label for one in picture.series] == ["tied", "tied=false"]
    assert (picture.x_label, picture.y_label) == ("units", "rate of it")


def test_bands_are_students_intervals_of_the_mean_over_seeds(tmp_path):
    values = [10.0, 12.0, 17.0]
    run = by_width(tmp_path, {("rnn", "greedy", seed): value for seed, value in enumerate(values)})
    (row,) = rows(run, tmp_path / "report")
    expected = stats.t.interval(0.95, 2, loc=13.0, scale=stats.sem(values))
    assert (float(row["low"]), float(row["high"])) == pytest.approx(expected)
    assert float(row["std"]) == pytest.approx(stats.tstd(values))
    assert notes(run)[0] == "Means over 3 seeds; bands are 95 % intervals over seeds and examples, as in tables."
    run = by_width(tmp_path, {("rnn", "greedy", seed): value for seed, value in enumerate(values)}, spread="std")
    point = the_picture(run).series[0].rows[0]
    assert (point.low, point.high) == pytest.approx((13 - stats.tstd(values), 13 + stats.tstd(values)))
    assert notes(run)[0] == "Means over 3 seeds; bands show one standard deviation over seeds."
    run = by_width(tmp_path, {("rnn", "greedy", seed): value for seed, value in enumerate(values)}, spread="none")
    assert the_picture(run).series[0].rows[0].low is None
    assert notes(run)[0] == "Means over 3 seeds."


def test_one_seed_has_neither_band_nor_bar_and_a_note_says_so(tmp_path):
    for kind, shown in (("line", "bands"), ("bar", "error bars")):
        run = by_width(tmp_path, {("rnn", "greedy", 0): 3.0, ("rnn", "beam-4", 0): 4.0}, kind=kind)
        assert [(point.low, point.high) for point in the_picture(run).series[0].rows] == [(None, None)] * 2
        assert notes(run)[0] == f"One seed: no {shown}, because the variation over seeds is unknown."
        assert not canvas_of(run).axes[0].collections


@pytest.mark.slow
def test_the_bars_of_a_figure_are_the_intervals_of_the_table_to_the_last_digit(tmp_path):
    draw = Random(7).random
    samples = {
        "rnn": [[draw() for _ in range(40)] for _ in range(3)],
        "lstm": [[100.0 * (draw() < 0.1) for _ in range(40)]],
        "gru": [[100.0] * 40, [100.0] * 40],
    }
    for scale in ("linear", "share", "log"):
        cells = sampled(tmp_path, samples, scale=scale)
        table = {"id": "t", "rows": ["model"], "values": ["rate"]}
        about = {"models": {name: {} for name in samples}, "suite": {"tables": [table]}, "scale": "log"}
        for kind in ("bar", "line"):
            run = plotted(tmp_path, cells, kind=kind, x="model", y="rate", **about)
            files = written(run, tmp_path / "report")
            drawn, shown = (list(csv.DictReader(files[f"{name}.csv"].decode().splitlines())) for name in PAIR)
            ends = {row["x"]: (row["low"], row["high"]) for row in drawn}
            assert ends == {row["row"]: (row["low"], row["high"]) for row in shown}, scale
            assert all(ends["rnn"]), "over seeds and examples"
            assert all(ends["lstm"]), "one seed, over examples"
            assert not any(ends["gru"]), "what does not vary, and of a share what other trainings may do"
        run = plotted(tmp_path, cells, kind="scatter", x="rate", y="rate", by="model", **about)
        found = {row["series"]: (row["y_low"], row["y_high"]) for row in rows(run, tmp_path / "report")}
        assert found == ends


PAIR = ("figures/f", "tables/t")


def test_one_seed_has_bars_over_examples_and_a_note_says_of_what(tmp_path):
    cells = sampled(tmp_path, {"rnn": [[0.0, 1.0, 5.0, 2.0] * 5], "lstm": [[3.0, 4.0, 1.0, 0.0] * 5]})
    run = plotted(tmp_path, cells, kind="bar", x="model", y="rate")
    assert all(point.low < point.mean < point.high for point in the_picture(run).series[0].rows)
    assert notes(run)[0] == "One seed: error bars are 95 % intervals over examples, for this training run only."
    run = replace(run, info={**run.info, "models": {"rnn": {"updates": 0}, "lstm": {"one_system": True}}})
    assert notes(run)[0] == "One seed: error bars are 95 % intervals over examples."
    cells = sampled(tmp_path, {"rnn": [[0.0, 1.0] * 9, [1.0, 3.0] * 9], "lstm": [[3.0, 4.0] * 9]})
    assert notes(plotted(tmp_path, cells, kind="bar", x="model", y="rate"))[0] == (
        "Means over 1 to 2 seeds; error bars are 95 % intervals over seeds and examples, as in tables; "
        "with one seed, over examples only."
    )


def test_numbers_of_an_older_version_have_no_bars_and_a_note_says_why(tmp_path):
    cells = measured({("rnn", "greedy", seed): 1.0 + seed for seed in (0, 1)}, scale="")
    run = plotted(tmp_path, cells, kind="bar", x="model", y="rate", where={"decoder": "greedy"})
    assert the_picture(run).series[0].rows[0].low is None
    assert notes(run)[0] == "Means over 2 seeds."
    assert any(note.startswith("Numbers without intervals: measured by an older version") for note in notes(run))


def test_deviations_stay_in_the_range_that_a_metric_declares():
    for values in ([99.0, 100.0], [0.0, 100.0], [50.0, 50.0], [99.0, 100.0, 99.9]):
        found = mean_of_values(values, "share", "std")
        assert 0 <= found.low <= found.mean <= found.high <= 100
        assert mean_of_values(values, "log", "std").low >= 0
    assert mean_of_values([99.0, 100.0, 99.9], "share", "interval").high == 100
    assert mean_of_values([99.0, 100.0, 99.9], "linear", "interval").high > 100
    assert mean_of_values([0.0, 1.0], "share", "interval").low == 0
    assert mean_of_values([0.0, 1.0], "linear", "interval").low < 0
    assert mean_of_values([1.0, 2.0], "log", "interval").low > 0


def test_infinite_and_undefined_seeds_have_no_interval():
    for values in ([1.0, inf], [1.0, nan], [inf, inf], [1.0], [0.0, 1.0]):
        found = mean_of_values(values, "log", "interval")
        assert (found.low, found.high) == (None, None)


@pytest.mark.slow
def test_an_interval_far_beyond_all_means_is_cut_on_the_axis_and_whole_in_the_csv(tmp_path):
    values = {
        ("rnn", "greedy", 0): 3.0,
        ("rnn", "greedy", 1): 1e60,
        ("rnn", "beam-4", 0): 2.0,
        ("rnn", "beam-4", 1): 4.0,
    }
    for kind in ("line", "bar"):
        cells = measured(values, scale="log")
        run = plotted(tmp_path, cells, decoders=WIDTHS, **{**ACROSS, "kind": kind, "scale": {"y": "log"}})
        low, high = canvas_of(run).axes[0].get_ylim()
        assert 1e60 < high < 1e64, "some times farther than usual intervals"
        assert 1e-3 < low < 3
        row = rows(run, tmp_path / "report")[0]
        assert float(row["low"]) < 1e-100
        assert row["high"] == "inf"
        assert any("cut at the end of the axis" in note for note in notes(run))
    run = by_width(tmp_path, {("rnn", "greedy", 0): 2.0, ("rnn", "greedy", 1): 3.0})
    assert not any("cut" in note for note in notes(run)), "an interval of some times the mean is shown whole"
    (row,) = the_picture(run).series[0].rows
    low, high = canvas_of(run).axes[0].get_ylim()
    assert low < row.low < row.high < high


def test_an_error_bar_has_its_ends_where_the_interval_ends_even_if_the_mean_is_outside(tmp_path):
    values = [2.0] * 9 + [1e5]
    cells = measured({("rnn", "greedy", seed): value for seed, value in enumerate(values)}, scale="log")
    where = {"where": {"decoder": "greedy"}}
    run = plotted(tmp_path, cells, kind="bar", x="model", y="rate", scale={"y": "log"}, **where)
    (point,) = the_picture(run).series[0].rows
    assert point.high < point.mean, "a mean of ten numbers is not the mean of their logarithms"
    (bar,) = (one for one in canvas_of(run).axes[0].collections if isinstance(one, LineCollection))
    (segment,) = bar.get_segments()
    assert segment[:, 1] == pytest.approx([point.low, point.high])


def test_the_axis_of_a_share_does_not_go_far_below_zero_or_above_the_whole(tmp_path):
    for values in ({0: 0.0, 1: 0.0}, {0: 0.0, 1: 100.0}, {0: 100.0, 1: 100.0}, {0: 1.0, 1: 2.0}):
        for kind in ("line", "bar"):
            keys = ("greedy", "beam-4")
            cells = measured({("rnn", keys[place], 0): value for place, value in values.items()}, scale="share")
            run = plotted(tmp_path, cells, decoders=WIDTHS, **{**ACROSS, "kind": kind})
            low, high = canvas_of(run).axes[0].get_ylim()
            assert -0.05 * (high - low) <= low < high <= 100 + 0.05 * (high - low)


def test_a_missing_cell_leaves_a_gap_and_is_named(tmp_path):
    values = {("rnn", "greedy", 0): 1.0, ("rnn", "beam-4", 0): None, ("rnn", "beam-16", 0): 3.0}
    run = by_width(tmp_path, values)
    assert [(row["x"], row["mean"], row["seeds"]) for row in rows(run, tmp_path / "report")] == [
        ("1", "1.0", "1"), ("4", "", "0"), ("16", "3.0", "1"),
    ]  # fmt: skip
    (line,) = (line for line in canvas_of(run).axes[0].get_lines() if len(line.get_xdata()) == 3)
    assert [value == value for value in line.get_ydata()] == [True, False, True]
    assert "Left out: words/rnn/beam-4/test, seed 0: out of memory." in notes(run)


def test_a_name_that_a_series_never_has_is_no_gap(tmp_path):
    run = by_width(tmp_path, {("rnn", "greedy", 0): 1.0, ("lstm", "greedy", 0): 1.0, ("lstm", "beam-4", 0): 2.0})
    assert [(one.label, [point.x for point in one.rows]) for one in the_picture(run).series] == [
        ("rnn", [1]),
        ("lstm", [1, 4]),
    ]


def test_a_series_of_which_nothing_ran_is_left_out(tmp_path):
    run = by_width(tmp_path, {("rnn", "greedy", 0): None, ("lstm", "greedy", 0): 1.0})
    assert [one.label for one in the_picture(run).series] == ["lstm"]
    run = by_width(tmp_path, {("rnn", "greedy", 0): None})
    assert the_picture(run).empty == "none of its cells has anything to draw."


def test_what_has_no_place_on_an_axis_is_told_and_the_rest_is_drawn(tmp_path):
    for bad in (inf, -inf, nan, 1e301):
        run = by_width(tmp_path, {("rnn", "greedy", 0): bad, ("rnn", "beam-4", 0): 1.0}, scale={"y": "log"})
        assert "rnn: 1 of 2 points are off the axes, such as infinite values." in notes(run)
        assert canvas_of(run).axes
    run = by_width(
        tmp_path, {("rnn", "greedy", 0): 5.0, ("rnn", "beam-4", 0): 1.0}, at={"greedy": 0}, scale={"x": "log"}
    )
    assert "rnn: 1 of 2 points are off the axes, such as infinite values." in notes(run), "0 has no logarithm"
    assert canvas_of(run).axes[0].get_xlim()[0] > 0
    run = by_width(tmp_path, {("rnn", "greedy", 0): 5.0, ("rnn", "beam-4", 0): 1.0}, at={"greedy": 0})
    assert "off the axes" not in " ".join(notes(run))


def test_a_band_that_reaches_zero_ends_with_a_logarithmic_axis(tmp_path):
    values = {("rnn", name, seed): 10.0**seed for name, seed in product(("greedy", "beam-4"), (0, 1))}
    run = plotted(tmp_path, measured(values, units=[""]), decoders=WIDTHS, **{**ACROSS, "scale": {"y": "log"}})
    point = the_picture(run).series[0].rows[0]
    assert point.low < 0 < point.mean
    low, high = canvas_of(run).axes[0].get_ylim()
    assert 0.1 < low < point.mean < point.high < high < 1000


def test_a_single_point_has_an_error_bar_in_place_of_a_band(tmp_path):
    run = by_width(tmp_path, {("rnn", "greedy", seed): 20.0 + seed for seed in (0, 1, 2)})
    axes = canvas_of(run).axes[0]
    point = the_picture(run).series[0].rows[0]
    (bar,) = axes.collections
    (mark,) = (line for line in axes.lines if line.get_marker() == "o")
    assert bar.get_zorder() < mark.get_zorder(), "no bar cuts the mark in two"
    assert not bar.get_path_effects()
    ((low, high),) = [segment[:, 1] for segment in bar.get_segments()]
    assert (low, high) == pytest.approx((point.low, point.high))


def test_bars_reach_from_zero_to_the_mean_beside_each_other(tmp_path):
    values = {
        (m, d, s): 10.0 * i + j + s
        for (i, m), (j, d), s in product(enumerate(["rnn", "lstm"], 1), enumerate(WIDTHS), (0, 1))
    }
    run = by_width(tmp_path, values, kind="bar", x="decoder", at={})
    axes = canvas_of(run).axes[0]
    bars = sorted((patch.get_x(), patch.get_width(), patch.get_height()) for patch in axes.patches)
    assert [height for *_, height in bars] == [10.5, 20.5, 11.5, 21.5, 12.5, 22.5]
    assert all(left + width <= other + 1e-9 for (left, width, _), (other, *_) in pairwise(bars))
    assert axes.get_ylim()[0] == 0
    ends = sorted(tuple(segment[:, 1]) for one in axes.collections for segment in one.get_segments())
    points = [point for one in the_picture(run).series for point in one.rows]
    assert ends == [pytest.approx(pair) for pair in sorted((point.low, point.high) for point in points)]
    assert len({(patch.get_facecolor(), patch.get_hatch()) for patch in axes.patches}) == 2


def test_two_cells_of_one_place_are_refused_in_a_run_too(tmp_path):
    decoders = {"greedy": {"width": 4}, "beam-4": {"width": 4}}
    cells = measured({("rnn", name, 0): 1.0 for name in decoders})
    run = plotted(tmp_path, cells, decoders=decoders, kind="line", x="decoder.width", y="rate")
    assert (
        the_picture(run).empty
        == "words/rnn/greedy/test, seed 0 and words/rnn/beam-4/test, seed 0 share a place. Select only one."
    )
    run = plotted(tmp_path, cells, kind="line", x="decoder.width", y="rate")
    assert the_picture(run).empty == "decoder greedy has no value for 'width'."


def test_panels_share_axes_and_the_looks_of_series(tmp_path):
    names = {"rnn": {"hidden": 1}, "lstm": {"hidden": 1}}
    values = {
        (m, d, 0): place + 1.0 for place, (m, d) in enumerate(product(names, WIDTHS)) if (m, d) != ("rnn", "greedy")
    }
    about = {"kind": "line", "x": "model.hidden", "y": "rate", "by": "decoder", "panels": "model"}
    run = plotted(tmp_path, measured(values), names, WIDTHS, **about)
    picture = the_picture(run)
    assert picture.panels == ["rnn", "lstm"]
    assert [(one.panel, one.label) for one in picture.series] == [
        ("rnn", "beam-16"), ("rnn", "beam-4"), ("lstm", "greedy"), ("lstm", "beam-16"), ("lstm", "beam-4"),
    ]  # fmt: skip
    assert {row["panel"] for row in rows(run, tmp_path / "report")} == {"rnn", "lstm"}
    first, second = canvas_of(run).axes
    assert first.get_ylim() == second.get_ylim()
    looks = [[(line.get_color(), line.get_marker()) for line in axes.get_lines()] for axes in (first, second)]
    assert looks[0] == looks[1][1:], "greedy is in the second alone, and the others look as in the first"
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["rnn", "lstm"]


def test_panels_by_a_setting_are_named_with_it(tmp_path):
    cells = measured({(m, "greedy", 0): 1.0 for m in SIZES})
    run = plotted(tmp_path, cells, SIZES, kind="bar", x="model.hidden", y="rate", panels="model.tied")
    assert the_picture(run).panels == ["tied=true", "tied=false"]


def test_points_of_a_series_are_joined_in_the_order_of_x(tmp_path):
    pairs = {("rnn", "greedy", 0): (3.0, 1.0), ("rnn", "beam-4", 0): (1.0, 2.0), ("lstm", "greedy", 0): (2.0, 5.0)}
    cells = measured(pairs)
    about = {"x": "rate", "y": "nats", "by": "model", "points": "decoder"}
    run = plotted(tmp_path, cells, decoders=WIDTHS, kind="line", **about)
    found = {one.label: [(spot.point, spot.x, spot.y) for spot in one.rows] for one in the_picture(run).series}
    assert found == {"rnn": [("beam-4", 1.0, 2.0), ("greedy", 3.0, 1.0)], "lstm": [("greedy", 2.0, 5.0)]}
    run = plotted(tmp_path, cells, decoders=WIDTHS, kind="scatter", **about)
    assert [spot.point for spot in the_picture(run).series[0].rows] == ["greedy", "beam-4"]


def test_costs_against_a_setting_are_where_costs_are(tmp_path):
    run = by_width(tmp_path, {("rnn", "greedy", 0): 1.0, ("rnn", "beam-4", 0): 1.0}, y="cost.decode.seconds")
    keys = {"greedy": "a" * 64, "beam-4": "b" * 64}
    cells = [type(one)(one.cell, "done", "", one.numbers, {"decode": keys[one.cell["decoder"]]}) for one in run.cells]
    run = type(run)(run.folder, run.suite, run.info, cells, run.sections)
    (run.folder / "costs.csv").write_text(
        f"stage,what,key,seconds\ndecode,x,{'a' * 16},2.5\ndecode,x,{'b' * 16},7.5\n"
    )
    assert pictures(run) == []
    (picture,) = cost_pictures(run)
    assert [(point.x, point.mean) for point in picture.series[0].rows] == [(1, 2.5), (4, 7.5)]
    assert picture.y_label == "seconds (decode)"


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("kind: bar, x: ended, y: nats, by: [model, decoder]", "the x of bars must be an axis or a setting, such as `decoder.width`, not 'ended'"),
        ("kind: bar, x: decoder, y: endde, by: model", "no metric of this suite is called 'endde'"),
        ("kind: bar, x: decoder, y: ended", "figure 'f' does not say which model: one, two."),
        ("kind: bar, x: decoder, y: ended, by: [decoder, model]", "an axis can be in `by` only once, and not in `panels`, `points` or x too"),
        ("kind: bar, x: decoder, y: ended, by: model, bins: 3", "a bar has no `bins`"),
        ("kind: bar, x: decoder, y: ended, by: model, panels: modle", "'modle' is neither. Did you mean 'model'?"),
        ("kind: bar, x: decoder, y: ended, by: split.a", "a setting belongs to a task, model, decoder or training"),
        ("kind: bar, x: decoder, y: ended, by: model, panels: seed", "they have no seed axis"),
        ("kind: line, x: model.scale, y: ended, by: decoder", "model 'one' has no value for 'scale'. Set one, such as `at: {one: VALUE}`, or select"),
        ("kind: line, x: model.scale, y: ended, by: decoder, at: {one: 2.0}", "'one' and 'two' have the same place in figure 'f': 2.0."),
        ("kind: line, x: model.scale, y: ended, by: decoder, at: {one: 1, thre: 2}", "no model of this suite is called 'thre'"),
        ("kind: line, x: model, y: ended, by: decoder, at: {one: 1}", "`at` needs a setting as x: it gives a value to names that lack this setting"),
        ("kind: line, x: model, y: ended, by: decoder, at: {one: .inf}", "'one'"),
        ("kind: line, x: training.lr, y: ended, by: decoder", "'one' and 'two' have the same place in figure 'f'"),
        ("kind: line, x: nats, y: ended, by: [model, decoder]", "a metric or cost, which needs `points`; not 'nats'"),
        ("kind: line, x: nats, y: ended, by: model", "figure 'f' does not say which decoder"),
        ("kind: line, x: model, y: ended, by: decoder, points: task", "only figures of a metric or a cost against another can have `points`"),
        ("kind: line, x: model, y: ended, by: decoder, bins: 4", "a line can have `bins` only if its x is one of reference.tokens"),
        ("kind: line, x: reference.tokens, y: ended, by: [model, decoder], bins: [3, 2]", "`bins` must be a number of bins, or the upper edges of bins"),
        ("kind: line, x: model, y: cost.train.second, by: decoder", "known costs of train stages are seconds"),
        ("kind: line, x: model, y: ended, by: decoder, width: wide", "'width'"),
        ("kind: line, x: model, y: ended, by: decoder, spread: sem", "'spread'"),
        ("kind: histogram, values: [ended], by: [model, decoder], bins: [1, 2]", "`bins` of a histogram must be a number of bins"),
        ("kind: box, values: [ended], by: model, panels: decoder", "a box has no `panels`"),
        ("kind: survival, by: model", "figure 'f' does not say which decoder"),
        ("kind: survival, by: [model, decoder], y: ended", "a survival curve has no `y`"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_figure_of_a_metric_is_told_with_its_place(suite_file, figure, message):
    text = SUITE.replace("profiles:", f"figures:\n  - {{id: f, {figure}}}\nprofiles:")
    with pytest.raises(SuiteError) as error:
        load(suite_file(text))
    assert message in str(error.value)
    assert f"suite.yaml:{text[: text.index('figures:')].count(chr(10)) + 2}:" in str(error.value)


def test_a_survival_curve_needs_something_decoded(suite_file):
    text = SUITE.replace("profiles:", "figures: [{id: f, kind: survival, by: model}]\nprofiles:")
    text = text.replace("decoders:\n  argmax: {name: argmax}\n  draw: {name: draw}\n", "")
    with pytest.raises(SuiteError, match="a survival curve needs decoded outputs, but this suite has no decoders"):
        load(suite_file(text))


def test_the_deviation_of_a_scatter_is_kept_beside_its_interval(tmp_path):
    run = plotted(
        tmp_path,
        measured({("rnn", "greedy", s): (10.0 + s, 5.0 * s) for s in (0, 2)}),
        kind="scatter",
        x="rate",
        y="nats",
        by="model",
    )
    (row,) = rows(run, tmp_path / "report")
    assert (float(row["x"]), float(row["x_std"]), float(row["y_std"])) == pytest.approx((11, sqrt(2), 5 * sqrt(2)))
    assert float(row["y_high"]) == pytest.approx(5 + stats.t.ppf(0.975, 1) * 5)
