"""A model that knows every answer scores exactly the ceiling that is stated for the tokens of its task."""

from __future__ import annotations

import json
from random import Random
from textwrap import dedent

import pytest

import bench_core

SIGNS = (
    "a", "b", "the", "cat", ".", "é", "e\u0301", "日本", "😀", "ﬁ", " ", " ", " ", " ", "  ", "\t", "\n", "\u00a0", "\u2003",
    "\u2028", "<unk>", "⍰", "\ufffd",
)  # fmt: skip
SUITE = """
    suite: tests/ceilings
    tasks:
      answers:
        name: completion
        data: {train: own.jsonl, valid: own.jsonl, test: own.jsonl}
        fields: {prompt: q, target: a}
        empty: keep
        tokenizer: TOKENIZER
    models: {memory: {name: ngram-lm, order: 90, smoothing: none}}
    decoders: {greedy: {name: greedy}}
    metrics:
      perplexity: {name: perplexity}
      exact: {name: exact-match}
      stripped: {name: exact-match, strip: true}
      bleu: {name: bleu}
      characters: {name: bleu, tokenize: char}
      chrf: {name: chrf}
      ter: {name: ter}
    training: {epochs: 1}
    hardware: {device: cpu, threads: 1}
    limits: {max_tokens: 100}
    splits: [test]
"""
TOKENIZERS = {
    "word": "word",
    "char": "char",
    "bpe": "{kind: bpe, vocab_size: 300}",
}
TEXTS = 500


@pytest.fixture(scope="module")
def texts():
    chance = Random(0)
    return ["".join(chance.choices(SIGNS, k=chance.randrange(1, 14))) for _ in range(TEXTS)]


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_memoriser_of_perplexity_one_reaches_exactly_the_ceiling_of_each_metric(tmp_path, suite_file, texts, kind):
    rows = ({"q": f"{number:03}", "a": text} for number, text in enumerate(texts))
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = suite_file(dedent(SUITE).replace("TOKENIZER", TOKENIZERS[kind]))
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
    (cell,) = run.cells
    assert cell.reason == ""
    assert cell.numbers["perplexity"].value == pytest.approx(1, abs=1e-12)
    about = run.info["tasks"]["answers"]["texts"]["test"]
    assert about["references"] == TEXTS
    exact = cell.numbers["exact"]
    assert exact.value == pytest.approx(100 * (1 - about["unwritable"] / TEXTS))
    unknown = sum("<unk>" in text for text in texts)
    assert about["unwritable"] <= unknown or "word" in kind
    for name in ("exact", "stripped", "bleu", "characters", "chrf", "ter"):
        number = cell.numbers[name]
        assert number.ceiling == (number.value if about["unwritable"] else None)
    assert 0 < exact.value < 100
    told = f"{about['unwritable']} of 500 references of 'test' cannot be written by its tokens"
    assert told in (run.folder / "log").read_text()
