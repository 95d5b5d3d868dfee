"""Survival curves: the share of outputs that go on, what a limit hides of it, and where a run keeps their lengths."""

from __future__ import annotations

import json
import random
import shutil

import pytest
from bench_small.figures import canvas_of, measured, notes, plotted, rows, the_picture
from bench_small.forging import reseal
from bench_small.suites import SUITE
from scipy import stats

import bench_core
from bench_core.errors import StoreError
from bench_core.runs.results import read_run
from bench_core.storage.predictions import read_predictions
from bench_reports.figures.survival import OUTPUT_LENGTHS, OutputLengths, survival


def ended(tmp_path, ends, **figure):
    """Return a run with a survival curve, from the lengths of the outputs by model and seed."""
    cells = measured({(model, "greedy", seed): 1.0 for model, seed in ends})
    run = plotted(tmp_path, cells, **{"kind": "survival", "by": "model", **figure})
    found = [OutputLengths(one.cell, own) for one, own in zip(cells, ends.values(), strict=True)]
    OUTPUT_LENGTHS.write(run.folder / OUTPUT_LENGTHS.file, found)
    return run


def test_where_one_limit_cuts_all_the_share_is_that_of_longer_outputs():
    draw = random.Random(0)
    for _ in range(50):
        limit = draw.randint(1, 30)
        lengths = [draw.randint(1, 40) for _ in range(draw.randint(1, 60))]
        ends = [(length, lengths.count(length), 0) for length in sorted({one for one in lengths if one <= limit})]
        cut = sum(length > limit for length in lengths)
        ends = [(length, number, cut if length == limit else 0) for length, number, _ in ends]
        if cut and not any(length == limit for length, *_ in ends):
            ends.append((limit, 0, cut))
        for length, share in survival(ends).items():
            assert share == pytest.approx(sum(one > length for one in lengths) / len(lengths))


def test_outputs_that_were_cut_early_count_as_long_as_they_are_known():
    ends = [(6, 3, 1), (7, 1, 0), (9, 0, 1), (10, 1, 1), (11, 0, 1), (13, 1, 0), (16, 1, 0), (22, 1, 0), (23, 1, 0)]
    found = survival([*ends, (25, 0, 7)])
    lengths = [(length, end, cut) for length, end, cut in [*ends, (25, 0, 7)]]
    uncensored = [length for length, end, _ in lengths for _ in range(end)]
    censored = [length for length, _, cut in lengths for _ in range(cut)]
    oracle = stats.ecdf(stats.CensoredData(uncensored=uncensored, right=censored)).sf
    for length, share in found.items():
        assert share == pytest.approx(float(oracle.evaluate(length)))


@pytest.mark.slow
def test_a_curve_is_the_mean_over_seeds_and_never_leaves_the_whole(tmp_path):
    run = ended(tmp_path, {("rnn", 0): [(2, 1, 0), (5, 1, 0)], ("rnn", 1): [(2, 3, 0), (9, 0, 1)]})
    found = {int(row["x"]): row for row in rows(run, tmp_path / "report")}
    assert {x: float(row["mean"]) for x, row in found.items()} == {0: 100.0, 1: 100.0, 2: 37.5, 5: 12.5, 9: 12.5}
    known = [row for row in found.values() if row["low"]]
    assert [int(row["x"]) for row in known] == [2, 5, 9], "where nothing varies there is no band"
    assert all(0 <= float(row["low"]) <= float(row["mean"]) <= float(row["high"]) <= 100 for row in known)
    assert {x: (row["ended"], row["cut"]) for x, row in found.items() if x > 1} == {
        2: ("4", "0"), 5: ("1", "0"), 9: ("0", "1"),
    }  # fmt: skip
    assert the_picture(run).series[0].values == 6
    assert notes(run)[0] == "Means over 2 seeds; bands are 95 % intervals over seeds, for the same examples."


def test_a_mark_stands_where_a_limit_cut_and_nowhere_else(tmp_path):
    run = ended(tmp_path, {("rnn", 0): [(2, 1, 0), (9, 0, 3)], ("lstm", 0): [(2, 1, 0), (9, 3, 0)]})
    crosses = [line for line in canvas_of(run).axes[0].get_lines() if line.get_marker() == "+"]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in crosses] == [([9.0], [75.0])]


@pytest.mark.slow(4)
@pytest.mark.filterwarnings("error", "ignore::pytest.PytestUnraisableExceptionWarning")  # of other tests
@pytest.mark.parametrize("spread", ["interval", "std", "none"])
@pytest.mark.parametrize("scale", ["linear", "log", {"x": "log", "y": "log"}, {"y": "log"}])
def test_a_curve_of_any_lengths_is_drawn_on_any_axes_without_a_warning(tmp_path, scale, spread):
    for ends in ([(1, 5, 0)], [(1, 0, 5)], [(3, 1, 0), (1500, 0, 1)], [(1, 1, 1), (2, 1, 1)]):
        run = ended(tmp_path, {("rnn", 0): ends, ("rnn", 1): ends}, scale=scale, spread=spread)
        axes = canvas_of(run).axes[0]
        assert axes.get_xlim()[0] == (0 if scale in ("linear", {"y": "log"}) else 1)
        assert axes.get_xlim()[1] >= ends[-1][0]


def test_cells_without_lengths_are_left_out_and_say_why(tmp_path):
    run = ended(tmp_path, {("rnn", 0): [(2, 1, 0)], ("lstm", 0): []})
    found = OUTPUT_LENGTHS.read(run)
    OUTPUT_LENGTHS.write(run.folder / OUTPUT_LENGTHS.file, found[:1])
    assert [one.label for one in the_picture(run).series] == ["rnn"]
    assert any("the run stores no lengths of its outputs; run the suite again" in note for note in notes(run))
    (run.folder / OUTPUT_LENGTHS.file).write_text('{"ends": 1}\n')
    with pytest.raises(StoreError, match=r"lengths.jsonl cannot be read \(cell"):
        the_picture(run)


FIGURES = "figures: [{id: ends, kind: survival, by: model, panels: decoder}]\nprofiles:"


def test_a_run_keeps_the_lengths_of_its_outputs(suite_file, tmp_path):
    path, places = (
        suite_file(SUITE.replace("profiles:", FIGURES)),
        {"store": tmp_path / "store", "out": tmp_path / "runs"},
    )
    run = bench_core.run(path, **places)
    lines = [json.loads(line) for line in (run.folder / "lengths.jsonl").read_text().splitlines()]
    assert len(lines) == len(run.cells) == 8
    for one, line in zip(run.cells, lines, strict=True):
        predictions = read_predictions(
            tmp_path / "store" / "decode" / one.artifacts["decode"] / "predictions.jsonl.gz"
        )
        best = [prediction.hypotheses[0] for prediction in predictions]
        lengths = [(len(each.tokens) + each.finished, each.finished) for each in best]
        assert line["cell"] == one.cell
        assert line["ends"] == [
            [length, lengths.count((length, True)), lengths.count((length, False))]
            for length in sorted({length for length, _ in lengths})
        ]
        assert max(length for length, *_ in line["ends"]) <= 6
    kept = (run.folder / "lengths.jsonl").read_bytes()
    (run.folder / "lengths.jsonl").unlink()
    reseal(run.folder)
    again = bench_core.run(path, **places)
    assert (again.folder / "lengths.jsonl").read_bytes() == kept
    shutil.rmtree(tmp_path / "store")
    picture = the_picture(read_run(run.folder))
    assert picture.panels == ["argmax", "draw"]
    assert [(one.panel, one.label, one.seeds) for one in picture.series] == [
        ("argmax", "one", 2), ("argmax", "two", 2), ("draw", "one", 2), ("draw", "two", 2),
    ]  # fmt: skip
