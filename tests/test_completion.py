"""Shells complete runs, cells, profiles and parts, and never fail."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from bench_core.commands.main import bench
from bench_core.runs.results import read_run

SUITES = Path(__file__).parent.parent / "suites"
QUICKSTART = str(SUITES / "quickstart.yaml")


def completions(*words):
    """Return what a shell offers for the last word after the others."""
    *before, incomplete = words
    return [
        item.value
        for item in ShellComplete(bench, {}, "bench", "_BENCH_COMPLETE").get_completions(before, incomplete)
    ]


def test_commands_and_options_are_completed():
    assert {"run", "runs", "report"} <= {*completions("r")}
    assert "--profile" in completions("run", QUICKSTART, "--pro")


def test_profiles_of_the_suite_on_the_line_are_completed():
    assert completions("run", QUICKSTART, "--profile", "") == ["smoke"]
    assert completions("check", QUICKSTART, "--profile", "smo") == ["smoke"]
    assert "paper" in completions("plan", str(SUITES / "strlm" / "table-1.yaml"), "--profile", "")


def test_cells_of_a_suite_are_completed_axis_by_axis():
    models = completions("run", QUICKSTART, "--only", "model=")
    assert models
    assert all(word.startswith("model=") for word in models)
    both = completions("run", QUICKSTART, "--only", f"{models[0]},de")
    assert f"{models[0]},decoder=greedy" in both
    assert not [word for word in both if word.count("model=") > 1]


@pytest.mark.parametrize(("command", "before"), [("show", ()), ("diff", ("model=a",)), ("outputs", ())])
def test_runs_and_their_cells_are_completed(finished, monkeypatch, command, before):
    monkeypatch.chdir(finished)
    (folder,) = Path("runs").iterdir()
    run = folder.as_posix()
    assert completions(command, run[:-3]) == [run]
    names = {f"{axis}={name}" for cell in read_run(folder).cells for axis, name in cell.cell.items()}
    assert {*completions(command, run, *before, "")} == names


def test_parts_are_completed_after_their_kind():
    assert {"model", "decoder", "greedy", "rnn-lm"} <= {*completions("describe", "")}
    assert completions("describe", "decoder", "gre") == ["greedy"]
    assert "rnn-lm" not in completions("describe", "decoder", "")


@pytest.mark.parametrize(
    "words",
    [("run", "nowhere.yaml", "--profile", ""), ("show", "nowhere", ""), ("run", "nowhere.yaml", "--only", "")],
)
def test_a_file_that_cannot_be_read_completes_nothing(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert completions(*words) == []


@pytest.mark.parametrize(
    "text", ["suite: [x", "- a", "profiles: [1, {b: 2}]", "profiles: {1: {}, true: {}}", "profiles: 3"]
)
def test_a_suite_that_is_no_suite_breaks_no_completion(tmp_path, text):
    suite = tmp_path / "suite.yaml"
    suite.write_text(text)
    assert all(isinstance(word, str) for word in completions("run", str(suite), "--profile", ""))
    assert completions("run", str(suite), "--only", "") == []


def test_a_damaged_run_completes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "cells.jsonl").write_text("{broken")
    assert completions("show", "runs/r", "") == []


def test_the_path_of_a_run_elsewhere_is_left_to_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (item,) = ShellComplete(bench, {}, "bench", "_BENCH_COMPLETE").get_completions(["show"], "elsewhere/r")
    assert (item.value, item.type) == ("elsewhere/r", "dir")
