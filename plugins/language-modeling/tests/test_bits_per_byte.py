"""Bits per byte of the raw text: what is counted, and that no tokenizer, window or batch changes it."""

from __future__ import annotations

import json
import shutil
from math import log, log2
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from bench_core import STOP, Purpose, Rng, Scores, Size, SuiteError, run
from bench_core.computing.evaluate import Examples
from bench_language_modeling import corpus
from bench_language_modeling.plugin import LanguageModelingConfig, SequenceCompletionConfig
from bench_language_modeling.settings import English
from bench_metrics.perplexity import BitsPerByte, Perplexity
from bench_metrics.plugin import BitsPerByteConfig, PerplexityConfig
from bench_text.raw_text import byte_level

LINES = ["the naïve 日本 cat sat", "", "= a head =", "€5 , 'tis a cat", "x", "ﬁ e\u0301 🙂", "the cat <unk> sat"]
TEXT = "".join(f"{line}\n" for line in LINES)
TOKENIZERS = {
    "word": "word",
    "char": "char",
    "bpe": {"kind": "bpe", "vocab_size": 300},
    "bytes": {"kind": "pretrained", "path": "bytes", "stop": "<|end|>"},
    "merged": {"kind": "pretrained", "path": "merged", "stop": "<|end|>"},
}


def sizes_of(task, split="test"):
    """Return the sizes of the targets that their tokens spell."""
    return {number: size for number, size in task.target_sizes(split).items() if size is not None}


@pytest.fixture
def data(tmp_path):
    """A data directory with a corpus, and byte-level tokenizers of it with merges and without."""
    for split in ("train", "valid", "test"):
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / f"{split}.txt").write_text(TEXT, encoding="utf-8")
    for name, size in (("bytes", 0), ("merged", 290)):
        pretrained(tmp_path / name, size)
    return tmp_path


def pretrained(folder, size, normalizer=None):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=max(size, 256), initial_alphabet=alphabet, show_progress=False)
    pairs.train_from_iterator(LINES, trainer)
    if normalizer:
        pairs.normalizer = normalizer
    pairs.add_special_tokens(["<|end|>"])
    folder.mkdir()
    pairs.save(str(folder / "tokenizer.json"))


def prepared(data, kind=LanguageModelingConfig, **settings):
    config = kind.model_validate({"corpus": "mine", **settings})
    folder = data / "prepared"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    task = config.load()(config, folder)
    return task, config.complete(task.prepare(data))


def bits_of(text):
    """An arbitrary price of each byte, whatever it is next to."""
    return sum(1 + byte % 7 for byte in text)


class Priced:
    """A model of bytes, seen through tokens: a target costs what its bytes cost."""

    def __init__(self, vocabulary, kind):
        self.spaced = kind in ("word", "bpe")
        named = (lambda name: byte_level(name)) if kind in ("bpe", "pretrained") else str.encode
        special = {"<unk>": b" <unk>" if kind == "bpe" else b"<unk>"}
        self.texts = [b"\n", *(special.get(name) or named(name) for name in vocabulary[1:])]
        self.texts = [b" " * (kind == "word" and place > 0) + text for place, text in enumerate(self.texts)]

    def text(self, before, tokens):
        found = []
        for last, token in zip([before, *tokens], tokens, strict=False):
            found.append(self.texts[token].removeprefix(b" ") if self.spaced and last == STOP else self.texts[token])
        return b"".join(found)

    def score(self, batch, scoring):
        rows = zip(batch.prompt[:, -1].tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True)
        costs = [bits_of(self.text(before, gold[:length])) for before, gold, length in rows]
        return Scores(-log(2) * torch.tensor(costs, dtype=torch.float64))


def scored(task, info, size=3, **options):
    model = Priced(info.vocabulary, task.config.tokenizer.kind)
    return Examples(task, "test", Rng(0), torch.device("cpu"), size, **options).scored(model, "exact")


def measured(metric, predictions, info):
    ready = metric.prepare(info, {})
    return ready.combine([*ready.measure(predictions)])


def bits_per(unit, predictions, info):
    return measured(BitsPerByte(BitsPerByteConfig(per=unit)), predictions, info)


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("settings", [{"window": 1}, {"window": 4, "parts": 2}, {"window": 7, "partition": "random"}])
def test_windows_of_a_stream_hold_each_byte_of_the_file_once(data, name, settings):
    task, _ = prepared(data, tokenizer=TOKENIZERS[name], **settings)
    sizes = sizes_of(task)
    assert sorted(sizes) == sorted(task.references("test"))
    assert sum(one.bytes for one in sizes.values()) == len((data / "mine" / "test.txt").read_bytes())
    assert sum(one.characters for one in sizes.values()) == len(TEXT)


@pytest.mark.parametrize("name", ["word", "char", "bpe", "bytes", "merged"])
def test_each_window_has_the_bytes_of_its_own_tokens(data, name):
    """But for a character that several tokens of a pretrained tokenizer share: the last of them has it."""
    task, info = prepared(data, tokenizer=TOKENIZERS[name], window=3)
    model = Priced(info.vocabulary, task.config.tokenizer.kind)
    sizes, text, counted = sizes_of(task), b"", 0
    for batch in task.batches("test", Purpose.SCORE, Size(1)):
        text += model.text(int(batch.prompt[0, -1]), batch.gold[0, : int(batch.length)].tolist())
        counted += sizes[int(batch.ids)].bytes
        unfinished = len(text) - len(text.decode(errors="ignore").encode())
        assert counted == len(text) - (unfinished if name in ("bytes", "merged") else 0)
    assert text == TEXT.encode()


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize(("window", "size"), [(2, 1), (5, 3), (100, 8)])
def test_one_model_of_bytes_has_the_same_bits_through_every_tokenizer_window_and_batch(data, name, window, size):
    task, info = prepared(data, tokenizer=TOKENIZERS[name], window=window)
    predictions = scored(task, info, size)
    wanted = bits_of(TEXT.encode())
    assert bits_per("byte", predictions, info) == pytest.approx(wanted / len(TEXT.encode()), rel=1e-12)
    assert bits_per("character", predictions, info) == pytest.approx(wanted / len(TEXT), rel=1e-12)


def test_perplexities_of_the_same_model_differ_by_tokenizer_where_bits_per_byte_do_not(data):
    perplexities = set()
    for tokenizer in TOKENIZERS.values():
        task, info = prepared(data, tokenizer=tokenizer)
        perplexities.add(round(measured(Perplexity(PerplexityConfig()), scored(task, info), info), 3))
    assert len(perplexities) == len(TOKENIZERS)


def test_a_uniform_model_of_characters_pays_log2_of_their_number_for_each(data):
    """On text without a letter of several bytes, each byte is a token of `char` and of byte pairs without merges."""
    (data / "mine" / "test.txt").write_text("at ta\n\natta\nt\na a\n")
    for name in ("char", "bytes"):
        task, info = prepared(data, tokenizer=TOKENIZERS[name], window=4)
        uniform = SimpleNamespace(score=lambda batch, scoring: Scores(-log(4) * batch.length.double()))
        predictions = Examples(task, "test", Rng(0), torch.device("cpu"), 2).scored(uniform, "exact")
        assert bits_per("byte", predictions, info) == pytest.approx(log2(4), rel=1e-12)
        assert measured(Perplexity(PerplexityConfig()), predictions, info) == pytest.approx(4, rel=1e-12)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_line_breaks_count_only_where_they_are_predicted(data, name):
    task, _ = prepared(data, tokenizer=TOKENIZERS[name], stops=False)
    assert sum(one.bytes for one in sizes_of(task).values()) == len(TEXT.encode()) - len(LINES)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_white_space_that_no_tokenizer_is_given_counts_for_none(data, name):
    (data / "mine" / "test.txt").write_text(" the \t cat\u3000sat  \r\n \r\nx\n")
    task, _ = prepared(data, tokenizer=TOKENIZERS[name])
    assert sum(one.bytes for one in sizes_of(task).values()) == len("the cat sat\n\nx\n")


@pytest.mark.parametrize("tokenizer", [{"kind": "word", "min_count": 3}, "char", "word"])
def test_text_that_became_unknown_is_refused_and_the_unk_of_the_file_is_not(data, tokenizer):
    task, info = prepared(data, tokenizer=tokenizer, window=6)
    known = len(sizes_of(task)) == len(task.references("test"))
    assert known == (tokenizer in ("char", "word"))
    (data / "mine" / "test.txt").write_text(f"{TEXT}an unseen Ж word here\n")
    task, info = prepared(data, tokenizer=tokenizer, window=6)
    assert len(sizes_of(task)) < len(task.references("test"))
    with pytest.raises(SuiteError, match=r"the raw text of example \d+ is unknown.*`skip:`"):
        bits_per("byte", scored(task, info), info)


def test_windows_beside_an_unknown_word_count_as_far_as_the_line_of_it(data):
    (data / "mine" / "test.txt").write_text("a cat sat x x\na Ж b c\nthe cat sat a\n")
    task, _ = prepared(data, tokenizer="word", window=3)
    assert sorted(sizes_of(task)) == [0, 1, 4, 5], "tokens 6 to 10 are of the line"


@pytest.mark.parametrize("change", [normalizers.Lowercase(), normalizers.NFKC(), normalizers.StripAccents()])
def test_a_pretrained_tokenizer_that_changes_text_is_refused_where_it_does(data, change):
    pretrained(data / "lossy", 0, change)
    (data / "mine" / "test.txt").write_text("plain text here\nThe ﬁ of E\u0301\nplain text here\n")
    task, _ = prepared(data, tokenizer={"kind": "pretrained", "path": "lossy", "stop": "<|end|>"}, window=1)
    sizes = sizes_of(task)
    assert 0 < len(sizes) < len(task.references("test"))
    assert {one.bytes for one in sizes.values()} == {1}


def test_bytes_of_train_are_not_counted(data):
    assert sizes_of(prepared(data)[0], "train") == {}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_sentences_have_the_bytes_of_their_text_and_of_a_line_break(data, name):
    settings = {"prefix": 0, "sentences": "lines"}
    task, info = prepared(data, SequenceCompletionConfig, tokenizer=TOKENIZERS[name], **settings)
    kept = [line for line in LINES if line and not line.startswith("= ")]
    sizes = sizes_of(task)
    assert [sizes[number].bytes for number in range(len(kept))] == [len(line.encode()) + 1 for line in kept]
    wanted = sum(bits_of(line.encode() + b"\n") for line in kept) / sum(len(line.encode()) + 1 for line in kept)
    assert bits_per("byte", scored(task, info, 2), info) == pytest.approx(wanted, rel=1e-12)


def test_targets_after_a_prefix_are_refused_before_anything_runs(data):
    refusal = BitsPerByteConfig().refusal(SequenceCompletionConfig(prefix=10))
    assert refusal == "the text after 10 tokens depends on the tokenizer: set `prefix: 0`, or use perplexity."
    assert BitsPerByteConfig().refusal(SequenceCompletionConfig(prefix=0)) is None
    task, _ = prepared(data, SequenceCompletionConfig, prefix=2, sentences="lines")
    assert sizes_of(task) == {}


def test_sentences_left_out_by_their_tokens_make_another_text_which_is_refused(data):
    settings = {"prefix": 0, "sentences": "lines", "tokenizer": "char"}
    for split in ("train", "valid", "test"):
        (data / "mine" / f"{split}.txt").write_text(TEXT + "the cat\n")
    assert sizes_of(prepared(data, SequenceCompletionConfig, longest=100, **settings)[0])
    assert sizes_of(prepared(data, SequenceCompletionConfig, longest=19, **settings)[0]) == {}


def test_parts_of_a_stream_are_in_the_signature(data):
    _, info = prepared(data, parts=2)
    metric = BitsPerByte(BitsPerByteConfig(per="character"))
    assert metric.signature == "log:2|per:character|text:raw|stop:line break|by:default"
    assert metric.prepare(info, {}).signature == f"{metric.signature}|parts:2"


def test_each_byte_has_the_sign_that_the_library_gives_it():
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ["".join(map(chr, range(0x800))), "日本🙂\x00\xad\xff"]:
        ((signs, _),) = level.pre_tokenize_str(text)
        assert byte_level(signs) == text.encode()


def test_a_run_has_bits_per_byte_in_one_column_and_says_why_words_have_none(tmp_path):
    """60 sentences leave words of the test unseen; their letters are all known."""
    english = {"name": "language-modeling", "corpus": {"name": "english", "sentences": 60}}
    suite = {
        "suite": "tests/tokenizers",
        "title": "One text through three tokenizers",
        "tasks": {name: {**english, "tokenizer": TOKENIZERS[name]} for name in ("word", "char", "bpe")},
        "models": {"counts": {"name": "ngram-lm", "order": 2}},
        "metrics": {"perplexity": {"name": "perplexity"}, "bits": {"name": "bits-per-byte"}},
        "training": {"epochs": 1},
        "splits": ["test"],
        "hardware": {"threads": 1, "device": "cpu"},
    }
    (tmp_path / "suite.yaml").write_text(json.dumps(suite))
    found = run(tmp_path / "suite.yaml", store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path)
    numbers = {cell.cell["task"]: cell.numbers for cell in found.cells}
    (data,) = [corpus.text(English(name="english", sentences=60), tmp_path).read("test")]
    size = sum(len(line.encode()) + 1 for line in data)
    for name in ("char", "bpe"):
        tokens = found.info["tasks"][name]["statistics"]["test"]["tokens"]
        nats = tokens * log(numbers[name]["perplexity"].value)
        assert numbers[name]["bits"].value == pytest.approx(nats / log(2) / size, rel=1e-9)
        assert numbers[name]["bits"].scale == "linear"
    assert numbers["char"]["bits"].signature == numbers["bpe"]["bits"].signature
    assert numbers["word"]["perplexity"].value is not None
    assert "the raw text of example" in numbers["word"]["bits"].reason
