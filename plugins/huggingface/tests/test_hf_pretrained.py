"""Models with weights: folders as `save_pretrained` writes them, and the tokenizer that belongs to them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

import bench_core
from bench_authors.testing import Case, check_model
from bench_core import Batch, DataError, Purpose, Rng, Scoring, Size, SuiteError, Training
from bench_core.execution.progress import ProgressDisplay
from bench_core.stage_kinds import weights_of
from bench_huggingface.numbering import Numbering
from bench_language_modeling.plugin import SequenceCompletionConfig

RNG = Rng(3)
SCORING = Scoring("exact", RNG)
LINES = ["abba cab", "face a b c a b c", "bad", "cab cab cafe", "abba abba abba", "a b", "cafe face bad"]


def own(saved, line, begin=True, k=1):
    """Return log p of a line and its end after `k` tokens, by transformers and the tokenizer alone."""
    ids = saved.tokenizer.encode(line, add_special_tokens=False).ids
    text = torch.tensor([[*[saved.network.config.bos_token_id] * begin, *ids, saved.network.config.eos_token_id]])
    with torch.no_grad():
        log_probs = saved.network(text[:, :-1]).logits.log_softmax(2)
    return log_probs.gather(2, text[:, 1:, None])[0, begin - 1 + k :, 0].sum()


@pytest.fixture
def task(tmp_path):
    """Return a function that prepares the completion of lines with the tokenizer of a saved model."""
    for split in ("train", "valid", "test"):
        (tmp_path / "lines").mkdir(exist_ok=True)
        (tmp_path / "lines" / f"{split}.txt").write_text("\n".join(LINES) + "\n")

    def prepare(saved, **settings):
        tokenizer = {"kind": "pretrained", "path": saved.path}
        given = {"corpus": "lines", "tokenizer": tokenizer, "prefix": 1, "sentences": "lines", "short": "drop"}
        settled = SequenceCompletionConfig.model_validate({**given, **settings})
        folder = tmp_path / "prepared"
        folder.mkdir(exist_ok=True)
        return settled.load()(settled, folder), settled.load()(settled, folder).prepare(saved.data)

    return prepare


def built(saved, info, **settings):
    settled = saved.config(**settings)
    info = replace(info, files=settled.files(saved.data))
    model = settled.load()(settled, info).eval()
    model.setup(info, RNG)
    return model


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox", "mistral"])
@pytest.mark.parametrize("bos", [True, False])
def test_text_scores_as_by_transformers_and_the_tokenizer_alone(save, task, name, bos):
    saved = save(name)
    prepared, info = task(saved)
    (batch,) = prepared.batches("test", Purpose.SCORE, Size(100))
    found = built(saved, info, bos=bos).score(batch, SCORING).log_probs
    lines = [line for line in LINES if len(saved.tokenizer.encode(line).ids) > 1]
    wanted = torch.stack([own(saved, line, bos) for line in lines])
    torch.testing.assert_close(found.float(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("broken", ["of_model", "of_task"])
def test_without_the_exchange_of_stop_scores_would_be_others(save, task, monkeypatch, broken):
    saved = save(bos="</s>")  # as GPT-2's
    prepared, info = task(saved)
    (batch,) = prepared.batches("test", Purpose.SCORE, Size(100))
    model = built(saved, info)
    right = model.score(batch, SCORING).log_probs
    monkeypatch.setattr(Numbering, broken, lambda self, values: values)
    assert ((right - model.score(batch, SCORING).log_probs).abs() > 0.01).all()


def test_the_exchange_is_its_own_inverse_for_tokens_and_logits():
    numbering, tokens = Numbering(7, stop=4), torch.arange(7)
    own = numbering.of_model(tokens)
    assert own.tolist() == [4, 1, 2, 3, 0, 5, 6]
    logits = torch.rand(2, 3, 9)
    for given in (logits.clone(), logits.clone().requires_grad_()):
        torch.testing.assert_close(numbering.of_task(given), logits[..., own])
    assert Numbering(7).of_model(tokens) is tokens


def test_the_gradient_passes_through_the_exchange():
    logits = torch.rand(2, 3, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Numbering(7, stop=4).of_task, logits)


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_pretrained_model_keeps_the_contracts(save, name):
    saved = save(name, padding=3)
    settled = saved.config()
    check_model(Case.of(settled, info=saved.info(settled), scale=1.0))


def test_its_own_first_token_begins_texts_alone_and_not_what_goes_on(save):
    """In the windows of a stream the opening is any token; only where it is stop a text begins."""
    saved = save("llama")
    model = saved.model()
    read = model._tokens(Batch(torch.arange(2), torch.tensor([[0], [5]]), torch.tensor([[0], [3]]), torch.tensor([1, 1])),
                       torch.tensor([[0, 0, 7], [5, 0, 7]]))  # fmt: skip
    assert read.tolist() == [[1, 2, 7], [5, 2, 7]]


def test_a_model_that_is_larger_than_its_tokenizer_predicts_only_what_there_is(save):
    saved = save(padding=5)
    model, tokens = saved.model(), saved.tokenizer.get_vocab_size()
    batch = Batch(torch.arange(1), torch.tensor([[0, 4]]), torch.tensor([[3, 0]]), torch.tensor([2]))
    log_probs, _ = model.start(batch)
    assert log_probs.shape == (1, tokens)
    assert log_probs.exp().sum().item() == pytest.approx(1)
    assert saved.network.config.vocab_size == tokens + 5


def test_padding_on_the_right_is_no_reason_for_a_warning(save, caplog):
    saved = save()
    change(saved, pad_token_id=saved.network.config.eos_token_id)
    batch = Batch(
        torch.arange(2), torch.tensor([[0], [0]]), torch.tensor([[0, 0, 0], [5, 6, 0]]), torch.tensor([1, 3])
    )
    saved.model().loss(batch, Training(0, 1, 0, 1, RNG))
    assert not caplog.records


def test_weights_in_several_files_are_all_read(save):
    saved = save(shard="4KB")
    files = saved.config().files(saved.data)
    assert len(list(saved.folder.glob("*.safetensors"))) > 2
    assert {path.name for path in saved.folder.glob("*.safetensors*")} <= set(files)
    assert {"config.json", "tokenizer.json"} <= set(files)
    found = saved.model().network.state_dict()
    for name, weights in saved.network.state_dict().items():
        torch.testing.assert_close(found[name], weights)


def test_a_folder_may_be_anywhere(save, tmp_path):
    saved = save()
    elsewhere = type(saved.config())(path=str(saved.folder))
    assert elsewhere.files(tmp_path / "nowhere") == saved.config().files(saved.data)
    assert list(saved.config().files(saved.data)) == ["config.json", "tokenizer.json", "model.safetensors"]


def test_tied_and_untied_weights_are_loaded_as_they_are(save):
    for tied in (True, False):
        model = save("gpt_neox", tie_word_embeddings=tied).model()
        heads = model.network.get_output_embeddings().weight, model.network.get_input_embeddings().weight
        assert (heads[0] is heads[1]) == tied


def remove(name):
    return lambda saved: (saved.folder / name).unlink()


def pickled(saved):
    (saved.folder / "model.safetensors").rename(saved.folder / "pytorch_model.bin")


def outside(saved):
    (saved.folder / "model.safetensors").unlink()
    index = {"weight_map": {"a": "../model.safetensors"}}
    (saved.folder / "model.safetensors.index.json").write_text(json.dumps(index))


def halved(saved):
    (saved.folder / "model.safetensors").unlink()
    index = {"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}
    (saved.folder / "model.safetensors.index.json").write_text(f"\ufeff{json.dumps(index)}", encoding="utf-8")
    (saved.folder / "a.safetensors").write_bytes(b"")


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (remove("config.json"), r"config\.json not found\. Put config\.json, tokenizer\.json and model\.safetensors"),
        (remove("tokenizer.json"), r"tokenizer\.json not found"),
        (remove("model.safetensors"), r"model\.safetensors not found"),
        (pickled, r"files are not supported"),
        (outside, r"must name files in its folder"),
        (halved, r"b\.safetensors not found"),
    ],
)
def test_an_incomplete_folder_says_what_is_missing(save, break_it, message):
    saved = save()
    break_it(saved)
    with pytest.raises(DataError, match=message):
        saved.config().files(saved.data)


def without_a_weight(saved):
    path = saved.folder / "model.safetensors"
    weights = load_file(path)
    del weights["transformer.h.1.ln_1.weight"]
    save_file(weights, path, metadata={"format": "pt"})


def with_nan(saved):
    path = saved.folder / "model.safetensors"
    weights = load_file(path)
    weights["transformer.h.1.ln_1.weight"][3] = float("nan")
    save_file(weights, path, metadata={"format": "pt"})


def cut_short(saved):
    path = saved.folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def of_another_size(saved):
    change(saved, n_embd=32)


def change(saved, **settings):
    path = saved.folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (without_a_weight, r"lack weights of GPT2LMHeadModel: transformer\.h\.1\.ln_1\.weight"),
        (with_nan, r"model\.safetensors: `transformer\.h\.1\.ln_1\.weight` holds NaN"),
        (cut_short, "cannot be loaded"),
        (of_another_size, "cannot be loaded"),
    ],
)
def test_damaged_weights_are_told_in_one_line(save, break_it, message):
    saved = save()
    break_it(saved)
    with pytest.raises(DataError, match=message) as caught:
        saved.model()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "t5"}, r"is of type 't5', which is not a causal language model"),
        ({"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}, "cannot be built"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantized weights"),
    ],
)
def test_other_kinds_of_models_are_refused_and_their_code_is_not_run(save, settings, message):
    saved = save()
    (saved.folder / "mine.py").write_text("raise SystemExit('this code must not run')")
    settled = saved.config()
    info = saved.info(settled)
    change(saved, **settings)
    with pytest.raises(SuiteError, match=message):
        settled.load()(settled, info)


def test_a_model_and_a_task_that_do_not_belong_together_are_refused_before_anything_is_read(save):
    saved = save()
    settled = saved.config()
    info = saved.info(settled)
    stranger = replace(info, extras={})
    other = replace(info, extras={**info.extras, "tokenizer": "0" * 64})
    crowded = saved.info(settled, more=("<cpad>",))
    for given, message in [
        (stranger, r"the task builds its own vocabulary.*tokenizer: \{kind: pretrained, path: model\}"),
        (other, r"the task uses another model's tokenizer"),
        (crowded, r"the task has 25 tokens, but the model in model has only 24.*short: drop"),
    ]:
        with pytest.raises(SuiteError, match=message), torch.device("meta"):
            settled.load()(settled, given)


SUITE = """
suite: pretrained
title: Pretrained
tasks:
  lines: {name: sequence-completion, corpus: lines, tokenizer: {kind: pretrained, path: model}, prefix: 1,
          sentences: lines, short: drop}
models:
  published: {name: hf-causal-lm, path: model}
  tuned: {name: hf-causal-lm, path: model, training: {mode: train, lr: 0.01}}
  new: {name: hf-causal-lm, architecture: {model_type: gpt2, n_embd: 8, n_layer: 1, n_head: 2, n_positions: 32}}
  absent: {name: hf-causal-lm, path: nowhere}
decoders: {greedy: {name: greedy}, beam: {name: beam, width: 2}}
metrics: {perplexity: {name: perplexity}, length: {name: length}}
training: {updates: 2, lr: 1e-9, batch_size: 4, select: {metric: perplexity, split: valid}}
limits: {max_tokens: 5}
hardware: {device: cpu, threads: 1}
tables: [{id: all, rows: [model], columns: [decoder], values: [perplexity]}]
"""


def updates(run, store):
    """Return by how many updates each model was trained."""
    keys = {cell.cell["model"]: weights_of(cell.artifacts) for cell in run.cells if cell.status == "done"}
    read = {model: next(store.glob(f"*/{key}/training.json")).read_text() for model, key in keys.items()}
    return {model: json.loads(text)["updates"] for model, text in read.items()}


@pytest.mark.slow
def test_a_suite_evaluates_or_tunes_stores_and_decodes_them_and_leaves_out_what_is_not_there(save, task, tmp_path):
    saved = save()
    (tmp_path / "suite.yaml").write_text(SUITE)
    places = {"store": tmp_path / "store", "out": tmp_path / "runs", "data": tmp_path, "progress": ProgressDisplay()}
    run = bench_core.run(tmp_path / "suite.yaml", **places)
    status = {(cell.cell["model"], cell.cell["decoder"]): (cell.status, cell.reason) for cell in run.cells}
    for decoder in ("greedy", "beam"):
        assert {status[model, decoder] for model in ("published", "tuned", "new")} == {("done", "")}
        assert status["absent", decoder][0] == "not run"
        assert "nowhere" in status["absent", decoder][1]
    lengths = {line: len(saved.tokenizer.encode(line).ids) for line in LINES}
    lines = [line for line in LINES if lengths[line] > 1]
    nats = -sum(own(saved, line) for line in lines) / sum(lengths[line] for line in lines)
    found = {row["model"]: row["perplexity"] for row in run.rows() if row["model"] != "absent"}
    assert found["published"] == pytest.approx(nats.exp().item(), rel=1e-3)
    assert found["tuned"] < 0.9 * found["published"]
    assert updates(run, tmp_path / "store") == {"published": 0, "tuned": 2, "new": 2}
