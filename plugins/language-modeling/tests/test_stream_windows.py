from __future__ import annotations

from math import log

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from bench_authors.looks.tasks import TaskLook
from bench_authors.testing import TaskCase, check_task
from bench_core import DataError, Purpose, Rng, Size, SuiteError
from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.computing.laws import Laws
from bench_core.computing.overlap import overlap
from bench_language_modeling.plugin import LanguageModelingConfig

TOKENS = 103  # in the tests' streams, of words w0, w1, ...


@pytest.fixture
def files(tmp_path):
    """Own files of seven lines: words in order, so that a token says where it stands."""
    paths = {}
    for split in ("train", "valid", "test"):
        words = [f"w{place}" for place in range(TOKENS - 7)]
        lines = [" ".join(words[start : start + 15]) for start in range(0, len(words), 15)]
        paths[split] = tmp_path / f"{split}.txt"
        paths[split].write_text("\n".join(lines) + "\n")
    return {split: str(path) for split, path in paths.items()}


def prepared(tmp_path, **settings):
    config = LanguageModelingConfig.model_validate(settings)
    task = config.load()(config, tmp_path)
    return task, task.prepare(tmp_path)


def stream(task, tmp_path, split="test"):
    return np.load(tmp_path / f"{split}.npy").tolist()


def windows(batches):
    """The tokens of each window, by its id."""
    found = {}
    for batch in batches:
        for place, gold, length in zip(batch.ids.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True):
            assert place not in found
            assert gold[length:] == [0] * (len(gold) - length)
            found[place] = gold[:length]
    return found


def joined(found):
    return [token for place in sorted(found) for token in found[place]]


@pytest.mark.parametrize("partition", ["sequential", "random"])
@pytest.mark.parametrize(
    "size", [Size(1), Size(2), Size(3), Size(7), Size(20), Size(500), Size(25, "tokens"), Size(1, "tokens")]
)
@pytest.mark.parametrize("window", [1, 8, 35, 200])
def test_windows_of_any_size_cover_the_stream_once_with_the_same_ids(files, tmp_path, partition, size, window):
    task, _ = prepared(tmp_path, corpus=files, window=window, partition=partition)
    found = windows(task.batches("test", Purpose.SCORE, size))
    assert joined(found) == stream(task, tmp_path)
    assert found == windows(task.batches("test", Purpose.SCORE, Size(4)))
    assert set(found) == set(task.references("test"))


def test_lines_are_followed_by_stops_and_words_keep_their_order(files, tmp_path):
    task, info = prepared(tmp_path, corpus=files)
    words = [info.vocabulary[token] for token in stream(task, tmp_path)]
    assert len(words) == TOKENS
    assert words[15] == words[-1] == "<stop>"
    assert [word for word in words if word != "<stop>"] == [f"w{place}" for place in range(TOKENS - 7)]
    assert info.counts[0] == 7
    assert sum(info.counts) == TOKENS


def test_stops_can_be_left_out(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files, stops=False)
    assert 0 not in stream(task, tmp_path)


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_a_row_that_continues_goes_on_where_the_same_row_ended(files, tmp_path, number):
    task, _ = prepared(tmp_path, corpus=files, window=8)
    tokens, continued, ended = stream(task, tmp_path), 0, None
    for batch in task.batches("test", Purpose.TRAIN, Size(number), Rng(1)):
        starts = [place * 8 for place in batch.ids.tolist()]
        if batch.continues:
            assert starts == ended
            continued += 1
        ended = [start + length for start, length in zip(starts, batch.length.tolist(), strict=True)]
        assert batch.prompt[:, 0].tolist() == [tokens[start - 1] if start else 0 for start in starts]
    assert continued == 13 // number - 1


def order(task, size, purpose=Purpose.SCORE):
    return [(batch.ids.tolist(), batch.continues) for batch in task.batches("test", purpose, size)]


def test_rows_of_a_training_read_equal_parts_of_the_stream(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files, window=8)
    batches = [ids for ids, _ in order(task, Size(3), Purpose.TRAIN)]
    assert batches == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11], [12]]


@pytest.mark.parametrize("size", [Size(1), Size(3), Size(128), Size(25, "tokens")])
def test_an_evaluation_reads_the_stream_in_one_row_whatever_the_size_of_a_batch(files, tmp_path, size):
    task, info = prepared(tmp_path, corpus=files, window=8)
    assert order(task, size) == [([place], place > 0) for place in range(13)]
    assert "parts" not in info.extras


def test_an_evaluation_in_parts_is_the_same_whatever_the_size_of_a_batch(files, tmp_path):
    task, info = prepared(tmp_path, corpus=files, window=8, parts=3)
    assert info.extras["parts"] == 3
    whole = [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert order(task, Size(128)) == [*zip(whole, [False, True, True, True], strict=True), ([12], False)]
    two = [[0, 4], [1, 5], [2, 6], [3, 7], [8], [9], [10], [11], [12]]
    continues = [False, True, True, True, False, True, True, True, False]
    assert order(task, Size(2)) == [*zip(two, continues, strict=True)]
    alone, _ = prepared(tmp_path, corpus=files, window=8, parts=50)
    assert not any(continues for _, continues in order(alone, Size(4)))
    with pytest.raises(ValidationError, match="Remove `parts`"):
        prepared(tmp_path, corpus=files, parts=2, partition="random")


def test_what_a_model_reads_is_the_stream_one_token_earlier(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files, window=8)
    (*_, batch) = task.batches("test", Purpose.SCORE, Size(1))
    tokens = stream(task, tmp_path)
    assert batch.inputs[0].tolist() == tokens[-8:-1]
    assert batch.gold[0].tolist() == tokens[-7:]
    assert batch.mask.all()


def test_a_random_epoch_covers_the_stream_once_at_an_offset_of_its_own(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files, window=8, partition="random")
    first = set()
    for key in range(12):
        batches = list(task.batches("test", Purpose.TRAIN, Size(4), Rng(key)))
        assert not any(batch.continues for batch in batches)
        found = windows(batches)
        assert joined(found) == stream(task, tmp_path)
        assert list(found) != sorted(found)
        first.add(len(found[0]))
    assert len(first) > 3


@pytest.mark.parametrize("partition", ["sequential", "random"])
def test_a_shuffled_evaluation_has_the_same_windows_each_alone(files, tmp_path, partition):
    task, _ = prepared(tmp_path, corpus=files, window=8, partition=partition)
    batches = list(task.batches("test", Purpose.SCORE, Size(4), Rng(3)))
    found = windows(batches)
    assert not any(batch.continues for batch in batches)
    assert list(found) != sorted(found)
    assert found == windows(task.batches("test", Purpose.SCORE, Size(4)))


def test_the_same_noise_gives_the_same_epoch_and_other_noise_another(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files, window=8, partition="random")
    orders = [[b.gold.tolist() for b in task.batches("train", Purpose.TRAIN, Size(4), Rng(key))] for key in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_a_stop_inside_of_a_window_is_a_word_whatever_the_tokenizer(files, tmp_path):
    for tokenizer in ("word", "char", {"kind": "bpe", "vocab_size": 259}):
        task, _ = prepared(tmp_path, corpus=files, window=10_000, tokenizer=tokenizer)
        assert len(task.text(stream(task, tmp_path)).split()) == TOKENS
        assert task.references("test") == {0: []}


def test_a_stream_is_not_decoded(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files)
    assert task.config.purposes("test") == {Purpose.TRAIN, Purpose.SCORE}
    with pytest.raises(SuiteError, match="sequence-completion"):
        next(task.batches("test", Purpose.DECODE, Size(4)))


def test_too_short_a_stream_is_refused(files, tmp_path):
    (tmp_path / "valid.txt").write_text("one two\n")
    with pytest.raises(DataError, match=r"valid split of train\.txt.*3 tokens"):
        prepared(tmp_path, corpus=files)


@pytest.mark.parametrize("name", ["markov", "lag", "copy", "cycle"])
def test_facts_hold_the_best_possible_cost_of_a_token(tmp_path, name):
    corpus = {"name": name, "tokens": 4000}
    _, info = prepared(tmp_path, corpus=corpus)
    expected = {"copy": 10 * log(10) / 22, "cycle": 0.0}
    if name in expected:
        assert info.extras["entropy"] == pytest.approx(expected[name])
    assert 0 <= info.extras["entropy"] < log(len(info.vocabulary))


def test_the_task_keeps_all_contracts(tmp_path):
    (tmp_path / "task").mkdir()
    config = LanguageModelingConfig.model_validate({"corpus": {"name": "english", "sentences": 40}, "window": 8})
    assert check_task(TaskCase.of(config, tmp_path, tmp_path / "task"))


@pytest.mark.parametrize("partition", ["sequential", "random"])
def test_windows_are_no_examples_that_must_end_or_could_be_repeated(files, tmp_path, partition):
    task, info = prepared(tmp_path, corpus=files, window=8, partition=partition)
    checked = CheckedTask(task, info)
    TaskLook(checked, Laws()).at_examples()
    assert overlap(checked) == {}


def test_batches_are_integers_that_a_model_can_embed(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files)
    batch = next(task.batches("test", Purpose.SCORE, Size(2)))
    assert {batch.ids.dtype, batch.prompt.dtype, batch.gold.dtype, batch.length.dtype} == {torch.int64}
