"""What outputs are compared with is the text of the corpus, whatever becomes of it as tokens."""

from __future__ import annotations

import pytest
from sacrebleu.metrics.bleu import BLEU
from tokenizers import Tokenizer, models, pre_tokenizers

from bench_core import Prediction, Purpose, Size
from bench_language_modeling.plugin import SequenceCompletionConfig
from bench_metrics.plugin import BleuConfig, ExactMatchConfig
from bench_metrics.tokenizers import tokenizer
from bench_text.encoder import UNREADABLE

LINES = {
    "train": [
        "the cat sat on the mat .",
        "the dog sat .",
        "a cat ran",
        "the cat and the dog ran .",
        "a dog sat on a mat .",
    ],
    "valid": ["the cat ran .", "a mat", "the dog", "a cat sat .", "the mat ."],
    "test": [
        "the zebra sat  on the naïve gnu .",
        "a <unk> sat on the \N{CJK UNIFIED IDEOGRAPH-8C61} .",
        "the dog ate 5 < 6 drunk figs .",
        "the cat",
        "a <cpad> ran .",
    ],
}
TOKENIZERS = [{"kind": "word", "min_count": 2}, "char", {"kind": "bpe", "vocab_size": 275}]


@pytest.fixture
def prepared(tmp_path):
    def prepare(**settings):
        for split, lines in LINES.items():
            (tmp_path / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        corpus = {split: str(tmp_path / f"{split}.txt") for split in LINES}
        given = {"corpus": corpus, "sentences": "lines", "prefix": 1, **settings}
        config = SequenceCompletionConfig.model_validate(given)
        task = config.load()(config, tmp_path)
        return task, config.complete(task.prepare(tmp_path))

    return prepare


def perfect(task):
    """Predictions of a system that says just the tokens of each target."""
    references = task.references("test")
    (batch,) = task.batches("test", Purpose.DECODE, Size(100))
    rows = zip(batch.ids.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True)
    return [
        Prediction(number, references=[*references[number]], texts=[task.text(gold[: length - 1])])
        for number, gold, length in rows
    ]


def measured(config, info, predictions):
    metric = config.load()(config).prepare(info, {prediction.id: prediction.references for prediction in predictions})
    return metric.combine([*metric.measure(predictions)]), metric.signature


def raw(task, tokenizer):
    """The text of each line after its first token, told without the task's own references."""
    lines = [" ".join(line.split()) for line in LINES["test"]]
    if tokenizer == "char":
        return [line[1:] for line in lines]
    if tokenizer["kind"] == "word":
        return [line.partition(" ")[2] for line in lines]
    (batch,) = task.batches("test", Purpose.DECODE, Size(100))
    pieces = [task.text([token]) for token in batch.prompt[:, 1].tolist()]
    assert "a" in pieces or "t" in pieces
    return [f" {line}".removeprefix(f" {piece}").removeprefix(" ") for line, piece in zip(lines, pieces, strict=True)]


@pytest.mark.parametrize("cut", TOKENIZERS, ids=["word", "char", "bpe"])
def test_references_are_the_raw_ends_of_the_lines(prepared, cut):
    task, _ = prepared(tokenizer=cut)
    assert [text for (text,) in task.references("test").values()] == raw(task, cut)


@pytest.mark.parametrize("cut", TOKENIZERS, ids=["word", "char", "bpe"])
def test_bleu_is_that_of_sacrebleu_on_the_raw_lines(prepared, cut):
    task, info = prepared(tokenizer=cut)
    predictions = perfect(task)
    predictions[3:] = [Prediction(one.id, references=one.references, texts=["cat sat on"]) for one in predictions[3:]]
    score, _ = measured(BleuConfig(), info, predictions)
    expected = BLEU().corpus_score([one.texts[0] for one in predictions], [raw(task, cut)]).score
    assert score == pytest.approx(expected, rel=1e-12)
    assert 0 < score < 100


def test_an_unknown_word_of_an_output_matches_nothing_even_where_the_corpus_has_one(prepared):
    task, info = prepared(tokenizer=TOKENIZERS[0])
    predictions = perfect(task)
    assert "<unk>" in predictions[1].references[0]
    assert [one.texts[0] for one in predictions[:2]] == [
        f"{UNREADABLE} sat on the {UNREADABLE} {UNREADABLE} .",
        f"{UNREADABLE} sat on the {UNREADABLE} .",
    ]
    unknown = [Prediction(one.id, references=one.references, texts=[task.text([1] * 5)]) for one in predictions]
    assert measured(BleuConfig(smooth="none", max_order=1), info, unknown)[0] == 0
    assert measured(ExactMatchConfig(), info, predictions)[0] == 20  # the line of known words alone


def test_what_every_token_says_is_right_where_none_is_unknown(prepared):
    task, info = prepared(tokenizer=TOKENIZERS[2])
    predictions = [one for one in perfect(task) if "<unk>" not in one.references[0]]
    assert measured(ExactMatchConfig(), info, predictions)[0] == 100


@pytest.mark.parametrize(
    "name",
    [
        "13a",
        "intl",
        "none",
        "char",
        "zh",
        pytest.param("ja-mecab", marks=pytest.mark.extra("bench-metrics", "japanese")),
    ],
)
def test_what_stands_for_an_unknown_word_is_one_token_to_every_tokenizer(name):
    assert tokenizer(name)(f"cat {UNREADABLE} dog {UNREADABLE}.").count(UNREADABLE) == 2
    words = tokenizer(name)(f"cat {UNREADABLE} dog").split()
    assert UNREADABLE in words
    assert len(words) == (7 if name == "char" else 3)


def test_tokens_may_be_compared_and_the_signature_says_so(prepared):
    task, info = prepared(tokenizer=TOKENIZERS[0], references="tokens")
    predictions = perfect(task)
    assert predictions[0].references == predictions[0].texts == ["<unk> sat on the <unk> <unk> ."]
    score, signature = measured(BleuConfig(), info, predictions)
    assert score == pytest.approx(100)
    assert signature.startswith("nrefs:1|refs:tokens|case:mixed")
    task, info = prepared(tokenizer=TOKENIZERS[0])
    assert measured(BleuConfig(), info, perfect(task))[1].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")


def test_sentences_that_are_left_out_leave_references_and_rows_together(prepared):
    task, _ = prepared(tokenizer=TOKENIZERS[0], longest=9, corpus={"name": "english", "sentences": 300})
    for one in perfect(task):
        words = zip(one.texts[0].split(), one.references[0].split(), strict=True)
        assert all(said in (word, UNREADABLE) for said, word in words)


def test_a_pretrained_tokenizer_s_references_are_raw_too(prepared, tmp_path):
    (tmp_path / "model").mkdir()
    words = Tokenizer(models.WordLevel({"the": 0, "sat": 1, "[UNK]": 2, "[END]": 3, "on": 4}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save(str(tmp_path / "model" / "tokenizer.json"))
    task, _ = prepared(tokenizer={"kind": "pretrained", "path": "model", "stop": "[END]"}, prefix=2)
    predictions = perfect(task)
    assert predictions[0].references == ["sat on the naïve gnu ."]
    assert predictions[0].texts == [f"sat on the {UNREADABLE} {UNREADABLE} {UNREADABLE}"]
    assert predictions[3].references == [""]
    pad = len(task.vocabulary) - 1
    assert task.text([1, pad, 4]).split() == ["sat", UNREADABLE, "on"]
