"""Grids of hyper-parameters: one model of a suite that stands for many."""

from __future__ import annotations

import re

import pytest
from bench_small.suites import SUITE

import bench_core
from bench_core.errors import SuiteError
from bench_core.runs.results import read_run
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_reports.language.of_suite import language

TWO = "two: {name: bigram, scale: 2.0}"


def with_grid(grid, fixed="", more=""):
    """Return the small suite with a grid in its second model, which stands in line 7."""
    return SUITE.replace(TWO, f"two: {{name: bigram{fixed}, grid: {grid}}}") + more


def mistakes(path, **options):
    with pytest.raises(SuiteError) as error:
        load(path, **options)
    return str(error.value).replace(str(path), "S")


def test_a_grid_stands_for_the_product_in_the_order_written(suite_file):
    suite = load(suite_file(with_grid("{scale: [0.5, 2], noisy: [true, false], training.lr: [1e-3]}")))
    assert list(suite.models) == [
        "one",
        "two/scale=0.5/noisy=true/training.lr=0.001",
        "two/scale=0.5/noisy=false/training.lr=0.001",
        "two/scale=2/noisy=true/training.lr=0.001",
        "two/scale=2/noisy=false/training.lr=0.001",
    ]
    last = suite.models["two/scale=2/noisy=false/training.lr=0.001"]
    assert (last.config.scale, last.config.noisy, last.training.lr, last.training.epochs) == (2.0, False, 0.001, 3)
    assert suite.models["one"].training.lr == 0.1


def test_a_grid_may_vary_a_training_that_the_model_has_of_its_own(suite_file):
    suite = load(suite_file(with_grid("{training.lr: [0.2, 0.3]}", fixed=", training: {epochs: 7}")))
    assert [(name, entry.training.lr, entry.training.epochs) for name, entry in suite.models.items()] == [
        ("one", 0.1, 3),
        ("two/training.lr=0.2", 0.2, 7),
        ("two/training.lr=0.3", 0.3, 7),
    ]


def test_profiles_and_settings_change_a_grid_before_it_is_expanded(suite_file):
    text = with_grid(
        "{scale: [0.5, 2], noisy: [true, false]}", more="  less: {models: {two: {grid: {scale: [1]}}}}\n"
    )
    path = suite_file(text)
    assert list(load(path, "less").models) == ["one", "two/scale=1/noisy=true", "two/scale=1/noisy=false"]
    found = load(path, settings=["models.two.grid.noisy=[true]"]).models
    assert list(found) == ["one", "two/scale=0.5/noisy=true", "two/scale=2/noisy=true"]
    without = text + "  plain: {models: {two: {grid: null, scale: 3}}}\n"
    assert load(suite_file(without), "plain").models["two"].config.scale == 3


def test_a_value_that_does_not_parse_is_named_once_and_at_the_grid(suite_file):
    text = with_grid("{scale: [0.5, big], noisy: [true, false], breaks: [never, nan]}")
    line, column = 7, SUITE.splitlines()[7].index("two") + len("two: {name: bigram, grid: {")
    found = mistakes(suite_file(text))
    assert re.fullmatch(rf"S:{line + 1}:{column + 1}: 'scale' must be a number \(found 'big'\)\.", found)


@pytest.mark.parametrize(("setting", "word"), [("sclae", "scale"), ("training.lrr", "lr")])
def test_an_unknown_setting_of_a_grid_is_named_once(suite_file, setting, word):
    (line,) = mistakes(suite_file(with_grid(f"{{noisy: [true, false], {setting}: [0.5, 1, 2]}}"))).splitlines()
    assert line.endswith(f": unknown key '{setting.rpartition('.')[2]}'. Did you mean '{word}'?")


def test_combinations_that_are_wrong_only_together_are_told_once_with_one_of_them(suite_file):
    text = SUITE.replace(
        TWO, "two: {name: rnn-lm, embedding: 8, grid: {hidden: [8, 16], dropout: [0.1, 0.2], tied: [true, false]}}"
    )
    (line,) = mistakes(suite_file(text)).splitlines()
    column = text.splitlines()[7].index("grid") + 1
    assert line.startswith(f"S:8:{column}: 'grid': a tied model has one matrix")
    assert line.endswith("(In two/hidden=16/dropout=0.1/tied=true.)")


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("{scale: []}", "'scale' must be a list of values, such as `[1, 2]` (found [])"),
        ("{scale: 3}", "'scale' must be a list of values, such as `[1, 2]` (found 3)"),
        ("{}", "a grid must map settings to lists of values"),
        ("[scale]", "a grid must map settings to lists of values"),
        ("{scale: [1, 2, 1]}", "'scale' lists 1 twice"),
        ("{breaks: [nan, never]}", "'breaks' is set both in the grid and in the model"),
        ("{training.clip: [1, 2]}", "'training.clip' is set both in the grid and in the model"),
        ("{output: [{a: 1}], output.a: [2]}", "'output.a' is inside 'output', which the grid varies as a whole"),
        (f"{{scale: {list(range(101))}, words: {list(range(100))}}}", "this grid has 10,100, but 10,000 are left"),
    ],
)
def test_a_grid_that_cannot_be_is_refused_at_its_place(suite_file, grid, message):
    text = with_grid(grid, fixed=", breaks: never, training: {clip: 1}")
    found = [line for line in mistakes(suite_file(text)).splitlines() if message in line]
    assert len(found) == 1
    assert found[0].startswith("S:8:")


def test_a_combination_and_a_model_cannot_share_a_name(suite_file):
    text = with_grid("{scale: [1, 2]}").replace("  one: {", "  two/scale=2: {")
    assert "S:7:3: a combination of 'two' is called 'two/scale=2', like another model" in mistakes(suite_file(text))


@pytest.mark.slow
def test_a_grid_of_ten_thousand_is_resolved(suite_file):
    text = with_grid(f"{{scale: {[number / 100 for number in range(100)]}, training.lr: {list(range(1, 101))}}}")
    text = text.replace("decoders:\n  argmax: {name: argmax}\n  draw: {name: draw}\n", "").replace(
        "[ended, nats]", "[nats]"
    )
    suite = load(suite_file(text.replace("rows: [decoder]", "rows: [split]"), **{"seeds: 2": "skip: [{model: two}]"}))
    assert len(suite.models) == 10_001
    assert [cell.model for cell in cells_of(suite)] == ["one"]


def test_the_name_of_a_grid_stands_for_all_of_its_combinations(suite_file):
    skip = "seeds: 2\nskip: [{model: two, decoder: draw}, {model: two/scale=1, metric: nats}]"
    text = with_grid("{scale: [1, 2]}").replace("seeds: 2", skip).replace("nats]}", "nats], where: {model: two}}")
    suite = load(suite_file(text))
    assert language(suite).tables[0].where == {"model": ("two/scale=1", "two/scale=2")}
    assert {(cell.model, cell.decoder, cell.metrics) for cell in cells_of(suite)} == {
        ("one", "argmax", ("ended", "nats")),
        ("one", "draw", ("ended", "nats")),
        ("two/scale=1", "argmax", ("ended",)),
        ("two/scale=2", "argmax", ("ended", "nats")),
    }
    wrong = text.replace("where: {model: two}", "where: {model: [tow, two/scale=3]}")
    found = mistakes(suite_file(wrong))
    assert "no model of this suite is called 'tow'. Did you mean 'two'" in found
    assert "no model of this suite is called 'two/scale=3'. Did you mean 'two/scale=2'" in found


def test_combinations_that_a_profile_leaves_out_are_no_mistakes(suite_file):
    text = with_grid("{scale: [1, 2]}", more="  less: {models: {two: {grid: {scale: [1]}}}}\n")
    text = text.replace("seeds: 2", "seeds: 2\nskip: [{model: two/scale=2, metric: nats}]")
    assert list(load(suite_file(text), "less").models) == ["one", "two/scale=1"]


def test_what_does_not_fit_a_grid_is_told_once(suite_file):
    text = SUITE.replace(TWO, "two: {name: blind, grid: {training.lr: [1, 2, 3]}}")
    text = text.replace("select: {metric: nats}", "select: {}")
    suite = load(suite_file(text))
    with pytest.raises(SuiteError) as error:
        check_fit(suite, cells_of(suite))
    assert str(error.value).count("two x argmax") == 1
    assert "two/training.lr" not in str(error.value)


def test_a_run_keeps_the_suite_as_written_and_is_read_with_its_grids_expanded(suite_file, tmp_path):
    text = with_grid("{scale: [1, 2], training.lr: [1e-5, 0.1]}").replace("nats]}", "nats], where: {model: two}}")
    run = bench_core.run(suite_file(text), seeds=1, store=tmp_path / "store", out=tmp_path / "runs")
    names = [f"two/scale={scale}/training.lr={rate}" for scale in (1, 2) for rate in ("1e-05", "0.1")]
    assert list(read_run(run.folder).suite.models) == ["one", *names]
    assert list(run.grids["two"].combinations) == names
    assert language(run).tables[0].where == {"model": tuple(names)}
    assert [cell.status for cell in run.cells] == ["done"] * 10
    nats = {row["model"]: row["nats"] for row in run.rows()}
    assert len(set(nats.values())) == 5
    again = load(run.folder / "suite.yaml")
    assert list(again.models) == ["one", *names]


def test_many_settings_make_no_name_of_a_file_too_long(suite_file, tmp_path):
    varied = ["optimizer.weight_decay", "optimizer.amsgrad", "warmup", "patience", "evaluate_every", "clip", "epochs"]
    varied += ["updates", "accumulate", "stop.patience", "lr", "batch_size"]
    grid = ", ".join(f"training.{name}: [{'true' if name.endswith('grad') else 1}]" for name in varied)
    text = with_grid(f"{{{grid}, noisy: [true], breaks: [never], scale: [1.0000001]}}")
    run = bench_core.run(suite_file(text), seeds=1, store=tmp_path / "store", out=tmp_path / "runs")
    assert max(len(name) for name in run.grids["two"].combinations) > 255
    assert len(list((run.folder / "history").iterdir())) == 2
