"""A published model that knows every answer scores exactly the ceiling that is stated for its tokens."""

from __future__ import annotations

import json
from random import Random
from textwrap import dedent

import memory_model
import pytest
from published import publish
from random_tokenizers import random_text
from tiny_tokenizers import LOSSLESS, tokenizer

import bench_core
from bench_core import registry
from bench_core.commands.main import bench

KINDS = (
    "bytes", "byte fallback", "words", "words in lower case", "pairs", "pairs in NFKC", "unigram", "metaspace first",
    "metaspace never", "pieces in lower case",
)  # fmt: skip
SUITE = """
    suite: tests/own-ceilings
    tasks:
      answers:
        name: completion
        data: {train: own.jsonl, valid: own.jsonl, test: own.jsonl}
        fields: {prompt: q, target: a}
        empty: keep
    models: {MODELS}
    decoders: {greedy: {name: greedy}}
    metrics:
      perplexity: {name: perplexity}
      exact: {name: exact-match}
      bleu: {name: bleu, tokenize: char}
      chrf: {name: chrf}
      ter: {name: ter}
    hardware: {device: cpu, threads: 1}
    limits: {max_tokens: 200}
    splits: [test]
"""
TEXTS = 500


def run_memories(tmp_path, kinds, rows):
    (tmp_path / "own.jsonl").write_text("".join(json.dumps({"q": q, "a": a}) + "\n" for q, a in rows))
    (tmp_path / "answers.json").write_text(json.dumps([[q, " ", a] for q, a in rows]))
    models = []
    for place, kind in enumerate(kinds):
        own = tokenizer(kind)
        publish(tmp_path / str(place), "gpt2", vocab_size=len(own), n_positions=512)
        own.save_pretrained(tmp_path / str(place))
        models.append(f"m{place}: {{name: memory, path: '{place}', answers: answers.json, dtype: float64}}")
    (tmp_path / "suite.yaml").write_text(dedent(SUITE).replace("MODELS", ", ".join(models)))
    places = {"store": tmp_path / "store", "out": tmp_path / "runs", "data": tmp_path / "data", "workers": 0}
    with registry.extra(memory_model):
        run = bench_core.run(tmp_path / "suite.yaml", **places)
    return {
        kind: next(one for one in run.cells if one.cell["model"] == f"m{place}") for place, kind in enumerate(kinds)
    }, run


@pytest.mark.nightly
def test_a_memoriser_of_perplexity_one_reaches_exactly_the_ceiling_of_its_own_tokens(tmp_path):
    chance = Random(3)
    rows = [
        (" ".join(f"{number:09b}".translate({48: "a", 49: "b"})), random_text(chance, 12)) for number in range(TEXTS)
    ]
    cells, run = run_memories(tmp_path, KINDS, rows)
    for kind, cell in cells.items():
        assert cell.reason == "", kind
        assert cell.numbers["perplexity"].value == pytest.approx(1, abs=1e-12)
        exact = cell.numbers["exact"]
        assert exact.value == 100 if kind == "bytes" else kind in LOSSLESS or exact.value < 100
        for name in ("exact", "bleu", "chrf", "ter"):
            number = cell.numbers[name]
            assert number.ceiling == (None if exact.value == 100 else number.value), (kind, name)
    log = (run.folder / "log").read_text()
    assert "of 500 references of 'test' cannot be represented by the tokens of Memory" in log


@pytest.mark.parametrize("kind", ["bytes", "words", "pieces in lower case", "unigram"])
def test_check_tells_of_references_that_the_tokens_of_a_checkpoint_cannot_write(tmp_path, suite_file, kind, capsys):
    chance = Random(4)
    texts = [*(random_text(chance, 12) for _ in range(60)), "ab", "b  a", "AB zz"]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps({"q": "a", "a": text}) + "\n" for text in texts))
    own = tokenizer(kind)
    publish(tmp_path / "model", "gpt2", vocab_size=len(own))
    own.save_pretrained(tmp_path / "model")
    path = suite_file(dedent(SUITE).replace("MODELS", "m: {name: hf-pretrained-lm, path: model}"))
    assert not bench(["check", str(path)], standalone_mode=False)
    said = capsys.readouterr().out
    lost = 0
    for text in texts:
        read = own.decode(own(text, add_special_tokens=False).input_ids, clean_up_tokenization_spaces=False)
        lost += read.strip() != text.strip()
    told = f"{lost} of 63 references of 'answers test' cannot be represented by the tokens of model: exact match"
    assert (told in said) == bool(lost)
    assert bool(lost) == (kind != "bytes")
