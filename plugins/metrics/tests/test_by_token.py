"""Ranks and probabilities of target tokens, pooled over a cell: hand values, laws and mutants."""

from __future__ import annotations

from math import exp, inf, isnan, log

import pytest
from pydantic import ValidationError

from bench_core import Prediction, SuiteError, TaskInfo
from bench_metrics.by_token import BandPerplexity, ReciprocalRank, TokenAccuracy
from bench_metrics.perplexity import Perplexity
from bench_metrics.plugin import PerplexityConfig
from bench_metrics.token_configs import BandPerplexityConfig, ReciprocalRankConfig, TokenAccuracyConfig

INFO = TaskInfo(["</s>", "a", "b", "c", "d"], [3, 9, 1, 9, 5])  # by rank: 1, 3, 4, 0, 2


def scored(weight=1.0, **by_token):
    """Return the prediction of an example; the total is that of its tokens."""
    log_probs = by_token.get("log_prob", [])
    length = len(next(iter(by_token.values()), []))
    return Prediction(
        4, target_log_prob=sum(log_probs), target_tokens=length, weight=weight, by_token=by_token or None
    )


def value(metric, *predictions, info=INFO):
    prepared = metric.prepare(info, {})
    return prepared.combine([*prepared.measure(predictions)])


def accuracy(*predictions, k=1):
    return value(TokenAccuracy(TokenAccuracyConfig(k=k)), *predictions)


def band(*predictions, first=1, last=None, info=INFO, kind=BandPerplexity):
    return value(kind(BandPerplexityConfig(first=first, last=last)), *predictions, info=info)


def test_accuracy_is_the_share_of_tokens_among_the_k_best():
    cell = [scored(rank=[1, 2, 7, 1]), scored(rank=[5])]
    assert [accuracy(*cell, k=k) for k in (1, 2, 5, 7)] == [40, 60, 80, 100]


def test_tokens_are_pooled_and_examples_weighted():
    assert accuracy(scored(rank=[1]), scored(rank=[2, 2, 2])) == 25
    assert accuracy(scored(3.0, rank=[1]), scored(1.0, rank=[2])) == 75
    assert value(ReciprocalRank(ReciprocalRankConfig()), scored(3.0, rank=[1]), scored(1.0, rank=[4])) == 0.8125


def test_a_uniform_guess_has_the_reciprocal_rank_of_a_harmonic_number():
    ranks = [*range(1, 11)]
    found = value(ReciprocalRank(ReciprocalRankConfig()), scored(rank=ranks))
    assert found == pytest.approx(sum(1 / rank for rank in ranks) / 10)


def test_bands_of_all_tokens_have_the_perplexity_of_all():
    cell = [scored(gold=[1, 0, 2], log_prob=[-1.0, -0.5, -3.0]), scored(2.0, gold=[3, 4], log_prob=[-0.1, -2.0])]
    whole = value(Perplexity(PerplexityConfig()), *cell)
    assert band(*cell) == band(*cell, last=5) == pytest.approx(whole)
    logs, counts = [], []
    for first, last in [(1, 1), (2, 3), (4, None)]:
        tokens = sum(
            prediction.weight * (token in [1, 3, 4, 0, 2][first - 1 : last])
            for prediction in cell
            for token in prediction.by_token["gold"]
        )
        counts.append(tokens)
        logs.append(tokens * log(band(*cell, first=first, last=last)))
    assert exp(sum(logs) / sum(counts)) == pytest.approx(whole)


def check_that_bands_are_of_frequency_ranks(kind):
    cell = [scored(gold=[0, 1, 2, 3, 4], log_prob=[-1.0, -2.0, -3.0, -4.0, -5.0])]
    for (first, last), nats in {(1, 1): 2, (2, 2): 4, (1, 3): 11 / 3, (4, 4): 1, (5, None): 3, (4, 5): 2}.items():
        assert band(*cell, first=first, last=last, kind=kind) == pytest.approx(exp(nats)), (first, last)


class RarestFirst(BandPerplexity):
    """Mutant: rank 1 is the rarest token."""

    def prepare(self, info, references):
        return super().prepare(TaskInfo(info.vocabulary, [-count for count in info.counts]), references)


class ByNumber(BandPerplexity):
    """Mutant: ranks are token ids."""

    def prepare(self, info, references):
        return super().prepare(TaskInfo(info.vocabulary, [1] * 5), references)


class OverAll(BandPerplexity):
    """Mutant: divides by the number of all tokens."""

    def count(self, prediction):
        return prediction.target_tokens


def test_bands_are_of_ranks_by_frequency_and_ties_go_to_the_lower_id():
    check_that_bands_are_of_frequency_ranks(BandPerplexity)


@pytest.mark.parametrize("mutant", [RarestFirst, ByNumber, OverAll])
def test_other_bands_are_caught(mutant):
    with pytest.raises(AssertionError):
        check_that_bands_are_of_frequency_ranks(mutant)


def test_a_band_without_tokens_is_undefined_and_an_impossible_token_is_infinite():
    cell = scored(gold=[1, 3], log_prob=[-inf, -1.0])
    assert isnan(band(cell, first=5))
    assert band(cell, last=1) == inf
    assert band(cell, first=2, last=2) == pytest.approx(exp(1))


def test_values_that_a_model_does_not_report_are_named():
    with pytest.raises(SuiteError, match=r"example 4 has no 'rank' by token \(its values by token: none\)"):
        accuracy(scored())
    with pytest.raises(SuiteError, match=r"no 'gold' by token \(its values by token: rank\)"):
        band(scored(rank=[1]))


def test_a_band_of_tokens_that_were_never_counted_is_refused():
    with pytest.raises(SuiteError, match="the task has counts for 0 of its 5 tokens"):
        band(scored(gold=[1], log_prob=[-1.0]), first=2, info=TaskInfo(INFO.vocabulary))


def test_an_empty_band_is_refused():
    with pytest.raises(ValidationError, match=r"`last` \(3\) is below `first` \(4\)"):
        BandPerplexityConfig(first=4, last=3)


def test_signatures_name_the_band_and_the_number_of_tokens():
    assert BandPerplexity(BandPerplexityConfig(first=101)).signature == "log:nats|per:token|ranks:101-|by:default"
    assert TokenAccuracy(TokenAccuracyConfig(k=5)).label == "Accuracy@5"
    assert "k:5" in TokenAccuracy(TokenAccuracyConfig(k=5)).signature
