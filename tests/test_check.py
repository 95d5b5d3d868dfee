"""Pairs of parts that do not fit are told together, without torch."""

from __future__ import annotations

import pytest

from bench_core.errors import SuiteError
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load


def misfits(path):
    suite = load(path)
    cells = cells_of(suite)
    with pytest.raises(SuiteError) as error:
        check_fit(suite, cells)
    return str(error.value)


def test_all_misfits_are_told_at_once(suite_file):
    text = {
        "words: {name: letters}": "words: {name: letters}\n  shapes: {name: pictures}",
        "two: {name: bigram, scale: 2.0}": "two: {name: blind}",
        "rows: [decoder]": "rows: [task, decoder]",
        "select: {metric: nats}": "select: {}",
    }
    found = misfits(suite_file(**text))
    assert "12 of 16 cells cannot run" in found or "16 of 16" in found
    assert "shapes x one" in found
    assert "pictures provides source grid; bigram takes none." in found
    assert "two x argmax" in found
    assert "argmax needs a Stepper (start, step); blind is a Sampler." in found
    assert "two x nats" in found
    assert "nats needs a Scorer (score); blind is a Sampler." in found


def test_skipped_pairs_and_metrics_do_not_count(suite_file):
    text = {
        "two: {name: bigram, scale: 2.0}": "two: {name: blind}",
        "select: {metric: nats}": "select: {}",
        "seeds: 2": "seeds: 2\nskip: [{model: two, decoder: argmax}, {model: [two], metric: nats}]",
    }
    suite = load(suite_file(**text))
    cells = cells_of(suite)
    check_fit(suite, cells)
    assert {(cell.model, cell.decoder, cell.metrics) for cell in cells} == {
        ("one", "argmax", ("ended", "nats")),
        ("one", "draw", ("ended", "nats")),
        ("two", "draw", ("ended",)),
    }


def test_a_likelihood_that_a_model_lacks_is_refused(suite_file):
    found = misfits(suite_file(**{"nats: {name: nats}": "nats: {name: nats, by: whole}"}))
    assert "bigram has no likelihood 'whole', only: exact, half." in found


def test_an_unknown_split_is_refused(suite_file):
    assert "letters has no split 'dev'. Its `splits:` are train, valid, test." in misfits(
        suite_file(**{"seeds: 2": "seeds: 2\nsplits: [dev]"})
    )


def test_a_metric_of_text_needs_a_decoder(suite_file):
    text = {"decoders:\n  argmax: {name: argmax}\n  draw: {name: draw}\n": "", "rows: [decoder]": "rows: [split]"}
    assert "ended measures generated text; the suite has no decoders." in misfits(suite_file(**text))


def test_selection_by_a_metric_of_text_needs_a_decoder(suite_file):
    assert "name a decoder under `select:`" in misfits(suite_file(**{"{metric: nats}": "{metric: ended}"}))


def test_a_selection_by_text_works(suite_file, tmp_path):
    import bench_core

    run = bench_core.run(
        suite_file(**{"{metric: nats}": "{metric: ended, decoder: argmax, examples: 4}"}),
        store=tmp_path / "store",
        out=tmp_path / "runs",
    )
    assert all(cell.status == "done" for cell in run.cells)
