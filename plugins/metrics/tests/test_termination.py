from __future__ import annotations

from math import isnan

import pytest

from bench_authors.testing import catches
from bench_core import Hypothesis, Prediction, SuiteError
from bench_metrics.plugin import DistinctNonTerminatedConfig, NonTerminationConfig
from bench_metrics.termination import DistinctNonTerminated, NonTermination, terminations


def output(tokens, finished, *others):
    return Prediction(3, hypotheses=[Hypothesis(tokens, finished), *others])


def ratio(predictions, limit):
    metric = NonTermination(NonTerminationConfig(limit=limit))
    return metric.combine([*metric.measure(predictions)])


def distinct(predictions, limit):
    metric = DistinctNonTerminated(DistinctNonTerminatedConfig(limit=limit))
    return metric.combine([*metric.measure(predictions)])


# mistakes: each is handed the intact function, and returns one that takes its place


def counts_stop_as_one_too_many(terminated):
    """Not terminated if there are L tokens, as it reads in the paper: but a stop among them is the L-th."""

    def wrong(predictions, limit):
        shorter = [len(one.hypotheses[0].tokens) + one.hypotheses[0].finished < limit for one in predictions]
        return [end and short for end, short in zip(terminated(predictions, limit), shorter, strict=True)]

    return wrong


def leaves_stop_uncounted(terminated):
    """L words, and a stop after them."""
    return lambda predictions, limit: terminated(predictions, limit + 1)


def asks_for_a_stop_wherever_it_is(terminated):
    return lambda predictions, limit: [one.hypotheses[0].finished for one in predictions]


def asks_for_the_length_alone(terminated):
    """What is shorter than L has ended, for whatever reason."""
    return lambda predictions, limit: [len(one.hypotheses[0].tokens) < limit for one in predictions]


# laws


@catches(counts_stop_as_one_too_many)
def stop_as_the_last_token_allowed_still_terminates(terminated):
    assert [*terminated([output([5] * 4, True)], 5)] == [True]
    assert [*terminated([output([], True)], 1)] == [True]


@catches(leaves_stop_uncounted, asks_for_a_stop_wherever_it_is)
def stop_one_token_too_late_does_not_terminate(terminated):
    assert [*terminated([output([5] * 5, True)], 5)] == [False]


@catches(asks_for_the_length_alone)
def without_a_stop_nothing_terminates(terminated):
    """As many tokens as allowed tell that there is none among them; one token less does not tell."""
    assert [*terminated([output([5] * 5, False)], 5)] == [False]
    try:
        ended = [*terminated([output([5] * 4, False)], 5)]
    except SuiteError:
        ended = []
    assert not any(ended)


LAWS = (
    stop_as_the_last_token_allowed_still_terminates,
    stop_one_token_too_late_does_not_terminate,
    without_a_stop_nothing_terminates,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_termination_keeps_its_laws(law):
    law(terminations)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant(terminations))


def test_the_ratio_is_a_percentage_of_examples():
    cell = [output([1] * 3, True), output([1] * 10, False), output([1] * 9, True), output([1] * 12, True)]
    assert ratio(cell, 10) == 50


def test_only_the_first_hypothesis_counts():
    endless, short = Hypothesis([1] * 10, False), Hypothesis([1], True)
    assert ratio([output([1], True, endless)], 10) == 0
    assert ratio([output([1] * 10, False, short)], 10) == 100


def test_longer_decoding_does_not_change_the_ratio():
    lengths = [0, 3, 7, 8, 9, 10, 11, 30]
    for most in (9, 10, 12, 40):
        assert ratio([output([1] * min(n, most), n < most) for n in lengths], 9) == 50


def test_a_higher_limit_never_raises_the_ratio():
    cell = [output([1] * n, True) for n in range(20)]
    ratios = [ratio(cell, limit) for limit in range(1, 25)]
    assert ratios == sorted(ratios, reverse=True)
    assert (ratios[0], ratios[-1]) == (95, 0)


def test_decoding_that_broke_off_below_the_limit_is_an_error_that_says_what_to_do():
    cell = [output([1] * 4, False), output([1], True), output([1] * 3, False), output([1] * 10, False)]
    with pytest.raises(
        SuiteError, match=r"2 of 4 outputs .* first at 4 tokens.*`max_tokens: 10`.*`limit` to 3 or less"
    ):
        ratio(cell, 10)
    assert ratio(cell, 3) == 75


def test_distinct_outputs_need_the_same_limit():
    with pytest.raises(SuiteError, match="is unknown"):
        distinct([output([1] * 4, False)], 10)


def test_without_a_limit_unfinished_outputs_do_not_terminate():
    cell = [output([1] * 4, False), output([1] * 9, True), output([1] * 7, False), output([], True)]
    assert ratio(cell, None) == 50
    assert distinct(cell, None) == 100


def test_the_signature_carries_the_limit():
    signatures = [NonTermination(NonTerminationConfig(limit=limit)).signature for limit in (None, 500, 1500)]
    assert len(set(signatures)) == 3
    assert "limit:1500" in signatures[2]


def test_it_is_a_share_of_examples():
    assert NonTermination.scale == "share"


def test_one_loop_for_all_contexts_shows_as_one_distinct_output():
    loop, other = output([1, 2] * 5, False), output([3] * 10, False)
    assert distinct([loop] * 4, 10) == 25
    assert distinct([loop, other, loop, other], 10) == 50
    assert distinct([loop, other], 10) == 100


def test_outputs_that_terminate_are_not_asked_whether_they_are_distinct():
    assert distinct([output([1] * 10, False), output([4], True), output([5], True)], 10) == 100


def test_no_endless_output_leaves_their_diversity_undefined():
    assert isnan(distinct([output([1], True), output([2], True)], 10))


def test_outputs_that_differ_only_beyond_the_limit_are_alike():
    cell = [output([1] * 10 + [2], False), output([1] * 10 + [3], False)]
    assert distinct(cell, 10) == 50
    assert distinct(cell, 11) == 100


def test_digits_of_neighbours_do_not_run_together():
    assert distinct([output([1, 12], False), output([11, 2], False)], 2) == 100
