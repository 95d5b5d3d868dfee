from __future__ import annotations

from math import exp

import pytest

from bench_core import Prediction, SuiteError
from bench_metrics.plugin import RibesConfig
from bench_metrics.ribes import Ribes


def ribes(*pairs, **settings):
    metric = Ribes(RibesConfig(**settings))
    predictions = [Prediction(7, references=list(references), texts=[text]) for text, *references in pairs]
    return metric.combine([*metric.measure(predictions)])


def test_a_text_in_the_right_order_scores_100_and_in_the_opposite_order_0():
    assert ribes(("a b c d", "a b c d")) == 100
    assert ribes(("d c b a", "a b c d")) == 0


@pytest.mark.parametrize(
    ("text", "reference", "ordered", "pairs"),
    [
        # the words' places in the reference: 7 8 9 10 6 0 1 2 3 4 5, then 2 1 0 3
        (
            "he read the book because he was interested in world history",
            "he was interested in world history because he read the book",
            6 + 15,
            55,
        ),
        ("Bob hit John yesterday", "John hit Bob yesterday", 3, 6),
    ],
)
def test_the_share_of_ordered_pairs_counts(text, reference, ordered, pairs):
    assert ribes((text, reference)) == pytest.approx(100 * ordered / pairs)


def test_precision_is_raised_to_alpha():
    pair = ("the book was read by the boy", "the boy read the book")  # 3 4 2 0 1: 2 of 10 pairs, 5 of 7 words
    assert ribes(pair) == pytest.approx(100 * 0.2 * (5 / 7) ** 0.25)
    assert ribes(pair, alpha=1) == pytest.approx(100 * 0.2 * 5 / 7)


def test_the_brevity_penalty_is_raised_to_beta():
    assert ribes(("a b", "a b c d")) == pytest.approx(100 * exp(1 - 4 / 2) ** 0.1)
    assert ribes(("a b", "a b c d"), beta=1) == pytest.approx(100 * exp(-1))


def test_nothing_or_a_single_word_has_no_order():
    assert ribes(("", "a b")) == ribes(("a", "a")) == ribes(("x y", "a b")) == ribes(("a b", "")) == 0


def test_words_that_repeat_are_told_apart_by_their_neighbours():
    assert ribes(("the cat and the dog", "the cat and the dog")) == 100


def test_the_best_reference_counts_and_examples_are_averaged():
    assert ribes(("a b c d", "d c b a", "a b c d"), ("d c b a", "a b c d")) == 50


def test_texts_are_tokenized_as_for_bleu():
    assert ribes(("a b.", "a b ."), tokenize="none") < ribes(("a b.", "a b .")) == 100
    assert ribes(("A b", "a b")) < ribes(("A b", "a b"), lowercase=True) == 100


@pytest.mark.extra("bench-metrics", "japanese")
def test_japanese_texts_are_tokenized_as_for_bleu():
    assert 0 < ribes(("東京に私は住んでいます", "私は東京に住んでいます"), tokenize="ja-mecab") < 100


def test_a_text_too_long_to_align_is_an_error_that_names_it():
    with pytest.raises(SuiteError, match="a text of example 7 has 2001 words, and nltk aligns at most 2000"):
        ribes(("a " * 2001, "a b"))


def test_the_signature_tells_tokenizer_exponents_and_version():
    assert Ribes(RibesConfig()).signature.startswith("case:mixed|tok:13a|alpha:0.25|beta:0.1|nltk:")
