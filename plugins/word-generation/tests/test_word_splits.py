"""Which words are kept, and how they are divided."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from bench_core import DataError
from bench_word_generation.lexicon import divide, entropy, lexicon, sample_counts, sample_size
from bench_word_generation.plugin import WordGenerationConfig
from bench_word_generation.word_counts import WordCounts


def kept(counts, **settings):
    return lexicon(WordCounts("toy", counts, {}), WordGenerationConfig.model_validate(settings))


def test_the_filter_is_that_of_the_paper():
    counts = {"a": 99, "of": 10, "to": 9, "twelveletter": 50, "thirteenletts": 50, "don't": 80, "4th": 20, "über": 30}
    assert kept(counts).words == ["twelveletter", "of"]
    assert kept(counts).left_out == {"sign": (3, 130), "length": (2, 149), "rare": (1, 9)}
    folded = kept({"The": 9, "the": 9, "It": 10, "a": 99})
    assert (folded.words, sum(each.types for each in folded.left_out.values())) == (["the", "it"], 1), (
        "merged are kept"
    )
    assert kept(counts, min_count=9, shortest=1, longest=13).words == [
        "a", "thirteenletts", "twelveletter", "of", "to",
    ]  # fmt: skip


def test_the_most_frequent_words_are_kept_those_of_one_frequency_in_order_of_their_letters():
    found = kept({"cc": 20, "bb": 30, "dd": 20, "aa": 20}, types=3)
    assert found.words == ["bb", "aa", "cc"]
    assert found.counts.tolist() == [30, 20, 20]


def test_words_that_are_the_same_in_lower_case_are_counted_together():
    counts = {"The": 6, "the": 6, "THE": 1, "tHe": 2}
    assert kept(counts).counts.tolist() == [15]
    assert kept(counts, lowercase=False, min_count=6).words == ["the"]  # capitals are not of the alphabet
    assert kept(counts, lowercase=False, alphabet=None, min_count=6).words == ["The", "the"]


def test_a_letter_and_its_accent_are_one_sign():
    found = kept({"e\u0301te\u0301": 7, "\u00e9t\u00e9": 5, "İki": 50}, alphabet=None)
    assert dict(zip(found.words, found.counts.tolist(), strict=True)) == {"i\u0307ki": 50, "été": 12}
    assert found.alphabet == "ikté\u0307"


def test_any_alphabet_will_do():
    counts = {"мир": 50, "peace": 50, "世界": 50}
    assert kept(counts, alphabet="абвгдежзийклмнопрст").words == ["мир"]
    assert kept(counts, alphabet=None).words == ["peace", "мир", "世界"]
    assert kept(counts, alphabet=None).alphabet == "acep" + "имр" + "世界"


def test_a_word_with_other_characters_is_refused_where_that_is_asked_for(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("fine 20\nDon't 30\nnaïve 40\n")
    found = WordCounts("mine", {"fine": 20, "Don't": 30, "naïve": 40}, {}, path)
    with pytest.raises(DataError, match=r"mine\.txt, line 2: \"don't\", like 1 other word, .*: \"'\"\."):
        lexicon(found, WordGenerationConfig(outside="error"))
    with pytest.raises(DataError, match=r"mine\.txt, line 2"):
        lexicon(found, WordGenerationConfig(outside="error", alphabet=None))


def test_where_nothing_is_left_the_message_tells_what_there_is():
    with pytest.raises(DataError, match=r"of 2 words, 0 consist of letters in 'abc.* frequent characters are 'мир'"):
        kept({"мир": 50, "мм": 2})
    with pytest.raises(DataError, match=r"1 consist of letters .* and at least 10 occurrences"):
        kept({"ab": 9})


def test_more_tokens_than_a_float_can_count_are_refused():
    with pytest.raises(DataError, match="too many to count exactly"):
        kept({"ab": 2**53})


def test_the_standard_split_draws_tokens_so_that_rare_types_can_be_unseen():
    counts = np.array([100_000, *[10] * 2000, *[1] * 1000])
    splits = divide(counts, WordGenerationConfig())
    assert (sum(splits.values()) == counts).all()
    assert splits["test"].sum() == pytest.approx(0.1 * counts.sum(), rel=0.02)
    assert splits["valid"].sum() == pytest.approx(0.02 * 0.9 * counts.sum(), rel=0.1)
    # a type of 10 tokens is missing in test by a chance of 0.9^10 = 0.349, one of 1 is in it by 0.1
    assert (splits["test"][1:2001] == 0).mean() == pytest.approx(0.349, abs=0.05)
    assert (splits["test"][2001:] == 1).mean() == pytest.approx(0.1, abs=0.04)
    assert ((splits["test"] > 0) & (splits["train"] == 0)).sum() > 50


def test_the_vocabulary_split_gives_whole_types_to_test_whatever_their_frequency():
    counts = np.sort(np.arange(1, 2001))[::-1].copy()
    splits = divide(counts, WordGenerationConfig(split="vocabulary"))
    chosen = splits["test"] > 0
    assert chosen.sum() == 200
    assert (splits["test"][chosen] == counts[chosen]).all()
    assert not (splits["train"] + splits["valid"])[chosen].any()
    assert 60 < chosen[:1000].sum() < 140  # of the more frequent half, about as many


def test_another_seed_draws_other_splits_and_the_same_the_same():
    counts = np.arange(10, 200)
    for split in ("standard", "vocabulary"):
        tests = [divide(counts, WordGenerationConfig(split=split, seed=seed))["test"].tolist() for seed in (3, 3, 4)]
        assert tests[0] == tests[1] != tests[2]


def test_a_smaller_corpus_can_be_drawn_from_large_counts():
    found = sample_counts(np.array([3 * 10**11, 10**11, 10]), 10_000, 0)
    assert found.sum() == 10_000
    assert found[0] == pytest.approx(7500, rel=0.05)
    assert found[2] == 0


def test_entropy_by_hand():
    assert entropy(np.array([2, 1, 1, 0])) == pytest.approx(1.5 * log(2))


def test_draws_are_as_many_as_make_different_ones_the_share_asked_for():
    """Two words alike: 2 (1 - 1/2^M) / M different ones a draw, 0.583 for M = 3 and 0.469 for M = 4."""
    two = np.array([5, 5])
    assert [sample_size(two, share) for share in (0.99, 0.7, 0.58, 0.5)] == [1, 2, 3, 3]
    assert sample_size(np.array([7, 0]), 0.27) == 3  # 1 / M of a single word


def test_as_many_draws_of_the_training_words_repeat_as_the_paper_s_oracle_does():
    counts = (10**6 / np.arange(1, 3001)).astype(np.int64)
    number = sample_size(counts, 0.27)
    words = np.random.Generator(np.random.PCG64(0)).choice(len(counts), (20, number), p=counts / counts.sum())
    assert np.mean([len(set(row)) / number for row in words.tolist()]) == pytest.approx(0.27, abs=0.005)
