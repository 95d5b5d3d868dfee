"""Exact match of meanings, and the share of texts that parse."""

from __future__ import annotations

from math import isnan

import pytest

from bench_authors.testing import MetricCase, check_metric
from bench_code_generation.plugin import CodeExactMatchConfig, ParsesConfig
from bench_core import PluginError, Prediction, SuiteError, TaskInfo

CELL = [
    Prediction(0, references=["x = f ( 'a' )"], texts=['x = f ( "a" )', "wrong"]),
    Prediction(1, references=["if x :"], texts=["if ( x ) :"]),
    Prediction(2, references=["if x :"], texts=["if y :"]),
    Prediction(3, references=["else :"], texts=["else : :"]),
    Prediction(4, references=["try :"], texts=["finally :"]),
    Prediction(5, references=["x", "y = 1"], texts=["y=1"]),
    Prediction(6, references=["return x"], texts=[""]),
]


def metric(config, predictions=CELL):
    references = {prediction.id: prediction.references for prediction in predictions}
    return config.load()(config).prepare(TaskInfo(["<stop>"]), references)


@pytest.mark.parametrize("predictions", [None, CELL])
@pytest.mark.parametrize("config", [CodeExactMatchConfig(), ParsesConfig(newline="<nl>")])
def test_every_metric_keeps_the_contracts(config, predictions):
    assert len(check_metric(MetricCase.of(config, predictions))) == 7


def test_the_right_program_is_one_that_means_the_same():
    exact = metric(CodeExactMatchConfig())
    assert [*exact.measure(CELL)] == [1, 1, 0, 0, 0, 1, 0]
    assert exact.combine([*exact.measure(CELL)]) == pytest.approx(300 / 7)


def test_an_empty_output_does_not_count_as_a_program():
    parses = metric(ParsesConfig())
    assert [*parses.measure(CELL)] == [1, 1, 1, 0, 1, 1, 0]


def test_references_that_do_not_parse_make_their_example_wrong_and_are_told():
    old = [Prediction(0, references=["print x"], texts=["print x"]), Prediction(1, references=["x"], texts=["x"])]
    exact = metric(CodeExactMatchConfig(), old)
    assert [*exact.measure(old)] == [0, 1]
    assert exact.signature.endswith("|unparsable references:1")
    assert "unparsable" not in metric(CodeExactMatchConfig()).signature


def test_signatures_tell_version_references_and_the_word_for_a_new_line():
    assert "python:3." in metric(ParsesConfig()).signature
    assert metric(CodeExactMatchConfig()).signature.startswith("nrefs:var|")
    assert metric(ParsesConfig(newline="<nl>")).signature != metric(ParsesConfig()).signature


@pytest.mark.parametrize("config", [CodeExactMatchConfig(), ParsesConfig()])
def test_they_are_shares_of_examples_undefined_without_any(config):
    built = config.load()(config)
    assert built.scale == "share"
    assert isnan(built.combine([]))


def test_examples_without_reference_or_text_are_refused():
    with pytest.raises(SuiteError, match="no reference"):
        [*metric(CodeExactMatchConfig()).measure([Prediction(3, texts=["x"])])]
    with pytest.raises(PluginError, match="the first is example 3"):
        [*metric(ParsesConfig()).measure([Prediction(3, references=["x"])])]
    assert [*metric(ParsesConfig()).measure([Prediction(3, texts=["x"])])] == [1]
