"""A prepared task encodes new texts as it encoded those of its splits, whatever its tokenizer, without its data."""

from __future__ import annotations

import io
import json
import random
import shutil

import pytest
import torch
from bench_texts.plugin import CountingConfig, JsonPairsConfig
from bench_texts.task import JsonPairs
from tokenizers import Tokenizer, models, pre_tokenizers

from bench_core import STOP, Prompt, Purpose, Size, Source, SuiteError

WORDS = ["the", "cat", "thatch", "hath", "naïve", "日本", "aaa", "a", "<unk>", "<stop>", "x@@", "⍰"]
CODES = "#version: 0.2\nt h\nth e</w>\na t</w>\nc at</w>\na a\nb a\nh at</w>\na a</w>\nth at</w>\n"
KINDS = ["word", "char", "bpe", "codes", "sentencepiece", "pretrained"]


class Rests(JsonPairs):
    """Its targets, to be completed."""

    def examples(self, split, data):
        return ((None, target) for _, target, _ in super().examples(split, data))


class RestConfig(JsonPairsConfig):
    """Targets of pairs from their first tokens on."""

    source = Source.NONE
    prefix: int = 3

    @classmethod
    def load(cls):
        return Rests


def texts(seed, number):
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 6))) for _ in range(number)]


@pytest.fixture
def files(tmp_path):
    """The files of `JsonPairs`; texts of test have words that no other split has."""
    found = {}
    for number, (split, more) in enumerate({"train": "", "valid": " hat", "test": " zebra ß"}.items()):
        found[split] = tmp_path / f"{split}.jsonl"
        records = [{"source": text + more, "target": text[::-1]} for text in texts(number, 40)]
        found[split].write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return found


def settings(kind, folder):
    """Return a tokenizer of a kind, with the files that it needs in a folder."""
    folder.mkdir()
    if kind == "codes":
        (folder / "codes").write_text(CODES, encoding="utf-8")
        return {"kind": kind, "codes": folder / "codes", "dropout": 0.2}
    if kind == "sentencepiece":
        trainer = pytest.importorskip("sentencepiece").SentencePieceTrainer
        model = io.BytesIO()
        trainer.train(
            sentence_iterator=iter(texts(9, 300)),
            model_writer=model,
            vocab_size=40,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (folder / "pieces.model").write_bytes(model.getvalue())
        return {"kind": kind, "model": folder / "pieces.model"}
    if kind == "pretrained":
        alphabet = sorted({letter for text in texts(0, 40) for letter in text} | set("<end>zebrahtß "))
        names = ["[UNK]", *alphabet, "<end>"]
        own = Tokenizer(models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="[UNK]"))
        own.pre_tokenizer = pre_tokenizers.Split("", "isolated")
        own.save(str(folder / "tokenizer.json"))
        return {"kind": kind, "path": str(folder), "stop": "<end>"}
    return {"kind": kind, **({"vocab_size": 300, "dropout": 0.1} if kind == "bpe" else {})}


def prepared(config, folder):
    folder.mkdir()
    task = config.load()(config, folder)
    task.prepare(folder)
    return config.load()(config, folder)  # as stages build it: what `prepare` left in the object is gone


def rows(batches):
    """Return the opening and source of each row by its id, as lists without padding."""
    found = {}
    for batch in batches:
        sources = batch.prompt.tolist()
        if batch.source is not None:
            pairs = zip(batch.source.tolist(), batch.source_length.tolist(), strict=True)
            sources = [row[:length] for row, length in pairs]
        found |= dict(zip(batch.ids.tolist(), zip(batch.prompt.tolist(), sources, strict=True), strict=True))
    return found


def lost(files, *folders):
    """Remove the files that a task was prepared from."""
    for path in files.values():
        path.unlink()
    for folder in folders:
        shutil.rmtree(folder)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_new_sources_have_the_rows_of_examples_with_these_sources(kind, shared, files, tmp_path):
    own = settings(kind, tmp_path / "tokenizer")
    task = prepared(JsonPairsConfig(**files, tokenizer=own, shared=shared), tmp_path / "task")
    lost(files, tmp_path / "tokenizer")
    for split in ("train", "test"):
        due = rows(task.batches(split, Purpose.DECODE, Size(7)))
        sources = task.sources(split)
        assert len(due) == 40
        assert rows(task.encode([Prompt(number, text) for number, text in sources.items()])) == due
        (alone,) = task.encode([Prompt(3, sources[3])])
        assert rows([alone]) == {3: due[3]}
        assert alone.gold.tolist() == [[STOP]]


def test_targets_of_new_sources_are_those_of_examples(files, tmp_path):
    task = prepared(JsonPairsConfig(**files, tokenizer="bpe"), tmp_path / "task")
    (due,) = task.batches("test", Purpose.SCORE, Size(100))
    prompts = [Prompt(number, text) for number, text in task.sources("test").items()]
    (found,) = task.encode(prompts, [task.references("test")[one.id][0] for one in prompts])
    assert torch.equal(found.gold, due.gold)
    assert torch.equal(found.length, due.length)


@pytest.mark.parametrize("kind", ["word", "char", "bpe", "codes"])
def test_new_prefixes_have_the_openings_of_examples_and_shorter_ones_are_padded(kind, files, tmp_path):
    own = settings(kind, tmp_path / "tokenizer")
    task = prepared(RestConfig(**files, tokenizer=own), tmp_path / "task")
    due = rows(task.batches("test", Purpose.DECODE, Size(7)))
    prompts = {number: task.prompt(prompt[1:]) for number, (prompt, _) in due.items()}
    # a prefix that ends within a character, a word of codes, or between a space and its word is no text
    whole = {
        number
        for number, text in prompts.items()
        if "\N{REPLACEMENT CHARACTER}" not in text and not (kind == "bpe" and text.endswith(" "))
        if not task.vocabulary[due[number][0][-1]].endswith("@@")
    }
    assert len(whole) > 5
    found = rows(task.encode([Prompt(number, prompts[number]) for number in whole]))
    assert found == {number: due[number] for number in whole}
    ((prompt, _),) = rows(task.encode([Prompt(0, "a")])).values()
    pad = len(task.vocabulary) - 1
    assert prompt[:3] == [STOP, pad, pad]
    assert len(prompt) == 4
    ((longer, _),) = rows(task.encode([Prompt(0, "a a a a a")])).values()
    assert len(longer) > 4
    assert pad not in longer


@pytest.mark.parametrize("kind", [Source.VECTOR, Source.GRID, Source.IMAGE])
def test_a_task_whose_prompts_are_numbers_is_refused_by_name(kind, tmp_path):
    task = prepared(CountingConfig(kind=kind), tmp_path / "task")
    with pytest.raises(SuiteError, match=r"prompts of counting\S* are numbers, not texts"):
        [*task.encode([Prompt(0, "one")])]


def test_a_task_that_was_prepared_before_tokenizers_were_stored_says_what_to_do(files, tmp_path):
    task = prepared(JsonPairsConfig(**files), tmp_path / "task")
    (tmp_path / "task" / "source.tokenizer").unlink()
    with pytest.raises(SuiteError, match=r"source tokenizer of \S+ was not stored.*run the suite again"):
        [*task.encode([Prompt(0, "a")])]


@pytest.mark.parametrize("kind", ["bpe", "codes"])
def test_a_stored_tokenizer_with_fewer_merges_is_noticed(kind, files, tmp_path):
    """The mutant of the first test: it must not pass whatever the stored tokenizer is."""
    own = settings(kind, tmp_path / "tokenizer")
    task = prepared(JsonPairsConfig(**files, tokenizer=own), tmp_path / "task")
    stored = tmp_path / "task" / "source.tokenizer"
    plain = json.loads(stored.read_text(encoding="utf-8"))
    del (plain["pairs"] if kind == "codes" else plain["model"]["merges"])[0]
    stored.write_text(json.dumps(plain), encoding="utf-8")
    due = rows(task.batches("train", Purpose.DECODE, Size(7)))
    sources = task.sources("train")
    assert rows(task.encode([Prompt(number, text) for number, text in sources.items()])) != due
