"""Merges left out at random: to train alone, by the noise of the epoch and the id of the example."""

from __future__ import annotations

import pytest
import torch

import bench_core
from bench_authors.testing import TaskCase, check_task
from bench_core import Purpose, Rng, Size, Source, SuiteError
from bench_text.api import BytePairs, Example, SequenceTask, SequenceTaskConfig

LINES = [
    "the thatch hath the cat",
    "a cat that hath a hat",
    "that the bat hath",
    "the the the",
    "cats bathe",
    "a hat",
]
TWO = Size(2)
BPE = BytePairs(kind="bpe", vocab_size=290, dropout=0.4)


class EchoConfig(SequenceTaskConfig):
    source = Source.TOKENS


class Echo(SequenceTask):
    def examples(self, split, data):
        for line in LINES:
            yield Example(line, line[::-1])


class PromptedConfig(SequenceTaskConfig):
    """Has prompts of several lengths."""


class Prompted(SequenceTask):
    def examples(self, split, data):
        for line in LINES:
            first, _, rest = line.partition(" ")
            yield Example(None, rest, prompt=first)


class HeadedConfig(SequenceTaskConfig):
    """Has a number for each token."""


class Headed(SequenceTask):
    def examples(self, split, data):
        yield Example(None, "a b", extras={"heads": [0, 1]})


class BaggedConfig(SequenceTaskConfig):
    source = Source.BAG


class Bagged(SequenceTask):
    def examples(self, split, data):
        yield "a b", "b a"


PLACE = {"Echo": Echo, "Prompted": Prompted, "Headed": Headed, "Bagged": Bagged}


def prepared(config, folder):
    task = PLACE[type(config).__name__.removesuffix("Config")](config, folder)
    return task, task.prepare(folder)


def rows(task, purpose=Purpose.TRAIN, rng=None, size=TWO, split="train"):
    found = {}
    for batch in task.batches(split, purpose, size, rng):
        for row, number in enumerate(batch.ids.tolist()):
            source = () if batch.source is None else batch.source[row, : batch.source_length[row]].tolist()
            prompt, gold = batch.prompt[row].tolist(), batch.gold[row, : batch.length[row]].tolist()
            found[number] = prompt, gold, source
    return found


def test_each_epoch_cuts_texts_anew_and_the_same_epoch_alike(tmp_path):
    task, _ = prepared(EchoConfig(tokenizer=BPE, shared=True), tmp_path)
    first = rows(task, rng=Rng(1))
    assert rows(task, rng=Rng(1)) == first
    assert rows(task, rng=Rng(1), size=Size(5)) == first
    assert rows(task, rng=Rng(1), size=Size(60, "tokens")) == first
    again = Echo(task.config, tmp_path)  # as another process opens it
    assert rows(again, rng=Rng(1)) == first
    other = rows(task, rng=Rng(2))
    assert all(other[number] != first[number] for number in range(2))


def test_every_cut_reads_as_the_text(tmp_path):
    task, _ = prepared(EchoConfig(tokenizer=BPE, shared=True), tmp_path)
    for seed in range(20):
        for number, (_, gold, source) in rows(task, rng=Rng(seed)).items():
            assert (task.text(gold[:-1]), task.text(source[:-1])) == (LINES[number][::-1], LINES[number])
            assert gold[-1] == source[-1] == 0


def test_without_noise_and_for_other_purposes_no_merge_is_left_out(tmp_path):
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    task, info = prepared(EchoConfig(tokenizer=BPE), tmp_path / "with")
    plain, known = prepared(EchoConfig(tokenizer=BytePairs(kind="bpe", vocab_size=290)), tmp_path / "without")
    assert info.vocabulary == known.vocabulary
    assert info.counts == known.counts
    assert rows(task) == rows(plain)
    for purpose in (Purpose.SCORE, Purpose.DECODE):
        for split in ("train", "test"):
            found = rows(task, purpose, Rng(1), split=split)
            assert found == rows(plain, purpose, Rng(1), split=split)
    assert rows(task, rng=Rng(1), split="valid") == rows(plain, rng=Rng(1), split="valid")


def test_a_batch_in_tokens_keeps_its_size_with_the_pieces_that_it_has(tmp_path):
    task, _ = prepared(EchoConfig(tokenizer=BPE, shared=True), tmp_path)
    for seed in range(20):
        for batch in task.batches("train", Purpose.TRAIN, Size(60, "tokens"), Rng(seed)):
            widest = max(batch.gold.shape[1], batch.source.shape[1])
            assert len(batch) == 1 or len(batch) * widest <= 60


def test_about_as_many_merges_are_left_out_as_are_asked_for(tmp_path):
    """Of one possible merge in a word of two letters, `dropout` of all words."""
    from random import Random

    from bench_text.merges import merge

    draws = [len(merge(["a", "b"], {("a", "b"): 0}, Random(seed), 0.3)) == 2 for seed in range(4000)]
    assert abs(sum(draws) / 4000 - 0.3) < 4 * (0.3 * 0.7 / 4000) ** 0.5


def test_prompts_are_cut_anew_too_and_stay_what_is_given(tmp_path):
    task, _ = prepared(PromptedConfig(tokenizer=BPE), tmp_path)
    seen = set()
    for seed in range(10):
        for number, (prompt, gold, _) in rows(task, rng=Rng(seed)).items():
            first, _, rest = LINES[number].partition(" ")
            assert (task.prompt(prompt[1:]), task.text(gold[:-1])) == (first, rest)
            seen.add((number, len(prompt)))
    assert len(seen) > 2 * len(LINES)


@pytest.mark.parametrize("config", [EchoConfig(tokenizer=BPE), PromptedConfig(tokenizer=BPE), PromptedConfig()])
def test_tasks_that_cut_anew_and_prompts_keep_the_contracts(config, tmp_path, monkeypatch):
    monkeypatch.setattr(type(config), "load", classmethod(lambda cls: PLACE[cls.__name__.removesuffix("Config")]))
    assert len(check_task(TaskCase.of(config, tmp_path, tmp_path))) > 8


@pytest.mark.parametrize("config", [HeadedConfig, BaggedConfig])
def test_what_would_no_longer_fit_the_pieces_refuses_dropout(config, tmp_path):
    with pytest.raises(SuiteError, match="does not support `dropout`"):
        prepared(config(tokenizer=BPE), tmp_path)
    prepared(config(tokenizer=BytePairs(kind="bpe", vocab_size=290)), tmp_path)


SUITE = """
suite: streams
tasks:
  text: {name: language-modeling, corpus: english, tokenizer: {kind: bpe, vocab_size: 300, dropout: 0.1}}
"""


def test_a_stream_refuses_dropout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.yaml").write_text(SUITE)
    bench_core.run(tmp_path / "suite.yaml", data=tmp_path, store="store", out="runs")
    (log,) = tmp_path.glob("runs/*/log")
    assert "language-modeling segments texts only once" in log.read_text()


def test_openings_of_a_batch_are_equally_long_and_none_is_lost(tmp_path):
    task, _ = prepared(PromptedConfig(tokenizer="char"), tmp_path)
    for rng in (None, Rng(1)):
        for purpose in Purpose:
            batches = [*task.batches("train", purpose, Size(3), rng)]
            assert sorted(number for batch in batches for number in batch.ids.tolist()) == [*range(len(LINES))]
            for batch in batches:
                assert len(batch) <= 3
                for number, prompt in zip(batch.ids.tolist(), batch.prompt, strict=True):
                    assert task.prompt(prompt[1:].tolist()) == LINES[number].split(" ")[0]
    assert len([*task.batches("train", Purpose.DECODE, Size(99))]) == len({len(line.split(" ")[0]) for line in LINES})
    assert torch.equal(
        next(task.batches("train", Purpose.TRAIN, Size(1))).prompt[:, 0], torch.zeros(1, dtype=torch.long)
    )
