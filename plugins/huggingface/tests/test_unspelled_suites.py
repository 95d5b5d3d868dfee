"""Suites with published models whose tokens do not spell the targets: a number per token alone, which says of how many."""

from __future__ import annotations

import json
from math import exp, log
from textwrap import dedent

import pytest
import torch
from published import publish
from tiny_tokenizers import tokenizer

import bench_core

SUITE = """
    suite: tests/unspelled
    tasks:
      answers:
        name: completion
        data: {train: own.jsonl, valid: own.jsonl, test: own.jsonl}
        fields: {prompt: q, target: a}
    models: {m: {name: hf-pretrained-lm, path: model, dtype: float64}}
    decoders: {greedy: {name: greedy}}
    metrics:
      tokens: {name: perplexity}
      words: {name: perplexity, unit: word}
      bytes: {name: bits-per-byte}
      characters: {name: bits-per-byte, per: character}
    hardware: {device: cpu, threads: 1}
    limits: {max_tokens: 5}
    splits: [test]
"""


@pytest.fixture
def scored(tmp_path, suite_file):
    """Return the numbers of a model with a kind of tokenizer on prompts and targets, and the model."""

    def scoring(kind, rows):
        own = tokenizer(kind)
        saved = publish(tmp_path / "model", "gpt2", vocab_size=len(own), bos_token_id=1, eos_token_id=2)
        own.save_pretrained(tmp_path / "model")
        (tmp_path / "own.jsonl").write_text("".join(json.dumps({"q": q, "a": a}) + "\n" for q, a in rows))
        places = {"store": tmp_path / "store", "out": tmp_path / "runs", "data": tmp_path, "workers": 0}
        (cell,) = bench_core.run(suite_file(dedent(SUITE)), **places).cells
        return cell.numbers, saved.network, own

    return scoring


SPELLED = [("ab", "ab ba"), ("a b", "bab ab")]
LOST = {
    "words": ("a b", "zyx qqq rrr sss ttt"),
    "words in lower case": ("a b", "AB BA"),
    "pairs in NFKC": ("ab", "ａｂ"),
    "pieces in lower case": ("a", "AB"),
    "metaspace first": ("ab", "q"),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", LOST)
def test_one_target_that_is_not_spelled_leaves_a_number_per_token_alone_which_says_so(scored, kind):
    numbers, *_ = scored(kind, [*SPELLED, LOST[kind]])
    assert numbers["tokens"].value > 1
    spelled = numbers["tokens"].signature.partition("|spelled:")[2]
    assert spelled.endswith(" of 3")
    assert int(spelled.split()[0]) < 3
    for name in ("words", "bytes", "characters"):
        assert numbers[name].value is None
        assert "do not reproduce it" in numbers[name].reason


@pytest.mark.slow
def test_other_unknown_words_have_the_same_perplexity_per_token_and_no_number_by_byte(scored):
    """Were there one, the probabilities of all texts of five unknown words would sum to more than 1."""
    first, *_ = scored("words", [("a b", "zyx qqq rrr sss ttt")])
    other, *_ = scored("words", [("a b", "aaa bbb ccc ddd eee")])
    assert first["tokens"].value == other["tokens"].value
    assert first["bytes"].value is other["bytes"].value is None


def test_what_stands_between_prompt_and_target_is_a_space_unless_said_otherwise(scored):
    rows = [("ab", "A aab"), ("bab", "A b")]
    numbers, network, own = scored("bytes", rows)
    spaced, length = summed(network, own, rows, " ")
    glued, _ = summed(network, own, rows, "")
    assert numbers["tokens"].value == pytest.approx(exp(-spaced / length))
    assert spaced != pytest.approx(glued)
    size = sum(len(target) + 1 for _, target in rows)
    assert numbers["bytes"].value == pytest.approx(-spaced / log(2) / size)
    assert numbers["characters"].value == pytest.approx(-spaced / log(2) / size)
    assert numbers["words"].value == pytest.approx(exp(-spaced / sum(len(target.split()) + 1 for _, target in rows)))
    assert "|between:space" in numbers["tokens"].signature


def summed(network, own, rows, between):
    """Return log p of all targets and ends by a loop over logits of joint texts, and the number of tokens."""
    total, number = 0.0, 0
    for prompt, target in rows:
        first, ids = len(own(prompt).input_ids), [*own(prompt + between + target).input_ids, 2]
        assert ids[:first] == own(prompt).input_ids
        for place in range(first, len(ids)):
            with torch.no_grad():
                total += network(torch.tensor([ids[:place]])).logits[0, -1].log_softmax(0)[ids[place]].item()
        number += len(ids) - first
    return total, number
