"""Figures of costs: what is drawn of whom, and that nothing but the costs' own files depends on clocks."""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import replace
from math import sqrt

import pytest
from bench_small.runs import cell, number, run_of, with_sections, written
from bench_small.suites import SUITE

import bench_core
from bench_core.errors import SuiteError
from bench_core.runs.results import COST_COLUMNS
from bench_core.suites.load import load
from bench_reports.content.cost_tables import StageCosts
from bench_reports.figures.figure_notes import figure_notes
from bench_reports.figures.figures import cost_pictures
from bench_reports.language.figure_schema import COSTS, OF_ALL_STAGES, Figure

TRAINED = {("rnn", 0): 10.0, ("rnn", 1): 30.0, ("lstm", 0): 500.0}
HEAD = "stage,what,key,seconds,parameters,tokens_per_second\n"


def costly_run(tmp_path, text=None, **figure):
    """Return a run of two decoders for each training, with what the stages cost."""
    cells = []
    for model, seed in TRAINED:
        for decoder in ("greedy", "beam"):
            one = cell(model, decoder, seed, {"rate": number(seed + 1.0), "nats": number(2.0)})
            keys = {"train": f"{model}{seed}".ljust(64, "t"), "decode": f"{model}{seed}{decoder}".ljust(64, "d")}
            cells.append(replace(one, artifacts=keys))
    run = run_of(tmp_path, cells, {})
    about = {
        "id": "f",
        "kind": "scatter",
        "x": "cost.train.seconds",
        "y": "rate",
        "by": ["model", "decoder"],
        **figure,
    }
    run = with_sections(run, figures=[Figure.model_validate(about)])
    run.folder.mkdir(exist_ok=True)
    lines = [f"train,x,{f'{m}{s}'.ljust(16, 't')},{value},1000,\n" for (m, s), value in TRAINED.items()]
    lines += [
        f"decode,x,{f'{m}{s}{d}'.ljust(16, 'd')},2.5,,{100 + s}\n" for m, s in TRAINED for d in ("greedy", "beam")
    ]
    (run.folder / "costs.csv").write_text(HEAD + "".join(lines) if text is None else text)
    return run


def spots(run):
    (picture,) = cost_pictures(run)
    return {one.label: one.rows[0] for one in picture.series}


def test_a_point_stands_at_the_mean_cost_of_the_stages_behind_its_cells(tmp_path):
    found = spots(costly_run(tmp_path))
    spot = found["rnn/greedy"]
    assert spot == found["rnn/beam"]
    assert (spot.x, spot.x_std, spot.y, spot.y_std, spot.seeds) == (
        20.0,
        pytest.approx(sqrt(200)),
        1.5,
        pytest.approx(sqrt(0.5)),
        2,
    )
    single = found["lstm/greedy"]
    assert (single.x, single.x_std, single.x_low, single.y, single.y_std, single.seeds) == (
        500.0,
        None,
        None,
        1.0,
        None,
        1,
    )
    found = spots(costly_run(tmp_path, x="cost.train.parameters", y="cost.decode.tokens_per_second"))
    assert (found["rnn/beam"].x, found["rnn/beam"].y, found["rnn/beam"].seeds) == (1000.0, 100.5, 2)


def test_axes_say_what_was_paid_for_what(tmp_path):
    (picture,) = cost_pictures(costly_run(tmp_path, y="cost.decode.tokens_per_second"))
    assert (picture.x_label, picture.y_label) == ("seconds (train)", "tokens/s (decode)")
    (picture,) = cost_pictures(costly_run(tmp_path))
    assert picture.y_label == "rate (%)"
    assert any("machine" in note for note in figure_notes(costly_run(tmp_path), picture))


def test_a_cell_without_a_cost_is_left_out_and_named(tmp_path):
    run = costly_run(tmp_path, HEAD + f"train,x,{'rnn0'.ljust(16, 't')},7,,\n")
    (picture,) = cost_pictures(run)
    assert {one.label: one.rows[0].x for one in picture.series} == {"rnn/greedy": 7.0, "rnn/beam": 7.0}
    assert any("lstm/greedy/test, seed 0" in note and "does not record its seconds (train)" in note
               for note in figure_notes(run, picture))  # fmt: skip


def test_a_cell_that_is_scored_in_two_ways_has_no_one_cost_of_that(tmp_path):
    run = costly_run(tmp_path, "stage,key,seconds\nscore,aaaaaaaaaaaaaaaa,1\nscore,bbbbbbbbbbbbbbbb,2\n")
    keys = {"score/one": "a" * 64, "score/other": "a" * 64}
    spent = StageCosts(run)
    assert spent.of(replace(run.cells[0], artifacts=keys), "cost.score.seconds") == 1.0
    assert spent.of(replace(run.cells[0], artifacts={**keys, "score/other": "b" * 64}), "cost.score.seconds") is None


@pytest.mark.slow
def test_only_the_files_of_costs_depend_on_clocks(tmp_path):
    first = written(costly_run(tmp_path), tmp_path / "a")
    text = (tmp_path / "run" / "costs.csv").read_text()
    second = written(costly_run(tmp_path, text.replace("10.0", "12.5")), tmp_path / "b")
    changed = {name for name, content in first.items() if second[name] != content}
    assert changed == {"costs.csv", "costs.html", "costs/f.csv", "costs/f.svg", "costs/f.pdf"}
    rows = list(csv.DictReader(second["costs/f.csv"].decode().splitlines()))
    assert (rows[0]["series"], float(rows[0]["x"])) == ("rnn/greedy", 21.25)


def test_a_report_says_where_its_figures_of_costs_are(tmp_path):
    files = written(costly_run(tmp_path), tmp_path / "report")
    for name in ("report.md", "report.tex", "report.html"):
        text = files[name].decode()
        assert "are only in costs.html: f." in text
        assert "Not drawn" not in text
    page = files["costs.html"].decode()
    assert page.count('src="data:image/svg+xml;base64,') == 1
    assert '<a href="costs/f.pdf">' in page
    assert not [name for name in files if name.startswith("figures/")]
    (tmp_path / "run" / "costs.csv").unlink()
    shutil.rmtree(tmp_path / "report")
    files = written(replace(costly_run(tmp_path), folder=tmp_path / "none"), tmp_path / "report")
    assert not [name for name in files if name.startswith("costs")]


def test_a_run_tells_every_cost_that_a_figure_can_ask_for(suite_file, tmp_path):
    named = [(stage, what) for stage, more in COSTS.items() for what in (*OF_ALL_STAGES, *more)]
    assert {what for _, what in named} <= {*COST_COLUMNS}
    figures = [
        f"  - {{id: f{place}, kind: scatter, x: cost.{stage}.{what}, y: ended, by: [model, decoder]}}\n"
        for place, (stage, what) in enumerate(named)
    ]
    text = SUITE.replace("profiles:", f"figures:\n{''.join(figures)}profiles:")
    run = bench_core.run(suite_file(text), "tiny", store=tmp_path / "store", out=tmp_path / "runs")
    untold = {one.figure.x for one in cost_pictures(run) if len(one.series) < 4}
    assert not untold


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        (
            "x: cost.seconds, y: ended",
            "'cost.seconds' is not a cost of a stage (prepare, train, decode, score)",
        ),
        (
            "x: cost.train, y: ended",
            "'cost.train': known costs of train stages are seconds, cpu_seconds, peak_mib, parameters",
        ),
        ("x: cost.train.tokens, y: ended", "'cost.train.tokens': known costs of train stages are"),
        ("x: cost.train.seconds, y: endde", "no metric of this suite is called 'endde'. Did you mean 'ended'"),
    ],
)
def test_a_mistake_in_a_cost_is_told_with_place_and_remedy(suite_file, figure, message):
    figure = f"{{id: f, kind: scatter, by: [model, decoder], {figure}}}"
    with pytest.raises(SuiteError) as error:
        load(suite_file(SUITE.replace("profiles:", f"figures:\n  - {figure}\nprofiles:")))
    assert message in str(error.value)
    assert re.search(r"suite.yaml:22:\d+: ", str(error.value))
