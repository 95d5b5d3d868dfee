"""Which checkpoints are read: what is missing, of another family, pickled, quantized or elsewhere is refused by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from published import prompts, publish
from pydantic import ValidationError

from bench_core import DataError, Prompt, Rng, Scoring, SuiteError
from bench_huggingface import hub
from bench_huggingface.plugin import PretrainedLMConfig, PretrainedSeq2SeqConfig

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Return the folders of checkpoints by name, which nobody changes."""
    found = {}
    for name in ("gpt2", "t5"):
        found[name] = tmp_path_factory.mktemp(name)
        publish(found[name], name)
    return found


@pytest.fixture
def copied(originals, tmp_path):
    """Return a function that gives a folder with a checkpoint, to be spoilt."""

    def copying(name="gpt2"):
        return shutil.copytree(originals[name], tmp_path / name)

    return copying


def change(folder, file="config.json", **settings):
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def files(folder, kind=PretrainedLMConfig, **settings):
    return kind(path=str(folder), **settings).files(folder)


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def halved(folder):
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model-1.safetensors").write_bytes(b"")


BROKEN = {
    "no folder": (shutil.rmtree, "does not exist"),
    "not a transformers configuration": (
        without("config.json"),
        r"lacks the description of the architecture: config\.json not found",
    ),
    "no weights": (
        without("model.safetensors"),
        r"lacks the weights: model\.safetensors not found\. Put the weights",
    ),
    "no tokenizer": (
        without("tokenizer.json"),
        r"lacks the tokenizer: tokenizer\.json not found\. Save the model's tokenizer there",
    ),
    "half the weights": (halved, r"lacks the weights: model-2\.safetensors not found"),
    "pickled": (pickled, r"\*\.bin files are not supported; `save_pretrained` writes safetensors"),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), r"config\.json cannot be read as JSON"),
    "no mapping": (
        lambda folder: (folder / "config.json").write_text("[]"),
        r"config\.json does not contain a mapping",
    ),
    "no type": (lambda folder: change(folder, model_type=None), "has no `model_type`"),
    "quantized": (lambda folder: change(folder, quantization_config={"bits": 4}), "quantized weights"),
    "an encoder": (
        lambda folder: change(folder, architectures=["BertModel"]),
        r"is a BertModel, which does not generate text",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_incomplete_or_unreadable_checkpoint_says_what_is_wrong(copied, name):
    spoil, message = BROKEN[name]
    folder = copied()
    files(folder)
    spoil(folder)
    with pytest.raises(DataError, match=message) as caught:
        files(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind", "other"),
    [
        ("gpt2", PretrainedSeq2SeqConfig, "causal language model, use hf-pretrained-lm"),
        ("t5", PretrainedLMConfig, "encoder-decoder, use hf-pretrained-seq2seq"),
    ],
)
def test_a_checkpoint_of_the_other_family_is_refused_with_the_right_name(originals, name, kind, other):
    with pytest.raises(DataError, match=f"{name!r}.* is not an? .*{other}"):
        files(originals[name], kind)


def test_all_files_that_are_read_are_named_so_that_keys_follow_them(originals):
    assert set(files(originals["gpt2"])) == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip


SUITE = """
suite: published
title: Published
tasks: {words: {name: sequence-completion, corpus: english, prefix: 2}}
models:
  lm: {name: hf-pretrained-lm, path: t5}
  translator: {name: hf-pretrained-seq2seq, path: gpt2}
  lost: {name: hf-pretrained-lm, path: nowhere}
  far: {name: hf-pretrained-lm, hub: nobody/nothing, revision: 0123456789abcdef0123456789abcdef01234567}
decoders: {greedy: {name: greedy}}
metrics: {length: {name: length}}
"""


@pytest.mark.slow
def test_check_refuses_wrong_families_and_missing_files_at_their_lines_without_torch(originals, tmp_path):
    for name, folder in originals.items():
        (tmp_path / name).symlink_to(folder)
    (tmp_path / "suite.yaml").write_text(SUITE)
    program = (
        "import sys\nfrom bench_core.commands.main import bench\n"
        "code = bench(['check', sys.argv[1]], standalone_mode=False)\n"
        "assert code == 2, code\nassert not {'torch', 'transformers'} & set(sys.modules)"
    )
    place = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    found = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "suite.yaml")],
        capture_output=True, text=True, check=False, env=place,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    for line, message in (
        (6, "hf-pretrained-seq2seq"), (7, "hf-pretrained-lm"), (8, "no folder nowhere was found"), (9, "allow_download: true"),
    ):  # fmt: skip
        assert any(f"suite.yaml:{line}:" in one and message in one for one in found.stderr.splitlines()), found.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "set either `path`"),
        ({"path": "a", "hub": "a/b", "revision": REVISION}, "set either `path`"),
        (
            {"hub": "a/b"},
            r"`hub` needs a `revision`, all 40 digits.* `git ls-remote https://huggingface.co/a/b HEAD`",
        ),
        ({"hub": "a/b", "revision": "main"}, "revision"),
        ({"hub": "a/b", "revision": REVISION[:12]}, "revision"),
        ({"hub": "../b", "revision": REVISION}, "hub"),
        ({"path": "a", "allow_download": True}, "apply only to `hub`"),
        ({"path": "a", "revision": REVISION}, "apply only to `hub`"),
        ({"path": "a", "dtype": "int8"}, "dtype"),
    ],
)
def test_settings_that_do_not_say_one_model_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        PretrainedLMConfig.model_validate(settings)


@pytest.fixture
def repository(originals, monkeypatch, tmp_path):
    """Return calls for snapshots of a repository that is fetched into the cache when that is allowed."""
    calls, cache = [], tmp_path / "cache"

    def snapshot(name, revision, offline):
        calls.append((name, revision, offline))
        if not offline:
            shutil.copytree(originals["gpt2"], cache)
        if not cache.is_dir():
            raise FileNotFoundError(name)
        return cache

    monkeypatch.setattr(hub, "_snapshot", snapshot)
    return calls


def of_hub(**settings):
    return PretrainedLMConfig(hub="someone/something", revision=REVISION, **settings)


def test_nothing_is_fetched_unless_that_is_allowed(repository, tmp_path):
    with pytest.raises(DataError, match=rf"is not in the local cache.*allow_download: true.*--revision {REVISION}"):
        of_hub().files(tmp_path)
    assert repository == [("someone/something", REVISION, True)]


def test_what_is_allowed_is_fetched_at_the_revision_and_once(repository, tmp_path):
    found = of_hub(allow_download=True).files(tmp_path)
    assert of_hub(allow_download=True).files(tmp_path) == of_hub().files(tmp_path) == found
    assert [offline for _, _, offline in repository] == [True, False, True, True]
    assert {revision for _, revision, _ in repository} == {REVISION}


def test_a_download_that_fails_says_why_in_one_line(monkeypatch, tmp_path):
    def snapshot(name, revision, offline):
        raise ConnectionError("no\nroute")

    monkeypatch.setattr(hub, "_snapshot", snapshot)
    with pytest.raises(DataError, match=r"someone/something at \w+ cannot be fetched: no route"):
        of_hub(allow_download=True).files(tmp_path)


def test_a_snapshot_leaves_code_and_pickled_weights_where_they_are(monkeypatch, tmp_path):
    import huggingface_hub

    given = {}
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **more: given.update(more) or str(tmp_path)
    )
    hub._snapshot("a/b", REVISION, offline=True)
    assert given["revision"] == REVISION
    assert given["local_files_only"]
    assert not [one for one in given["allow_patterns"] if one.endswith((".py", ".bin", ".pt", "*"))]


def test_how_a_model_is_fetched_is_in_no_key():
    assert "allow_download" in PretrainedLMConfig.access


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}, "cannot be built"),
        (
            {"model_type": "bert", "is_decoder": False, "architectures": None},
            "predictions of .* differ|does not support|lack",
        ),
    ],
)
def test_code_of_a_checkpoint_is_not_run_and_what_has_no_cache_is_refused(copied, settings, message):
    folder = copied()
    (folder / "mine.py").write_text("raise SystemExit('this code must not run')")
    change(folder, **settings)
    settled = PretrainedLMConfig(path=str(folder))
    with pytest.raises((SuiteError, DataError), match=message):
        built(settled, folder)


def built(settled, folder):
    from bench_core import TaskInfo

    info = TaskInfo(["<stop>", "a"], files=settled.files(folder))
    model = settled.load()(settled, info).eval()
    model.setup(info, Rng(0))
    return model


def test_a_checkpoint_that_ends_no_text_is_refused(copied):
    folder = copied()
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        change(folder, name, eos_token_id=None, eos_token=None)
    with pytest.raises(DataError, match=r"defines EOS\. Add it there as `eos_token_id`"):
        built(PretrainedLMConfig(path=str(folder)), folder)


def test_a_tokenizer_that_cannot_be_loaded_says_so_in_one_line(copied):
    folder = copied()
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"the tokenizer in .* cannot be loaded") as caught:
        built(PretrainedLMConfig(path=str(folder)), folder)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_of_another_model_is_refused_where_it_gives_tokens_that_there_are_not(tmp_path):
    saved = publish(tmp_path, "gpt2", vocab_size=12)
    with pytest.raises(SuiteError, match=r"returns token \d+ for example 7.*do not match"):
        saved.model().encode([Prompt(7, "abba cab")])


def test_prompts_and_targets_that_do_not_fit_are_refused_by_example(tmp_path):
    saved = publish(tmp_path, "gpt2", n_positions=6)
    model = saved.model()
    with pytest.raises(SuiteError, match=r"prompt of example 3 has 7 tokens, which exceeds the 6 positions"):
        model.encode([Prompt(3, "fffffff")])
    batch = model.encode([Prompt(3, "ff"), Prompt(4, "ffff")], ["ffff", "ffff"])
    assert model.limit(batch).tolist() == [5, 3]
    with pytest.raises(SuiteError, match=r"target of example 4 has 5 tokens, but only 3 fit in the 6 positions"):
        model.score(batch, Scoring("exact", Rng(0)))


@pytest.mark.quick(2, 2)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_weights_of_smaller_types_score_nearly_as_in_float64(tmp_path, name, dtype):
    saved, answers = publish(tmp_path, name), ["a", "cab", "face", "b", ""]
    model = saved.model(dtype=dtype)
    assert {weights.dtype for weights in model.network.parameters()} == {getattr(torch, dtype)}
    exact, found = (
        one.score(one.encode(prompts(5), answers), Scoring("exact", Rng(0))).log_probs
        for one in (saved.model(), model)
    )
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, exact, rtol=1e-5 if dtype == "float32" else 0.02, atol=0)


def test_a_path_that_may_be_a_name_on_the_hub_says_so(tmp_path):
    with pytest.raises(DataError, match=r"no folder gpt2 .* or set `hub: gpt2` if that is its name"):
        PretrainedLMConfig(path="gpt2").files(tmp_path)
    with pytest.raises(DataError, match=r"the folder .*a/b/c does not exist") as error:
        PretrainedLMConfig(path="a/b/c").files(tmp_path)
    assert "hub" not in str(error.value)


def test_a_hub_name_without_a_revision_is_one_problem(tmp_path):
    assert PretrainedLMConfig.model_construct(hub="gpt2", revision=None).files(tmp_path) == {}
