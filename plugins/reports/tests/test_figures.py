"""Figures: which numbers are drawn, what is said of them, and that they are drawn alike every time."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from math import inf, log, nan, sqrt
from xml.etree import ElementTree

import pytest
from bench_small.forging import reseal
from bench_small.runs import HOSTILE, cell, number, run_of, stored, with_sections, written
from bench_small.suites import SUITE

import bench_core
from bench_core.errors import SuiteError
from bench_core.runs.manifest import problems
from bench_core.runs.results import read_run
from bench_core.storage.predictions import read_lines
from bench_core.suites.load import load
from bench_core.terminal import visible
from bench_reports.figures.distributions import DISTRIBUTIONS, distribution
from bench_reports.figures.drawing import draw
from bench_reports.figures.figure_notes import figure_notes
from bench_reports.figures.figures import pictures
from bench_reports.figures.survival import OUTPUT_LENGTHS, OutputLengths
from bench_reports.language.figure_schema import Figure
from bench_reports.language.of_suite import language
from bench_reports.render.report import write_report


def drawn_run(tmp_path, cells, lengths=None, histories=None, names=("rnn", "lstm"), **figure):
    """Return a run with one figure; `lengths` are those of each cell's examples, by metric."""
    run = run_of(tmp_path, cells, {}, names=names)
    figures = [Figure.model_validate({"id": "f", "caption": "Lengths", **figure})]
    metrics = {**run.suite.metrics, "length": {"name": "length"}, "gold": {"name": "length"}}
    found = [
        distribution(one.cell, metric, parts)
        for metric, by_cell in (lengths or {}).items()
        for one, parts in zip(cells, by_cell, strict=True)
        if parts is not None
    ]
    run = with_sections(replace(run, suite=run.suite.model_copy(update={"metrics": metrics})), figures=figures)
    run.folder.mkdir(exist_ok=True)
    DISTRIBUTIONS.write(run.folder / DISTRIBUTIONS.file, found)
    vars(run)["histories"] = histories or {}  # in place of those of its folder
    return run


def measured(model, decoder, seed, **values):
    units = {"length": "tokens", "gold": "tokens"}
    numbers = {name: replace(number(value), unit=units.get(name, "%")) for name, value in values.items()}
    return cell(model, decoder, seed, numbers)


def the_picture(run):
    (picture,) = pictures(run)
    return picture


def rows(run, folder):
    """Return the lines of the figure's csv, as a report holds it."""
    text = written(run, folder)["figures/f.csv"].decode()
    return list(csv.DictReader(text.splitlines()))


def notes(run):
    return figure_notes(run, the_picture(run))


TWO = [measured(model, "greedy", seed, length=3.0, gold=3.0) for model in ("rnn", "lstm") for seed in (0, 1)]
LENGTHS = [[1, 1, 2, 4], [1, 3, 4, 8], [8, 8, 8, 8], [8, 1, 8, 8]]  # rnn, rnn, lstm, lstm
GOLD = [[2, 2, 3, 3]] * 4


def histogram(tmp_path, lengths=LENGTHS, gold=GOLD, cells=TWO, **figure):
    figure = {"values": ["length"], "by": "model", "bins": 4, **figure}
    return drawn_run(tmp_path, cells, {"length": lengths, "gold": gold}, kind="histogram", **figure)


def test_a_histogram_counts_the_examples_of_all_seeds(tmp_path):
    found = rows(histogram(tmp_path), tmp_path / "report")
    bars = {(row["series"], float(row["low"]), float(row["high"])): int(row["examples"]) for row in found}
    assert [count for (name, *_), count in bars.items() if name == "rnn"] == [4, 3, 0, 1]
    assert [count for (name, *_), count in bars.items() if name == "lstm"] == [1, 0, 0, 7]
    assert list(bars)[:4] == [("rnn", 0.5, 2.5), ("rnn", 2.5, 4.5), ("rnn", 4.5, 6.5), ("rnn", 6.5, 8.5)]
    assert [float(row["percent"]) for row in found[:4]] == [50.0, 37.5, 0.0, 12.5]
    assert list(dict.fromkeys(row["series"] for row in found)) == ["rnn", "lstm"]


def test_values_that_all_groups_share_are_drawn_once_beside_others(tmp_path):
    run = histogram(tmp_path, values=["length", "gold"])
    picture = the_picture(run)
    assert [(one.label, one.shared, one.values) for one in picture.series] == [
        ("rnn", False, 8), ("lstm", False, 8), ("gold", True, 4),
    ]  # fmt: skip
    assert picture.x_label == "length (tokens)"
    assert "gold: the same in all groups, drawn once." in notes(run)
    assert notes(run)[0] == "8 values, pooled over 2 seeds."


def test_values_that_differ_anywhere_are_drawn_for_every_group(tmp_path):
    run = histogram(tmp_path, values=["length", "gold"], gold=[*GOLD[:3], [2, 2, 3, 4]])
    picture = the_picture(run)
    assert [one.label for one in picture.series] == ["rnn/length", "lstm/length", "rnn/gold", "lstm/gold"]
    assert picture.x_label == "tokens"


def test_the_only_metric_is_drawn_for_every_group_though_they_agree(tmp_path):
    run = histogram(tmp_path, lengths=[[5, 5]] * 4)
    assert [one.label for one in the_picture(run).series] == ["rnn", "lstm"]


def test_groups_follow_the_order_of_by_and_of_the_suite(tmp_path):
    cells = [measured(m, d, 0, length=1.0) for m, d in product(["lstm", "rnn"], ["beam", "greedy"])]
    run = histogram(tmp_path, [[1]] * 4, [None] * 4, cells, by=["decoder", "model"])
    assert [one.label for one in the_picture(run).series] == ["greedy/rnn", "greedy/lstm", "beam/rnn", "beam/lstm"]
    run = histogram(tmp_path, [[1]] * 4, [None] * 4, cells, by=["model"], where={"decoder": "beam"})
    assert [(one.label, one.values) for one in the_picture(run).series] == [("rnn", 1), ("lstm", 1)]


def test_values_off_a_logarithmic_axis_are_told_and_count_among_all(tmp_path):
    run = histogram(tmp_path, [[0, 1, 2, inf], [1, 1, 1, 1], *LENGTHS[2:]], scale="log")
    rnn = the_picture(run).series[0]
    assert sum(bar.examples for bar in rnn.rows) == 6
    assert sum(bar.percent for bar in rnn.rows) == pytest.approx(75)
    assert "rnn: 2 of 8 values are off the axis (infinite, undefined, or not above 0)." in notes(run)


def test_a_metric_without_a_number_by_example_is_refused_in_the_place_of_its_figure(tmp_path):
    run = histogram(tmp_path, [[[1, 2]]] * 4)
    files = written(run, tmp_path / "report")
    reason = "length stores [1, 2] per example, which is not a single number: no histogram can be drawn."
    assert the_picture(run).empty == reason
    assert f"Not drawn: {reason}" in files["report.md"].decode().replace("\\", "")
    assert b"Not drawn: length stores" in files["report.tex"]
    assert not [name for name in files if name.startswith("figures/")]
    assert b"figures/" not in files["report.md"] + files["report.tex"]


def test_cells_without_numbers_are_left_out_and_named(tmp_path):
    failed = cell("lstm", "greedy", 0, status="failed", reason="out of luck")
    cells = [*TWO[:2], failed, cell("lstm", "greedy", 1, status="not run", reason="interrupted")]
    run = histogram(tmp_path, [*LENGTHS[:2], None, None], [None] * 4, cells)
    assert [one.label for one in the_picture(run).series] == ["rnn"]
    assert "Left out: words/lstm/greedy/test, seed 0: out of luck." in notes(run)
    assert "Left out: words/lstm/greedy/test, seed 1: interrupted." in notes(run)


def test_a_figure_of_which_nothing_ran_says_so_and_draws_nothing(tmp_path):
    cells = [cell("rnn", "greedy", 0, status="not run", reason="interrupted")]
    run = histogram(tmp_path, [None], [None], cells)
    files = written(run, tmp_path / "report")
    assert "Not drawn: none of its cells has anything to draw.\n\n- " in files["report.md"].decode()
    assert "Left out: words/rnn/greedy/test, seed 0: interrupted." in files["report.md"].decode()
    assert not [name for name in files if name.startswith("figures/")]
    assert the_picture(histogram(tmp_path, [], [], [])).empty == "the run has no cells for it."


def test_a_run_of_old_that_kept_no_single_values_says_what_to_do(tmp_path):
    run = histogram(tmp_path, [None] * 4, [None] * 4)
    assert the_picture(run).empty == "none of its cells has anything to draw."
    assert any("run the suite again" in note for note in notes(run))


def test_a_metric_left_out_on_purpose_is_not_missed(tmp_path):
    run = histogram(tmp_path, [*LENGTHS[:2], None, None])
    skip = run_of(tmp_path, [], {}, skip=[{"model": "lstm", "metric": "length"}]).suite.skip
    run = replace(run, suite=run.suite.model_copy(update={"skip": skip}))
    assert [one.label for one in the_picture(run).series] == ["rnn"]
    assert not any(note.startswith("Left out") for note in notes(run))


def test_numbers_of_two_signatures_share_no_axis(tmp_path):
    other = replace(number(1.0), signature="limit:9")
    cells = [*TWO[:2], *(replace(one, numbers={"length": other}) for one in TWO[2:])]
    assert "several kinds or signatures" in the_picture(histogram(tmp_path, cells=cells)).empty
    mixed = [cell("rnn", "greedy", 0, {"rate": number(1.0), "nats": number(1.0, kind="exact")})]
    mixed += [cell("lstm", "greedy", 0, {"rate": number(1.0), "nats": number(1.0, kind="bound")})]
    run = drawn_run(tmp_path, mixed, kind="scatter", x="nats", y="rate", by="model")
    assert the_picture(run).empty.startswith("nats has several kinds or signatures")
    assert "rnn: exact; lstm: bound" in the_picture(run).empty


@pytest.mark.slow
def test_a_box_is_told_by_its_numbers(tmp_path):
    run = drawn_run(tmp_path, TWO, {"length": LENGTHS}, kind="box", values=["length"], by=["model"])
    rnn, lstm = rows(run, tmp_path / "report")
    assert (rnn["series"], rnn["examples"], float(rnn["median"]), float(rnn["mean"])) == ("rnn", "8", 2.5, 3.0)
    assert [float(rnn[key]) for key in ("whisker_low", "first_quartile", "third_quartile", "whisker_high")] == [
        1,
        1,
        4,
        8,
    ]
    assert (lstm["beyond"], float(lstm["median"])) == ("1", 8.0)


def trained(model, seed, entries, **settings):
    one = cell(model, "greedy", seed, {"nats": number(1.0)}, **settings)
    key = f"{model}-{seed}".ljust(12, "0")
    history = [{"step": s, "epoch": e, "loss": v, "best": True} for s, e, v in entries]
    return replace(one, artifacts={"train": f"{key}{'f' * 52}"}), {key: history}


def curves(tmp_path, trainings, **figure):
    cells, histories = zip(*trainings, strict=True)
    merged = {key: value for one in histories for key, value in one.items() if value}
    figure = {"kind": "line", "x": "step", "y": "loss", "by": ["model"], **figure}
    return drawn_run(tmp_path, list(cells), histories=merged, **figure)


def test_a_curve_is_the_mean_over_seeds_of_each_evaluation(tmp_path):
    trainings = [
        trained("rnn", 0, [(10, 1, 4.0), (20, 2, 2.0)]),
        trained("rnn", 1, [(10, 1, 6.0)]),
        trained("lstm", 0, [(10, 1, 3.0)]),
    ]
    run = curves(tmp_path, trainings)
    found = rows(run, tmp_path / "report")
    reach = 12.7062 * sqrt(2) / sqrt(2)  # Student's t of one degree of freedom, times the error of the mean
    assert [float(found[0].pop(key)) for key in ("std", "low", "high")] == pytest.approx(
        [sqrt(2), 5 - reach, 5 + reach]
    )
    assert found == [
        {"series": "rnn", "x": "10", "mean": "5.0", "seeds": "2"},
        {"series": "rnn", "x": "20", "mean": "2.0", "std": "", "low": "", "high": "", "seeds": "1"},
        {"series": "lstm", "x": "10", "mean": "3.0", "std": "", "low": "", "high": "", "seeds": "1"},
    ]
    assert (the_picture(run).x_label, the_picture(run).y_label) == ("updates", "loss (per token)")
    assert notes(run)[:2] == [
        "Means over 1 to 2 seeds; bands are 95 % intervals over seeds, for the same examples.",
        "Where some seeds end before others, means are over the remaining seeds.",
    ]


def test_each_training_is_one_curve_however_many_decoders_follow(tmp_path):
    one, history = trained("rnn", 0, [(10, 1, 4.0)])
    other = replace(one, cell={**one.cell, "decoder": "beam"}, status="failed", reason="lost the dice")
    run = curves(tmp_path, [(one, history), (other, history)])
    assert [(series.label, series.seeds) for series in the_picture(run).series] == [("rnn", 1)]


def test_seeds_that_are_judged_at_different_steps_meet_in_the_middle(tmp_path):
    trainings = [trained("rnn", 0, [(10, 1, 4.0), (20, 2, 2.0)]), trained("rnn", 1, [(14, 1, 4.0), (28, 2, 2.0)])]
    run = curves(tmp_path, trainings)
    assert [point.x for point in the_picture(run).series[0].rows] == [12, 24]
    assert "Seeds are evaluated at different steps; each point is drawn at their mean." in notes(run)


def test_epochs_are_counted_by_updates_between_their_ends_too(tmp_path):
    run = curves(tmp_path, [trained("rnn", 0, [(5, 0, 9.0), (10, 1, 4.0), (15, 1, 3.0), (20, 1, 2.0)])], x="epoch")
    points = [(point.x, point.mean) for point in the_picture(run).series[0].rows]
    assert points == [(0.5, 9.0), (1.0, 4.0), (1.5, 3.0), (2.0, 2.0)]
    run = curves(tmp_path, [trained("rnn", 0, [(5, 0, 9.0)])], x="epoch")
    assert "Left out: words/rnn, seed 0: it ended before its first epoch was over." in notes(run)


def test_a_history_that_does_not_tell_is_named_with_what_it_does_tell(tmp_path):
    run = curves(tmp_path, [trained("rnn", 0, [(10, 1, 4.0)])], y="los")
    assert the_picture(run).empty == "no training history of this run contains 'los'. Did you mean 'loss'?"


def test_the_band_of_a_perplexity_while_training_is_that_of_its_logarithm(tmp_path):
    cells, histories = zip(*(trained("rnn", seed, [(10, 1, 4.0)]) for seed in (0, 1)), strict=True)
    cells = [replace(one, numbers={"rate": number(9.0, scale="log", unit="")}) for one in cells]
    merged = {}
    for value, history in zip((10.0, 1000.0), histories, strict=True):
        merged |= {key: [{**entry, "valid rate": value} for entry in entries] for key, entries in history.items()}
    run = drawn_run(tmp_path, cells, histories=merged, kind="line", x="step", y="valid rate", by=["model"])
    (point,) = the_picture(run).series[0].rows
    reach = 12.7062 * log(1000 / 10) / 2
    assert (log(point.low), log(point.high)) == pytest.approx((log(100) - reach, log(100) + reach))


def test_an_entry_of_a_history_is_written_in_words(tmp_path):
    one = trained("rnn", 0, [(10, 1, 4.0)])
    history = {key: [{**entry, "gradient_norm": 1.5} for entry in entries] for key, entries in one[1].items()}
    assert the_picture(curves(tmp_path, [(one[0], history)], y="gradient_norm")).y_label == "gradient norm"


def test_a_training_that_failed_is_left_out_by_its_own_name(tmp_path):
    failed = trained("rnn", 1, [], status="failed", reason="train of words x rnn: nan")
    run = curves(tmp_path, [trained("rnn", 0, [(10, 1, 4.0)]), failed])
    assert "Left out: words/rnn, seed 1: train of words x rnn: nan." in notes(run)


def test_points_without_a_number_break_a_curve_and_nothing_else(tmp_path):
    entries = [(10, 1, 4.0), (20, 2, nan), (30, 3, inf), (40, 4, 2.0)]
    run = curves(tmp_path, [trained("rnn", 0, entries), trained("rnn", 1, entries)])
    assert [row["mean"] for row in rows(run, tmp_path / "report")] == ["4.0", "nan", "inf", "2.0"]
    assert "rnn: 2 of 4 points are off the axes, such as infinite values." in notes(run)
    assert b"nan" not in draw(the_picture(run))["svg"].lower()


@pytest.mark.slow(1)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_no_number_is_too_large_to_report_on(tmp_path, scale):
    for values in ([1e300, 1e308, 5], [-1e308, 1e308, 0.5], [1, 10**400], [1e-320, 1.5], [-5, -3], [0, 0]):
        for kind in ("histogram", "box"):
            run = drawn_run(
                tmp_path, TWO, {"length": [values] * 4}, kind=kind, values=["length"], by="model", scale=scale
            )
            picture = the_picture(run)
            assert picture.empty or draw(picture)
    run = drawn_run(tmp_path, TWO[:1], {"length": [[1, 10**19, 1e308]]}, kind="box", values=["length"])
    assert DISTRIBUTIONS.read(run)[0].counts == [(1, 1), (10**19, 1), (1e308, 1)]
    run = curves(tmp_path, [trained("rnn", 0, [(1, 1, 1e308), (2, 2, -1e308), (3, 3, 1.0)])], scale=scale)
    assert draw(the_picture(run))


def test_a_scatter_has_a_point_for_each_group_with_its_deviation(tmp_path):
    pairs = {("rnn", 0): (1.0, 10.0), ("rnn", 1): (3.0, 40.0), ("lstm", 0): (5.0, 60.0)}
    cells = [measured(m, "greedy", s, rate=x, nats=y) for (m, s), (x, y) in pairs.items()]
    cells += [cell("lstm", "greedy", 1, {"rate": number(9.0)}, status="failed", reason="no scores")]
    run = drawn_run(tmp_path, cells, kind="scatter", x="rate", y="nats", by=["model"])
    rnn, lstm = rows(run, tmp_path / "report")
    assert [float(rnn[key]) for key in ("x", "x_std", "y", "y_std", "seeds")] == pytest.approx(
        [2, sqrt(2), 25, sqrt(450), 2]
    )
    assert (lstm["x"], lstm["x_std"], lstm["y"], lstm["seeds"]) == ("5.0", "", "60.0", "1"), (
        "only seeds that have both"
    )
    assert "Left out: words/lstm/greedy/test, seed 1: no scores." in notes(run)


def test_a_point_off_the_axes_is_told(tmp_path):
    cells = [measured("rnn", "greedy", 0, rate=0.0, nats=2.0), measured("lstm", "greedy", 0, rate=1.0, nats=2.0)]
    run = drawn_run(tmp_path, cells, kind="scatter", x="rate", y="nats", by=["model"], scale={"x": "log"})
    assert [one.label for one in the_picture(run).series] == ["lstm"]
    assert "rnn is off the axes, at 0 and 2." in notes(run)


def every_kind(tmp_path, *names):
    """Return a run with a figure of each kind, by models of these names."""
    cells = [measured(name, "greedy", seed, length=3.0, gold=seed + 1.0) for name in names for seed in (0, 1)]
    cells = [replace(one, artifacts={"train": f"{place:012d}"}) for place, one in enumerate(cells)]
    histories = {
        f"{place:012d}": [{"step": s, "loss": 9 / s + place} for s in (1, 2, 3)] for place in range(len(cells))
    }
    lengths = {"length": [[1 + place, 2, 4] for place in range(len(cells))], "gold": [[2, 3]] * len(cells)}
    run = drawn_run(tmp_path, cells, lengths, histories, names, kind="box", values=["length"])
    figures = [
        {
            "id": "h",
            "kind": "histogram",
            "values": ["length", "gold"],
            "by": "model",
            "scale": {"x": "log", "y": "log"},
        },
        {"id": "b", "kind": "box", "values": ["length", "gold"], "by": "model"},
        {"id": "l", "kind": "line", "x": "step", "y": "loss", "by": "model", "scale": "log"},
        {"id": "s", "kind": "scatter", "x": "length", "y": "gold", "by": "model", "width": 3.25},
        {"id": "m", "kind": "heat", "x": "decoder", "y": "model", "value": "length"},
        {"id": "p", "kind": "bar", "x": "model", "y": "gold", "panels": "decoder"},
        {"id": "q", "kind": "line", "x": "model", "y": "gold", "by": "decoder", "width": "column"},
        {"id": "r", "kind": "scatter", "x": "length", "y": "gold", "by": "decoder", "points": "model"},
        {"id": "t", "kind": "survival", "by": "model", "panels": "decoder"},
    ]
    OUTPUT_LENGTHS.write(
        run.folder / OUTPUT_LENGTHS.file, [OutputLengths(one.cell, [(2, 3, 0), (9, 1, 2)]) for one in cells]
    )
    figures = [Figure.model_validate({"caption": f"{names[0]} beside others", **figure}) for figure in figures]
    return with_sections(run, figures=figures)


@pytest.mark.nightly
def test_the_same_run_gives_the_same_bytes_twice(tmp_path):
    run = every_kind(tmp_path, "rnn", "lstm")
    first = written(run, tmp_path / "a")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import matplotlib; matplotlib.rcParams['axes.facecolor'] = 'y'\n"
        "from pathlib import Path; from test_figures import every_kind, write_report\n"
        "write_report(every_kind(Path(sys.argv[2]), 'rnn', 'lstm'), Path(sys.argv[2]) / 'b')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, os.path.dirname(__file__), str(tmp_path)]
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    assert {name.rpartition(".")[2] for name in first if name.startswith("figures/")} == {"svg", "pdf", "csv"}
    for name, content in first.items():
        assert (tmp_path / "b" / name).read_bytes() == content, name


NAMES = [HOSTILE, "_rnn", "$x$ $", "\\alpha", "\ufffe", "日本", "<text>", "a" * 400]


@pytest.mark.nightly
def test_names_are_drawn_as_they_are(tmp_path):
    shown = {re.sub("\ufffe", "\ufffd", visible(name))[:6] for name in NAMES}
    for picture in pictures(every_kind(tmp_path, *NAMES)):
        drawn = draw(picture)
        if picture.figure.points:  # which are named where names fit
            continue
        tree = ElementTree.fromstring(drawn["svg"])
        assert {(text.text or "")[:6] for text in tree.iter("{http://www.w3.org/2000/svg}text")} >= shown
        assert {element.tag.partition("}")[2] for element in tree.iter()} <= {
            "svg", "metadata", "RDF", "Work", "type", "format", "defs", "style", "g", "path", "use", "text", "clipPath", "rect",
        }  # fmt: skip
        assert drawn["pdf"].startswith(b"%PDF")


@pytest.mark.slow
def test_a_report_shows_its_figures(tmp_path):
    files = written(every_kind(tmp_path, "a_b", "lstm"), tmp_path / "report")
    text = files["report.md"].decode()
    assert (
        "## h: a\\_b beside others\n\n![a\\_b beside others](figures/h.svg)\n\n- 6 values, pooled over 2 seeds.\n"
        in text
    )
    assert b"\\includegraphics{figures/h.pdf}" in files["report.tex"]
    assert b"\\caption{h: a\\_b beside others}" in files["report.tex"]
    assert {f"figures/{one}.{kind}" for one, kind in product("hblsmpqrt", ("svg", "pdf", "csv"))} <= set(files)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_with_figures_compiles_as_it_stands(tmp_path):
    run = every_kind(tmp_path, HOSTILE, "lstm")
    lost = Figure.model_validate(
        {"id": "lost_1", "kind": "box", "values": ["rate"], "by": "model", "caption": HOSTILE}
    )
    run = with_sections(run, figures=[*language(run).figures, lost])
    write_report(run, tmp_path / "report")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path / "report", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "pdf> [" in done.stdout or "figures/h.pdf" in done.stdout


def test_lines_differ_without_their_colours(tmp_path):
    """Eleven curves: no two have both the same dashes and the same marks, whatever they are printed with."""
    names = [f"model-{place}" for place in range(11)]
    trainings = [trained(name, 0, [(1, 1, 1.0), (2, 2, place)]) for place, name in enumerate(names)]
    run = curves(tmp_path, trainings, names=names)
    tree = ElementTree.fromstring(draw(the_picture(run))["svg"])
    space = "{http://www.w3.org/2000/svg}"
    groups = [group for group in tree.iter(f"{space}g") if re.fullmatch(r"line2d_\d+", group.get("id", ""))]
    looks = set()
    for group in groups:
        lines = [path.get("style", "") for path in group.findall(f"{space}path")]
        marks = [path.get("d") for path in group.findall(f"{space}defs/{space}path")]
        if len(lines) == len(marks) == 1:
            looks.add((*re.findall("stroke-dasharray: [^;]*", lines[0]), " ".join(marks[0].split())))
    assert len(looks) >= 11


FIGURES = """
figures:
  - {id: ends, kind: histogram, caption: Ends, values: [ended], by: [model], where: {decoder: draw}}
  - {id: scores, kind: box, values: [nats], by: [model, decoder]}
  - {id: curves, kind: line, x: epoch, y: valid nats, by: model}
"""


@pytest.mark.slow
def test_a_run_keeps_what_its_figures_need_and_no_more(suite_file, tmp_path):
    run = bench_core.run(
        suite_file(SUITE.replace("profiles:", f"{FIGURES}profiles:")), store=tmp_path / "store", out=tmp_path / "runs"
    )
    lines = [json.loads(line) for line in (run.folder / "distributions.jsonl").read_text().splitlines()]
    assert {(line["metric"], line["cell"]["decoder"]) for line in lines} == {
        ("ended", "draw"), ("nats", "argmax"), ("nats", "draw"),
    }  # fmt: skip
    kept = {one.artifacts["measure/ended"]: one for one in run.cells if one.cell["decoder"] == "draw"}
    for key, one in kept.items():
        parts = read_lines(tmp_path / "store" / "measure" / key / "parts.jsonl.gz")
        (line,) = [line for line in lines if line["metric"] == "ended" and line["cell"] == one.cell]
        assert line["counts"] == [[value, parts.count(value)] for value in sorted(set(parts))]
    ends, scores, curves = pictures(run)
    assert [one.label for one in ends.series] == ["one", "two"]
    assert scores.empty.startswith("nats stores [")
    assert [(one.label, one.seeds) for one in curves.series] == [("one", 2), ("two", 2)]
    assert [[point.x for point in one.rows] for one in curves.series] == [[1, 2, 3]] * 2
    assert curves.y_label == "valid nats"
    shutil.rmtree(tmp_path / "store")
    assert "figures/ends.svg" in written(read_run(run.folder), tmp_path / "report")


def test_a_run_from_before_reports_were_installed_gets_what_its_figures_show(suite_file, tmp_path):
    path, places = suite_file(SUITE.replace("profiles:", f"{FIGURES}profiles:")), {"store": tmp_path / "store"}
    before = bench_core.run(path, "tiny", out=tmp_path / "runs", **places)
    kept = (before.folder / DISTRIBUTIONS.file).read_bytes()
    (before.folder / DISTRIBUTIONS.file).unlink()
    reseal(before.folder)
    again = bench_core.run(path, "tiny", out=tmp_path / "runs", **places)
    assert again.folder == before.folder
    assert (again.folder / DISTRIBUTIONS.file).read_bytes() == kept
    assert [*problems(again.folder)] == [], "the manifest lists what was added"


def test_a_run_without_figures_keeps_no_single_values(suite_file, tmp_path):
    run = bench_core.run(suite_file(), "tiny", store=tmp_path / "store", out=tmp_path / "runs")
    assert not (run.folder / "distributions.jsonl").exists()
    assert DISTRIBUTIONS.read(run) == []


def test_histories_of_two_kinds_of_hardware_are_kept_apart(suite_file, tmp_path):
    several = "hardware: {full: {threads: 1, device: cpu}, half: {threads: 1, device: cpu, precision: bf16}}"
    text = SUITE.replace("hardware: {threads: 1, device: cpu}", several).replace(
        "rows: [decoder]", "rows: [hardware, decoder]"
    )
    figure = "figures: [{id: c, kind: line, x: step, y: loss, by: [hardware, model]}]\nprofiles:"
    run = bench_core.run(
        suite_file(text.replace("profiles:", figure)), "tiny", store=tmp_path / "s", out=tmp_path / "r"
    )
    assert [one.label for one in the_picture(run).series] == ["full/one", "full/two", "half/one", "half/two"]


def test_damaged_single_values_are_made_again_before_a_figure_is_drawn_of_them(suite_file, tmp_path):
    path, places = suite_file(SUITE.replace("profiles:", f"{FIGURES}profiles:")), {"store": tmp_path / "store"}
    before = bench_core.run(path, "tiny", out=tmp_path / "runs", **places)
    for damaged in (tmp_path / "store" / "measure").glob("*/parts.jsonl.gz"):
        damaged.write_bytes(b"")
    run = bench_core.run(path, "tiny", out=tmp_path / "runs", **places)
    assert pictures(run)[0].series == pictures(before)[0].series
    assert all(one.status == "done" for one in run.cells)


def test_a_run_is_read_back_with_what_its_figures_need(tmp_path):
    run = histogram(tmp_path)
    read = stored(run)
    DISTRIBUTIONS.write(read.folder / DISTRIBUTIONS.file, [])
    assert not the_picture(read).series
    DISTRIBUTIONS.write(read.folder / DISTRIBUTIONS.file, DISTRIBUTIONS.read(run))
    assert the_picture(read_run(read.folder)) == the_picture(replace(run, folder=read.folder))


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("id: main, kind: box, values: [ended], by: [model, decoder]", "another figure also has the id 'main'"),
        ("id: f, kind: bars, values: [ended]", "'kind': unknown value 'bars'. Did you mean 'bar'?"),
        ("id: f, kind: box, values: [endde], by: [model, decoder]", "no metric of this suite is called 'endde'. Did you"),
        ("id: f, kind: box, values: [ended], by: [model]", "figure 'f' does not say which decoder: argmax, draw. Put"),
        ("id: f, kind: box, values: [ended], by: [modle]", "'modle' is neither. Did you mean 'model'?"),
        ("id: f, kind: box, values: [ended], by: [model], where: {decoder: drow}", "no decoder of this suite is called 'drow'"),
        ("id: f, kind: box, values: [ended], by: [seed]", "they have no seed axis"),
        ("id: f, kind: box, values: [ended], by: [model, model]", "an axis can be in `by` only once"),
        ("id: f, kind: box, values: [ended], by: [model, decoder], scale: {y: log}", "the y axis of a box plot"),
        ("id: f, kind: box, values: [ended], by: [model, decoder], bins: 3", "a box has no `bins`; it is drawn from values"),
        ("id: f, kind: histogram, by: [model, decoder]", "a histogram needs `values`"),
        ("id: f, kind: histogram, values: [ended], by: [model, decoder], bins: 0", "'bins'"),
        ("id: f, kind: histogram, values: [ended], by: [model, decoder], bin: 9", "unknown key 'bin'. Did you mean 'bins'"),
        ("id: f, kind: histogram, values: [ended], by: [model, decoder], scale: lin", "'scale'"),
        ("id: f, kind: scatter, x: ended, y: natz, by: [model, decoder]", "no metric of this suite is called 'natz'"),
        ("id: f, kind: scatter, x: ended, by: [model, decoder]", "a scatter needs `x` and `y`"),
        ("id: f, kind: line, x: steps, y: loss, by: model", "the x of a line must be `step` or `epoch`, an axis or a setting"),
        ("id: f, kind: line, x: step, y: loss, by: [model, decoder]", "a training curve has no decoder or split"),
        ("id: f, kind: line, x: step, y: loss", "figure 'f' does not say which model: one, two."),
        ("id: f, kind: line, x: step, y: nats, by: model", "no training history of this suite contains 'nats'. Known: valid nats, loss, lr."),
        ("id: f, kind: line, x: step, y: valid nuts, by: model", "contains 'valid nuts'. Did you mean 'valid nats'"),
        ("id: ../f, kind: line, x: step, y: loss, by: model", "'id'"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_figure_is_told_with_place_and_remedy(suite_file, figure, message):
    text = SUITE.replace("profiles:", f"figures:\n  - {{{figure}}}\nprofiles:")
    line = text[: text.index("figures:")].count("\n") + 2
    with pytest.raises(SuiteError) as error:
        load(suite_file(text))
    assert message in str(error.value)
    assert re.search(rf"suite.yaml:{line}:\d+: ", str(error.value))


def test_parts_of_a_loss_may_be_drawn_by_any_name(suite_file):
    figure = "figures: [{id: f, kind: line, x: epoch, y: kl, by: model}]\nprofiles:"
    assert language(load(suite_file(SUITE.replace("profiles:", figure)))).figures[0].y == "kl"


def test_one_word_is_the_scale_of_the_values():
    about = {"id": "f", "values": ["a"]}
    assert Figure.model_validate({**about, "kind": "histogram", "scale": "log"}).scales.model_dump() == {
        "x": "log",
        "y": "linear",
    }
    line = {"id": "f", "kind": "line", "x": "step", "y": "loss", "scale": "log"}
    assert Figure.model_validate(line).scales.model_dump() == {"x": "linear", "y": "log"}
    scatter = {"id": "f", "kind": "scatter", "x": "a", "y": "b"}
    assert Figure.model_validate({**scatter, "scale": "log"}).scales.model_dump() == {"x": "log", "y": "log"}
    assert Figure.model_validate({**scatter, "scale": {"y": "log"}}).scales.model_dump() == {
        "x": "linear",
        "y": "log",
    }
