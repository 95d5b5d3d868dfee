from __future__ import annotations

import json
from math import exp, inf, isnan, log, nan

import pytest

from bench_core import PluginError, Prediction, SuiteError, TaskInfo
from bench_metrics.perplexity import BitsPerByte, Perplexity
from bench_metrics.plugin import BitsPerByteConfig, PerplexityConfig


def scored(log_prob, tokens, words=0, weight=1.0):
    return Prediction(7, target_log_prob=log_prob, target_tokens=tokens, target_words=words, weight=weight)


def perplexity(*predictions, **settings):
    metric = Perplexity(PerplexityConfig(**settings))
    return metric.combine([*metric.measure(predictions)])


@pytest.mark.parametrize("size", [1, 2, 27, 33_278])
def test_a_uniform_model_is_as_perplexed_as_its_vocabulary_is_large(size):
    assert perplexity(*(scored(-n * log(size), n) for n in range(1, 50))) == pytest.approx(size, rel=1e-12)


def test_probabilities_a_half_and_a_quarter_give_the_root_of_eight():
    assert perplexity(scored(log(0.5) + log(0.25), 2)) == pytest.approx(2.828427, abs=1e-6)


def test_a_perfect_model_has_perplexity_one():
    assert perplexity(scored(0.0, 3), scored(0.0, 1)) == 1


def test_one_impossible_target_makes_it_infinite():
    assert perplexity(scored(-1.0, 2), scored(-inf, 3), scored(-2.0, 2)) == inf


def test_an_impossible_target_is_stored_as_plain_json():
    metric = Perplexity(PerplexityConfig())
    stored = json.loads(json.dumps([*metric.measure([scored(-inf, 3), scored(-1.0, 1)])], allow_nan=False))
    assert stored == [[None, 3.0], [-1.0, 1.0]]
    assert metric.combine(stored) == inf


def test_what_no_float_can_hold_is_infinite():
    assert perplexity(scored(-1e4, 2)) == inf
    assert perplexity(scored(-1e308, 1), scored(-1e308, 1)) == inf


def test_tokens_are_pooled_and_examples_are_not_averaged():
    short, long = scored(-1 * log(4), 1), scored(-3 * log(2), 3)
    assert perplexity(short, long) == pytest.approx(2 ** (5 / 4))


def test_splitting_a_text_into_windows_changes_nothing():
    assert perplexity(scored(-6.0, 4)) == pytest.approx(perplexity(scored(-1.0, 1), scored(-5.0, 3)))


def test_weights_count_like_copies():
    weighted = perplexity(scored(-2.0, 2, weight=3), scored(-7.0, 3, weight=0.5))
    assert weighted == pytest.approx(perplexity(*[scored(-2.0, 2)] * 6, scored(-7.0, 3)))


def test_weight_zero_leaves_an_example_out_even_an_impossible_one():
    assert perplexity(scored(-2.0, 2), scored(-inf, 3, weight=0)) == pytest.approx(exp(1))


def test_only_weights_of_zero_are_undefined():
    assert isnan(perplexity(scored(-2.0, 2, weight=0)))


def test_perplexity_by_word_shares_the_same_nats_among_words():
    cell = [scored(-4.0, 6, words=3), scored(-5.0, 4, words=3)]
    assert perplexity(*cell, unit="word") == pytest.approx(exp(9 / 6))
    assert perplexity(*cell) == pytest.approx(exp(9 / 10))


def test_many_small_terms_are_summed_exactly():
    assert perplexity(*[scored(-0.1, 1)] * 100_000) == exp(0.1)


def test_words_that_no_task_counted_are_an_error():
    with pytest.raises(SuiteError, match="unit: token"):
        perplexity(scored(-1.0, 2), unit="word")


@pytest.mark.parametrize("score", [None, nan, inf])
def test_what_is_no_log_probability_is_an_error(score):
    with pytest.raises(PluginError, match=f"example 7 is {score}"):
        perplexity(scored(-1.0, 1), scored(score, 2))


def test_the_signature_tells_units_and_likelihoods_apart():
    settings = [{}, {"unit": "word"}, {"by": "elbo"}, {"by": "elbo", "unit": "word"}]
    signatures = [Perplexity(PerplexityConfig(**each)).signature for each in settings]
    assert len(set(signatures)) == 4
    assert signatures[0] == "log:nats|per:token|stop:included|by:default"


def test_the_signature_has_the_parts_that_a_stream_was_read_in():
    metric = PerplexityConfig.load()(PerplexityConfig())
    assert metric.prepare(TaskInfo(["<stop>"]), {}).signature == metric.signature
    parts = metric.prepare(TaskInfo(["<stop>"], extras={"parts": 4}), {})
    assert parts.signature == f"{metric.signature}|parts:4"


def bits(*predictions, **settings):
    metric = BitsPerByte(BitsPerByteConfig(**settings))
    return metric.combine([*metric.measure(predictions)])


def raw(log_prob, size, characters=None, **more):
    return Prediction(
        7, target_log_prob=log_prob, target_tokens=1, target_bytes=size, target_characters=characters, **more
    )


def test_bits_are_shared_out_among_all_bytes_and_texts_are_not_averaged():
    cell = [raw(-3 * log(2), 1, 1), raw(-5 * log(2), 7, 3)]
    assert bits(*cell) == pytest.approx(1)
    assert bits(*cell, per="character") == pytest.approx(2)


def test_weights_count_texts_like_copies_and_weight_zero_needs_no_text():
    weighted = bits(raw(-2.0, 2, weight=3), raw(-7.0, 3, weight=0.5), raw(-inf, None, weight=0))
    assert weighted == pytest.approx(bits(*[raw(-2.0, 2)] * 6, raw(-7.0, 3)))


def test_an_impossible_text_has_infinite_bits_and_no_text_none():
    assert bits(raw(-1.0, 2), raw(-inf, 3)) == inf
    assert isnan(bits(raw(-2.0, 2, weight=0)))
    assert isnan(bits())


def test_bits_beside_one_text_of_unknown_size_are_an_error():
    with pytest.raises(SuiteError, match="bits-per-byte cannot be computed: the raw text of example 7 is unknown"):
        bits(raw(-1.0, 2), raw(-1.0, None))


def test_bits_of_bytes_characters_and_likelihoods_share_no_column():
    settings = [{}, {"per": "character"}, {"by": "elbo"}]
    assert len({BitsPerByte(BitsPerByteConfig(**each)).signature for each in settings}) == 3
