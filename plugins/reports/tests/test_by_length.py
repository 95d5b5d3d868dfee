"""Curves by length: how examples are put into bins, and that each bin has the metric of its examples."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise

import pytest
from bench_small.figures import measured, notes, plotted, rows, the_picture
from bench_small.suites import SUITE

import bench_core
from bench_core.data import Prediction
from bench_core.runs.results import read_run
from bench_core.storage.predictions import read_lines, read_predictions
from bench_reports.figures.by_length import BY_LENGTH, ByLength, bin_indices, length_of
from bench_reports.figures.figures import pictures

PARTS = [(1, 2, 1.5, 4, 10.0), (3, 9, 6.0, 5, 20.0)]
CURVE = {"kind": "line", "x": "reference.tokens", "y": "rate", "by": "model"}


def by_length(tmp_path, parts, **figure):
    """Return a run with a curve by length, from the parts of each cell by model and seed."""
    cells = measured({(model, "greedy", seed): 1.0 for model, seed in parts})
    run = plotted(tmp_path, cells, **{**CURVE, **figure})
    found = [
        ByLength(one.cell, "rate", "reference.tokens", 5, own)
        if own
        else ByLength(one.cell, "rate", "reference.tokens", 5, reason="it is odd")
        for one, own in zip(cells, parts.values(), strict=True)
    ]
    BY_LENGTH.write(run.folder / BY_LENGTH.file, found)
    return run


def test_bins_hold_about_as_many_examples_each_and_never_split_a_length():
    draw = random.Random(0)
    for _ in range(300):
        lengths = [draw.randint(1, draw.choice([3, 30, 300])) for _ in range(draw.randint(1, 80))]
        count = draw.randint(1, 12)
        found = bin_indices(lengths, count)
        assert sorted(place for bin in found for place in bin) == [*range(len(lengths))]
        assert len(found) <= count
        for shorter, longer in pairwise(found):
            assert max(lengths[place] for place in shorter) < min(lengths[place] for place in longer)
        for bin in found:
            longest = max(lengths[place] for place in bin)
            alike = sum(lengths[place] == longest for place in bin)
            assert len(bin) - alike < -(-len(lengths) // count), "without its longest, a bin is not too full"


def test_bins_may_be_given_by_their_upper_ends():
    assert bin_indices([1, 10, 11, 20, 21, 99], (10, 20)) == [[0, 1], [2, 3], [4, 5]]
    assert bin_indices([5, 6], (1, 2, 50)) == [[0, 1]], "bins without examples are none"
    assert bin_indices([], 3) == bin_indices([], (3,)) == []


def test_lengths_of_examples_by_their_names():
    prediction = Prediction(7, prompt="ein kleines Haus", target_tokens=9, target_words=4)
    assert [length_of(prediction, name) for name in ("reference.tokens", "reference.words", "source.words")] == [
        9,
        4,
        3,
    ]
    with pytest.raises(bench_core.BenchError, match="example 7 has no source"):
        length_of(Prediction(7, target_tokens=1), "source.words")


def test_a_point_is_the_mean_over_seeds_at_the_mean_length(tmp_path):
    other = [(1, 2, 1.5, 4, 14.0), (3, 9, 6.0, 5, 26.0)]
    run = by_length(tmp_path, {("rnn", 0): PARTS, ("rnn", 1): other})
    found = rows(run, tmp_path / "report")
    assert [(float(row["x"]), float(row["mean"]), row["first"], row["last"], row["examples"]) for row in found] == [
        (1.5, 12.0, "1", "2", "8"), (6.0, 23.0, "3", "9", "10"),
    ]  # fmt: skip
    assert the_picture(run).x_label == "tokens of the reference, EOS included"
    assert "Each point is a bin of examples, at their mean length." in notes(run)


def test_cells_that_are_not_known_by_length_say_why(tmp_path):
    run = by_length(tmp_path, {("rnn", 0): PARTS, ("lstm", 0): None})
    assert [one.label for one in the_picture(run).series] == ["rnn"]
    assert "Left out: words/lstm/greedy/test, seed 0: it is odd." in notes(run)
    BY_LENGTH.write(run.folder / BY_LENGTH.file, BY_LENGTH.read(run)[:1])
    assert any("the run stores rate only in total, not by length; run the suite again" in note for note in notes(run))


FIGURES = """
figures:
  - {id: f, kind: line, x: reference.tokens, y: ended, by: model, where: {decoder: draw}, bins: [2]}
  - {id: g, kind: line, x: reference.tokens, y: nats, by: model, where: {decoder: draw}}
  - {id: h, kind: line, x: source.words, y: ended, by: model, where: {decoder: draw}, bins: 2}
profiles:"""


@pytest.mark.slow
def test_a_run_keeps_the_metric_of_the_examples_in_each_bin(suite_file, tmp_path):
    path = suite_file(SUITE.replace("profiles:", FIGURES))
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs")
    found = {(one.cell["model"], one.cell["seed"], one.name): one for one in BY_LENGTH.read(run)}
    assert {one.cell["decoder"] for one in found.values()} == {"draw"}
    for one in run.cells:
        if one.cell["decoder"] != "draw":
            continue
        decoded = read_predictions(tmp_path / "store" / "decode" / one.artifacts["decode"] / "predictions.jsonl.gz")
        parts = read_lines(tmp_path / "store" / "measure" / one.artifacts["measure/ended"] / "parts.jsonl.gz")
        kept = found[one.cell["model"], one.cell["seed"], "ended by reference.tokens, [2]"]
        short = [part for part, prediction in zip(parts, decoded, strict=True) if prediction.target_tokens <= 2]
        long = [part for part, prediction in zip(parts, decoded, strict=True) if prediction.target_tokens > 2]
        assert kept.parts[0][1] <= 2 < kept.parts[1][0]
        assert [examples for *_, examples, _ in kept.parts] == [len(short), len(long)]
        values = [value for *_, value in kept.parts]
        whole = sum(value * examples for value, (*_, examples, _) in zip(values, kept.parts, strict=True)) / len(
            parts
        )
        assert whole == pytest.approx(one.numbers["ended"].value), "a mean of means, weighted by examples"
        nats = found[one.cell["model"], one.cell["seed"], "nats by reference.tokens, 5"]
        assert sum(examples for *_, examples, _ in nats.parts) == one.numbers["nats"].examples
    shutil.rmtree(tmp_path / "store")
    again = read_run(run.folder)
    assert [len(picture.series) for picture in pictures(again)[:2]] == [2, 2]


def test_a_length_that_examples_lack_is_told_in_the_place_of_the_figure(suite_file, tmp_path):
    figure = "figures: [{id: f, kind: line, x: source.words, y: nats, by: model, where: {decoder: draw}}]\nprofiles:"
    text = SUITE.replace("profiles:", figure).replace("{name: letters}", "{name: letters, prefix: 0}")
    run = bench_core.run(suite_file(text), "tiny", store=tmp_path / "store", out=tmp_path / "runs")
    reasons = {one.reason for one in BY_LENGTH.read(run)}
    assert reasons == {"nats cannot be measured by length: example 0 has no source"}
    assert the_picture(run).empty == "none of its cells has anything to draw."
    assert any("example 0 has no source" in note for note in notes(run))
