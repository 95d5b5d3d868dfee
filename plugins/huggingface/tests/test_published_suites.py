"""Published models in suites: translation and completion, decoded and scored, without reading what nobody asked for."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
import torch
from published import publish
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

import bench_core
import bench_notebook
from bench_authors.looks.tasks import TaskLook
from bench_core import Purpose, Rng, Scoring
from bench_core.execution.progress import ProgressDisplay
from bench_core.storage.predictions import read_predictions
from bench_huggingface.pretrained import PretrainedModel
from bench_language_modeling.plugin import SequenceCompletionConfig
from bench_translation.plugin import TranslationConfig

SUITE = """
    suite: published
    title: Published
    tasks:
      pairs: {name: translation, corpus: {name: invented, sentences: 80}}
      words: {name: sequence-completion, corpus: {train: a.txt, valid: a.txt, test: a.txt}, prefix: 1, sentences: lines}
    models:
      translator: {name: hf-pretrained-seq2seq, path: t5, prompt: "bad: {prompt}"}
      writer: {name: hf-pretrained-lm, path: gpt2, prompt: "face {prompt} cab", stop: ["b"]}
    decoders:
      greedy: {name: greedy}
      beam: {name: beam, width: 2}
    metrics:
      bleu: {name: bleu}
      perplexity: {name: perplexity}
      length: {name: length}
    limits: {max_tokens: 6, examples: 7}
    splits: [test]
    hardware: {device: cpu, threads: 1}
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a suite beside folders with checkpoints."""

    def running(text=SUITE, **replaced):
        for old, new in replaced.items():
            text = text.replace(old, new)
        (tmp_path / "suite.yaml").write_text(dedent(text))
        places = {"store": tmp_path / "store", "out": tmp_path / "runs", "data": tmp_path / "data", "workers": 0}
        return bench_core.run(tmp_path / "suite.yaml", **places, progress=ProgressDisplay())

    publish(tmp_path / "t5", "t5")
    publish(tmp_path / "gpt2", "gpt2", n_positions=256)
    (tmp_path / "a.txt").write_text("face a cab bad\nabba abba abba\na b c d e\ncab cab cafe\n" * 5)
    return running


@pytest.fixture
def read(monkeypatch):
    """Return the splits of tasks that are read, with their purposes."""
    found = set()
    monkeypatch.setattr(TaskLook, "at_examples", lambda look: None)  # they read some examples of each split
    monkeypatch.setattr("bench_core.computing.stages.overlap", lambda *given: {})
    for config in (TranslationConfig, SequenceCompletionConfig):
        kind = config.load()

        def noted(self, split, purpose, size, rng=None, batches=kind.batches):
            found.add((split, purpose))
            return batches(self, split, purpose, size, rng)

        monkeypatch.setattr(kind, "batches", noted)
    return found


@pytest.mark.slow
def test_they_translate_and_complete_and_are_scored_and_no_training_split_is_read(run, read, tmp_path):
    found = run()
    assert {(cell.status, cell.reason) for cell in found.cells} == {("done", "")}
    assert len(found.cells) == 8
    assert {split for split, _ in read} == {"test"}
    assert Purpose.TRAIN not in {purpose for _, purpose in read}
    for row in found.rows():
        assert row["perplexity"] > 1
        assert 0 <= row["bleu"] <= 100
    for cell in found.cells:
        predictions = read_predictions(
            tmp_path / "store" / "decode" / cell.artifacts["decode"] / "predictions.jsonl.gz"
        )
        assert len({one.id for one in predictions}) == 7
        assert all(one.references and one.prompt for one in predictions)
        assert all("b" not in text for one in predictions for text in one.texts) or cell.cell["model"] == "translator"


@pytest.mark.slow
def test_new_prompts_are_decoded_by_a_model_of_a_run_from_its_files(run, tmp_path, monkeypatch):
    found = run(**{"beam: {name: beam, width: 2}": ""})
    loaded = bench_notebook.load(found.folder, store=tmp_path / "store")
    with pytest.raises(bench_core.BenchError, match=r"no folder t5 was found.*change to the folder of the suite"):
        loaded.model("translator", task="pairs", data=tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    for name in ("translator", "writer"):
        for task in ("pairs", "words"):
            trained = loaded.model(name, task=task, data=tmp_path / "data")
            due = [*loaded.outputs(model=name, task=task)]
            prompts = [one.prompt for one in due]
            assert [one.texts for one in trained.decode(prompts)] == [one.texts for one in due]
            assert trained.decode([prompts[3]])[0].texts == due[3].texts
    (tmp_path / "t5" / "model.safetensors").unlink()
    with pytest.raises(bench_core.BenchError, match=r"translator|t5"):
        loaded.model("translator", task="pairs", data=tmp_path / "data")
    (tmp_path / "gpt2" / "tokenizer.json").unlink()
    with pytest.raises(bench_core.BenchError, match="gpt2"):
        loaded.model("writer", task="words", data=tmp_path / "data")


@pytest.mark.slow
def test_new_texts_are_scored_by_a_model_of_a_run_with_the_space_between_prompt_and_target(
    run, tmp_path, monkeypatch
):
    found = run(**{'"face {prompt} cab", stop: ["b"]': '"{prompt}"', "beam: {name: beam, width: 2}": ""})
    monkeypatch.chdir(tmp_path)
    loaded = bench_notebook.load(found.folder, store=tmp_path / "store")
    trained = loaded.model("writer", task="words", data=tmp_path / "data")
    scored = [*loaded.outputs(model="writer", task="words", kind="score")]
    decoded = {one.id: one for one in loaded.outputs(model="writer", task="words", decoder="greedy")}
    scored = [one for one in scored if one.id in decoded]
    examples = [decoded[one.id] for one in scored]
    assert len(examples) > 3
    (batch,) = trained.encode([one.prompt for one in examples], [one.references[0] for one in examples])
    scores = trained.module.score(batch, Scoring("exact", Rng(0))).log_probs
    assert scores.isfinite().all()
    assert scores.tolist() == pytest.approx([one.target_log_prob for one in scored], rel=1e-5)


def test_a_training_is_refused_as_their_tokens_are_not_those_of_a_task(run):
    with pytest.raises(
        bench_core.SuiteError, match=r"writer +hf-pretrained-lm cannot be trained\. Remove its `training`"
    ):
        run(**{'stop: ["b"]': 'stop: ["b"], training: {epochs: 1}'})


@pytest.mark.slow
def test_other_templates_leave_the_loaded_model_as_it_is_and_decode_anew(run, tmp_path):
    first, second = run(), run(**{"face {prompt} cab": "cafe {prompt}"})
    before, after = ({cell.cell["model"]: cell.artifacts for cell in one.cells} for one in (first, second))
    assert before["translator"] == after["translator"]
    assert before["writer"]["initial"] == after["writer"]["initial"]
    assert before["writer"]["decode"] != after["writer"]["decode"]


@pytest.mark.slow
def test_the_store_keeps_digests_of_their_weights_and_no_copy(run, tmp_path):
    found = run()
    for cell in found.cells:
        folder = tmp_path / "store" / "initial" / cell.artifacts["initial"]
        with safe_open(folder / "weights.safetensors", "pt") as stored:
            assert {*stored.keys()} <= {"together"}
        digests = json.loads((folder / "digests.json").read_text())
        assert len(digests) > 10
        assert all(name.startswith("network.") for name in digests)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", ["network.transformer.wte.weight", "network.transformer.h.0.ln_1.bias"])
def test_weights_that_are_read_otherwise_than_at_first_are_refused(run, monkeypatch, name):
    read_weights = PretrainedModel.read_weights
    run()

    def spoilt(self):
        read_weights(self)
        if name in self.state_dict():
            self.state_dict()[name].view(-1)[0] += 1e-3

    monkeypatch.setattr(PretrainedModel, "read_weights", spoilt)
    found = run(**{"width: 2": "width: 3"})
    failed = {
        (cell.cell["model"], cell.cell["decoder"]): cell.reason for cell in found.cells if cell.status != "done"
    }
    assert {*failed} == {("writer", "beam")}
    assert "PretrainedLM.read_weights returned different weights from the same files" in failed["writer", "beam"]
    assert name in failed["writer", "beam"]


@pytest.mark.slow
def test_other_weights_in_the_same_folder_are_another_model(run, tmp_path):
    first = run()
    publish(tmp_path / "gpt2", "gpt2", seed=9, n_positions=256)
    second = run()
    before, after = ({cell.cell["model"]: cell.artifacts for cell in one.cells} for one in (first, second))
    assert before["translator"] == after["translator"]
    assert before["writer"]["decode"] != after["writer"]["decode"]


@pytest.mark.slow
def test_a_prefix_that_words_cut_is_scored_with_the_space_of_the_corpus(run, tmp_path):
    """The likelihood is that of the joint text, by the checkpoint alone; where tokens do not spell it, none by byte."""
    found = run(**{'prompt: "face {prompt} cab", stop: ["b"]': 'prompt: "{prompt}"'})
    cell = next(one for one in found.cells if (one.cell["task"], one.cell["model"]) == ("words", "writer"))
    number = cell.numbers["perplexity"]
    assert "|between:cut" in number.signature
    key = cell.artifacts["score/perplexity"]
    saved = {**json.loads((tmp_path / "gpt2" / "config.json").read_text())}
    network = AutoModelForCausalLM.from_pretrained(tmp_path / "gpt2").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "gpt2")
    lines = (tmp_path / "a.txt").read_text().splitlines()
    for one in read_predictions(tmp_path / "store" / "score" / key / "predictions.jsonl.gz"):
        alone, ids = (tokenizer(text).input_ids for text in (lines[one.id].split()[0], lines[one.id]))
        with torch.no_grad():
            log_probs = network(torch.tensor([ids])).logits[0].log_softmax(1)
        wanted = sum(log_probs[k, token].item() for k, token in enumerate([*ids, saved["eos_token_id"]][1:]))
        wanted -= sum(log_probs[k, token].item() for k, token in enumerate(alone[1:]))
        assert one.target_log_prob == pytest.approx(wanted, rel=1e-4)
