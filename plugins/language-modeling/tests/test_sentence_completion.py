from __future__ import annotations

import json

import pytest
import torch
from pydantic import ValidationError

from bench_authors.testing import TaskCase, check_task
from bench_core import DataError, Purpose, Rng, Size
from bench_language_modeling.api import lines
from bench_language_modeling.plugin import SequenceCompletionConfig
from bench_text.encoder import UNREADABLE

LINES = {
    "train": ["a b c d e f", "a b", "c", "a b c d", "e f g h i j k l", "b c d", "g h", "i j k l a b c"],
    "valid": ["a v b", "c d", "e", "f", "g h i j"],
    "test": ["a b t c d", "t", "a", "b c d e f", "g"],
}


@pytest.fixture
def files(tmp_path):
    for split, sentences in LINES.items():
        (tmp_path / f"{split}.txt").write_text("\n".join(sentences) + "\n")
    return {split: str(tmp_path / f"{split}.txt") for split in LINES}


def prepared(tmp_path, **settings):
    config = SequenceCompletionConfig.model_validate({"sentences": "lines", "prefix": 3, **settings})
    task = config.load()(config, tmp_path)
    return task, task.prepare(tmp_path)


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    """A task of 500 generated sentences."""
    folder = tmp_path_factory.mktemp("english")
    return prepared(folder, corpus={"name": "english", "sentences": 500})[0]


def test_every_row_is_its_sentence_padded_on_the_left_and_ended_by_stop(files, tmp_path):
    task, info = prepared(tmp_path, corpus=files)
    name = info.vocabulary.__getitem__
    (batch,) = task.batches("train", Purpose.SCORE, Size(100))
    for place, line in enumerate(LINES["train"]):
        words = line.split()
        prompt = [name(token) for token in batch.prompt[place].tolist()]
        gold = [name(token) for token in batch.gold[place].tolist()]
        length = int(batch.length[place])
        padded = ["<cpad>"] * (3 - len(words)) + words
        assert prompt == ["<stop>", *padded[:3]]
        assert gold[:length] == [*padded[3:], "<stop>"]
        assert set(gold[length:]) <= {"<stop>"}


def test_a_sentence_no_longer_than_the_prefix_continues_with_stop_alone(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files)
    (batch,) = task.batches("train", Purpose.SCORE, Size(100))
    short = [len(line.split()) <= 3 for line in LINES["train"]]
    assert (batch.length == 1).tolist() == short


def test_a_prefix_of_nothing_leaves_the_whole_sentence(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files, prefix=0)
    batch = next(task.batches("train", Purpose.DECODE, Size(2)))
    assert batch.prompt.tolist() == [[0], [0]]
    assert task.text(batch.gold[0, :6].tolist()) == "a b c d e f"


def test_long_sentences_can_be_dropped(files, tmp_path):
    _, info = prepared(tmp_path, corpus=files, longest=5)
    lengths = [len(line.split()) for line in LINES["train"]]
    assert info.extras["statistics"]["train"]["sentences"] == sum(length <= 5 for length in lengths) < len(lengths)
    assert info.extras["statistics"]["train"]["max_length"] == max(length for length in lengths if length <= 5)


def test_short_sentences_can_be_dropped(files, tmp_path):
    everything = dict.fromkeys(files, files["train"])
    task, info = prepared(tmp_path, corpus=everything, short="drop", prefix=2)
    longer = [line for line in LINES["train"] if len(line.split()) > 2]
    assert [texts[0] for texts in task.references("test").values()] == [line[4:] for line in longer]
    assert info.extras["statistics"]["train"]["sentences"] == len(longer) == 5
    with pytest.raises(DataError, match=r"4 sentences to complete \(out of 8\).*short: pad"):
        prepared(tmp_path, corpus=everything, short="drop", prefix=3)


def test_the_vocabulary_comes_from_train_and_valid_and_never_from_test(files, tmp_path):
    task, info = prepared(tmp_path, corpus=files)
    assert info.vocabulary[:2] == ["<stop>", "<unk>"]
    assert info.vocabulary[-1] == "<cpad>"
    assert "v" in info.vocabulary
    assert "t" not in info.vocabulary
    assert info.extras["statistics"]["test"]["unknown"] == 2
    batch = next(task.batches("test", Purpose.DECODE, Size(1)))
    assert task.prompt(batch.prompt[0, 1:].tolist()) == f"a b {UNREADABLE}"


def test_counts_are_of_the_training_sentences_each_with_its_stop(files, tmp_path):
    _, info = prepared(tmp_path, corpus=files)
    counts = dict(zip(info.vocabulary, info.counts, strict=True))
    words = " ".join(LINES["train"]).split()
    assert counts == {word: words.count(word) for word in info.vocabulary} | {"<stop>": 8, "<cpad>": 0}


def test_statistics_are_those_of_the_sentences_without_padding(files, tmp_path):
    _, info = prepared(tmp_path, corpus=files)
    assert info.extras["statistics"]["train"] == {
        "sentences": 8, "tokens": 33, "types": 12, "unknown": 0, "mean_length": 4.12, "max_length": 8,
    }  # fmt: skip
    json.dumps(info.extras)


def test_prompts_leave_out_the_padding_and_references_are_continuations(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files)
    (batch,) = task.batches("test", Purpose.DECODE, Size(10))
    assert [task.prompt(row[1:]) for row in batch.prompt.tolist()] == [
        f"a b {UNREADABLE}", UNREADABLE, "a", "b c d", "g",
    ]  # fmt: skip
    assert task.references("test") == {0: ["c d"], 1: [""], 2: [""], 3: ["e f"], 4: [""]}


def test_random_contexts_hold_no_special_token_and_are_only_decoded(files, tmp_path):
    task, info = prepared(tmp_path, corpus=files, random_contexts=200)
    (batch,) = task.batches("random", Purpose.DECODE, Size(1000))
    tokens = set(batch.prompt[:, 1:].flatten().tolist())
    assert tokens == set(range(2, len(info.vocabulary) - 1))
    assert batch.gold.tolist() == [[0]] * 200
    assert task.references("random") == {place: [] for place in range(200)}
    assert task.config.purposes("random") == {Purpose.DECODE}
    assert task.config.purposes("test") == set(Purpose)
    assert not task.config.purposes("nonsense")


def test_there_are_as_many_random_contexts_as_test_sentences(files, tmp_path):
    task, _ = prepared(tmp_path, corpus=files)
    assert len(task.references("random")) == len(LINES["test"])


def tokens_by_id(batches):
    found = {}
    for batch in batches:
        rows = zip(batch.ids.tolist(), batch.prompt.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True)
        for place, prompt, gold, length in rows:
            assert place not in found
            found[place] = prompt, gold[:length]
    return found


@pytest.mark.quick(4)
@pytest.mark.parametrize("size", [Size(1), Size(7), Size(32), Size(10_000), Size(100, "tokens"), Size(1, "tokens")])
@pytest.mark.parametrize("rng", [None, Rng(1)])
@pytest.mark.parametrize("purpose", Purpose)
def test_an_epoch_has_every_sentence_once_whatever_the_size(english, purpose, rng, size):
    batches = list(english.batches("train", purpose, size, rng))
    found = tokens_by_id(batches)
    assert found == tokens_by_id(english.batches("train", Purpose.SCORE, Size(500)))
    assert len(found) == 500
    for batch in batches:
        assert len(batch) == 1 or (batch.gold.numel() if size.unit == "tokens" else len(batch)) <= size.number
        assert batch.gold.shape[1] == batch.length.max()


def test_without_noise_rows_come_in_file_order(english):
    for purpose in Purpose:
        batches = english.batches("valid", purpose, Size(7))
        assert [place for batch in batches for place in batch.ids.tolist()] == list(range(50))


def test_shuffled_evaluations_take_sentences_at_random_one_by_one(english):
    batches = list(english.batches("train", Purpose.DECODE, Size(10), Rng(1)))
    order = [place for batch in batches for place in batch.ids.tolist()]
    assert order != sorted(order)
    again = english.batches("train", Purpose.SCORE, Size(50), Rng(1))
    assert order == [place for batch in again for place in batch.ids.tolist()]
    lengths = torch.cat([batch.length for batch in batches]).double()
    assert abs(torch.corrcoef(torch.stack([lengths[1:], lengths[:-1]]))[0, 1]) < 0.15  # no sorting by length


def test_training_batches_hold_rows_of_like_length_in_random_order(english):
    batches = list(english.batches("train", Purpose.TRAIN, Size(10), Rng(1)))
    waste = sum(batch.gold.numel() - int(batch.length.sum()) for batch in batches)
    plain = english.batches("train", Purpose.TRAIN, Size(10))
    assert waste < 0.2 * sum(batch.gold.numel() - int(batch.length.sum()) for batch in plain)
    longest = [batch.gold.shape[1] for batch in batches]
    assert longest != sorted(longest)


def test_the_same_noise_gives_the_same_epoch_and_other_noise_another(english):
    orders = [
        [b.ids.tolist() for b in english.batches("train", Purpose.TRAIN, Size(16), Rng(key))] for key in (5, 5, 6)
    ]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("tokenizer", ["char", {"kind": "bpe", "vocab_size": 300}])
def test_prefix_and_continuation_of_smaller_tokens_read_as_the_sentence(tmp_path, tokenizer):
    corpus = {"name": "english", "sentences": 60}
    task, info = prepared(tmp_path, corpus=corpus, tokenizer=tokenizer)
    (batch,) = task.batches("test", Purpose.DECODE, Size(100))
    for place, sentence in enumerate(lines(corpus, "test", tmp_path)):
        gold = batch.gold[place, : batch.length[place] - 1].tolist()
        assert task.text([*batch.prompt[place, 1:].tolist(), *gold]) == sentence
    if isinstance(tokenizer, dict):
        assert len(info.vocabulary) == 300


@pytest.mark.quick(1, 2)
@pytest.mark.parametrize("tokenizer", ["word", "char", {"kind": "bpe", "vocab_size": 270}])
@pytest.mark.parametrize("prefix", [0, 10])
def test_the_task_keeps_all_contracts(tmp_path, tokenizer, prefix):
    settings = {"corpus": {"name": "english", "sentences": 60}, "tokenizer": tokenizer, "prefix": prefix}
    assert check_task(TaskCase.of(SequenceCompletionConfig.model_validate(settings), tmp_path, tmp_path))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prefix": -1}, "prefix"),
        ({"tokenizer": {"kind": "bpe", "vocab_size": 258}}, "259"),
        ({"tokenizer": {"kind": "word", "min_count": 0}}, "min_count"),
        ({"tokenizer": {"vocab_size": 300}}, "vocab_size"),
        ({"tokenizer": "words"}, "'bpe'"),
        ({"corpus": {"tests": {}}}, "at least one of `train`, `valid`, `test` and `tests`"),
        ({"corpus": {"name": "markov", "stats": 3}}, "stats"),
        ({"corpus": 3}, "name of a corpus"),
        ({"sentences": "nltk"}, "spacy"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        SequenceCompletionConfig.model_validate(settings)


def test_a_name_alone_and_a_mapping_of_it_are_the_same_settings():
    short = SequenceCompletionConfig.model_validate({"corpus": "ptb", "tokenizer": "char"})
    long = SequenceCompletionConfig.model_validate({"corpus": {"name": "ptb"}, "tokenizer": {"kind": "char"}})
    assert short == long
    assert SequenceCompletionConfig.model_validate(short.model_dump()) == short
