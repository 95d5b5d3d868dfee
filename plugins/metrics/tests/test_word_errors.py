"""Missing, surplus and repeated words, by hand and by laws; the ratio of lengths."""

from __future__ import annotations

import random
from math import isnan

import pytest

from bench_core import Hypothesis, Prediction, SuiteError
from bench_metrics.length import LengthRatio
from bench_metrics.plugin import LengthRatioConfig, WordErrorsConfig
from bench_metrics.word_errors import WordErrors

KINDS = ("missing", "surplus", "repeated")


def errors(*pairs, **settings):
    """Return the missing, surplus and repeated words of pairs of an output and its references."""
    cell = [Prediction(n, texts=[text], references=references) for n, (text, references) in enumerate(pairs)]
    metrics = [WordErrors(WordErrorsConfig(of=kind, tokenize="none", **settings)) for kind in KINDS]
    return [metric.combine([*metric.measure(cell)]) for metric in metrics]


def test_words_are_counted_per_hundred_words_of_the_reference():
    assert errors(("the cat the the dog", ["the cat sat on a mat"])) == pytest.approx([400 / 6, 300 / 6, 200 / 6])


def test_a_word_that_the_reference_lacks_is_surplus_and_repeated_only_from_its_second_copy_on():
    assert errors(("a x", ["a b"])) == [50, 50, 0]
    assert errors(("a x x x", ["a b"])) == [50, 150, 100]
    assert errors(("a a b", ["a b"])) == [0, 50, 50]


def test_repetitions_that_the_reference_has_are_no_errors():
    assert errors(("very very good", ["very very good"])) == [0, 0, 0]


def test_order_does_not_matter():
    assert errors(("c b a", ["a b c"])) == [0, 0, 0]


def test_the_reference_with_the_fewest_errors_counts():
    assert errors(("a b", ["a b c d", "a b c", "z"])) == pytest.approx([100 / 3, 0, 0])


def test_examples_are_pooled():
    assert errors(("a", ["a b"]), ("c c", ["c c c c c c"])) == pytest.approx([100 * 5 / 8, 0, 0])


def test_an_empty_output_misses_everything_and_an_empty_reference_has_no_share():
    assert errors(("", ["a b"])) == [100, 0, 0]
    assert all(map(isnan, errors(("a", [""]))))


def test_case_matters_unless_it_is_ignored():
    assert errors(("The Cat", ["the cat"])) == [100, 100, 0]
    assert errors(("The Cat", ["the cat"]), lowercase=True) == [0, 0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_surplus_minus_missing_is_the_difference_of_the_lengths(seed):
    chance = random.Random(seed)
    text, reference = (" ".join(chance.choices("abcd", k=chance.randint(1, 9))) for _ in range(2))
    missing, surplus, repeated = errors((text, [reference]))
    ours, theirs = len(text.split()), len(reference.split())
    assert surplus - missing == pytest.approx(100 * (ours - theirs) / theirs)
    assert 0 <= repeated <= surplus
    swapped = errors((reference, [text]))
    assert swapped[0] * ours == pytest.approx(surplus * theirs)


def test_an_example_without_a_reference_is_refused():
    with pytest.raises(SuiteError, match="1 of 1 examples have no reference"):
        errors(("a", []))


def ratio(*lengths):
    metric = LengthRatio(LengthRatioConfig())
    cell = [
        Prediction(n, hypotheses=[Hypothesis([5] * (ours - finished), finished)], target_tokens=theirs)
        for n, (ours, theirs, finished) in enumerate(lengths)
    ]
    return metric.combine([*metric.measure(cell)])


def test_lengths_are_pooled_before_they_are_divided():
    assert ratio((2, 4, True), (10, 4, False)) == 12 / 8
    assert ratio((3, 3, True)) == 1


def test_the_ratio_of_no_lengths_is_nan():
    assert isnan(ratio())


@pytest.mark.parametrize("times", [1, 2, 7])
def test_the_ratio_does_not_depend_on_how_often_examples_occur(times):
    assert ratio(*[(3, 4, True), (6, 5, True)] * times) == pytest.approx(1)
