"""The core with one plugin of parts, and nothing else of ours: it lists, checks, runs and reads, and names what lacks."""

from __future__ import annotations

import json
import os
import re
import subprocess
from importlib.metadata import distributions, requires
from pathlib import Path

import pytest
from bench_small.environments import environment_without

from bench_core.planning.plan import plan
from bench_core.suites.load import load

PLUGIN = "bench-word-generation"
SUITE = """
suite: alone
tasks: {words: {name: word-generation, epoch: 500}}
models: {oracle: {name: word-oracle, training: {mode: evaluate}}MORE}
metrics: {entropy: {name: word-cross-entropy}}
limits: {scored: 20}
tables: [{id: main, rows: [model], values: [entropy]}]
"""

WHERE = "import json, os; print(json.dumps(os.path.abspath('suite.yaml')))"

READING = """
from pathlib import Path
from bench_core.runs.results import read_run
(folder,) = Path("runs").iterdir()
run = read_run(folder)
print(run.suite.suite, *(cell.status for cell in run.cells))
"""


def needed(name):
    """Return a distribution of ours and all of ours that it requires."""
    ours = {re.split(r"[=\[ ;]", line)[0] for line in requires(name) or () if "extra ==" not in line}
    return {name}.union(*(needed(one) for one in ours if one.startswith("bench-")))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return a function that runs a command of `bench` where the core and one plugin are installed."""
    folder = tmp_path_factory.mktemp("alone")
    ours = {one.name for one in distributions() if one.name.startswith("bench-")}
    programs = environment_without(folder / "environment", ours - needed(PLUGIN))
    (folder / "suite.yaml").write_text(SUITE.replace("MORE", ""))
    (folder / "trained.yaml").write_text(SUITE.replace("mode: evaluate", "updates: 3").replace("MORE", ""))

    def command(*arguments):
        environment = {**os.environ, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
        program = [programs / "python", *(() if arguments[0] == "-c" else ("-m", "bench_core")), *arguments]
        return subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)

    return command


@pytest.mark.slow
def test_a_given_model_is_evaluated_and_its_run_is_read(alone):
    listed = json.loads(alone("list", "--json").stdout)
    assert {row["distribution"].split()[0] for row in listed["parts"]} <= needed(PLUGIN) | {"bench-core"}
    assert listed["broken"] == {}
    checked = alone("check", "suite.yaml")
    assert checked.stderr == ""
    assert (
        "`tables` is read by bench-reports (in a checkout: pip install ./plugins/reports), which is not installed"
        in (" ".join(checked.stdout.split()))
    )
    planned = alone("run", "suite.yaml", "--dry-run", "--json")
    done = alone("run", "suite.yaml", "--workers", "0")
    assert done.returncode == 0, done.stderr
    suite = Path(json.loads(alone("-c", WHERE).stdout))
    assert {stage["key"] for stage in json.loads(planned.stdout)["stages"]} == {
        *plan(load(suite), suite.parent).stages
    }
    assert re.search(r"\boracle\b .*\d+\.\d", done.stdout)
    assert "install bench-reports (in a checkout: pip install ./plugins/reports)" in done.stdout
    assert alone("-c", READING).stdout.split() == ["alone", "done"]
    assert "all stored, nothing computed" in alone("run", "suite.yaml", "--workers", "0").stdout


@pytest.mark.slow
def test_what_is_missing_is_named_with_the_command_that_installs_it(alone):
    for command, owner in (
        ("why", "upkeep"),
        ("runs", "upkeep"),
        ("verify", "exchange"),
        ("report", "reports"),
        ("describe", "authors"),
        ("score", "recorded"),
    ):
        assert (
            f"It comes with bench-{owner} (in a checkout: pip install ./plugins/{owner})"
            in alone(command, "x").stderr
        )
    told = alone("check", "--contracts", "suite.yaml").stderr
    assert "bench-authors (in a checkout: pip install ./plugins/authors)" in told


@pytest.mark.slow
def test_a_suite_that_trains_is_refused_with_the_command_that_installs_training(alone):
    told = alone("check", "trained.yaml").stderr
    assert "training needs bench-training (in a checkout: pip install ./plugins/training), which is not" in told
