"""Trained and published rows of one task are asked about the same raw texts, whose digest the report prints."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from published import publish

import bench_core
from bench_core.kit import LanguageModel
from bench_core.storage.predictions import read_predictions
from bench_huggingface.pretrained_lm import PretrainedLM
from bench_reports.render.report import write_report

SUITE = """
    suite: tests/same-texts
    tasks:
      answers:
        name: completion
        data: {train: own.jsonl, valid: own.jsonl, test: own.jsonl}
        fields: {prompt: q, target: a}
        tokenizer: char
    models:
      trained: {name: rnn-lm, hidden: 4, layers: 1}
      published: {name: hf-pretrained-lm, path: model}
    metrics: {bytes: {name: bits-per-byte}}
    training: {updates: 1}
    hardware: {device: cpu, threads: 1}
"""
ROWS = [("ab", "cab a"), ("a bad", "face"), ("c", "dead  bee"), ("fade", "b")]


@pytest.fixture
def run(tmp_path, suite_file):
    """Return a function that runs the suite on rows, and returns the run and its report."""
    publish(tmp_path / "model", "gpt2")

    def running(rows=ROWS):
        (tmp_path / "own.jsonl").write_text("".join(json.dumps({"q": q, "a": a}) + "\n" for q, a in rows))
        places = {"store": tmp_path / "store", "out": tmp_path / "runs", "data": tmp_path, "workers": 0}
        found = bench_core.run(suite_file(dedent(SUITE)), **places)
        assert {cell.reason for cell in found.cells} == {""}
        write_report(found, tmp_path / "report")
        return found, (tmp_path / "report" / "report.md").read_text().replace("*", "")

    return running


@pytest.mark.slow
def test_trained_and_published_rows_are_asked_about_the_same_raw_texts(run, tmp_path, monkeypatch):
    published, trained, encode, score = {}, {}, PretrainedLM.encode, LanguageModel.score

    def encoded(self, prompts, targets=None):
        for one, target in zip(prompts, targets or (), strict=False):
            assert one.separator == " "
            published[one.id] = one.text, target
        return encode(self, prompts, targets)

    def scored(self, batch, scoring):
        for number, prompt, gold in zip(batch.ids.tolist(), batch.prompt.tolist(), batch.gold.tolist(), strict=True):
            trained[number] = [*filter(None, prompt)], [*filter(None, gold)]
        return score(self, batch, scoring)

    monkeypatch.setattr(PretrainedLM, "encode", encoded)
    monkeypatch.setattr(LanguageModel, "score", scored)
    found, _ = run()
    facts = [json.loads(path.read_text()) for path in (tmp_path / "store" / "prepare").glob("*/task_info.json")]
    vocabulary = max((one["vocabulary"] for one in facts), key=len)
    texts = {
        number: ["".join(vocabulary[token] for token in side) for side in both] for number, both in trained.items()
    }
    assert {number: tuple(both) for number, both in texts.items()} == published == dict(enumerate(ROWS))
    keys = [key for cell in found.cells for name, key in cell.artifacts.items() if name.startswith("score")]
    first, other = (read_predictions(tmp_path / "store" / "score" / key / "predictions.jsonl.gz") for key in keys)
    assert [(one.id, one.target_bytes, one.target_characters, one.target_words) for one in first] == [
        (one.id, one.target_bytes, one.target_characters, one.target_words) for one in other
    ]


@pytest.mark.slow
def test_the_report_prints_the_digest_of_what_models_are_asked(run):
    def printed(rows):
        found, report = run(rows)
        digest = found.info["tasks"]["answers"]["texts"]["test"]["asked"]
        assert f"Texts (sha256): test {digest}" in " ".join(report.split())
        return digest

    other_prompt, other_target = [("ba", ROWS[0][1]), *ROWS[1:]], [(ROWS[0][0], "cab b"), *ROWS[1:]]
    assert len({*map(printed, [ROWS, other_prompt, other_target])}) == 3
    assert printed(ROWS) == printed(list(ROWS))
