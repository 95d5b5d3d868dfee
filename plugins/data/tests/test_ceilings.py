"""A model that knows every answer scores exactly the ceiling that is stated for the tokens of its task."""

from __future__ import annotations

import json
from random import Random
from textwrap import dedent

import pytest

import bench_core
from bench_core.commands.main import bench
from bench_core.planning.path_settings import located
from bench_core.suites.load import load
from bench_reports.render.report import write_report

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
        target_language: en
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
    "frequent words": "{kind: word, min_count: 3}",
    "char": "char",
    "bpe": "{kind: bpe, vocab_size: 300}",
}
TEXTS = 500


@pytest.fixture(scope="module")
def texts():
    chance = Random(0)
    found = ["".join(chance.choices(SIGNS, k=chance.randrange(1, 14))) for _ in range(TEXTS - 200)]
    return [*found, *("".join(any_sign(chance) for _ in range(chance.randrange(1, 14))) for _ in range(200))]


def any_sign(chance):
    """Return any sign of Unicode, or often white space."""
    return chr(chance.choice([0x20, chance.randrange(0xD800), chance.randrange(0xE000, 0x110000)]))


@pytest.mark.slow(2)
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_memoriser_of_perplexity_one_reaches_exactly_the_ceiling_of_each_metric(tmp_path, suite_file, texts, kind):
    rows = ({"q": " ".join(f"{number:03}"), "a": text} for number, text in enumerate(texts))
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
    told = f"{about['unwritable']} of 500 references of 'test' cannot be represented by the tokens of models trained on it"
    assert told in (run.folder / "log").read_text()


@pytest.mark.slow(1)
@pytest.mark.parametrize("task", ["completion", "text-to-text"])
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_check_tells_as_many_lost_references_as_a_run_counts(tmp_path, suite_file, texts, kind, task, capsys):
    chance, splits = Random(5), {}
    for split in ("train", "valid", "test"):
        splits[split] = [{"q": chance.choice(texts), "a": chance.choice(texts)} for _ in range(60)]
        content = "".join(json.dumps(row) + "\n" for row in splits[split])
        (tmp_path / f"{split}.jsonl").write_text(content)
    text = dedent(SUITE).replace("TOKENIZER", TOKENIZERS[kind])
    for split in splits:
        text = text.replace(f"{split}: own.jsonl", f"{split}: {split}.jsonl")
    if task == "text-to-text":
        text = text.replace("name: completion", "name: text-to-text").replace("prompt: q", "source: q")
        text = text.replace("{name: ngram-lm, order: 90, smoothing: none}", "{name: rnn-seq2seq, hidden: 4}")
    path = suite_file(text)
    assert not bench(["check", str(path)], standalone_mode=False)
    said = capsys.readouterr().out
    about = prepared(path, tmp_path).extras["texts"]
    for split in ("valid", "test"):
        lost = about[split]["unwritable"]
        told = f"{lost} of 60 references of '{split}' cannot be represented by the tokens of models trained on it: exact match is at most"
        assert (told in said) == bool(lost)
    assert about["test"]["unwritable"] > 0


@pytest.mark.parametrize("trained", [False, True])
def test_a_ceiling_is_stated_only_where_a_model_has_the_tokens_of_the_task(tmp_path, suite_file, trained, capsys):
    rows = {split: [{"q": f"{split} a", "a": f"{split} answer"}] * 3 for split in ("train", "valid", "test")}
    for split in rows:
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[split]))
    (tmp_path / "theirs.txt").write_text("test answer\n" * 3)
    text = dedent(SUITE).replace("TOKENIZER", "word")
    for split in rows:
        text = text.replace(f"{split}: own.jsonl", f"{split}: {split}.jsonl")
    ours = "ours: {name: ngram-lm, order: 2}, " if trained else ""
    greedy = "greedy: {name: greedy}, " if trained else ""
    text = text.replace(
        "{memory: {name: ngram-lm, order: 90, smoothing: none}}",
        f"{{{ours}theirs: {{name: recorded, outputs: theirs.txt}}}}",
    )
    text = text.replace("{greedy: {name: greedy}}", f"{{{greedy}given: {{name: as-recorded}}}}")
    text = text.replace("  perplexity: {name: perplexity}\n", "") if not trained else text
    path = suite_file(text + "skip: [{model: theirs, metric: perplexity}]\n" if trained else text)
    assert not bench(["check", str(path)], standalone_mode=False)
    said = capsys.readouterr().out
    assert ("3 of 3 references of 'test' cannot be represented by the tokens of models trained on" in said) == trained
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
    assert {cell.reason for cell in run.cells} == {""}
    for cell in run.cells:
        exact = cell.numbers["exact"]
        assert (exact.value, exact.ceiling) == ((100, None) if cell.cell["model"] == "theirs" else (0, 0))
    write_report(run, tmp_path / "report")
    report = (tmp_path / "report" / "report.md").read_text()
    assert ("References outside the vocabulary: 3 of 3 in test" in report.replace("*", "")) == trained


def prepared(path, folder):
    """Return what the task of a suite says when it is prepared."""
    (config,) = load(path).tasks.values()
    config = located(config, folder, path.parent)
    (folder / "task").mkdir()
    return config.load()(config, folder / "task").prepare(folder)


@pytest.mark.slow(1)
@pytest.mark.parametrize(("kind", "prefix"), [("word", 1), ("char", 4), ("bpe", 3)])
def test_what_follows_a_prefix_has_its_ceiling_too(tmp_path, suite_file, texts, kind, prefix):
    rows = ({"a": f"{number:03} {text}"} for number, text in enumerate(texts))
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = dedent(SUITE).replace("TOKENIZER", f"{TOKENIZERS[kind]}\n    prefix: {prefix}")
    path = suite_file(text.replace("{prompt: q, target: a}", "{target: a}"))
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
    (cell,) = run.cells
    assert cell.reason == ""
    about = run.info["tasks"]["answers"]["texts"]["test"]
    assert about["unwritable"] > 0
    for name in ("exact", "stripped", "bleu", "characters", "chrf", "ter"):
        assert cell.numbers[name].ceiling == cell.numbers[name].value, name
