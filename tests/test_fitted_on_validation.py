"""Settings of the evaluation that a model fits on the validation split."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from bench_core.planning.plan import plan
from bench_core.registry import extra
from bench_core.storage.predictions import read_predictions
from bench_core.storage.store import Store
from bench_core.suites.cells import cells_of
from bench_core.suites.check import misfits
from bench_core.suites.load import load

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
