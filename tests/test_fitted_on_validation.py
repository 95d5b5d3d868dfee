"""Settings of the evaluation that a model fits on the validation split."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace

import pytest
from bench_small.forging import edited_lines

import bench_core
import bench_notebook
from bench_core import Purpose, Rng, Scoring, Size
from bench_core.errors import StoreError
from bench_core.planning.cache_keys import key_of
from bench_core.planning.plan import plan
from bench_core.registry import extra
from bench_core.runs.provenance import STAGES, read_stages, write_stages
from bench_core.runs.results import read_run
from bench_core.storage.predictions import read_predictions
from bench_core.storage.store import Store
from bench_core.suites.cells import cells_of
from bench_core.suites.check import misfits
from bench_core.suites.load import load
from bench_exchange.exporting import export_run
from bench_exchange.importing import import_run
from bench_exchange.recorded import contradictions
from bench_exchange.verifying import Verifier

FITTED = """
from bench_core import Scores, hookimpl
from bench_small.parts import Bigram
from bench_small.plugin import BigramConfig, LettersConfig


class FittedConfig(BigramConfig):
    name, target = "fitted", "bench_fitted:Fitted"
    evaluation = {"adds"}
    adds: int = 0

    def fits_on_validation(self):
        return True


class NoValidConfig(LettersConfig):
    name = "no-valid"

    def purposes(self, split):
        return set() if split == "valid" else super().purposes(split)


class Fitted(Bigram):
    tokens = 0

    def fit_on_validation(self, batches, rng):
        assert not self.training
        self.tokens = sum(int(batch.length.sum()) for batch in batches)

    def score(self, batch, scoring):
        scores = super().score(batch, scoring)
        fitted = batch.ids.new_full(batch.ids.shape, self.tokens + self.config.adds).double()
        return Scores(scores.log_probs, {"fitted": fitted})


@hookimpl
def bench_models():
    return [FittedConfig]


@hookimpl
def bench_tasks():
    return [NoValidConfig]
"""


@pytest.fixture
def fitted(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bench_fitted.py").write_text(FITTED)
    import bench_fitted

    with extra(bench_fitted):
        yield
    del sys.modules["bench_fitted"]


def with_fitted(suite_file, adds=0, **more):
    return suite_file(**{"one: {name: bigram": f"one: {{name: fitted, adds: {adds}", "nats}}": "loss}}", **more})


def test_they_are_in_no_key_of_a_training_and_their_data_are_an_input_of_every_evaluation(
    fitted, suite_file, tmp_path
):
    before, after = (plan(load(with_fitted(suite_file, adds)), tmp_path).stages for adds in (0, 1))
    new = Counter(stage.kind for key, stage in after.items() if key not in before)
    assert "train" not in new
    assert {"decode", "score", "measure"} == {*new}
    fits = [stage for stage in after.values() if "validation" in stage.inputs]
    assert {stage.kind for stage in fits} == {"decode", "score"}
    assert len(fits) == new["decode"] + new["score"]


def test_the_model_reads_the_validation_split_before_each_evaluation(fitted, suite_file, tmp_path, run_here):
    path = with_fitted(suite_file, 1000)
    run_here(path)
    suite = load(path)
    store = Store(tmp_path / "store")
    stages = [stage for stage in plan(suite, tmp_path).stages.values() if "validation" in stage.inputs]
    for stage in stages:
        if stage.kind != "score":
            continue
        folder = store.get("score", stage.key).folder
        (values,) = {tuple(each.values.items()) for each in read_predictions(folder / "predictions.jsonl.gz")}
        # The first letter of a word is its prompt, and EOS follows the last.
        words = ["abcd"[: 1 + number % 4] * (1 + number % 2) for number in range(suite.tasks["words"].words)]
        assert dict(values) == {"fitted": 1000 + sum(len(word) for word in words[1::3])}


def test_a_task_without_a_validation_split_is_refused(fitted, suite_file):
    assert misfits(suite := load(with_fitted(suite_file)), cells_of(suite))[0] == []
    suite = load(with_fitted(suite_file, **{"{name: letters}": "{name: no-valid}"}))
    reasons = {misfit.reason for misfit in misfits(suite, cells_of(suite))[0]}
    assert "no-valid has no targets in a split 'valid', on which settings of fitted are fitted." in reasons


TEMPERED = """
suite: tests/tempered
tasks: {chain: {name: language-modeling, corpus: {name: markov, tokens: 1200, states: 8}, window: 10}}
models: {codes: {name: ecoc-lm, bits: 6, hidden: 4, embedding: 4, layers: 1}}
metrics: {perplexity: {name: perplexity, by: exact}}
training: {updates: 2, batch_size: 4}
splits: SPLITS
hardware: {device: cpu, threads: 1}
tables: [{id: chain, rows: [model], columns: [split], values: [perplexity]}]
"""


@pytest.fixture
def tempered(tmp_path):
    """Return a function that runs a suite whose splits are prepared separately."""

    def made(splits):
        (tmp_path / "suite.yaml").write_text(TEMPERED.replace("SPLITS", splits))
        return bench_core.run(tmp_path / "suite.yaml", store=tmp_path / "store", out=tmp_path / "runs")

    return made


@pytest.mark.parametrize("splits", ["[test]", "[valid, test]"])
def test_a_run_with_fitted_settings_holds_and_is_imported(tempered, tmp_path, splits):
    run, store = tempered(splits), Store(tmp_path / "store")
    assert [*Verifier(store).verify(run.folder)] == []
    export_run(run, store, tmp_path / "run.zip")
    there = import_run(tmp_path / "run.zip", Store(tmp_path / "there"), tmp_path / "imported")
    assert read_run(there.run).rows() == run.rows()


@pytest.mark.parametrize("other", ["test", "train"])
def test_a_run_whose_settings_were_fitted_on_another_split_is_contradicted(tempered, other):
    run = tempered("[test]")
    prepared = run.cells[0].artifacts["prepare" if other == "test" else "prepare/train"]
    found, new = [], {}
    for stage in read_stages(run.folder).values():  # inputs first
        inputs = {role: [kind, new.get(key, key)] for role, (kind, key) in stage.inputs.items()}
        inputs |= {"validation": ["prepare", prepared]} if "validation" in inputs else {}
        ingredients = {**stage.ingredients, "inputs": inputs}
        new[stage.key] = key_of({**ingredients, "scheme": stage.scheme})
        found.append(replace(stage, key=new[stage.key], ingredients=ingredients))
    write_stages(run.folder / STAGES, found)
    edited_lines(
        run.folder / "cells.jsonl",
        lambda cell: cell | {"artifacts": {name: new[key] for name, key in cell["artifacts"].items()}},
    )
    texts = [remark.text for remark in contradictions(read_run(run.folder))]
    assert any("score/perplexity: its evaluation split" in text for text in texts), texts


def test_a_loaded_model_scores_with_the_settings_fitted_in_its_run(tempered, tmp_path):
    loaded = bench_notebook.load(tempered("[test]").folder, tmp_path / "store")
    (stored,) = loaded.all_outputs()
    model = loaded.model("codes")
    first = next(iter(model.task.batches("test", Purpose.SCORE, Size(128))))
    scores = model.module.score(first, Scoring("exact", Rng(0)))
    assert scores.log_probs[0].item() == pytest.approx(next(iter(stored)).target_log_prob, rel=1e-5)


def test_a_model_with_fitted_settings_that_was_never_evaluated_is_not_loaded_without_them(tempered, tmp_path):
    run = tempered("[test]")
    keys = {key for name, key in run.cells[0].artifacts.items() if name.startswith(("score", "measure"))}
    edited_lines(
        run.folder / "cells.jsonl",
        lambda cell: cell | {"artifacts": {name: key for name, key in cell["artifacts"].items() if key not in keys}},
    )
    with pytest.raises(StoreError, match=r"'ecoc-lm' fits settings on the validation split, but .* Add a decoder"):
        bench_notebook.load(run.folder, tmp_path / "store").model("codes")
