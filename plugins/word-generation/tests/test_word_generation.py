"""The task: its rows and its facts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict

import pytest
import torch

from bench_authors.testing import TaskCase, check_task
from bench_core import DataError, Purpose, Rng, Size
from bench_word_generation.plugin import WordGenerationConfig

ALL = Size(10**6)


def words(task, batches):
    """Return the text of each row by its id."""
    return {
        number: task.text(gold[: length - 1])
        for batch in batches
        for number, gold, length in zip(batch.ids.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True)
    }


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"split": "vocabulary", "test": 0.3},
        {"alphabet": None, "tokens": 500, "epoch": 37, "samples": None},
    ],
)
def test_the_task_keeps_all_contracts(prepared, tmp_path, settings):
    config, _, _ = prepared(**settings)
    folder = tmp_path / "again"
    folder.mkdir()
    assert len(check_task(TaskCase.of(config, tmp_path, folder))) == 12


def test_facts_tell_words_counts_and_letters(prepared):
    _, _, info = prepared()
    assert info.vocabulary == ["<stop>", "a", "b", "c"]
    counts, train = info.extras["word_counts"], dict(
        zip(info.extras["words"], info.extras["word_counts"]["train"], strict=True)
    )  # fmt: skip
    assert info.extras["words"] == ["ab", "aa", "abba", "ba", "cab", "bb", "caba", "abc", "cc", "bac"]
    assert [sum(each) for each in zip(*counts.values(), strict=True)] == [400, 200, 100, 90, 60, 40, 30, 25, 20, 12]
    letters = Counter()
    for word, number in train.items():
        letters.update({letter: number * word.count(letter) for letter in word})
    assert info.counts == [sum(train.values()), *(letters[letter] for letter in "abc")]
    assert json.loads(json.dumps(asdict(info)))["extras"] == info.extras


def test_statistics_tell_entropy_in_nats_and_bits_and_what_training_lacks(prepared):
    _, _, info = prepared({"ab": 2000, "ba": 2000}, split="vocabulary", test=0.5)
    about = info.extras["statistics"]
    assert about["all"]["entropy_bits"] == pytest.approx(1)
    assert about["all"]["entropy_nats"] == pytest.approx(0.693147, abs=1e-6)
    assert about["all"]["mean_letters"] == 2
    assert (about["train"]["unseen_share"], about["test"]["unseen_share"]) == (0, 1)
    assert (about["test"]["types"], about["test"]["tokens"], about["test"]["unseen_types"]) == (1, 2000, 1)
    assert about["train"]["samples"] == 50


def test_rows_to_train_on_are_words_drawn_with_their_counts(prepared):
    _, task, info = prepared(epoch=10**6)
    counts = dict(zip(info.extras["words"], info.extras["word_counts"]["train"], strict=True))
    whole, seen = sum(counts.values()), Counter()
    for epoch in range(30):
        rows = words(task, task.batches("train", Purpose.TRAIN, ALL, Rng(epoch)))
        assert len(rows) == whole  # no more than there are tokens
        seen.update(rows.values())
    for word, number in counts.items():
        share, margin = number / whole, 5 * (number / whole / (30 * whole)) ** 0.5
        assert seen[word] / (30 * whole) == pytest.approx(share, abs=margin)


def test_every_epoch_of_training_draws_anew_and_its_words_are_unsorted(prepared):
    _, task, _ = prepared()
    first, other = (words(task, task.batches("train", Purpose.TRAIN, ALL, Rng(seed))) for seed in (1, 2))
    assert len(first) == 300
    assert first != other
    assert list(first.values()) != sorted(first.values(), key=list(first.values()).index)


def test_without_noise_rows_to_train_on_are_as_like_the_distribution_as_can_be(prepared):
    _, task, info = prepared(valid=0.5, epoch=10**6)
    rows = words(task, task.batches("valid", Purpose.TRAIN, Size(7)))
    counts = dict(zip(info.extras["words"], info.extras["word_counts"]["valid"], strict=True))
    assert len(rows) == sum(counts.values())
    assert Counter(rows.values()) == +Counter(counts)
    _, task, _ = prepared(valid=0.5, epoch=1000)
    fewer = Counter(words(task, task.batches("valid", Purpose.TRAIN, ALL)).values())
    for word, number in counts.items():
        assert abs(fewer[word] - 100 * number / sum(counts.values())) <= 1


def test_rows_to_score_are_types_weighted_by_their_counts(prepared):
    _, task, info = prepared(split="vocabulary", test=0.3)
    types, seen = info.extras["words"], {}
    for place, split in enumerate(("train", "valid", "test")):
        counts = info.extras["word_counts"][split]
        batches = list(task.batches(split, Purpose.SCORE, Size(3)))
        weights = torch.cat([batch.extras["weight"] for batch in batches]).tolist()
        rows = words(task, batches)
        assert rows == {number: types[number - place * len(types)] for number in rows}
        assert weights == [counts[number - place * len(types)] for number in rows]
        seen[split] = {word for word, weight in zip(rows.values(), weights, strict=True) if weight}
        assert seen[split] == {word for word, number in zip(types, counts, strict=True) if number}
    assert not seen["train"] & seen["test"]
    assert set(rows.values()) == seen["train"] | seen["test"]  # test has the types of train too, without weight


def test_rows_to_decode_are_empty_and_as_many_as_are_asked_for(prepared):
    _, task, _ = prepared(samples=7)
    batches = list(task.batches("test", Purpose.DECODE, Size(3)))
    assert [len(batch) for batch in batches] == [3, 3, 1]
    assert all(batch.prompt.tolist() == batch.gold.tolist() == [[0]] * len(batch) for batch in batches)
    assert task.references("test") == {number: [] for number in range(7)}


def test_a_drawn_corpus_has_as_many_tokens_as_are_asked_for_and_sorts_its_types_anew(prepared):
    _, _, info = prepared(tokens=300)
    about, counts = info.extras["statistics"]["all"], info.extras["word_counts"]
    totals = [sum(each) for each in zip(*counts.values(), strict=True)]
    assert about["tokens"] == sum(totals) == 300
    assert totals == sorted(totals, reverse=True)
    assert min(totals) > 0
    assert about["types"] + about["left_out_types"] == 10


def test_a_corpus_too_small_for_three_splits_is_refused(prepared):
    with pytest.raises(
        DataError, match=r"the (train|valid|test) split of list\.txt .* has no words; all splits have 1 types and 10"
    ):
        prepared({"ab": 10}, split="vocabulary")


def test_the_embedded_corpus_needs_no_file(tmp_path):
    config = WordGenerationConfig.model_validate({"corpus": {"name": "english", "sentences": 300}})
    info = config.load()(config, tmp_path).prepare(tmp_path)
    assert info.extras["embedded"] is True
    assert info.vocabulary[1:] == [*"abcdefghijklmnopqrstuvwxyz"]
    assert "the" in info.extras["words"]
    assert WordGenerationConfig().corpus.name == "cpython-docs"
