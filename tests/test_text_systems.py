"""Systems that read prompts as text, among models of a suite: what they are paired with, asked, and scored by."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import bench_small.plugin
import pytest
import torch
from bench_small.parts import Letters
from bench_writers.parts import LETTERS, Characters
from bench_writers.plugin import AsEchoedConfig, AskConfig, CharactersConfig, EchoConfig, OracleConfig

from bench_authors.testing import (
    TEXT_CONTRACTS,
    Case,
    TextCase,
    check_decoder,
    check_model,
    check_text_generator,
)
from bench_core import Hypothesis, StageRequest, SuiteError, plan, registry
from bench_core.storage.predictions import read_predictions
from bench_core.suites.cells import cells_of
from bench_core.suites.load import load

SUITE = """
    suite: tests/writers
    tasks:
      words: {name: letters, prefix: 2}
    models:
      bigram: {name: bigram}
      echo: {name: echo}
      oracle: {name: oracle}
      characters: {name: characters}
    decoders:
      greedy: {name: greedy}
      echoed: {name: as-echoed}
      quietly: {name: ask}
      loudly: {name: ask, loudly: true}
    metrics:
      length: {name: text-length}
    training: {epochs: 1}
    limits: {max_tokens: 12, examples: 9}
    seeds: 2
    splits: [valid, test]
"""
AT_THE_SIDE = SUITE.replace("{name: oracle}", "{name: oracle, door: side}")


@pytest.fixture
def write(suite_file, writers):
    return lambda text=SUITE, **replaced: suite_file(text, **replaced)


@pytest.fixture
def go(write, run_here):
    return lambda text=SUITE, **replaced: run_here(write(text, **replaced))


def predictions(tmp_path, cell):
    return read_predictions(tmp_path / "store" / "decode" / cell.artifacts["decode"] / "predictions.jsonl.gz")


def test_generators_are_paired_with_their_own_decoders_and_have_the_seeds_in_which_they_differ(write):
    cells = cells_of(load(write()))
    pairs = {(one.model, one.decoder, one.seed) for one in cells if one.split == "test"}
    every = {(model, "greedy", seed) for model in ("bigram", "characters") for seed in (0, 1)}
    asked = {("oracle", decoder, seed) for decoder in ("quietly", "loudly") for seed in (0, 1)}
    assert pairs == every | asked | {("echo", "echoed", 0)}


def test_a_decoder_without_chance_is_no_several_runs(write):
    cells = cells_of(load(write(**{"{name: ask}": "{name: ask, chance: false}", "seeds: 2": "seeds: [7, 3]"})))
    asked = [(one.decoder, one.seed) for one in cells if (one.model, one.split) == ("oracle", "test")]
    assert asked == [("quietly", 7), ("loudly", 7), ("loudly", 3)]
    other = cells_of(load(write(**{"{name: ask}": "{name: ask, chance: false}"})), seeds=[5])
    assert ("quietly", 5) in {(one.decoder, one.seed) for one in other}


def test_they_are_asked_with_prompt_split_seed_and_settings_and_their_texts_pass_no_vocabulary(go, tmp_path):
    run = go()
    assert {(one.status, one.reason) for one in run.cells} == {("done", "")}
    cells = {(one.cell["model"], one.cell["decoder"], one.cell["split"], one.cell["seed"]): one for one in run.cells}
    of_model = {one.id: one.prompt for one in predictions(tmp_path, cells["bigram", "greedy", "test", 0])}
    echoed = predictions(tmp_path, cells["echo", "echoed", "test", 0])
    assert len(echoed) == 9
    assert {one.id: one.prompt for one in echoed} == of_model
    assert [one.texts for one in echoed] == [[one.prompt.upper(), "?"] for one in echoed]
    assert all(one.references for one in echoed)
    loud = predictions(tmp_path, cells["oracle", "loudly", "valid", 1])
    assert [one.texts for one in loud] == [[f"valid 1! of 13: {one.id} "] for one in loud]
    assert (tmp_path / "store" / "answers" / "oracle").is_dir()
    number = cells["echo", "echoed", "test", 0].numbers["length"]
    assert number.value == pytest.approx(sum(len(one.prompt) for one in echoed) / 9)


def test_settings_of_access_reach_the_model_and_are_in_no_key(write, tmp_path):
    usual, other = (plan(load(write(text)), tmp_path) for text in (SUITE, AT_THE_SIDE))
    assert {*usual.stages} == {*other.stages}
    assert not any("door" in json.dumps(stage.ingredients) for stage in other.stages.values())
    asked = [stage for stage in other.stages.values() if "oracle" in stage.label]
    assert {stage.kind for stage in asked} == {"initial", "decode", "measure"}
    assert {one.access.get("door") for one in asked if one.kind != "measure"} == {"side"}
    assert not any(stage.access for stage in other.stages.values() if "bigram" in stage.label)
    sent = [json.loads(json.dumps(StageRequest(stage).to_json())) for stage in asked]
    assert [StageRequest.from_json(one).stage for one in sent] == asked


def test_a_system_is_asked_where_the_suite_says(go, tmp_path):
    go(AT_THE_SIDE)
    assert [one.name for one in (tmp_path / "store" / "answers").iterdir()] == ["side"]


@pytest.mark.slow
def test_numbers_of_tokens_are_stored_as_their_system_counts_them(go, tmp_path):
    run = go()
    cells = {one.cell["model"]: one for one in run.cells}
    first = [one.hypotheses[0] for one in predictions(tmp_path, cells["echo"])]
    assert [one.length for one in first] == [len(one.texts[0]) for one in predictions(tmp_path, cells["echo"])]
    assert {one.text for one in first} == {None}  # predictions have it
    assert {one.hypotheses[0].length for one in predictions(tmp_path, cells["oracle"])} == {None}
    samples = json.loads(
        (tmp_path / "store/decode" / cells["oracle"].artifacts["decode"] / "samples.json").read_text()
    )
    assert samples[0]["tokens"] is None


def test_hypotheses_of_models_are_stored_without_fields_of_generators(go, tmp_path):
    import gzip

    cells = {one.cell["model"]: one for one in go().cells}
    path = tmp_path / "store/decode" / cells["bigram"].artifacts["decode"] / "predictions.jsonl.gz"
    line = json.loads(gzip.decompress(path.read_bytes()).splitlines()[0])
    assert {"text", "token_count"}.isdisjoint(line["hypotheses"][0])
    assert [Hypothesis([1, 2], True).length, Hypothesis([1, 2], False).length] == [3, 2]


def test_a_model_with_a_vocabulary_of_its_own_decodes_and_scores_what_it_encodes(go, tmp_path):
    text = SUITE.replace("length: {name: text-length}", "length: {name: text-length}\n      nats: {name: nats}")
    skip = "skip: [{model: [echo, oracle], metric: nats}]\n    splits: [test]"
    cells = {one.cell["model"]: one for one in go(text, **{"splits: [valid, test]": skip}).cells}
    assert cells["characters"].reason == ""
    model = Characters(CharactersConfig(), None)
    for one in predictions(tmp_path, cells["characters"]):
        (hypothesis,) = one.hypotheses
        token, chain = 1 + LETTERS.find(one.prompt[-1]), []
        for _ in range(12):
            token = int(model.table[token].argmax())
            chain += [token] if token else []
            if not token:
                break
        assert hypothesis.tokens == chain
        assert one.texts == [model.text(chain)]
    key = cells["characters"].artifacts["score/nats"]
    for one in read_predictions(tmp_path / "store/score" / key / "predictions.jsonl.gz"):
        assert one.target_tokens > 0
        assert one.target_characters == one.target_bytes == one.target_tokens
        assert math.isfinite(one.target_log_prob)


JUDGED = """
    suite: tests/judged
    tasks: {words: {name: letters, prefix: 1}}
    models: {judge: {name: judge}}
    metrics: {nats: {name: nats}}
    limits: {scored: 9}
    splits: [test]
"""


@pytest.mark.parametrize("stop", [True, False])
def test_a_scorer_of_texts_is_given_prompts_and_targets_and_says_how_long_they_are(go, tmp_path, stop):
    (cell,) = go(JUDGED, **{"{name: judge}": f"{{name: judge, stop: {str(stop).lower()}}}"}).cells
    assert (cell.status, cell.reason) == ("done", "")
    found = read_predictions(tmp_path / "store/score" / cell.artifacts["score/nats"] / "predictions.jsonl.gz")
    assert len(found) == 9
    for one in found:
        assert one.target_bytes == one.target_characters == one.target_tokens - 1 + stop
        assert one.target_log_prob == -one.target_tokens  # all but "!", and the prompt
        assert one.target_words - stop == (one.target_tokens > 1)
    assert {one.target_tokens for one in found} > {1}


UNFIT = {
    "nan": "nan for example",
    "positive": "1.0 for example",
    "none": "None for example",
    "fewer": "8 scores for 9",
}


@pytest.mark.parametrize("way", UNFIT)
def test_what_a_scorer_of_texts_must_not_give_is_named(go, way):
    (cell,) = go(JUDGED, **{"{name: judge}": f"{{name: judge, breaks: {way}}}"}).cells
    assert "Judge.score_texts gave" in cell.reason
    assert UNFIT[way] in cell.reason


def test_settings_may_forbid_a_capability(write):
    assert "judge is blind." in refusal(write, JUDGED, **{"{name: judge}": "{name: judge, breaks: blind}"})


def test_windows_of_a_stream_are_not_taken_for_whole_texts(go, monkeypatch):
    """Each would be scored with a stop that the stream does not have."""
    prepare = Letters.prepare
    monkeypatch.setattr(Letters, "prepare", lambda self, data: replace(prepare(self, data), consecutive=True))
    text = SUITE.replace("length: {name: text-length}", "length: {name: text-length}\n      nats: {name: nats}")
    run = go(text, **{"splits: [valid, test]": "skip: [{model: [echo, oracle], metric: nats}]\n    splits: [test]"})
    cells = {one.cell["model"]: one for one in run.cells}
    assert "Characters scores whole texts, but the examples of this task are windows of a stream" in (
        cells["characters"].numbers["nats"].reason
    )
    assert cells["bigram"].numbers["nats"].value is not None


def test_what_is_never_trained_is_evaluated_whatever_training_others_have(write):
    suite = load(write())
    modes = {name: entry.training.mode for name, entry in suite.models.items()}
    assert modes == {"bigram": "train", "echo": "evaluate", "oracle": "evaluate", "characters": "evaluate"}
    others = load(write(**{"training: {epochs: 1}": "training: {epochs: 3, lr: 0.5}"}))
    assert others.models["echo"].training == suite.models["echo"].training


def refusal(write, text=SUITE, **replaced):
    from bench_core.suites.check import check_fit

    suite = load(write(text, **replaced))
    with pytest.raises(SuiteError) as found:
        check_fit(suite, cells_of(suite))
    return str(found.value)


@pytest.mark.parametrize("model", ["echo", "oracle", "characters"])
def test_what_is_never_trained_cannot_be(write, model):
    line = f"{model}: {{name: {model}}}"
    text = refusal(write, **{line: f"{model}: {{name: {model}, training: {{updates: 3}}}}"})
    assert f"{model} cannot be trained. Remove its `training`." in text


def test_a_generator_without_a_decoder_is_told_which_fit(write):
    text = refusal(write, **{"      echoed: {name: as-echoed}\n": ""})
    assert "no decoder of this suite fits echo. Add one under `decoders`: {name: as-echoed}." in text


def test_a_decoder_of_generators_without_one_is_named(write):
    text = refusal(write, **{"      echo: {name: echo}\n": ""})
    assert "echoed" in text
    assert "as-echoed does not fit any model of this suite" in text


def test_a_metric_of_tokens_refuses_texts(write):
    pair = {"length: {name: text-length}": "length: {name: non-termination}"}
    text = refusal(write, **pair)
    assert "non-termination measures tokens; echo returns only text." in text
    assert "characters x" not in text


TABLE = """
    tables:
      - {id: t, rows: [model], values: [length], where: {split: test}}
    claims:
      - {id: c, text: Echoes are longer., assert: "v('length', model='bigram', split='test') < v('length', model='echo', split='test')"}
"""
ALONE = {"oracle: {name: oracle}\n": "", "quietly: {name: ask}\n": "", "loudly: {name: ask, loudly: true}\n": ""}


def test_tables_and_claims_need_no_decoder_where_each_model_has_one_that_fits_it(go):
    from bench_reports.api import table_records
    from bench_reports.content.claims import judge

    run = go(SUITE + TABLE, **{f"      {old}": new for old, new in ALONE.items()})
    rows = {one["row"]: one for one in table_records(run)["t"]}
    values = {
        (one.cell["model"], one.cell["seed"]): one.numbers["length"].value
        for one in run.cells if one.cell["split"] == "test"
    }  # fmt: skip
    assert rows["echo"]["mean"] == values["echo", 0]
    for name in ("bigram", "characters"):
        assert rows[name]["mean"] == pytest.approx((values[name, 0] + values[name, 1]) / 2)
    (claim,) = judge(run)
    assert [[*one.numbers] for one in claim.values] == [[0, 1], [0]]
    assert claim.verdict != "not run"


@pytest.mark.parametrize("text", [SUITE + TABLE])
def test_two_decoders_that_fit_one_model_are_told_apart(write, text):
    with pytest.raises(SuiteError, match="does not say which decoder: quietly, loudly") as found:
        load(write(text))
    assert "greedy" not in str(found.value).partition("does not say which decoder")[2].partition(".")[0]


def test_a_figure_needs_no_decoder_where_each_model_has_one_that_fits_it(write):
    figure = "    figures:\n      - {id: f, kind: bar, x: model, y: length, where: {split: test}}\n"
    load(write(SUITE + figure, **{f"      {old}": new for old, new in ALONE.items()}))
    with pytest.raises(SuiteError, match="figure 'f' does not say which decoder: quietly, loudly"):
        load(write(SUITE + figure))


def test_what_is_one_system_whatever_the_seeds_is_noted_in_runs(go):
    run = go(**{"seeds: 2": "seeds: 1"})
    assert {name for name, about in run.info["models"].items() if about.get("one_system")} == {"echo"}
    assert EchoConfig().is_one_system()
    assert not EchoConfig(fixed=False).is_one_system()
    assert not OracleConfig().is_one_system()


BROKEN = {
    "fewer": "gave 8 lists for 9 rows",
    "no text": "a hypothesis without a text",
    "bytes": "as the text; expected a string or None",
    "tokens": "the token 3; tokens must be at least 1",
}


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("way", BROKEN)
def test_what_a_generator_must_not_give_is_named(go, way):
    run = go(**{"echo: {name: echo}": f"echo: {{name: echo, breaks: {way}}}"})
    reasons = {one.reason for one in run.cells if one.cell["model"] == "echo"}
    assert all(BROKEN[way] in reason for reason in reasons), reasons
    assert {one.status for one in run.cells if one.cell["model"] != "echo"} == {"done"}


def test_a_batch_with_other_ids_is_refused(go, monkeypatch):
    monkeypatch.setattr(
        Characters, "encode", lambda self, prompts, targets=None, encode=Characters.encode: replace(
            encode(self, prompts, targets), ids=torch.arange(len(prompts)) + 100
        ),
    )  # fmt: skip
    reasons = {one.reason for one in go().cells if one.cell["model"] == "characters"}
    assert all("Characters.encode gave" in one and "the ids of the prompts" in one for one in reasons)


def cases(folder):
    return [
        TextCase.of(EchoConfig(), AsEchoedConfig(times=2), folder),
        TextCase.of(OracleConfig(), AskConfig(loudly=True), folder),
    ]


def test_the_toys_keep_the_contracts_of_text_generators(tmp_path):
    for case in cases(tmp_path):
        assert len(check_text_generator(case)) == len(TEXT_CONTRACTS)


@pytest.mark.parametrize("contract", TEXT_CONTRACTS, ids=str)
def test_contracts_of_text_generators_catch_their_mutants(contract, tmp_path):
    for case in cases(tmp_path):
        for mutant in contract.mutants:
            with pytest.raises(AssertionError):
                contract(mutant(case))


@pytest.mark.parametrize("mutant", [one for contract in TEXT_CONTRACTS for one in contract.mutants])
def test_mutants_differ_from_what_they_break(mutant, tmp_path):
    case = cases(tmp_path)[0]
    other = mutant(case)
    assert other is not case
    assert (other.decoder, other.model) != (case.decoder, case.model)


def test_a_model_with_a_vocabulary_of_its_own_keeps_the_contracts_of_steppers_and_scorers():
    tried = check_model(Case.of(CharactersConfig(), scale=1))
    assert "probabilities_sum_to_one_at_every_step" in tried
    assert "the_score_is_the_sum_of_its_steps" in tried
    assert "the_loss_is_finite_and_weighs_target_tokens" not in tried


def test_decoders_keep_their_contracts_with_such_a_model():
    greedy = registry.part("decoder", "greedy").config
    assert "it_decodes_on_an_accelerator_as_on_the_cpu" in check_decoder(
        Case.of(CharactersConfig(), greedy(max_tokens=5), scale=1)
    )


def test_seeds_are_compared_once_for_a_model_with_a_decoder(write, monkeypatch):
    asked = []
    monkeypatch.setattr(bench_small.plugin.BigramConfig, "seeds", lambda self, seeds: asked.append(1) or seeds)
    assert len(cells_of(load(write(**{"seeds: 2": "seeds: 300"})))) > 300
    once = len(asked)
    cells_of(load(write(**{"seeds: 2": "seeds: 30"})))
    assert len(asked) == 2 * once


def test_an_invalid_setting_of_a_generator_hides_no_other_mistake(write, monkeypatch):
    from bench_core.suites.check import report_misfits
    from bench_core.suites.load import examine
    from bench_core.suites.yaml_source import read

    lines = {
        "echo: {name: echo}": "echo: {name: echo, fixed: perhaps}",
        "length: {name: text-length}": "length: {name: nats}",
    }
    path = write(**lines)
    suite, problems = examine(read(path, tolerant=True), path.parent)
    report_misfits(suite, problems)
    text = "\n".join(problems.messages)
    assert "fixed" in text
    assert "nats needs a Scorer" in text


def test_texts_are_encoded_once_to_decode_once_to_be_counted_and_once_to_score(go, monkeypatch):
    alone, asked = [], []
    encode = Characters.encode

    def counted(self, prompts, targets=None):
        (asked if targets else alone).extend(one.id for one in prompts)
        return encode(self, prompts, targets)

    monkeypatch.setattr(Characters, "encode", counted)
    text = SUITE.replace("length: {name: text-length}", "length: {name: text-length}\n      nats: {name: nats}")
    skip = "skip: [{model: [echo, oracle], metric: nats}]\n    splits: [test]"
    run = go(text, **{"splits: [valid, test]": skip, "seeds: 2": "seeds: 1"})
    number = next(one for one in run.cells if one.cell["model"] == "characters").numbers["nats"].examples
    assert (len(alone), len(asked)) == (9, 9 + number)
