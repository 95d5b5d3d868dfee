"""`evaluate` gives the same numbers as suite files, without stale results, side effects or leftovers."""

from __future__ import annotations

import gc
import json
import linecache
import math
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Annotated

import bench_small.plugin as small_parts
import numpy as np
import pytest
import torch
from bench_small.parts import Argmax, Bigram, Ended, Letters
from bench_small.plugin import ArgmaxConfig, BigramConfig, DrawConfig, EndedConfig, LettersConfig
from pydantic import PlainSerializer
from torch import nn

import bench_core
import bench_notebook
from bench_core import (
    Decoder,
    Hypothesis,
    Kind,
    Metric,
    MetricConfig,
    PluginError,
    Purpose,
    Size,
    Stepper,
    SuiteError,
    TaskInfo,
    registry,
    run,
)
from bench_core.errors import StoreError
from bench_core.kit import ExampleMetricConfig, LanguageModel, LanguageModelConfig
from bench_core.runs.results import read_run
from bench_core.runs.shown_results import as_html, as_markdown, as_text
from bench_decoders.plugin import GreedyConfig, ProcessorConfig
from bench_notebook import evaluating as evaluate_module
from bench_notebook.adhoc_parts import AdHocParts

ROOT = Path(__file__).parents[3]
BEGUN = evaluate_module._process_start
TINY = {"training": {"epochs": 1}, "limits": {"max_tokens": 6}, "hardware": {"threads": 1, "device": "cpu"}}

pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    """Work in an empty folder, with temporary files in another."""
    (tmp_path / "work").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(evaluate_module, "_process_start", time.time)  # freshly checked out files are not edits


def evaluate(**given):
    return bench_notebook.evaluate(**{"task": LettersConfig(), **TINY, **given})


def only(run, **axes):
    """Return the only row of a run with these names."""
    (match,) = [row for row in run.rows() if axes.items() <= row.items()]
    return match


def outputs(run):
    """Return the sample outputs of a run."""
    return [sample["text"] for sample in run.info["samples"]]


def stored(folder=".bench/store"):
    """Return the files of a store, without locks and logs of failures."""
    files = {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()}
    return {name for name in files if not name.startswith(("locks/", "failures/"))}


class Cells:
    """A notebook whose cells share names, have sources as in IPython, and can be run again."""

    def __init__(self, name="notebook_of_a_test"):
        self.module, self.numbers = ModuleType(name), count()
        sys.modules[name] = self.module

    def run(self, source):
        name = f"<cell {next(self.numbers)}>"
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        exec(compile(source, name, "exec"), vars(self.module))
        return vars(self.module)


@pytest.fixture
def cells():
    made = Cells()
    yield made
    del sys.modules[made.module.__name__]


# The same as a suite


@pytest.mark.slow
def test_numbers_equal_those_of_the_same_suite_exactly(finished, small, tmp_path):
    written = read_run(next((finished / "runs").iterdir()))
    given = bench_notebook.evaluate(
        tasks={"words": "letters"},
        models={"one": BigramConfig(), "two": BigramConfig(scale=2.0)},
        decoders=[ArgmaxConfig(), DrawConfig()],
        metrics=[EndedConfig(), {"name": "nats"}],
        training={"epochs": 3, "lr": 0.1, "batch_size": 8, "select": {"metric": "nats"}},
        seeds=2,
        limits={"max_tokens": 6},
        hardware={"threads": 1, "device": "cpu"},
        store=tmp_path / "other",
    )
    assert [(cell.cell, cell.numbers, cell.artifacts) for cell in given.cells] == [
        (cell.cell, cell.numbers, cell.artifacts) for cell in written.cells
    ]
    assert len(given.cells) == 8
    for key, draws in written.draws.items():
        assert np.array_equal(given.draws[key], draws)


@pytest.mark.slow
def test_results_of_installed_parts_are_shared_between_suites_and_calls(suite_file):
    written = run(suite_file(), store=".bench/store", out="runs")
    files = stored()
    again = bench_notebook.evaluate(
        models=["bigram", {"name": "bigram", "scale": 2}], tasks=["letters"], decoders=["argmax", "draw"],
        metrics=["ended", "nats"], training={"epochs": 3, "lr": 0.1, "batch_size": 8, "select": {"metric": "nats"}},
        seeds=range(2), limits=TINY["limits"], hardware=TINY["hardware"],
    )  # fmt: skip
    assert stored() == files
    assert (again.folder / "log").read_text() == ""
    assert [cell.artifacts for cell in again.cells] == [cell.artifacts for cell in written.cells]


def test_limits_override_defaults_of_configs_but_not_explicit_settings():
    result = evaluate(model=BigramConfig(scale=2.0), decoders=[ArgmaxConfig(), ArgmaxConfig(max_tokens=3)])
    lengths = {sample["cell"]["decoder"]: sample["tokens"] for sample in result.info["samples"]}
    assert lengths == {"argmax": 6, "argmax/max_tokens=3": 3}


def test_parts_of_the_same_name_are_distinguished_by_their_settings():
    result = evaluate(models=[BigramConfig(), BigramConfig(scale=2.0)], seeds=[3, 5], metrics="nats", decoders=())
    names = [(row["model"], row["seed"]) for row in result.rows()]
    assert names == [("bigram", 3), ("bigram", 5), ("bigram/scale=2.0", 3), ("bigram/scale=2.0", 5)]
    assert len({row["nats"] for row in result.rows()}) == 4


def test_settings_may_contain_a_grid_as_in_a_file():
    result = evaluate(model={"name": "bigram", "grid": {"scale": [0.1, 2.0]}}, metrics="nats")
    assert result.names["model"] == {"bigram/scale=0.1", "bigram/scale=2.0"}


def test_splits_may_be_text_and_settings_numpy_scalars():
    result = evaluate(
        model=BigramConfig(),
        metrics=["nats"],
        splits="valid",
        seeds=np.int64(1),
        training={"lr": np.float64(0.5), "epochs": 1},
    )
    assert only(result)["split"] == "valid"


# Functions as metrics


def test_a_function_is_averaged_over_examples_with_intervals():
    seen = []

    def matches(output, references):
        seen.append((output, references))
        return sum(a == b for a, b in zip(output, references[0], strict=False)) / 7

    result = evaluate(model=BigramConfig(scale=2.0), decoders=[DrawConfig()], metrics=[matches])
    (cell,) = result.cells
    number = cell.numbers["matches"]
    first = seen[:13]  # before the second look
    known = [sum(a == b for a, b in zip(output, references[0], strict=False)) / 7 for output, references in first]
    assert number.value == math.fsum(known) / len(known)
    assert number.examples == len(known) == 13
    assert (number.better, number.signature) == (1, "matches")
    draws = np.asarray(result.draws[cell.artifacts["measure/matches"]])
    assert min(known) <= draws.min() < number.value < draws.max() <= max(known)


def test_a_function_may_declare_its_direction_and_be_named():
    def mistakes(output, references):
        return 1.0

    mistakes.better, mistakes.unit = -1, "%"
    result = evaluate(
        model=BigramConfig(), decoders=["argmax"], metrics={"errors": mistakes, "none": lambda output, references: 0}
    )
    (cell,) = result.cells
    assert (cell.numbers["errors"].value, cell.numbers["errors"].better, cell.numbers["none"].value) == (
        100.0,
        -1,
        0.0,
    )


def test_a_function_with_an_invalid_direction_is_refused():
    def odd(output, references):
        return 1.0

    odd.better = "up"
    with pytest.raises(SuiteError, match=r"evaluate\(metrics\[0\]\): a function's `better` must be 1, -1 or 0"):
        evaluate(model="bigram", decoders=["argmax"], metrics=[odd])


def test_any_callable_may_be_a_metric_even_if_it_cannot_be_pickled():
    lock = threading.Lock()

    class Counting:
        def __init__(self):
            self.calls = 0

        def __call__(self, output, references):
            with lock:
                self.calls += 1
            return len(output)

    counting = Counting()
    result = evaluate(
        model=BigramConfig(), decoders=["argmax"], metrics=[counting, lambda o, r: len(r), lambda o, r: 2]
    )
    assert counting.calls > 13, "some are measured twice"
    assert only(result)["counting"] > 0
    assert (only(result)["lambda"], only(result)["lambda (2)"]) == (1.0, 2.0)


def test_a_function_may_share_the_name_of_an_installed_metric():
    def ended(output, references):
        return 7

    result = evaluate(model=BigramConfig(), decoders=["argmax"], metrics=["ended", ended])
    assert (only(result)["ended"], only(result)["ended (2)"]) == (0.0, 7.0)


def test_a_failing_function_marks_its_cells_with_the_reason():
    def broken(output, references):
        raise ZeroDivisionError("by nothing")

    def text(output, references):
        return output

    result = evaluate(model=BigramConfig(), decoders=["argmax"], metrics=[broken, text, "ended"])
    (cell,) = result.cells
    assert (cell.status, cell.numbers["ended"].value) == ("failed", 0.0)
    assert "ZeroDivisionError: by nothing" in cell.numbers["broken"].reason
    assert "must return a finite number" in cell.numbers["text"].reason


# Nothing stale


def ask_mine(cells):
    """Return the current value of the metric `mine` of a notebook."""
    return only(evaluate(model=BigramConfig(), decoders=["argmax"], metrics=[vars(cells.module)["mine"]]))["mine"]


def test_a_redefined_function_gives_new_numbers(cells):
    ask = partial(ask_mine, cells)
    cells.run("def mine(output, references):\n    return 1\n")
    assert ask() == ask() == 1.0
    cells.run("def mine(output, references):\n    return 2\n")
    assert ask() == 2.0


def test_calls_share_only_the_keys_of_installed_parts():
    def mine(output, references):
        return 1

    (first,), (second,) = (
        evaluate(model=BigramConfig(), decoders=["argmax"], metrics=[mine]).cells for _ in range(2)
    )
    differing = {stage for stage in first.artifacts if first.artifacts[stage] != second.artifacts[stage]}
    assert differing == {"measure/mine"}


def test_changed_globals_of_a_function_give_new_numbers(cells):
    cells.run("factor = 1\ndef inner():\n    return 1\ndef mine(output, references):\n    return factor * inner()\n")
    ask = partial(ask_mine, cells)
    assert ask() == 1.0
    cells.run("factor = 5")
    assert ask() == 5.0
    cells.run("def inner():\n    return 10\n")
    assert ask() == 50.0


MODEL = """
from torch import nn
from bench_core.kit import LanguageModel, LanguageModelConfig

class TableConfig(LanguageModelConfig):
    scale: float = 1.0

class Table(LanguageModel):
    def __init__(self, config, info):
        super().__init__()
        self.scale = config.scale
        self.table = nn.Embedding(len(info.vocabulary), len(info.vocabulary))

    def forward(self, tokens):
        return SIGN * self.scale * self.table(tokens)
"""


def test_a_redefined_model_is_trained_again(cells):

    def ask():
        config = vars(cells.module)["TableConfig"](scale=3)
        return only(evaluate(model=config, metrics=["nats"], training={"updates": 0}))["nats"]

    cells.run(MODEL.replace("SIGN *", ""))
    first = ask()
    assert ask() == first
    cells.run(MODEL.replace("SIGN", "-1"))
    assert ask() != first


def test_results_of_code_changed_after_loading_are_not_stored(monkeypatch):
    evaluate(model=BigramConfig(), metrics=["nats"])
    files = stored()
    assert time.time() - 86_400 < BEGUN() <= time.time()
    monkeypatch.setattr(evaluate_module, "_process_start", lambda: 0.0)
    with pytest.warns(UserWarning, match=r"\.py changed since Python started: results of this call are not cached"):
        result = evaluate(model=BigramConfig(), metrics=["nats"])
    assert (result.folder / "log").read_text().count("\n") == 4  # prepare, train, score, measure: all anew
    assert stored() == files


# Modules as they are


class Reset(Bigram):
    """A model whose setup resets its weights."""

    def setup(self, info, rng):
        nn.init.zeros_(self.table.weight)


def trained(kind=Bigram, size=5, seed=0):
    """Return a model with other weights, as after manual training."""
    torch.manual_seed(seed)
    model = kind(BigramConfig(), TaskInfo([*map(str, range(size))]))
    with torch.no_grad():
        model.table.weight.copy_(3 * torch.randn(size, size))
    return model


def words(tmp_path):
    """Return the task info and the batches of the test split."""
    task = Letters(LettersConfig(), tmp_path)
    info = task.prepare(tmp_path)
    return info, [*task.batches("test", Purpose.SCORE, Size(100))]


def size_of(tmp_path):
    return len(words(tmp_path)[0].vocabulary)


def nats(model, tmp_path):
    """Return the nats per token of a table of next-letter scores, by its definition."""
    total = tokens = 0
    for batch in words(tmp_path)[1]:
        before = batch.inputs[:, -batch.gold.shape[1] :]
        log_probs = model.table.weight.detach().double()[before].log_softmax(2)
        total -= (log_probs.gather(2, batch.gold[:, :, None])[:, :, 0] * batch.mask).sum().item()
        tokens += batch.mask.sum().item()
    return total / tokens


@pytest.mark.parametrize("kind", [Bigram, Reset])
def test_a_module_is_evaluated_with_its_weights_and_is_not_changed(kind, tmp_path):
    model = trained(kind, size_of(tmp_path))
    model.train()
    model.table.weight.requires_grad_(False)
    before = {name: weights.clone() for name, weights in model.state_dict().items()}
    attributes = {name: value for name, value in vars(model).items() if name[0] != "_"}
    result = evaluate(model=model, decoders=["argmax"], metrics=["nats"], training={"epochs": 2, "lr": 0.5})
    assert only(result)["nats"] == pytest.approx(nats(model, tmp_path), rel=1e-6)
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert model.training
    assert not model.table.weight.requires_grad
    assert {name: value for name, value in vars(model).items() if name[0] != "_"} == attributes


def test_changed_weights_give_other_numbers_and_another_digest(tmp_path):
    model = trained(size=size_of(tmp_path))
    first = evaluate(model=model, metrics=["nats"])
    with torch.no_grad():
        model.table.weight.mul_(-1)
    second = evaluate(model=model, metrics=["nats"])
    assert only(first)["nats"] != only(second)["nats"] == pytest.approx(nats(model, tmp_path), rel=1e-6)
    (before,), (after,) = (run.suite.models.values() for run in (first, second))
    assert before["weights"] != after["weights"]


def test_several_modules_and_trained_models_are_evaluated_together(tmp_path):
    size = size_of(tmp_path)
    models = [trained(size=size), trained(size=size, seed=1), BigramConfig(scale=2.0)]
    result = evaluate(models=models, metrics=["nats"], training={"epochs": 2, "lr": 0.3}, seeds=2)
    each = {name: [row["nats"] for row in result.rows() if row["model"] == name] for name in result.names["model"]}
    assert [*map(len, each.values())] == [2, 2, 2]
    assert each["bigram"] == pytest.approx([nats(models[0], tmp_path)] * 2, rel=1e-6)
    assert each["bigram (2)"] == pytest.approx([nats(models[1], tmp_path)] * 2, rel=1e-6)


def test_modules_that_cannot_be_copied_or_have_nonfinite_weights_are_refused(tmp_path):
    model = trained()
    model.memory = model.table.weight * 2  # hangs on the graph
    with pytest.raises(SuiteError, match=r"evaluate\(models\[0\]\): it cannot be copied.*\n.*models\[1\].*holds NaN"):
        evaluate(models=[model, nan()], metrics=["nats"])
    assert not Path(".bench").exists()


def nan():
    model = trained()
    nn.init.constant_(model.table.weight, math.nan)
    return model


def test_the_state_of_the_process_is_restored():
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    threads = torch.get_num_threads()
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate(), os.getcwd()
    evaluate(model=BigramConfig(), decoders=["draw"], metrics=["nats"])
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (np.random.get_state()[1].tolist(), random.getstate(), os.getcwd())
    assert torch.get_num_threads() == threads


# Classes and objects of other kinds


class Last(Decoder[Stepper]):
    """Ends every output immediately."""

    def decode(self, model, batch, rng):
        return [[Hypothesis([], True)] for _ in batch.ids]


class Share(Metric):
    """The share of empty outputs."""

    better, unit, signature = 1, "%", "empty"

    def measure(self, predictions):
        return [int(not prediction.texts[0]) for prediction in predictions]

    def combine(self, parts):
        return 100 * sum(parts) / len(parts)


class FewLetters(Letters):
    """A task of this file without a declared source."""


class TwelveLetters(Letters):
    """A task without settings."""

    def __init__(self, config, folder):
        super().__init__(LettersConfig(words=12), folder)


class Plain(LanguageModel):
    """A model of the kit without settings."""

    def __init__(self, config, info):
        super().__init__()
        self.table = nn.Embedding(len(info.vocabulary), len(info.vocabulary))

    def forward(self, tokens):
        return self.table(tokens)


class LettersInStarsConfig(ExampleMetricConfig):
    """The share of letters before a given letter."""

    before: str = "c"

    def score(self, hypothesis: str, references: Sequence[str]) -> float:
        return sum(letter < self.before for letter in hypothesis) / max(1, len(hypothesis))


class OnlyStopConfig(ProcessorConfig):
    """Excludes all tokens but EOS."""

    def process(self, log_probs, actions):
        return log_probs.index_fill(1, torch.arange(1, log_probs.shape[1]), -math.inf)


@pytest.mark.parametrize("decoder", [Last, Last(small_parts.ArgmaxConfig())])
@pytest.mark.parametrize("metric", [Share, Share(MetricConfig())])
def test_decoders_and_metrics_may_be_classes_or_objects(decoder, metric):
    result = evaluate(model=BigramConfig(scale=2.0), decoders=[decoder, ArgmaxConfig()], metrics=[metric])
    assert (only(result, decoder="last")["share"], only(result, decoder="argmax")["share"]) == (100.0, 0.0)


def test_an_object_keeps_its_settings():
    result = evaluate(model=BigramConfig(scale=2.0), decoders=[Argmax(ArgmaxConfig(max_tokens=2))])
    assert {sample["tokens"] for sample in result.info["samples"]} == {2}


def test_tasks_may_be_classes_or_objects(tmp_path):
    known = only(evaluate(model=BigramConfig(), metrics=["nats"], task=LettersConfig(words=12)))["nats"]
    given = FewLetters(LettersConfig(words=12), tmp_path / "not-there")
    assert only(evaluate(model=BigramConfig(), metrics=["nats"], task=given))["nats"] == known
    assert given.folder == tmp_path / "not-there"
    with pytest.raises(SuiteError, match="several Configs build Letters: LettersConfig, PicturesConfig"):
        evaluate(model=BigramConfig(), metrics=["nats"], task=Letters)
    assert only(evaluate(model=BigramConfig(), metrics=["nats"], task=TwelveLetters))["nats"] == known


def test_a_class_of_an_installed_part_equals_its_config(tmp_path):
    result = evaluate(model=Bigram, decoders=[Argmax], metrics=[Ended])
    known = evaluate(model=BigramConfig(), decoders=[ArgmaxConfig()], metrics=[EndedConfig()])
    assert [cell.artifacts for cell in result.cells] == [cell.artifacts for cell in known.cells]


def test_a_model_of_the_kit_without_a_config_is_trained_and_its_likelihood_is_exact():
    few = only(evaluate(model=Plain, metrics=["nats"], training={"updates": 0}))["nats"]
    result = evaluate(model=Plain, decoders=[GreedyConfig()], metrics=["nats"], training={"epochs": 5, "lr": 0.1})
    assert only(result)["nats"] < few - 0.2
    assert result.cells[0].numbers["nats"].kind == "exact"


def test_configs_that_are_not_installed_keep_their_settings():
    result = evaluate(
        model=BigramConfig(scale=2.0),
        decoders={"usual": GreedyConfig(), "stopped": GreedyConfig(processors=[OnlyStopConfig()])},
        metrics=[LettersInStarsConfig(), LettersInStarsConfig(before="a"), LettersInStarsConfig],
    )
    assert only(result, decoder="stopped")["letters-in-stars"] == 0.0
    usual = only(result, decoder="usual")
    assert usual["letters-in-stars"] == usual["letters-in-stars (2)"] > usual["letters-in-stars/before=a"] == 0.0


def test_a_scorer_without_declared_likelihoods_is_refused(cells):
    class Own(nn.Module, Stepper, bench_core.Scorer):
        loss = start = step = score = None

    with pytest.raises(SuiteError, match=r"evaluate\(model\): Own is a Scorer without declared likelihoods"):
        evaluate(model=Own)
    Own.likelihoods = {"half": Kind.BOUND}
    assert AdHocParts().part_class("model", Own) == "own"


def test_a_config_without_a_class_is_refused():
    class LostConfig(LanguageModelConfig):
        """Builds nothing."""

    with pytest.raises(SuiteError, match=r"evaluate\(model\): the class of LostConfig is missing.*Define Lost in "):
        evaluate(model=LostConfig())


# What is wrong


def test_all_problems_are_reported_together_by_argument():
    with pytest.raises(SuiteError) as failure:
        bench_notebook.evaluate(
            model="bigrm", tasks=["letters", LettersConfig(words=12), 7], decoders=[ArgmaxConfig(), {"name": "draw", "braks": 1}, BigramConfig()],
            metrics={"a": int, "b": "nots"}, training={"epochs": -1, "lrr": 2}, seeds=0, limits={"exampls": 1}, hardware=3, splits=[object()],
        )  # fmt: skip
    lines = str(failure.value).splitlines()
    assert [line.partition(": ")[0] for line in lines[:-1]] == [
        "evaluate(decoders[1].braks)",
        "evaluate(decoders[2])",
        "evaluate(hardware)",
        "evaluate(limits.exampls)",
        "evaluate(metrics['a'])",
        "evaluate(metrics['b'])",
        "evaluate(model)",
        "evaluate(seeds)",
        "evaluate(splits)",
        "evaluate(tasks[2])",
        "evaluate(training.epochs)",
        "evaluate(training.lrr)",
    ]
    assert lines[-1] == "12 problems."
    assert "expected the name of an installed task, its settings, a Config, or a Task; found 7." in str(failure.value)
    assert "found an object of the class BigramConfig. That is a model: pass it as `models`." in str(failure.value)
    assert not re.search(r"\.yaml|:\d+:\d+", str(failure.value))
    assert not Path(".bench").exists()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "evaluate(model): pass either `model` or `models`."),
        ({"model": "bigram", "models": ["bigram"]}, "evaluate(model): pass either `model` or `models`, not both."),
        ({"models": []}, "evaluate(models): pass at least one model."),
        ({"model": nn.Linear(2, 2)}, "It is a module: also inherit from bench_core.kit.LanguageModel"),
        ({"model": "bigram", "task": [("a", "b")]}, "Examples in memory are not a task"),
        ({"model": "bigram", "task": [{"source": "a", "target": "b"}]}, "Examples in memory are not a task"),
        ({"model": {"name": "bigram", "scale": {1, object()}}}, "settings must be plain data, as in a suite file"),
        ({"models": {"a\0b": "bigram"}}, "is an invalid character"),
        ({"model": "blind", "decoders": ["argmax"]}, "argmax needs a Stepper (start, step); blind is a Sampler. Choose another part."),
        ({"model": "bigram", "metrics": "nats", "splits": ["tset"]}, "evaluate(splits[0]): letters x tset: letters has no split 'tset'."),
        ({"model": "bigram", "training": {"initial": "none.pt"}}, "there is no file none.pt"),
        ({"model": "bigram", "task": LettersConfig(file="none.txt")}, "none.txt is missing. Write some words into it."),
        ({"model": "bigram", "metrics": ["ended"]}, "measures generated text; the suite has no decoders"),
    ],
)  # fmt: skip
def test_each_mistake_is_refused(given, problem):
    with pytest.raises(SuiteError, match=re.escape(problem)):
        evaluate(**given)


def test_advice_does_not_mention_skip():
    with pytest.raises(SuiteError) as failure:
        evaluate(models=["blind", "bigram"], decoders=["argmax"], metrics=["nats"])
    assert "skip" not in str(failure.value)


def test_settings_that_do_not_survive_serialization_are_refused():
    class RoundedConfig(ExampleMetricConfig):
        """Serializes less than its settings."""

        digits: Annotated[float, PlainSerializer(round)] = 0.0

        def score(self, hypothesis, references):
            return self.digits

    with pytest.raises(
        SuiteError, match=r"metrics\[0\]\): the settings of RoundedConfig change when they are serialized"
    ):
        evaluate(model="bigram", decoders=["argmax"], metrics=[RoundedConfig(digits=0.4)])


# Nothing left behind


def known_parts():
    installed = registry.installed()
    plugins = [name for name, _ in installed.manager.list_name_plugin()]
    return plugins, dict(installed.origins), {kind: [*registry.parts(kind)] for kind in registry.kinds()}


def interrupted(output, references):
    raise KeyboardInterrupt


def test_the_registry_is_always_restored(tmp_path):
    before = known_parts()

    def mine(output, references):
        assert [*registry.parts("metric")] != before[2]["metric"]
        return 1

    evaluate(model=Plain, decoders=[Last], metrics=[mine])
    assert known_parts() == before
    with pytest.raises(SuiteError):
        evaluate(model=Plain, decoders=[Last, 3], metrics=[mine])
    with pytest.raises(KeyboardInterrupt):
        evaluate(model=Plain, decoders=[Last], metrics=[interrupted])
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        evaluate(model=Plain, decoders=[Last], metrics=[mine], out=tmp_path / "file")
    assert known_parts() == before


def test_a_config_without_a_required_method_is_refused_without_leftovers():
    class LackingConfig(ExampleMetricConfig):
        """Has no score."""

    before = known_parts()
    with pytest.raises(PluginError, match="LackingConfig lacks score"):
        evaluate(model="bigram", decoders=["argmax"], metrics=[LackingConfig])
    assert known_parts() == before


@pytest.mark.slow
def test_temporary_files_are_deleted_with_the_run(tmp_path):
    result = evaluate(model=Plain, decoders=[Last], metrics=["nats"])
    assert result.folder.is_relative_to(tmp_path / "temporary")
    assert result.draws
    del result
    gc.collect()
    for refused in (
        {"metrics": [3]},
        {"metrics": ["nats"], "out": "runs"},
        {"decoders": [Last], "metrics": [interrupted]},
    ):
        with suppress(SuiteError, KeyboardInterrupt):
            evaluate(model=Plain, **refused)
    assert [*(tmp_path / "temporary").iterdir()] == []
    (kept,) = Path("runs").iterdir()
    assert (kept / "cells.jsonl").exists()


def test_a_store_keeps_only_reusable_results(tmp_path):
    evaluate(models=[BigramConfig(), trained(size=size_of(tmp_path))], decoders=["argmax"], metrics=["nats"])
    files = stored()
    for metric in (lambda output, references: 1, interrupted):
        with suppress(KeyboardInterrupt):
            models = [BigramConfig(), Plain, trained(size=size_of(tmp_path))]
            evaluate(models=models, decoders=["argmax", Last], metrics=["nats", metric])
    assert stored() == files


def test_nested_evaluations_are_refused():
    def asks(output, references):
        return only(evaluate(model="bigram", metrics=["nats"]))["nats"]

    result = evaluate(model="bigram", decoders=["argmax"], metrics=[asks])
    assert "another evaluation is running in this process" in result.cells[0].numbers["asks"].reason
    assert only(evaluate(model="bigram", metrics=["nats"]))["status"] == "done"


# What is shown

HOSTILE = "<script>alert(1)</script>|`*[x](javascript:1)"


class Tags(HTMLParser):
    """Collects the elements and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def hostile():
    def metric(output, references):
        raise ValueError(f"{HOSTILE}\x1b[31m")

    return evaluate(
        models={HOSTILE: Plain},
        decoders={HOSTILE: Last},
        metrics={HOSTILE: metric, "nats": "nats"},
        out=HOSTILE.replace("/", ""),
    )


@pytest.mark.parametrize("reports", [True, False])
def test_the_html_of_a_run_loads_no_resources_and_runs_no_code(reports, monkeypatch):
    result = hostile()
    if not reports:
        monkeypatch.setattr("bench_core.runs.results.installed_module", lambda *given: None)
    page = Tags(result._repr_html_())
    assert {tag for tag, _ in page.found} <= {
        "section",
        "div",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "ul",
        "li",
        "p",
        "h3",
        "small",
        "sup",
        "strong",
        "wbr",
        "bdi",
        "code",
    }
    assert not {name for _, attributes in page.found for name in attributes} & {"src", "href", "onclick", "srcdoc"}
    assert "alert(1)" in page.text
    assert "\x1b" not in page.text
    if reports:
        assert "ValueError" in page.text  # why there is no number
    assert "table" in {tag for tag, _ in page.found}


def test_the_html_equals_the_report_with_bench_reports():
    result = evaluate(model=BigramConfig(), decoders=["argmax", "draw"], metrics=["nats", "ended"], seeds=3)
    text = Tags(result._repr_html_()).text
    assert "Mean ± standard deviation over 3 seeds." in text
    assert result._repr_html_() == result._repr_html_()


def test_two_outputs_on_a_page_have_different_ids():
    pages = [evaluate(model=BigramConfig(scale=scale), metrics=["nats"])._repr_html_() for scale in (1.0, 2.0)]
    first, second = ({attributes["id"] for _, attributes in Tags(page).found if "id" in attributes} for page in pages)
    assert first
    assert not first & second


def test_a_run_is_displayed_as_a_table_in_consoles_and_markdown():
    result = hostile()
    assert repr(result).splitlines()[0] == "Run of notebook: 1 cell failed"
    assert "nats" in repr(result)
    assert "\x1b" not in repr(result)
    assert "<script>" not in result._repr_markdown_()
    assert "\\|\\`\\*\\[x\\]" in result._repr_markdown_()


@pytest.mark.parametrize("show", [as_text, as_markdown, as_html])
def test_tables_are_truncated_and_empty_results_have_no_table(show):
    many = show("many", [{"model": f"m{number}", "bleu": None} for number in range(60)])
    assert "m49" in many
    assert "m50" not in many
    assert "and 10 more rows" in many
    assert "none" in show("none", [])


# The notebook

#: The suite of its first cell, as a file.
YAML = """
suite: notebook
tasks: {sequence-completion: {name: sequence-completion, corpus: {name: english, sentences: 400}, prefix: 3}}
models: {rnn-lm: {name: rnn-lm, cell: tanh, hidden: 16, layers: 1}}
decoders: {greedy: {name: greedy}, beam: {name: beam, width: 2}}
metrics: {non-termination: {name: non-termination}, length: {name: length}, perplexity: {name: perplexity}}
training: {epochs: 2, lr: 0.01}
seeds: 2
limits: {max_tokens: 20, examples: 20}
hardware: {device: cpu, threads: 1}
"""


@pytest.mark.slow
def test_the_notebook_of_the_documentation_runs_with_the_numbers_of_a_suite(cells):
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    for cell in code:
        names = cells.run("".join(cell["source"]))
    Path("suite.yaml").write_text(YAML)
    written = run("suite.yaml", store="another-store", out="runs")
    assert [cell.numbers for cell in names["found"].cells] == [cell.numbers for cell in written.cells]
    assert names["found"].rows() == written.rows()
    _check_that_its_other_cells_do(names)


def _check_that_its_other_cells_do(names):
    assert (names["measured"].folder / "log").read_text().count("train ") == 0  # it used the models of the first
    functions = [[row["ends_well"] for row in names[run].rows()] for run in ("measured", "stricter")]
    assert functions[0] != functions[1]
    assert [row["model"] for row in names["compared"].rows()] == ["rnn-lm", "gru", "gru/hidden=32"]
    assert (
        only(names["compared"], model="rnn-lm")["perplexity"]
        == only(names["found"], decoder="beam", seed=0)["perplexity"]
    )
    assert only(names["ready"])["perplexity"] == pytest.approx(perplexity(names["model"], names["test"]), rel=1e-6)


def perplexity(model, batches):
    """Return the perplexity of a language model from its states, by the definition."""
    nats = tokens = 0
    with torch.no_grad():
        for batch in batches:
            states, _ = model(batch.inputs)
            log_probs = model.head(states[:, -batch.gold.shape[1] :]).double().log_softmax(2)
            nats -= (log_probs.gather(2, batch.gold[:, :, None])[:, :, 0] * batch.mask).sum().item()
            tokens += batch.mask.sum().item()
    return math.exp(nats / tokens)


def characters(output, references):
    return float(len(output))


def test_a_prompt_function_is_evaluated_with_other_models():
    asked = []

    def doubled(prompts):
        asked.extend(prompts)
        return [2 * prompt for prompt in prompts]

    run = evaluate(
        models={"twice": doubled, "net": "bigram"}, task="letters", decoders=["argmax"], metrics=[characters], seeds=2,
        training={"epochs": 1},
    )  # fmt: skip
    cells = {(cell.cell["model"], cell.cell["decoder"], cell.cell["seed"]): cell for cell in run.cells}
    assert {*cells} == {("net", "argmax", 0), ("net", "argmax", 1), ("twice", "as-written", 0)}
    assert {cell.status for cell in run.cells} == {"done"}
    assert len(asked) > 1
    value = cells["twice", "as-written", 0].numbers["characters"].value
    assert value == pytest.approx(2 * sum(map(len, asked)) / len(asked))


def test_a_prompt_function_needs_no_decoder_and_is_called_again_each_time():
    asked = []

    def ask(prompts):
        asked.extend(prompts)
        return prompts

    for _ in range(2):
        evaluate(model=ask, task="letters", metrics=[characters], limits={"examples": 3})
    assert len(asked) == 6


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda prompts: prompts[1:], "texts for"),
        (lambda prompts: "one text", "a str for"),
        (lambda prompts: None, "a NoneType for"),
        (lambda prompts: [1] * len(prompts), "as the text; expected a string"),
        (lambda prompts: 1 / 0, "division by zero"),
    ],
)
def test_invalid_return_values_of_a_prompt_function_are_reported(function, message):
    run = evaluate(model={"f": function}, task="letters", metrics=[characters])
    (reason,) = {cell.reason for cell in run.cells}
    assert message in reason


def test_a_metric_of_probabilities_refuses_a_prompt_function():
    with pytest.raises(SuiteError, match="nats needs a Scorer"):
        evaluate(model={"f": sorted}, task="letters", metrics=["nats"])
