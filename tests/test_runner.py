"""A suite from file to results, with the small plugin."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

import bench_core
from bench_authors.testing import Case, toys
from bench_core import Hypothesis, Prediction
from bench_core.computing.stages import _course
from bench_core.errors import SuiteError
from bench_core.execution.executor import InProcess
from bench_core.execution.progress import ProgressDisplay
from bench_core.runs.runner import Runner
from bench_core.runs.sample_outputs import _without_data
from bench_core.storage.store import Store
from bench_core.suites.load import load
from bench_reports.content.page import facts
from bench_reports.render.report import write_report


class Heard(ProgressDisplay):
    def __init__(self):
        self.stages, self.warnings = [], []

    def begin(self, stage, number, total):
        self.stages.append(stage)

    def warn(self, text):
        self.warnings.append(text)

    def kinds(self):
        return sorted(stage.kind for stage in self.stages)


@pytest.fixture
def go(tmp_path, suite_file):
    def run(path=None, **options):
        heard = Heard()
        found = bench_core.run(
            path or suite_file(),
            store=tmp_path / "store",
            out=tmp_path / "runs",
            data=tmp_path,
            progress=heard,
            **options,
        )
        return found, heard

    return run


def test_arguments_that_are_not_there_are_named_with_those_that_are(go):
    with pytest.raises(TypeError, match=r"run\(\) has no argument 'wokers'. It also takes progress, workers, "):
        go(wokers=2)


@pytest.fixture
def begun(finished, tmp_path):
    """Let the suite be stored already where `go` runs it."""
    for name in ("store", "runs"):
        shutil.copytree(finished / name, tmp_path / name)


def values(run):
    return [(row["model"], row["decoder"], row["seed"], row["ended"], row["nats"]) for row in run.rows()]


def test_every_cell_is_done_and_each_training_once(go):
    run, heard = go()
    assert len(run.cells) == 2 * 2 * 2
    assert all(cell.status == "done" for cell in run.cells)
    assert heard.kinds().count("train") == 4
    assert heard.kinds().count("decode") == 8
    assert heard.kinds().count("score") == 4
    assert heard.kinds().count("prepare") == 1


def test_a_second_run_computes_nothing_and_finds_the_same(begun, go):
    first, _ = go()
    second, heard = go()
    assert heard.stages == []
    assert values(first) == values(second)
    assert first.folder == second.folder


def test_an_added_decoder_or_metric_trains_nothing(begun, go, suite_file):
    _, heard = go(
        suite_file(**{"  draw: {name: draw}": "  draw: {name: draw}\n  again: {name: argmax, max_tokens: 3}"})
    )
    assert set(heard.kinds()) == {"decode", "measure"}
    _, heard = go(suite_file(**{"  nats: {name: nats}": "  nats: {name: nats}\n  third: {name: ended, most: 2}"}))
    assert set(heard.kinds()) == {"measure"}


def test_the_seed_decides_the_draws_and_nothing_else_does(begun, go):
    run, _ = go()
    found = {(model, decoder, seed): nats for model, decoder, seed, _, nats in values(run)}
    assert found["one", "argmax", 0] == found["one", "draw", 0]
    assert found["one", "argmax", 0] != found["one", "argmax", 1]


def test_a_failing_model_fails_its_cells_and_no_others(go, suite_file):
    for breaks, word in (
        ("training", "out of luck"),
        ("building", "cannot be built"),
        ("nan", "step 3: the loss is nan"),
    ):
        text = {"two: {name: bigram, scale: 2.0}": f"two: {{name: bigram, breaks: {breaks}}}"}
        run, _ = go(suite_file(**text))
        status = {(cell.cell["model"], cell.status) for cell in run.cells}
        assert status == {("one", "done"), ("two", "failed")}
        assert all(word in cell.reason for cell in run.cells if cell.status == "failed")


def test_a_failing_decoder_leaves_the_scores_of_its_cell(go, suite_file):
    run, _ = go(suite_file(**{"draw: {name: draw}": "draw: {name: draw, breaks: true}"}))
    for cell in run.cells:
        assert cell.status == ("failed" if cell.cell["decoder"] == "draw" else "done")
        assert cell.numbers["nats"].value is not None


def test_a_failure_is_no_result_and_is_tried_again(go, suite_file, tmp_path):
    path = suite_file(**{"two: {name: bigram, scale: 2.0}": "two: {name: bigram, breaks: training}"})
    go(path)
    assert list((tmp_path / "store" / "failures").glob("train-*.log"))
    _, heard = go(path)
    assert "train" in heard.kinds()


def test_a_damaged_number_is_set_aside_and_made_again(begun, go, tmp_path):
    first, _ = go()
    path = next((tmp_path / "store" / "measure").glob("*/number.json"))
    path.write_text(path.read_text() + " ")
    second, heard = go()
    assert heard.kinds() == ["measure"]
    assert "damaged" in heard.warnings[0]
    assert values(first) == values(second)
    assert list((tmp_path / "store" / "set-aside").iterdir())


def test_damaged_weights_are_set_aside_and_trained_again(begun, go, suite_file, tmp_path):
    first, _ = go()
    for path in (tmp_path / "store" / "train").glob("*/weights.safetensors"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    run, heard = go(suite_file(**{"draw: {name: draw}": "draw: {name: draw, max_tokens: 4}"}))
    assert len(heard.warnings) == 4
    assert all(cell.status == "done" for cell in run.cells)
    assert [row["nats"] for row in first.rows()] == [row["nats"] for row in run.rows()]


@pytest.mark.slow
def test_stages_that_find_the_same_input_damaged_at_once_share_its_repair(begun, go, suite_file, tmp_path):
    first, _ = go()
    weights = [*(tmp_path / "store" / "train").glob("*/weights.safetensors")]
    for path in weights:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    store, heard = Store(tmp_path / "store"), Heard()
    # Two more decoders read each training: all stages are under way before the first failure is looked at.
    path = suite_file(
        **{"draw: {name: draw}": "draw: {name: draw, max_tokens: 4}\n  more: {name: draw, max_tokens: 3}"}
    )
    executor = InProcess(store, tmp_path)
    executor.capacity = 100
    run = Runner(load(path), tmp_path, store, executor, heard).run(tmp_path / "runs")
    assert [warning for warning in heard.warnings if "It is computed again" in warning] == heard.warnings
    assert len(heard.warnings) == len(weights), "one repair each"
    assert {cell.status for cell in run.cells} == {"done"}
    assert {row["nats"] for row in first.rows()} == {row["nats"] for row in run.rows()}


@pytest.mark.slow
def test_an_interruption_leaves_a_run_that_says_so_and_loses_nothing(suite_file, tmp_path):
    class Interrupted(ProgressDisplay):
        def begin(self, stage, number, total):
            if stage.kind == "decode":
                raise KeyboardInterrupt

    store = Store(tmp_path / "store")
    runner = Runner(load(suite_file()), tmp_path, store, InProcess(store, tmp_path), Interrupted())
    with pytest.raises(KeyboardInterrupt):
        runner.run(tmp_path / "runs")
    (folder,) = (tmp_path / "runs").iterdir()
    lines = [json.loads(line) for line in (folder / "cells.jsonl").read_text().splitlines()]
    assert {line["status"] for line in lines} == {"not run"}
    heard = Heard()
    found = bench_core.run(suite_file(), store=tmp_path / "store", out=tmp_path / "runs", progress=heard)
    assert "prepare" not in heard.kinds()
    assert heard.kinds().count("train") < 4
    assert all(cell.status == "done" for cell in found.cells)


@pytest.mark.slow
def test_missing_data_leaves_the_cells_of_other_tasks(go, suite_file):
    text = {"words: {name: letters}": "words: {name: letters}\n  more: {name: letters, file: absent.txt}"}
    run, _ = go(suite_file(**text, **{"rows: [decoder]": "rows: [task, decoder]"}))
    assert {(cell.cell["task"], cell.status) for cell in run.cells} == {("words", "done"), ("more", "not run")}
    reasons = [cell.reason for cell in run.cells if cell.status == "not run"]
    assert reasons
    assert all("<data>/absent.txt is missing" in reason for reason in reasons), "places of this machine are not told"


@pytest.mark.slow
def test_changed_data_reruns_what_read_it(go, suite_file, tmp_path):
    path = suite_file(**{"{name: letters}": "{name: letters, file: words.txt}"})
    (tmp_path / "words.txt").write_text("ab abc abcd a b c d ab ab abc d d a")
    go(path)
    assert go(path)[1].stages == []
    (tmp_path / "words.txt").write_text("ab abc abcd a b c d ab ab abc d d")
    assert go(path)[1].kinds().count("train") == 4


@pytest.mark.slow
def test_hardware_can_be_an_axis_and_precision_a_choice(go, suite_file):
    several = "hardware: {full: {threads: 1, device: cpu}, half: {threads: 1, device: cpu, precision: bf16}}"
    path = suite_file(
        **{"hardware: {threads: 1, device: cpu}": several, "rows: [decoder]": "rows: [hardware, decoder]"}
    )
    run, heard = go(path)
    assert {cell.status for cell in run.cells} == {"done"}
    assert heard.kinds().count("train") == 8
    assert heard.kinds().count("prepare") == 1


def test_a_split_and_examples_are_the_same_for_all_models_and_seeds(go, suite_file, tmp_path):
    from bench_core.storage.predictions import read_predictions

    go(suite_file(**{"max_tokens: 6": "max_tokens: 6, examples: 5"}))
    ids = {
        tuple(prediction.id for prediction in read_predictions(path))
        for path in (tmp_path / "store" / "decode").glob("*/predictions.jsonl.gz")
    }
    assert len(ids) == 1
    assert len(next(iter(ids))) == 5


def test_the_run_folder_holds_what_a_report_needs(go):
    run, _ = go()
    names = {path.name for path in run.folder.iterdir()}
    assert (run.folder / "log").read_text().count("train words x") == 4
    assert names >= {"suite.yaml", "run.json", "cells.jsonl", "published.json", "costs.csv", "history"}
    assert len(list((run.folder / "history").glob("*.jsonl"))) == 4
    assert run.info["tasks"]["words"]["corpus"] == "made-up letters"
    assert run.info["models"]["one"]["parameters"] == 25
    assert len(run.info["samples"]) == 2 * 2 * 3
    assert str(run.folder.parent.parent) not in (run.folder / "run.json").read_text()


def test_phases_change_settings_and_go_on_with_the_best_weights(go, suite_file):
    phases = "phases: [{epochs: 1}, {updates: 4, noisy: true, lr: 0.01, reset: [table]}], "
    run, _ = go(suite_file(**{"training: {": "training: {" + phases}))
    assert all(cell.status == "done" for cell in run.cells)
    with pytest.raises(SuiteError, match=r"a phase of 'bigram' cannot set 'noisi'. Did you mean 'noisy'"):
        go(suite_file(**{"training: {": "training: {" + phases.replace("noisy", "noisi")}))


def test_a_training_can_begin_with_given_weights(begun, go, suite_file, tmp_path):
    first, _ = go()
    weights = tmp_path / "store" / "train" / first.cells[0].artifacts["train"] / "weights.safetensors"
    initial = f"training: {{initial: {weights}, updates: 1, lr: 1e-9, select: {{metric: nats}}}}"
    text = {"training: {epochs: 3, lr: 0.1, batch_size: 8, select: {metric: nats}}": initial}
    run, _ = go(suite_file(**text))
    began = {row["nats"] for row in run.rows()}
    assert max(began) - min(began) < 1e-5
    assert abs(began.pop() - first.rows()[0]["nats"]) < 1e-5
    (tmp_path / "wrong.safetensors").write_bytes(b"\x00" * 64)
    run, _ = go(
        suite_file(
            **{key: value.replace(str(weights), str(tmp_path / "wrong.safetensors")) for key, value in text.items()}
        )
    )
    assert all("does not contain the weights of this model" in cell.reason for cell in run.cells)


def test_a_model_can_survey_the_training_split_once_and_tell_of_it(go, suite_file):
    told = {"{name: bigram, scale: 2.0}": "{name: bigram, counts: true}", "epochs: 3, lr": "updates: 0, lr"}
    run, _ = go(suite_file(**told))
    nats = {row["model"]: row["nats"] for row in run.rows()}
    assert nats["two"] < nats["one"] / 2, "counts foretell, drawn weights do not"
    assert run.info["models"]["two"]["about"] == {"counts": f"of examples {[*range(40)]}"}, "each once, in file order"
    assert "about" not in run.info["models"]["one"]
    assert f"two (25 parameters, counts: of examples {[*range(40)]})" in facts(run)["Models"]


@pytest.mark.slow
def test_numbers_of_different_splits_are_of_different_examples(go, suite_file):
    run, _ = go(
        suite_file(
            **{"title: Small": "title: Small\nsplits: [valid, test]", "rows: [decoder]": "rows: [decoder, split]"}
        )
    )
    samples = {}
    for cell in run.cells:
        samples.setdefault(cell.cell["split"], set()).add(cell.numbers["ended"].sample)
    assert all(len(marks) == 1 for marks in samples.values()), "the same for all models, decoders and seeds"
    assert samples["valid"] != samples["test"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ein  Hund", "(the prompt, word for word)"),
        ("a dog", "(the reference, word for word)"),
        ("a cat", "a cat"),
        ("", ""),
    ],
)
def test_an_output_that_repeats_what_may_not_be_shown_is_told_and_not_shown(text, shown):
    sample = {"id": 0, "prompt": "ein Hund", "reference": "a dog", "text": text}
    assert _without_data(sample) == {"id": 0, "prompt": "", "reference": "", "text": shown}
    steps = {"steps": ["a", text]}
    assert ("steps" in _without_data(sample | steps)) == (text == shown), "nor is it shown word by word"


def test_what_is_not_generated_in_a_row_is_kept_word_by_word():
    case = Case.of(toys.InsertionConfig())
    task = SimpleNamespace(text=lambda tokens: "".join("_abcd"[token] for token in tokens))
    prediction = Prediction(
        7, hypotheses=[Hypothesis([2, 3, 1], False, actions=[3, 1, 2, 1, 1, 3, 4])], texts=["bca"]
    )
    assert _course(case.model, task, prediction) == {"steps": ["c", "bc", "bca"]}, (
        "the word without a slot is left out"
    )
    assert _course(Case.of(toys.ToyRecurrentConfig()).model, task, prediction) == {}


def test_reports_show_outputs_word_by_word_where_a_run_has_that(begun, go, tmp_path):
    run, _ = go()
    write_report(run, tmp_path / "without")
    assert "word by word" not in (tmp_path / "without" / "report.md").read_text()
    samples = [{**sample, "steps": ["c", "<b>c"]} for sample in run.info["samples"][:1]]
    write_report(replace(run, info={**run.info, "samples": samples}), tmp_path / "with")
    assert "word by word:\n\n1. c\n1. &lt;b&gt;c\n" in (tmp_path / "with" / "report.md").read_text()
    grown = [{**sample, "steps": ["c", "c <b>", "c <b> d"]} for sample in run.info["samples"][:1]]
    write_report(replace(run, info={**run.info, "samples": grown}), tmp_path / "grown")
    assert "word by word" not in (tmp_path / "grown" / "report.md").read_text(), (
        "which from left to right tells nothing"
    )
