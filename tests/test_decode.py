"""`bench decode` and `LoadedRun.model`: a trained model gives for a prompt what the run has, and takes new ones."""

from __future__ import annotations

import io
import json
import shutil
import sys
from textwrap import dedent

import bench_small.plugin
import bench_writers.plugin
import pytest
import torch
from bench_small.command_line import bench_here

import bench_core
import bench_notebook
from bench_core import Rng, Scoring, SuiteError, registry
from bench_core.computing.evaluate import Examples
from bench_core.computing.evaluating import evaluating
from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.errors import StoreError
from bench_notebook import trained_stage

SUITE = """
    suite: tests/decode
    title: Decode
    tasks:
      pairs: {name: translation, corpus: {name: invented, sentences: 60}, source_limit: 30}
      sentences: {name: sequence-completion, corpus: {name: english, sentences: 200}, prefix: 3, short: pad}
      pieces: {name: sequence-completion, corpus: {name: english, sentences: 200}, prefix: 2, tokenizer: bpe}
    models:
      lm: {name: rnn-lm, hidden: 8}
      translator: {name: rnn-seq2seq, hidden: 8}
    decoders:
      greedy: {name: greedy}
      beam: {name: beam, width: 3}
      drawn: {name: ancestral}
    metrics: {ended: {name: non-termination}, perplexity: {name: perplexity}}
    skip:
    - {task: pairs, model: lm}
    - {task: [sentences, pieces], model: translator}
    training: {updates: 15, lr: 1e-2}
    seeds: 2
    limits: {max_tokens: 8}
    hardware: {threads: 1, device: cpu}
"""
STREAM = """
    suite: tests/stream
    tasks: {stream: {name: language-modeling, corpus: {name: english, sentences: 200}}}
    models: {lm: {name: rnn-lm, hidden: 8}}
    metrics: {perplexity: {name: perplexity}}
    training: {updates: 3}
    limits: {max_tokens: 5}
    hardware: {threads: 1, device: cpu}
"""
PAIRS = [("sentences", "lm"), ("pieces", "lm"), ("pairs", "translator")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Run the suite; return its folder, whose run is called `one`."""
    folder = tmp_path_factory.mktemp("decode")
    (folder / "suite.yaml").write_text(dedent(SUITE))
    run = bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", workers=0)
    run.folder.rename(folder / "runs" / "one")
    return folder


@pytest.fixture(scope="module")
def loaded(place):
    return bench_notebook.load("one", store=place / "store", runs=place / "runs")


@pytest.fixture
def decode(place, monkeypatch):
    """Return a function that runs `bench decode one` on lines, from a file or typed on a terminal."""

    def run(*words, lines=b"", typed=False, folder=place):
        stdin = io.BytesIO(lines if isinstance(lines, bytes) else "".join(f"{one}\n" for one in lines).encode())
        stdin.isatty = lambda: typed
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin))
        return bench_here("decode", "one", *words, "--store", "store", folder=folder)

    return run


def outputs(loaded, **axes):
    """Return the prompts of a cell, and its predictions."""
    found = [*loaded.outputs(**axes)]
    return [one.prompt for one in found], found


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("decoder", ["greedy", "beam"])
@pytest.mark.parametrize(("task", "model"), PAIRS)
def test_prompts_of_the_test_set_give_the_outputs_of_the_cell_alone_and_with_others(task, model, decoder, loaded):
    prompts, due = outputs(loaded, task=task, model=model, decoder=decoder, seed=1)
    trained = loaded.model(model, task=task, seed=1)
    found = trained.decode(prompts, decoder)
    assert [one.texts for one in found] == [one.texts for one in due]
    assert [[each.tokens for each in one.hypotheses] for one in found] == [
        [each.tokens for each in one.hypotheses] for one in due
    ]
    other = loaded.model(model, task=task, seed=0).decode(prompts, decoder)
    assert [one.texts for one in other] != [one.texts for one in due]
    order = [*range(len(prompts))][::-3]
    some = trained.decode([prompts[place] for place in order], decoder, first=1000)
    assert [one.texts for one in some] == [due[place].texts for place in order]
    assert [one.id for one in some] == [*range(1000, 1000 + len(order))]
    for prompt, one in zip(prompts[:3], due, strict=False):
        assert trained.decode([prompt], decoder)[0].texts == one.texts


@pytest.mark.parametrize("decoder", ["greedy", "beam", "drawn"])
@pytest.mark.parametrize(("task", "model"), PAIRS)
def test_in_double_precision_they_are_the_same_byte_for_byte(task, model, decoder, loaded):
    trained = loaded.model(model, task=task, seed=0)
    prompts, _ = outputs(loaded, task=task, model=model, decoder=decoder, seed=0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        trained.module.double()
        rng, whole = Rng(0).fork("decode"), CheckedTask(trained.task, trained.info)
        examples = Examples(whole, "test", rng, torch.device("cpu"), 128, words=len(trained.info.vocabulary))
        with evaluating(trained.module):
            due = [*examples.decoded(trained.module, trained.decoders[decoder])]
        found = trained.decode(prompts, decoder)
        alone = [trained.decode([prompt], decoder, first=place)[0] for place, prompt in enumerate(prompts[:5])]
    finally:
        torch.set_default_dtype(before)
    assert [one.texts for one in found] == [one.texts for one in due]
    assert [one.texts for one in alone] == [one.texts for one in due[:5]]
    for one, other in zip(found, due, strict=True):
        assert [each.tokens for each in one.hypotheses] == [each.tokens for each in other.hypotheses]
        pairs = zip(one.hypotheses, other.hypotheses, strict=True)
        assert all(abs(each.log_prob - same.log_prob) < 1e-12 for each, same in pairs)


def test_a_command_writes_an_output_a_line_and_stores_nothing(loaded, decode, place):
    prompts, due = outputs(loaded, task="pairs", model="translator", decoder="greedy", seed=0)
    before = contents(place)
    done = decode("translator", "--decoder", "greedy", "--seed", 0, lines=prompts)
    assert (done.stdout.split("\n"), done.stderr) == ([*(one.texts[0] for one in due), ""], "")
    lines = ("\ufeff" + "\r\n".join(prompts)).encode()  # as another system would save it, without a line end
    assert decode("translator", "--decoder", "greedy", "--seed", 0, lines=lines).stdout == done.stdout
    assert contents(place) == before


def test_many_lines_are_numbered_on_and_decoded_as_few(loaded, decode):
    prompts, _ = outputs(loaded, task="sentences", model="lm", decoder="drawn", seed=0)
    few = decode("lm", "--task", "sentences", "--decoder", "drawn", "--seed", 0, lines=prompts).stdout
    many = [*prompts, *["the"] * (300 - len(prompts)), *prompts]
    found = decode("lm", "--task", "sentences", "--decoder", "drawn", "--seed", 0, lines=many).stdout
    assert found.startswith(few)
    assert found.count("\n") == len(many)
    again = "".join(f"{one}\n" for one in found.split("\n")[300:-1])
    assert again != few  # other lines have other samples


def test_a_sampling_decoder_says_so_and_gives_the_samples_of_the_run(loaded, decode):
    prompts, due = outputs(loaded, task="sentences", model="lm", decoder="drawn", seed=1)
    done = decode("lm", "--task", "sentences", "--decoder", "drawn", "--seed", 1, lines=prompts)
    assert done.stdout == "".join(f"{one.texts[0]}\n" for one in due)
    assert done.stderr == "note: outputs are sampled, with seed 1 (--seed) and the number of the line.\n"
    samples = decode("lm", "--task", "sentences", "--decoder", "drawn", "--seed", 1, lines=["the"] * 20).stdout
    assert len({*samples.split("\n")}) > 5


def test_json_has_all_outputs_of_a_line(loaded, decode):
    prompts, due = outputs(loaded, task="pairs", model="translator", decoder="beam", seed=0)
    done = decode("translator", "--decoder", "beam", "--seed", 0, "--json", lines=prompts[:4])
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["line"], one["prompt"]) for one in found] == [*enumerate(prompts[:4], 1)]
    assert [[each["text"] for each in one["outputs"]] for one in found] == [one.texts for one in due[:4]]
    assert {*found[0]["outputs"][0]} == {
        "text", "finished", "log_prob", "tokens", "actions", "token_count", "values",
    }  # fmt: skip


def test_the_module_is_in_evaluation_mode_and_scores_encoded_texts_as_the_run_did(loaded):
    trained = loaded.model("translator", seed=0)
    assert not trained.module.training
    assert isinstance(trained.module, torch.nn.Module)
    assert [*trained.decoders] == ["greedy", "beam", "drawn"]
    prompts, decoded = outputs(loaded, model="translator", decoder="greedy", seed=0)
    targets = [one.references[0] for one in decoded]
    due = [one.target_log_prob for one in loaded.outputs(model="translator", seed=0, decoder="greedy", kind="score")]
    (batch,) = trained.encode(prompts, targets)
    with evaluating(trained.module):
        scores = trained.module.score(batch, Scoring("exact", Rng(0))).log_probs
    assert scores.tolist() == pytest.approx(due, rel=1e-5)
    gold = batch.gold[0, : batch.length[0] - 1].tolist()
    words = zip(trained.text(gold).split(), targets[0].split(), strict=True)
    assert {word for word, due in words if word != due} <= {"\N{APL FUNCTIONAL SYMBOL QUAD QUESTION}"}
    assert any(word in trained.info.vocabulary for word in targets[0].split())


def test_a_model_that_was_only_scored_continues_prefixes_by_any_installed_decoder(tmp_path, decode):
    (tmp_path / "suite.yaml").write_text(dedent(STREAM))
    run = bench_core.run(tmp_path / "suite.yaml", store=tmp_path / "store", out=tmp_path / "runs", workers=0)
    run.folder.rename(tmp_path / "runs" / "one")
    trained = bench_notebook.load(tmp_path / "runs" / "one", tmp_path / "store").model("lm")
    batches = trained.encode(["the  old king", "a"])
    assert sorted(batch.prompt.shape[1] for batch in batches) == [2, 4]
    lines = ["the old king", "a"]
    found = [one.texts[0] for one in trained.decode(lines, "greedy")]
    assert all(len(text.split()) <= 5 for text in found)
    assert decode("lm", "--decoder", "greedy", lines=lines, folder=tmp_path).stdout.splitlines() == found
    for words, due in {
        (): "the run decodes nothing with stream/lm, seed 0. Name an installed decoder",
        ("--decoder", "gready"): "no decoder is called 'gready'. Did you mean 'greedy'?",
        ("--decoder", "as-recorded"): "decoder 'as-recorded' needs a Recorded, which stream/lm, seed 0 is not.",
        ("--decoder", "nucleus"): "decoder 'nucleus' has no default settings.",
    }.items():
        done = decode("lm", *words, lines=lines, folder=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert due in done.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["lstm"], "no model of these cells is called 'lstm'. Did you mean 'lm'?"),
        (["lm"], "has 'lm' several times. Choose by task (sentences, pieces), seed (0, 1)."),
        (["translator", "--decoder", "greedy"], "has 'translator' several times. Choose by seed (0, 1)."),
        (["lm", "--task", "pairs"], "no task of these cells is called 'pairs'."),
        (["lm", "--task", "sentences", "--seed", "7"], "no seed of these cells is called '7'. Known: 0, 1."),
        (["translator", "--seed", "0"], "the run has several decoders. Choose one of greedy, beam, drawn."),
        (["translator", "--seed", "0", "--decoder", "grady"], "Did you mean 'greedy'?"),
        (["translator", "--hardware", "gpu"], "no hardware of these cells is called 'gpu'. Known: default."),
    ],
)
def test_what_is_not_chosen_or_unknown_is_listed(words, found, decode):
    done = decode(*words, lines=["the"])
    assert (done.returncode, done.stdout) == (2, "")
    assert found in done.stderr


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (b"the\n\nthe\n", "line 2 is empty"),
        (b"the\n \t\xc2\xa0\n", "line 2 is empty"),
        (b"the\nthe\nth\xe9\n", "line 3 is not UTF-8 (byte 3 is 0xe9)"),
        (b"\x80\x02X", "line 1 is not UTF-8 (byte 1 is 0x80)"),
        (b"the\0\n", "line 1 contains a zero byte"),
        (b"the\n" * 300 + b"\xff\n", "line 301 is not UTF-8"),
        ("a\n" + "word " * 31 + "\n", "prompt 2 has 31 tokens, more than the `source_limit` of 30. Increase"),
    ],
)
def test_a_line_that_is_no_prompt_is_named(lines, found, decode):
    lines = lines if isinstance(lines, bytes) else lines.encode()
    done = decode("translator", "--seed", 0, "--decoder", "greedy", lines=lines)
    assert done.returncode == 2
    assert found in done.stderr
    assert done.stdout.count("\n") == (256 if len(lines) > 1000 else 0)  # all of a batch of lines, or none


def test_no_lines_have_no_outputs(decode):
    done = decode("translator", "--seed", 0, "--decoder", "greedy", lines=b"")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_on_a_terminal_prompts_are_answered_one_by_one_and_a_bad_one_is_no_end(loaded, decode):
    prompts, due = outputs(loaded, task="pairs", model="translator", decoder="greedy", seed=0)
    lines = f"{prompts[0]}\n\n{prompts[1]}\n".encode()
    done = decode("translator", "--seed", 0, "--decoder", "greedy", lines=lines, typed=True)
    assert done.returncode == 0
    assert done.stdout == f"{due[0].texts[0]}\n{due[1].texts[0]}\n"
    assert done.stderr.count("translator> ") == 4
    assert "bench: line 2 is empty" in done.stderr


@pytest.mark.slow
def test_a_store_without_the_weights_or_the_tokenizer_names_the_command_that_brings_them(place, decode, tmp_path):
    for kind, what in (("train", "the weights are"), ("prepare", "the tokenizer and data are")):
        shutil.copytree(place, tmp_path / kind)
        shutil.rmtree(tmp_path / kind / "store" / kind)
        done = decode("translator", "--seed", 0, "--decoder", "greedy", lines=["the"], folder=tmp_path / kind)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"pairs/translator, seed 0: {what} not in the store store" in done.stderr
        command = done.stderr.strip().rpartition(": ")[2]
        assert command == "bench run runs/one/suite.yaml"
    words = command.split()[1:]
    again = bench_here(*words, "--store", "store", "--workers", 0, "--quiet", folder=tmp_path / "train")
    assert again.returncode == 0
    done = decode("translator", "--seed", 0, "--decoder", "greedy", lines=["the"], folder=tmp_path / "train")
    assert done.stdout == decode("translator", "--seed", 0, "--decoder", "greedy", lines=["the"]).stdout


def test_damaged_weights_are_not_used(place, decode, tmp_path):
    shutil.copytree(place, tmp_path / "copy")
    for path in (tmp_path / "copy" / "store" / "train").glob("*/weights.safetensors"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    done = decode("translator", "--seed", 0, "--decoder", "greedy", lines=["the"], folder=tmp_path / "copy")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the file is damaged" in done.stderr


def test_changed_code_and_libraries_are_a_warning_that_names_them(decode, monkeypatch):
    greedy = ("translator", "--seed", 0, "--decoder", "greedy")
    assert "changed" not in decode(*greedy, lines=["the"]).stderr
    real, known = trained_stage.changed_code, trained_stage.keys.library
    monkeypatch.setattr(
        trained_stage, "changed_code", lambda code, *more: real({**code, "model rnn-seq2seq": "other"}, *more)
    )
    monkeypatch.setattr(trained_stage.keys, "library", lambda name: "99" if name == "torch" else known(name))
    done = decode(*greedy, lines=["the"])
    assert done.returncode == 0
    assert "changed since the run: code of model rnn-seq2seq, torch " in done.stderr
    assert " -> 99. Outputs may differ from the run's; see `bench why runs/one`." in done.stderr


WRITERS = """
    suite: tests/writers
    tasks: {words: {name: letters, prefix: 2}}
    models:
      bigram: {name: bigram}
      echo: {name: echo}
      oracle: {name: oracle, door: other}
      characters: {name: characters}
      recorded: {name: recorded, outputs: out.txt}
    decoders:
      greedy: {name: greedy}
      echoed: {name: as-echoed}
      asked: {name: ask}
      as-recorded: {name: as-recorded}
    metrics: {distinct: {name: chrf}}
    training: {updates: 3, lr: 0.1}
    limits: {max_tokens: 6}
    hardware: {threads: 1, device: cpu}
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Run systems that read texts; return their run."""
    folder = tmp_path_factory.mktemp("writers")
    (folder / "suite.yaml").write_text(dedent(WRITERS))
    (folder / "out.txt").write_text("a\n" * 14)
    with registry.extra(bench_small.plugin), registry.extra(bench_writers.plugin):
        run = bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", workers=0)
        yield bench_notebook.load(run.folder, store=folder / "store")


def test_systems_that_read_texts_are_given_the_lines_themselves(written):
    (found,) = written.model("echo").decode(["a line, of any characters"])
    assert found.texts == ["A LINE, OF ANY CHARACTERS", "?"]
    asked = written.model("oracle").decode(["one", "two"], first=5)
    assert [one.texts[0].rpartition(":")[2].strip() for one in asked] == ["5", "6"]
    assert (written.store.root / "answers" / "other").is_dir()  # a setting that is in no key
    with pytest.raises(SuiteError, match="echo, seed 0 reads and writes texts: it has no tokenizer"):
        written.model("echo").encode(["a"])


def test_a_model_with_its_own_vocabulary_encodes_with_it(written):
    prompts, due = outputs(written, model="characters", decoder="greedy")
    trained = written.model("characters")
    assert [one.texts for one in trained.decode(prompts, "greedy")] == [one.texts for one in due]
    (batch,) = trained.encode(["ab"], ["ba"])
    assert trained.text(batch.gold[0, :-1].tolist()) == "ba"


def test_recorded_outputs_and_tasks_without_texts_are_refused_by_name(written):
    with pytest.raises(SuiteError, match="'recorded' has outputs for the prompts of the suite only"):
        written.model("recorded")
    with pytest.raises(SuiteError, match="letters cannot encode new prompts, because its prompts are not texts"):
        written.model("bigram").decode(["a"], "greedy")


def test_a_model_whose_distribution_is_gone_is_named(written):
    modules = (bench_small.plugin, bench_writers.plugin)
    installed = registry.installed()
    for module in modules:
        installed.manager.unregister(module)
    registry.parts.cache_clear()
    try:
        with pytest.raises(SuiteError, match="no model is called 'bigram'"):
            written.model("bigram")
    finally:
        for module in modules:
            installed.add(module.__name__, module)
        registry.parts.cache_clear()


def test_a_run_that_recorded_no_stages_is_to_be_run_again(place, tmp_path):
    shutil.copytree(place / "runs", tmp_path / "runs")
    (tmp_path / "runs" / "one" / "stages.jsonl.gz").unlink()
    old = bench_notebook.load("one", store=place / "store", runs=tmp_path / "runs")
    with pytest.raises(StoreError, match=r"does not record how pairs/translator, seed 0 was trained. Run the suite"):
        old.model("translator", seed=0)
