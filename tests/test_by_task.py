"""Models that are others on some tasks: `by_task:`."""

from __future__ import annotations

import json

import pytest
from bench_small.suites import SUITE

import bench_core
from bench_authors.commands.schema import schema
from bench_core.errors import SuiteError
from bench_core.planning.plan import plan
from bench_core.suites.load import load

TWO_TASKS = SUITE.replace(
    "words: {name: letters}", "words: {name: letters}\n  more: {name: letters, words: 20}"
).replace("rows: [decoder]", "rows: [decoder, task]")


def with_on(on, more="", fixed="scale: 2.0"):
    return (
        TWO_TASKS.replace("two: {name: bigram, scale: 2.0}", f"two: {{name: bigram, {fixed}, by_task: {on}}}") + more
    )


def mistakes(path, **options):
    with pytest.raises(SuiteError) as caught:
        load(path, **options)
    return str(caught.value).replace(f"{path}:", "")


def test_settings_for_a_task_are_laid_over_those_of_the_model(suite_file, tmp_path):
    on = "{more: {noisy: true, training: {lr: 0.3}}}"
    suite = load(suite_file(with_on(on, fixed="scale: 2.0, training: {epochs: 7}")))
    two = suite.models["two"]
    assert (two.at("words").config.noisy, two.at("more").config.noisy) == (False, True)
    assert two.at("more").config.scale == 2.0
    assert (two.at("words").training.lr, two.at("more").training.lr) == (0.1, 0.3)
    assert two.at("words").training.epochs == two.at("more").training.epochs == 7
    assert suite.models["one"].at("more") is suite.models["one"]
    stages = plan(suite, tmp_path).stages.values()
    found = {stage.label: stage.settings["model"]["noisy"] for stage in stages if stage.kind == "train"}
    assert {label for label, noisy in found.items() if noisy} == {"more x two, seed 0", "more x two, seed 1"}


@pytest.mark.slow
def test_a_model_trains_with_the_settings_of_its_task(suite_file, tmp_path):
    path = suite_file(with_on("{more: {scale: 0.0, training: {updates: 0, epochs: null}}}"))
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path)
    nats = {(row["task"], row["model"]): row["nats"] for row in run.rows() if row["seed"] == 0}
    assert nats["more", "two"] == pytest.approx(1.609, abs=1e-3), "a table of zeros, ln 5"
    assert nats["words", "two"] < 1.5


def test_combinations_of_a_grid_are_others_on_a_task_too(suite_file):
    suite = load(suite_file(with_on("{more: {noisy: true}}", fixed="grid: {scale: [0.5, 2]}")))
    found = {name: entry.at("more").config for name, entry in suite.models.items() if name != "one"}
    assert [(config.scale, config.noisy) for config in found.values()] == [(0.5, True), (2.0, True)]


def test_profiles_and_settings_change_what_is_on_a_task(suite_file):
    path = suite_file(with_on("{more: {scale: 3}}", more="  less: {models: {two: {by_task: {more: {scale: 4}}}}}\n"))
    assert load(path).models["two"].at("more").config.scale == 3
    assert load(path, profile="less").models["two"].at("more").config.scale == 4
    assert load(path, settings=["models.two.by_task.more.scale=5"]).models["two"].at("more").config.scale == 5


def test_a_profile_without_the_task_leaves_its_settings_alone(suite_file):
    path = suite_file(with_on("{more: {scale: 3}}", more="  less: {tasks: {more: null}}\n"))
    assert load(path, profile="less").models["two"].by_task == {}


@pytest.mark.parametrize(
    ("on", "told"),
    [
        ("{mor: {scale: 3}}", "no task of this suite is called 'mor'. Did you mean 'more'?"),
        ("{more: {scal: 3}}", "unknown key 'scal'. Did you mean 'scale'?"),
        ("{more: {scale: wide}}", "'scale' must be a number (found 'wide')"),
        ("{more: {name: blind}}", "`name` must be the same for all tasks."),
        ("{more: {training: {lr: -1}}}", "'lr' must be greater than 0"),
        ("{more: 3}", "the settings for a task must be a mapping."),
        ("[more]", "`by_task` must map tasks to settings"),
        (
            "{more: {training: {phases: [{noisi: true}]}}}",
            "a phase of 'bigram' cannot set 'noisi'. Did you mean 'noisy'",
        ),
    ],
)
def test_what_is_wrong_with_settings_for_a_task_is_told_where_it_stands(suite_file, on, told):
    text = with_on(on)
    line = next(number for number, row in enumerate(text.splitlines(), 1) if "by_task: " in row)
    assert mistakes(suite_file(text)).startswith(f"{line}:")
    assert told in mistakes(suite_file(text))


def test_editors_know_the_key():
    assert '"by_task"' in json.dumps(schema()["properties"]["models"])
