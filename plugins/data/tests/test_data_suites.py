"""Suites on a user's data: what is checked, what systems are asked, and what their outputs score."""

from __future__ import annotations

import json
import random
import re
from itertools import count
from pathlib import Path
from textwrap import dedent

import pytest
import sacrebleu
from ruamel.yaml import YAML

import bench_core
from bench_core import Purpose
from bench_core.commands.main import bench
from bench_core.storage.predictions import read_predictions
from bench_core.suites.load import load
from bench_data.plugin import CompletionConfig, TextToTextConfig
from bench_data.settings import AlignedFiles, Hub, RecordFields, RecordFiles, Saved, TestSet
from bench_training.checkpoint import Checkpoints

README = (Path(__file__).parent.parent / "README.md").read_text()

ROWS = [
    {"id": f"doc-{number}", "q": f"a {number} b c d", "a": ["A %d B C", "A %d X C D"][number % 2] % number}
    for number in range(5)
]
MORE = [["a 0 b", "A 0 B C D E"], ["A 1 B C D"], [], ["A 3"], ["x", "y", "z"]]
SUITE = """
    suite: own
    tasks:
      answers:
        name: text-to-text
        data: {test: own/test.jsonl}
        fields: {source: "{q}", target: a, references: [a, more], id: id}
        target_language: en
    models:
      echo: {name: echo}
      oracle: {name: oracle}
    decoders:
      echoed: {name: as-echoed}
      asked: {name: ask}
    metrics:
      bleu: {name: bleu}
      chrf: {name: chrf}
    limits: {max_tokens: 12}
    splits: [test]
"""


WITH_DROPOUT = """
    suite: tests/dropout
    tasks:
      lines:
        name: text-to-text
        data: {train: train.jsonl, valid: valid.jsonl, test: test.jsonl}
        tokenizer:
          source: {kind: bpe, vocab_size: 290, dropout: 0.3}
          target: {kind: bpe, vocab_size: 290, dropout: 0.3}
    models: {ours: {name: rnn-seq2seq, hidden: 16, dropout: 0.1}}
    decoders: {greedy: {name: greedy}}
    metrics: {bleu: {name: bleu}}
    training: {epochs: 3, batch_size: 8}
    hardware: {threads: 1, device: cpu}
    limits: {max_tokens: 20}
"""


@pytest.fixture
def suite(tmp_path, suite_file, writers):
    """Write a suite and its data; return the path of the suite."""
    (tmp_path / "own").mkdir()
    rows = [{**row, "more": more or [row["a"]]} for row, more in zip(ROWS, MORE, strict=True)]
    (tmp_path / "own/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return lambda **replaced: suite_file(SUITE, **replaced)


@pytest.fixture
def check(tmp_path, capsys):
    """Check a suite; return the exit code and what was printed."""

    def checking(path):
        code = bench.main(["check", str(path), "--data", str(tmp_path / "data")], standalone_mode=False)
        printed = capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split())

    return checking


@pytest.fixture
def predictions(suite, tmp_path):
    """Run the suite without a training split; return the predictions and numbers of each model."""
    run = bench_core.run(suite(), store=tmp_path / "store", out=tmp_path / "runs", workers=0)
    assert {(one.status, one.reason) for one in run.cells} == {("done", "")}
    return {
        one.cell["model"]: (
            read_predictions(tmp_path / "store" / "decode" / one.artifacts["decode"] / "predictions.jsonl.gz"),
            one.numbers,
        )
        for one in run.cells
    }


def test_numbers_of_a_run_are_those_of_sacrebleu_on_the_texts_of_the_file(predictions):
    found, numbers = predictions["echo"]
    assert [one.prompt for one in found] == [row["q"] for row in ROWS]
    texts = [row["q"].upper() for row in ROWS]
    assert [one.texts[0] for one in found] == texts
    references = [[row["a"], *more] for row, more in zip(ROWS, MORE, strict=True)]
    streams = [[row[place] if place < len(row) else None for row in references] for place in range(4)]
    score = sacrebleu.corpus_bleu(texts, streams)
    assert 5 < score.score < 100
    assert numbers["bleu"].value == pytest.approx(score.score, abs=1e-9)
    assert numbers["chrf"].value == pytest.approx(sacrebleu.corpus_chrf(texts, streams).score, abs=1e-9)


def test_systems_are_told_the_ids_of_the_data(predictions):
    assert [one.texts[0].split()[-1] for one in predictions["oracle"][0]] == [row["id"] for row in ROWS]


def test_a_suite_without_training_data_fits_systems_that_need_none(suite, check):
    code, output = check(suite())
    assert code == 0, output


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("splits: [test]", "splits: [valid]", "text-to-text has no split 'valid'"),
        (
            "own/test.jsonl",
            "own/missing.jsonl",
            "tasks.answers.data.test.files.0: there is no file own/missing.jsonl",
        ),
        ("target: a,", "target: 'a}',", "a brace without a field name"),
        ("{test: own/test.jsonl}", "{test: {lines: own/test.jsonl}}", "unknown key 'lines'"),
    ],
)
def test_check_names_what_does_not_fit(suite, check, old, new, told):
    code, output = check(suite(**{old: new}))
    assert code != 0
    assert told in output


def test_check_refuses_to_train_without_training_data(suite, check):
    trained = {"echo: {name: echo}": "lstm: {name: rnn-seq2seq}", "{name: as-echoed}": "{name: greedy}"}
    code, output = check(suite(**trained))
    assert code != 0
    assert "text-to-text has no training examples" in output


def test_another_field_or_file_is_another_task(suite, tmp_path):
    from bench_core.planning.plan import plan

    def key():
        return plan(load(tmp_path / "suite.yaml"), tmp_path).stages

    suite()
    first = {*key()}
    assert {*key()} == first
    suite(**{"target: a,": "target: '{a}',"})
    assert not {*key()} & first
    suite()
    (tmp_path / "own/test.jsonl").write_text(json.dumps({**ROWS[0], "more": "x"}))
    assert not {*key()} & first


TRAINED = """
    suite: trained
    tasks:
      answers:
        name: text-to-text
        data: {train: own/test.jsonl, valid: own/test.jsonl, test: own/test.jsonl}
        fields: {source: "{q}", target: a, id: id}
        tokenizer: {kind: bpe, vocab_size: 270, dropout: 0.3}
    models:
      attention: {name: rnn-seq2seq, hidden: 8}
      echo: {name: echo}
    decoders:
      greedy: {name: greedy}
      echoed: {name: as-echoed}
    metrics:
      bleu: {name: bleu}
    training: {epochs: 1, batch_size: 4}
    limits: {max_tokens: 12}
    splits: [test]
"""


@pytest.mark.slow
def test_a_trained_model_and_a_system_that_reads_texts_stand_in_one_suite(suite, tmp_path):
    path = suite()
    path.write_text(dedent(TRAINED))
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
    assert {(one.cell["model"], one.status, one.reason) for one in run.cells} == {
        ("attention", "done", ""),
        ("echo", "done", ""),
    }
    assert all("bleu" in one.numbers for one in run.cells)


def test_the_readme_shows_settings_that_are_valid_and_names_all_of_them():
    (example,) = re.findall(r"^```yaml\n(suite:.*?)^```$", README, re.DOTALL | re.MULTILINE)
    kinds = {config.name: config for config in (TextToTextConfig, CompletionConfig)}
    tasks = YAML(typ="safe").load(example)["tasks"]
    assert {settings["name"] for settings in tasks.values()} == {*kinds}
    for settings in tasks.values():
        config = kinds[settings.pop("name")].model_validate(settings)
        assert all(config.purposes(split) == {*Purpose} for split in ("train", "valid", "test"))
    for kind in (*kinds.values(), RecordFields, RecordFiles, AlignedFiles, Saved, Hub, TestSet):
        assert not [name for name in kind.model_fields if not re.search(rf"\b{name}\b", README)]


@pytest.mark.slow
def test_a_training_with_dropout_of_merges_that_is_stopped_again_and_again_ends_as_if_undisturbed(
    tmp_path, monkeypatch
):
    draw = random.Random(0)
    for split, number in {"train": 120, "valid": 12, "test": 12}.items():
        lines = [" ".join(draw.choices(["lower", "newer", "widest", "lowest", "wide"], k=5)) for _ in range(number)]
        (tmp_path / f"{split}.jsonl").write_text(
            "".join(json.dumps({"source": line, "target": line[::-1]}) + "\n" for line in lines)
        )
    path = tmp_path / "suite.yaml"
    path.write_text(dedent(WITH_DROPOUT))

    def run(place, **more):
        return bench_core.run(path, store=tmp_path / place / "store", out=tmp_path / place / "runs", **more)

    def trained(place):
        (folder,) = (tmp_path / place / "store" / "train").iterdir()
        return [(folder / name).read_bytes() for name in ("weights.safetensors", "history.jsonl")]

    run("undisturbed")
    times, asked = 0, count()
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "over", lambda self: next(asked) >= 15)
        while {cell.status for cell in run("stopped", stop_after=1e6, checkpoint_every=0.0).cells} != {"done"}:
            times, asked = times + 1, count()
    assert times > 1
    assert trained("stopped") == trained("undisturbed")
    run("without", settings=[f"tasks.lines.tokenizer.{side}.dropout=0" for side in ("source", "target")])
    assert trained("without") != trained("undisturbed")
