"""Models whose positions end before the limit of tokens: outputs and targets that fill them, in whole suites."""

from __future__ import annotations

import json

import pytest
import yaml
from published import publish

import bench_core
from bench_core.storage.predictions import read_predictions

DECODERS = {
    "greedy": {"name": "greedy"},
    "ancestral": {"name": "ancestral"},
    "nucleus": {"name": "nucleus", "mass": 0.9},
    "beam": {"name": "beam", "width": 3},
}
LINES = [
    {"q": "ab", "a": "cab"},
    {"q": "a bad", "a": "face a"},
    {"q": "c", "a": "dead bee a"},
    {"q": "bad cab", "a": "b"},
]
TRAINED = {"name": "hf-causal-lm", "architecture": {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2}}
MODELS = {
    "trained": {**TRAINED, "architecture": {**TRAINED["architecture"], "n_positions": 20}},
    "gpt2": {"name": "hf-pretrained-lm", "path": "gpt2"},
    "llama": {"name": "hf-pretrained-lm", "path": "llama"},
    "bart": {"name": "hf-pretrained-seq2seq", "path": "bart"},
}
POSITIONS = {"gpt2": "n_positions", "llama": "max_position_embeddings", "bart": "max_position_embeddings"}


def run(folder, model, task="completion", lines=LINES, decoders=DECODERS, **settings):
    """Return the run of a suite with one model and all decoders, whose outputs may be longer than its positions."""
    path = folder / "suite.yaml"
    (folder / "own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines * 3))
    if model in POSITIONS:
        publish(folder / model, model, **{POSITIONS[model]: 16})
    fields = {"prompt" if task == "completion" else "source": "q", "target": "a"}
    data = dict.fromkeys(("train", "valid", "test"), "own.jsonl")
    suite = {
        "suite": "tests/positions",
        "tasks": {"answers": {"name": task, "data": data, "fields": fields, "tokenizer": "char"}},
        "models": {model: {**MODELS[model], **settings}},
        "decoders": decoders,
        "metrics": {"perplexity": {"name": "perplexity"}, **({"length": {"name": "length"}} if decoders else {})},
        "training": {"updates": 2},
        "hardware": {"device": "cpu", "threads": 1},
    }
    path.write_text(yaml.safe_dump(suite))
    return bench_core.run(path, store=folder / "store", out=folder / "runs", workers=0)


@pytest.mark.quick(2)
@pytest.mark.parametrize("model", MODELS)
def test_outputs_that_fill_the_positions_of_a_model_are_results(tmp_path, model):
    found = run(tmp_path, model, "text-to-text" if model == "bart" else "completion")
    assert {one.reason for one in found.cells if one.status != "done"} == set()
    assert len(found.cells) == len(DECODERS)
    stored = [tmp_path / "store" / "decode" / one.artifacts["decode"] / "predictions.jsonl.gz" for one in found.cells]
    ended = [output.finished for path in stored for one in read_predictions(path) for output in one.hypotheses]
    assert not all(ended), "no output fills the positions"


@pytest.mark.quick(1)
@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_prompts_and_targets_that_are_scored_in_windows_are_results(tmp_path, model):
    long = "a dead bee a cab face " * 6
    lines = [{"q": "ab", "a": f"{long}{sign}"} for sign in "abcd"] + [
        {"q": f"{long}{sign}", "a": "b"} for sign in "abcd"
    ]
    found = run(tmp_path, model, lines=lines, decoders={}, stride=4)
    assert [(one.status, one.reason) for one in found.cells] == [("done", "")]
    assert found.cells[0].numbers["perplexity"].value > 1
