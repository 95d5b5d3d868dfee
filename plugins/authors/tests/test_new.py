"""`bench new` writes formatted and short files, which pass their own tests once installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench_authors.commands.new import MAX_NAME_CHARACTERS, PARTS
from bench_authors.testing import toys
from bench_core.commands.main import main

BIN = Path(sys.executable).parent
LONG = "a-name-that-is-as-long-as-can-"[: MAX_NAME_CHARACTERS - 1] + "b"
SUITE = """
suite: tests/new
tasks: {reversals: {name: fresh-task}}
models: {pairs: {name: fresh-model, size: 8}}
decoders: {daring: {name: fresh-decoder}, greedy: {name: greedy, processors: [fresh-processor]}}
metrics: {words: {name: fresh-metric}}
training: {updates: 3, batch_size: 4}
limits: {max_tokens: 8}
hardware: {device: cpu, threads: 1}
tables: [{id: main, rows: [decoder], columns: [model], values: [words]}]
"""


def new(*words, code=0):
    """Run `bench new` in this process."""
    before, sys.argv = sys.argv, ["bench", "new", *map(str, words)]
    try:
        with pytest.raises(SystemExit) as stop:
            main()
    finally:
        sys.argv = before
    assert stop.value.code == code


def run(folder, *words, **environment):
    done = subprocess.run(
        [*map(str, words)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Write plugins of each kind with a short, a typical and a maximally long name."""
    folder = tmp_path_factory.mktemp("made")
    for kind in PARTS:
        new(kind, f"fresh-{kind}", "--folder", folder)
        new(kind, "x", "--folder", folder / "short" / kind)
        new(kind, LONG, "--folder", folder / "long" / kind)
    return folder


@pytest.fixture(scope="module")
def installed(made, tmp_path_factory):
    """Install these plugins with pip; return the environment variables to use them."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    run(made, *pip, "--target", site, *(made / f"bench-fresh-{kind}" for kind in PARTS))
    return {"PYTHONPATH": str(site)}


def test_written_tests_use_toys_that_exist(made):
    """Their run is in `make nightly`: it installs all of them."""
    used = {name for path in made.rglob("test_*.py") for name in re.findall(r"toys\.(\w+)", path.read_text())}
    assert used
    assert [name for name in used if not hasattr(toys, name)] == []


@pytest.mark.parametrize("folder", ["", "short", "long"])
def test_written_files_pass_ruff(made, folder):
    run(made, BIN / "ruff", "check", "--isolated", "--ignore=I001", "--no-cache", made / folder)
    if folder != "long":  # whose lines may be too long
        run(made, BIN / "ruff", "format", "--isolated", "--no-cache", "--check", made / folder)


@pytest.mark.parametrize("kind", PARTS)
def test_a_plugin_has_at_most_fifty_lines(made, kind):
    files = [path for path in (made / f"bench-fresh-{kind}").rglob("*") if path.is_file()]
    assert sum(len(path.read_text().splitlines()) for path in files) <= 50


@pytest.mark.nightly
def test_every_plugin_passes_its_own_tests_once_it_is_installed(made, installed):
    output = run(made, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(
        made / f"bench-fresh-{kind}" for kind in PARTS
    ), **installed)  # fmt: skip
    assert re.search(r"\b(\d+) passed", output)[1] == "7"


@pytest.mark.nightly
def test_the_parts_are_found_and_work_together(made, installed):
    listed = json.loads(run(made, BIN / "bench", "list", "--json", **installed))
    described = {(part["kind"], part["name"]) for part in listed["parts"]}
    assert {(kind, f"fresh-{kind}") for kind in PARTS} <= described
    (made / "suite.yaml").write_text(SUITE)
    assert re.search(
        r"daring +\*?[\d.]+", run(made, BIN / "bench", "run", "suite.yaml", "--workers", "0", **installed)
    )


@pytest.mark.slow
def test_a_new_suite_runs_to_its_report(tmp_path):
    new("suite", "first-question", "--folder", tmp_path)
    output = run(
        tmp_path, BIN / "bench", "run", "first-question.yaml", "--profile", "quick", "--seeds", "1", "--workers", "0"
    )
    assert "reports/first-question-quick/report.md" in output
    assert (tmp_path / "reports" / "first-question-quick" / "report.html").is_file()


@pytest.mark.nightly
def test_the_claim_of_a_new_suite_holds_and_its_numbers_are_shown(tmp_path):
    new("suite", "first-question", "--folder", tmp_path)
    output = run(tmp_path, BIN / "bench", "run", "first-question.yaml")
    assert re.search(r"^C1 +holds ", output, re.MULTILINE)
    assert len(re.findall(r"^(narrow|wide), (greedy|nucleus) +\d", output, re.MULTILINE)) == 4


def test_the_next_steps_are_printed(tmp_path, capsys):
    new("metric", "bench-word-recall", "--folder", tmp_path)
    output = capsys.readouterr().out
    assert f"pip install -e '{tmp_path / 'bench-word-recall'}[test]'" in output, "the prefix is not doubled"
    assert "--set 'metrics.word-recall={name: word-recall}'" in output


def test_files_are_never_overwritten(tmp_path, capsys):
    for words in (("model", "mine"), ("suite", "mine")):
        new(*words, "--folder", tmp_path)
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        new(*words, "--folder", tmp_path, code=2)
        assert "already exists" in capsys.readouterr().err
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "name", ["Lstm", "my_lstm", "-a", "a-", "a--b", "1st", "a b", "../a", "ä", "", "a" * (MAX_NAME_CHARACTERS + 1)]
)
def test_invalid_names_are_refused(tmp_path, capsys, name):
    new("model", "--folder", tmp_path, "--", name, code=2)
    assert "is not a valid name" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("model", "rnn-lm", "already installed (by bench-rnn)"),
        ("model", "core", "'bench_core' is already installed"),
        ("decoder", "rnn", "'bench_rnn' is already installed"),
    ],
)
def test_names_in_use_are_refused(tmp_path, capsys, kind, name, message):
    new(kind, name, "--folder", tmp_path, code=2)
    assert message in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_an_unwritable_folder_is_reported(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    new("suite", "mine", "--folder", tmp_path / "file" / "inside", code=2)
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "name", "stem"),
    [("model", "none", "MyNone"), ("metric", "example-metric", "MyExampleMetric"), ("decoder", "top-2", "Top2")],
)
def test_a_name_that_differs_from_its_class_is_declared(tmp_path, kind, name, stem):
    new(kind, name, "--folder", tmp_path)
    (package,) = (tmp_path / f"bench-{name}").glob("bench_*")
    code = (package / "__init__.py").read_text()
    assert f"class {stem}Config(" in code
    assert f'    name = "{name}"\n' in code
