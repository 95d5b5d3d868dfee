"""Witten-Bell n-grams, by hand and against dictionaries."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import exp, isnan, log

import numpy as np
import pytest

from bench_authors.testing import MetricCase, check_metric
from bench_core import Hypothesis, Prediction, SuiteError, TaskInfo
from bench_word_generation.ngrams import WittenBell
from bench_word_generation.plugin import NGramPerplexityConfig

A, B, STOP, SYMBOLS = 1, 2, 0, 27
CORPUS = [[A, B, STOP], [A, A, STOP]], [2, 1]  # ab, ab, aa


def probability(model, context, symbol):
    """Return p(symbol | the word so far)."""
    before = model.surprisal([context])[0] if context else 0.0
    return exp(before - model.surprisal([[*context, symbol]])[0])


def test_the_probabilities_of_a_corpus_of_three_words_by_hand():
    """Spec: unigram counts a 4, b 2, EOS 3; after a: b 2, a 1, EOS 1."""
    unigram, bigram = (WittenBell(*CORPUS, order, SYMBOLS) for order in (1, 2))
    assert probability(unigram, [], B) == pytest.approx((2 + 3 / 27) / 12)
    assert probability(unigram, [], B) == pytest.approx(0.175926, abs=1e-6)
    assert probability(bigram, [A], B) == pytest.approx((2 + 3 * 0.17592593) / 7)
    assert probability(bigram, [A], B) == pytest.approx(0.361111, abs=1e-6)
    assert probability(bigram, [], A) == pytest.approx((3 + (4 + 3 / 27) / 12) / 4)  # every word begins with a
    assert probability(bigram, [5], B) == pytest.approx(0.175926, abs=1e-6)  # a context never seen


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_every_conditional_sums_to_one(order):
    model = WittenBell(*CORPUS, order, SYMBOLS)
    for context in ([], [A], [A, A], [A, B, A], [9], [A, 9, A, B, B, B]):
        assert sum(probability(model, context, symbol) for symbol in range(SYMBOLS)) == pytest.approx(1)


def slowly(words, counts, order, symbols):
    """Return p(symbol | history) by the formula, from counts in dictionaries; the mark is called None."""
    seen = Counter()
    for word, count in zip(words, counts, strict=True):
        text = [None, *word]
        for place in range(1, len(text)):
            for back in range(min(order, place + 1)):
                seen[tuple(text[place - back : place + 1])] += count

    def given(history, symbol):
        found = 1 / symbols
        for length in range(min(order - 1, len(history)) + 1):
            context = tuple(history[len(history) - length :])
            after = [seen[(*context, other)] for other in range(symbols)]
            if sum(after):
                kinds = sum(map(bool, after))
                found = (seen[(*context, symbol)] + kinds * found) / (sum(after) + kinds)
        return found

    return given


@pytest.mark.parametrize("order", [1, 2, 3, 4, 7])
def test_surprise_is_that_of_counts_in_dictionaries(order):
    random = np.random.Generator(np.random.PCG64(3))
    words = [[*random.integers(1, 4, random.integers(0, 6)).tolist(), STOP] for _ in range(15)]
    counts = random.integers(1, 9, 15).tolist()
    given = slowly(words, counts, order, 4)
    tried = [[*word, STOP] for length in range(5) for word in product((1, 2, 3), repeat=length)]
    tried += [[1, 2], [], [3, 3, 3]]  # cut short
    for word, found in zip(tried, WittenBell(words, counts, order, 4).surprisal(tried), strict=True):
        text = [None, *word]
        assert found == pytest.approx(-sum(log(given(text[:place], text[place])) for place in range(1, len(text))))


def test_counts_weigh_as_repeats_do():
    words = [[A, B, STOP], [A, B, STOP], [A, A, STOP]]
    tried = [[A, STOP], [B, A, B, STOP]]
    repeated = WittenBell(words, [1, 1, 1], 3, SYMBOLS).surprisal(tried)
    assert repeated == pytest.approx(WittenBell(*CORPUS, 3, SYMBOLS).surprisal(tried))


def test_an_alphabet_too_large_for_so_long_ngrams_is_refused():
    with pytest.raises(SuiteError, match="6-grams of 9000 symbols are too many"):
        WittenBell(*CORPUS, 6, 9000)


COUNTS = {"train": [2, 0, 1], "valid": [0, 0, 0], "test": [0, 3, 0]}
INFO = TaskInfo(["<stop>", *"ab"], extras={"words": ["ab", "bb", "aa"], "word_counts": COUNTS})
PREDICTIONS = [
    Prediction(0, hypotheses=[Hypothesis([A, B], True)], texts=["ab"]),
    Prediction(1, hypotheses=[Hypothesis([], True)], texts=[""]),
    Prediction(2, hypotheses=[Hypothesis([B, B, B], False)], texts=["bbb"]),
]


def value(config, predictions=PREDICTIONS):
    metric = config.load()(config).prepare(INFO, {})
    return metric.combine([*metric.measure(predictions)])


@pytest.mark.parametrize("of", ["all", "test"])
@pytest.mark.parametrize("n", [2, 5])
def test_ngram_perplexity_keeps_the_contracts(n, of):
    assert check_metric(MetricCase.of(NGramPerplexityConfig(n=n, of=of), PREDICTIONS, info=INFO))


@pytest.mark.parametrize(
    ("of", "words", "counts"),
    [
        ("all", [[A, B, 0], [B, B, 0], [A, A, 0]], [2, 3, 1]),
        ("train", [[A, B, 0], [A, A, 0]], [2, 1]),
        ("test", [[B, B, 0]], [3]),
    ],
)
def test_perplexity_is_a_symbol_s_stop_included_where_there_is_one(of, words, counts):
    costs = WittenBell(words, counts, 2, 3).surprisal([[A, B, 0], [0], [B, B, B]])
    assert value(NGramPerplexityConfig(n=2, of=of)) == pytest.approx(exp(costs.sum() / 7))


def test_of_no_symbols_there_is_no_perplexity():
    assert isnan(value(NGramPerplexityConfig(), []))
    assert isnan(value(NGramPerplexityConfig(), [Prediction(0, hypotheses=[Hypothesis([], False)], texts=[""])]))
