"""Tokenizers of pretrained models, made here."""

from __future__ import annotations

import json
import shutil

import pytest
from pydantic import ValidationError
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from bench_authors.testing import TaskCase, check_task
from bench_core import DataError, Purpose, Size
from bench_language_modeling.plugin import LanguageModelingConfig, SequenceCompletionConfig
from bench_text.api import corpora

LINES = [
    "the cat sat on the mat",
    "a <unk> dog",
    "the naïve 日本 cat <|end|> sat",
    "!",
    "cats , dogs",
    "the dog sat !",
]


@pytest.fixture
def data(tmp_path):
    """A data directory with a corpus and with byte pairs whose token number 0 is `!`, as GPT-2's."""
    for split in ("train", "valid", "test"):
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / f"{split}.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    )
    pairs.add_special_tokens(["<|begin|>", "<|end|>"])
    begin = pairs.token_to_id("<|begin|>")
    pairs.post_processor = processors.TemplateProcessing("<|begin|> $A", special_tokens=[("<|begin|>", begin)])
    pairs.enable_truncation(2)
    pairs.enable_padding(length=9)
    (tmp_path / "model").mkdir()
    pairs.save(str(tmp_path / "model" / "tokenizer.json"))
    tell(tmp_path, "tokenizer_config.json", eos_token={"content": "<|end|>"})
    return tmp_path


def tell(data, name, **settings):
    (data / "model" / name).write_text(json.dumps(settings))


def read(data):
    return Tokenizer.from_file(str(data / "model" / "tokenizer.json"))


def config(data, kind=SequenceCompletionConfig, stop=None, path="model", **settings):
    if kind is SequenceCompletionConfig:
        settings = {"sentences": "lines", "prefix": 2, **settings}
    return kind.model_validate(
        {"corpus": "mine", "tokenizer": {"kind": "pretrained", "path": path, "stop": stop}, **settings}
    )


def prepared(data, kind=SequenceCompletionConfig, **settings):
    folder = data / "prepared"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    settled = config(data, kind, **settings)
    info = settled.load()(settled, folder).prepare(data)
    return settled.load()(settled, folder), info


def test_stop_and_the_token_that_was_zero_change_places_and_no_other(data):
    pairs = read(data)
    _, info = prepared(data)
    own, stop = [pairs.id_to_token(number) for number in range(pairs.get_vocab_size())], pairs.token_to_id("<|end|>")
    assert own[0] == "!"
    assert info.vocabulary[0] == "<|end|>"
    assert info.vocabulary[stop] == "!"
    assert info.vocabulary[1:stop] == own[1:stop]
    assert info.extras["stop"] == stop
    assert info.extras["tokenizer"] == corpora.digest(data / "model" / "tokenizer.json")


@pytest.mark.parametrize("prefix", [0, 2])
def test_every_line_reads_as_before_its_special_words_too(data, prefix):
    task, _ = prepared(data, prefix=prefix)
    (batch,) = task.batches("test", Purpose.SCORE, Size(100))
    for place, line in enumerate(LINES):
        gold = batch.gold[place, : batch.length[place] - 1].tolist()
        assert task.prompt([*batch.prompt[place, 1:].tolist(), *gold]) == line


def test_lines_are_encoded_as_the_tokenizer_does_without_special_tokens_padding_or_truncation(data):
    task, info = prepared(data, prefix=0)
    pairs = read(data)
    pairs.no_padding()
    pairs.no_truncation()
    (batch,) = task.batches("test", Purpose.SCORE, Size(100))
    for place in (0, 1, 4):  # no `!`, and no word that might be a special token
        expected = pairs.encode(LINES[place], add_special_tokens=False).ids
        assert batch.gold[place, : batch.length[place]].tolist() == [*expected, 0]
    ends = batch.gold[3, : batch.length[3]].tolist()
    assert ends == [info.extras["stop"], 0]  # `!`, stop


def test_continuations_lose_the_space_before_their_first_word(data):
    task, _ = prepared(data)
    assert all(text == text.lstrip(" ") for texts in task.references("test").values() for text in texts)


@pytest.mark.parametrize(("short", "more"), [("pad", ["<cpad>"]), ("drop", [])])
def test_there_is_one_token_more_only_to_pad_with(data, short, more):
    _, info = prepared(data, short=short)
    size = read(data).get_vocab_size()
    assert info.vocabulary[size:] == more
    assert len(info.counts) == len(info.vocabulary)


def test_short_lines_are_padded_on_the_left_and_read_without(data):
    task, info = prepared(data)
    (batch,) = task.batches("test", Purpose.DECODE, Size(100))
    assert batch.prompt[3].tolist() == [0, len(info.vocabulary) - 1, info.extras["stop"]]
    assert task.prompt(batch.prompt[3, 1:].tolist()) == "!"


def test_random_contexts_hold_no_special_token(data):
    task, info = prepared(data, random_contexts=2000)
    (batch,) = task.batches("random", Purpose.DECODE, Size(10_000))
    found = {info.vocabulary[token] for token in batch.prompt[:, 1:].flatten().tolist()}
    assert found == set(info.vocabulary) - {"<|begin|>", "<|end|>", "<cpad>"}


def test_a_stream_has_a_stop_after_each_line(data):
    task, info = prepared(data, LanguageModelingConfig, window=1000)
    (batch,) = task.batches("test", Purpose.SCORE, Size(1))
    assert info.vocabulary[-1] != "<cpad>"
    assert (batch.gold == 0).sum() == len(LINES)
    assert task.text(batch.gold[0].tolist()) == "<|end|>".join([*LINES, ""])


def test_what_the_tokenizer_cannot_say_is_counted(data):
    words = Tokenizer(models.WordLevel({"the": 0, "cat": 1, "[UNK]": 2, "[END]": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save(str(data / "model" / "tokenizer.json"))
    _, info = prepared(data, stop="[END]")
    assert info.extras["statistics"]["test"]["unknown"] == sum(
        word not in ("the", "cat") for line in LINES for word in line.split()
    )


@pytest.mark.parametrize(
    ("files", "setting", "expected"),
    [
        ({"tokenizer_config.json": {"eos_token": "<|end|>"}}, None, "<|end|>"),
        ({"tokenizer_config.json": {}, "config.json": {"eos_token_id": 5}}, None, 5),
        ({"tokenizer_config.json": {"eos_token": None}, "config.json": {"eos_token_id": 5}}, None, 5),
        ({"tokenizer_config.json": {"eos_token": "<|end|>"}}, "<|begin|>", "<|begin|>"),
    ],
)
def test_stop_is_what_the_suite_or_the_files_say(data, files, setting, expected):
    (data / "model" / "tokenizer_config.json").unlink()
    for name, settings in files.items():
        tell(data, name, **settings)
    number = read(data).token_to_id(expected) if isinstance(expected, str) else expected
    assert prepared(data, stop=setting)[1].extras["stop"] == number


def test_everything_that_decides_the_tokens_is_digested(data):
    before = config(data).reads(data)
    assert {"model/tokenizer.json", "model/tokenizer_config.json", "mine/train.txt"} <= set(before)
    tell(data, "tokenizer_config.json", eos_token="!")
    assert config(data).reads(data) != before
    assert "model/tokenizer_config.json" not in config(data, stop="!").reads(data)
    assert config(data, path=str(data / "model"), stop="!").reads(data)


def test_a_missing_tokenizer_says_what_to_put_where(data):
    (data / "model" / "tokenizer.json").unlink()
    with pytest.raises(
        DataError, match=r"model/tokenizer\.json is missing\. Put the tokenizer\.json of a pretrained model"
    ):
        config(data).reads(data)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda data: tell(data, "tokenizer.json", model={}), r"tokenizer\.json is not a tokenizer"),
        (lambda data: tell(data, "tokenizer_config.json"), "does not define EOS"),
        (lambda data: tell(data, "tokenizer_config.json", eos_token="</s>"), "has no token '</s>'"),
        (lambda data: (data / "model" / "tokenizer_config.json").write_text("{"), "is not JSON"),
    ],
)
def test_damaged_files_and_stops_that_are_not_there_are_told(data, break_it, message):
    break_it(data)
    with pytest.raises(DataError, match=message):
        prepared(data)


def test_a_stop_inside_of_a_line_is_refused(data):
    pairs = read(data)
    pairs.add_tokens([AddedToken("mat", special=False)])
    pairs.save(str(data / "model" / "tokenizer.json"))
    with pytest.raises(DataError, match=r"EOS 'mat' occurs inside a text: 'the cat sat on the mat'"):
        prepared(data, stop="mat")


@pytest.mark.parametrize("wrong", [{"path": ""}, {"path": "x", "size": 3}, {}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValidationError, match="tokenizer"):
        SequenceCompletionConfig.model_validate({"tokenizer": {"kind": "pretrained", **wrong}})


@pytest.mark.parametrize("prefix", [0, 2])
def test_the_task_keeps_all_contracts(data, prefix):
    (data / "folder").mkdir()
    assert check_task(TaskCase.of(config(data, prefix=prefix), data, data / "folder"))
