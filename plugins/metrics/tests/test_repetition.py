from __future__ import annotations

from math import isnan

import pytest

from bench_core import Hypothesis, Prediction
from bench_metrics.plugin import RepetitionConfig
from bench_metrics.repetition import Repetition


def repetition(*outputs, n=4):
    metric = Repetition(RepetitionConfig(n=n))
    return metric.combine(
        [*metric.measure([Prediction(0, hypotheses=[Hypothesis(tokens, True)]) for tokens in outputs])]
    )


def test_ngrams_that_occurred_before_are_counted():
    assert repetition([1, 2, 1, 2, 1], n=2) == 50  # 12 21 12 21
    assert repetition([1, 2, 1, 3], n=1) == 25


def test_nothing_repeats_where_all_tokens_differ():
    assert repetition(list(range(1, 30))) == 0


@pytest.mark.parametrize(("n", "size"), [(1, 5), (2, 9), (4, 100)])
def test_one_token_over_and_over_repeats_all_but_the_first_ngram(n, size):
    places = size - n + 1
    assert repetition([7] * size, n=n) == pytest.approx(100 * (places - 1) / places)


def test_outputs_are_pooled_and_do_not_repeat_each_other():
    assert repetition([1, 2, 3, 4], [1, 2, 3, 4]) == 0
    assert repetition([5] * 5, [1, 2, 3, 4]) == pytest.approx(100 / 3)


def test_outputs_too_short_for_an_ngram_are_left_out():
    assert repetition([], [1, 2, 3], [5] * 5) == 50
    assert isnan(repetition([], [1, 2, 3]))


def test_only_the_first_hypothesis_counts_for_repetition():
    metric = Repetition(RepetitionConfig())
    prediction = Prediction(0, hypotheses=[Hypothesis([1, 2, 3, 4], True), Hypothesis([5] * 9, True)])
    assert [*metric.measure([prediction])] == [[0, 1]]


def test_the_signature_carries_n():
    assert Repetition(RepetitionConfig(n=3)).signature.startswith("n:3|")
