"""The command line: what it prints, what it refuses, and how it exits."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench_small.command_line import bench_here
from click import UsageError
from click.testing import CliRunner

import bench_core
from bench_core.commands.main import bench as group
from bench_core.commands.options import DURATION
from bench_core.runs.reporting import _suffix

BENCH = Path(sys.executable).parent / "bench"
HERE = ("--workers", "0")
SUITE = """
suite: tests/tiny
tasks:
  sentences: {name: sequence-completion, corpus: {name: english, sentences: 120}, prefix: 2}
models:
  lstm: {name: rnn-lm, hidden: 8, layers: 1}
decoders:
  greedy: {name: greedy}
  sampled: {name: ancestral}
metrics:
  non-termination: {name: non-termination}
  perplexity: {name: perplexity}
training: {epochs: 1, batch_size: 16}
limits: {max_tokens: 12, examples: 8}
hardware: {device: cpu, threads: 1}
tables:
  - {id: main, caption: Main, rows: [decoder], columns: [model], values: [non-termination, perplexity]}
"""


def checked(found, code):
    assert "Traceback" not in found.stderr + found.stdout
    assert found.returncode == code, found.stdout + found.stderr
    return found


@pytest.fixture
def bench(tmp_path):
    """Return a function that runs a command in this process, beside the suite."""
    (tmp_path / "suite.yaml").write_text(SUITE)

    def run(*words, code=0):
        return checked(bench_here(*words, *HERE * (words[0] == "run"), folder=tmp_path), code)

    run.folder = tmp_path
    return run


def process(*words, folder, code=0):
    """Run the installed command, in a process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return checked(subprocess.run([BENCH, *words], cwd=folder, capture_output=True, text=True, env=environment), code)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a folder in which the command has run the suite, and what it printed."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "suite.yaml").write_text(SUITE)
    return folder, process("run", "suite.yaml", *HERE, folder=folder).stdout


def test_a_suite_runs_to_its_report_and_then_finds_all_stored(finished):
    folder, first = finished
    assert "2 cells: 9 stages computed" in first
    assert re.search(r"greedy +[\d.]+ +[\d.]+", first), "the tables are shown"
    report = folder / "reports" / "tests" / "tiny"
    text = (report / "report.md").read_text()
    assert "| greedy " in text
    second = checked(bench_here("run", "suite.yaml", *HERE, folder=folder), 0)
    assert "2 cells: all stored, nothing computed" in second.stdout
    assert (report / "report.md").read_text() == text
    run = sorted((folder / "runs").iterdir())[0]
    again = checked(bench_here("report", run, "--out", "again", folder=folder), 0)
    assert "again" in again.stdout
    assert (folder / "again" / "tests" / "tiny" / "report.md").read_text() == text
    shown = checked(bench_here("show", run, "decoder=greedy", folder=folder), 0)
    assert "non-termination" in shown.stdout
    planned = json.loads(checked(bench_here("plan", "suite.yaml", "--json", folder=folder), 0).stdout)
    assert all(row["to do"] == 0 for row in planned["stages"])


def test_python_and_the_command_line_give_the_same_results(finished, tmp_path):
    folder, _ = finished
    by_command = json.loads((folder / "reports" / "tests" / "tiny" / "results.json").read_text())
    run = bench_core.run(folder / "suite.yaml", store=tmp_path / "other", out=tmp_path / "others")
    rows = {(row["decoder"], row["non-termination"], row["perplexity"]) for row in run.rows()}
    cells = {
        (cell["cell"]["decoder"], *(cell["numbers"][name]["value"] for name in ("non-termination", "perplexity")))
        for cell in by_command["cells"]
    }
    assert rows == cells


def test_help_imports_neither_torch_nor_pydantic():
    code = (
        "import sys; sys.argv = ['bench', '--help']\n"
        "from bench_core.commands.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print({'torch', 'pydantic'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.endswith("set()\n")


def test_only_short_commands_postpone_garbage_collection():
    usual = gc.get_threshold()
    try:
        for command, is_short in (("list", True), ("check", True), ("run", False), ("no-such", False)):
            gc.set_threshold(10**6)
            group.get_command(None, command)
            assert (gc.get_threshold() != usual) == is_short, command
    finally:
        gc.set_threshold(*usual)


def test_listing_reads_no_yaml_and_builds_no_schema():
    code = (
        "import sys; sys.argv = ['bench', 'list']\n"
        "from bench_core.commands.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print({'ruamel.yaml', 'pydantic.plugin._loader', 'torch'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.endswith("set()\n")


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "words", [["list"], ["check", "suite.yaml"], ["describe", "model", "rnn-lm"], ["schema"], ["plan", "suite.yaml"]]
)
def test_looking_and_checking_import_no_torch(bench, words):
    code = (
        f"import sys; sys.argv = ['bench', *{words}]\n"
        "from bench_core.commands.main import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "assert not {'torch', 'spacy', 'scipy', 'matplotlib'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=bench.folder)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lst"], "Did you mean 'list'"),
        (["run", "absent.yaml"], "absent.yaml: cannot be read"),
        (["run"], "Missing argument"),
        (["run", "suite.yaml", "--profile", "x"], "no profile 'x'"),
        (["run", "suite.yaml", "--set", "models.lstm.hiden=3"], "Did you mean 'hidden'"),
        (["run", "suite.yaml", "--seeds", "0"], "--seeds"),
        (["check", "suite.yaml", "--set", "decoders.greedy.k=3"], "unknown key 'k'"),
        (["describe", "model", "lstm"], "no model is called 'lstm'"),
        (["report", "nowhere"], "nowhere is not a run"),
        (["data", "fetch", "nothing"], "no corpus is called 'nothing'"),
        (["run", "suite.yaml", "--set", "tasks.sentences.corpus=wikitext-2", "--data", "."], "wikitext-2"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_out_exits_with_2_and_says_why(bench, words, message):
    assert message in bench(*words, code=2).stderr


def test_the_exit_code_of_the_process_is_that_of_the_command(tmp_path):
    assert "Did you mean 'list'" in process("lst", folder=tmp_path, code=2).stderr


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("decoders.greedy={name: top-k, k: 0}", "'k'"),
        ("decoders.greedy={name: beam, width: 0}", "'width'"),
        ("decoders.greedy={name: nucleus, mass: 1.5}", "'mass'"),
        ("decoders.greedy={name: nucleus, mass: -0.1}", "'mass'"),
    ],
)
def test_settings_out_of_range_are_refused(bench, setting, message):
    assert message in bench("check", "suite.yaml", "--set", setting, code=2).stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "empty"), (b"caf\xe9 au lait\n" * 50, "not UTF-8"), (b"\x00\x01" * 50, "not text")],
    ids=["empty", "latin-1", "binary"],
)
def test_bad_corpus_files_are_named(bench, content, message):
    for name in ("train", "valid", "test"):
        (bench.folder / f"{name}.txt").write_bytes(content)
    files = "tasks.sentences.corpus={train: train.txt, valid: valid.txt, test: test.txt}"
    found = bench("run", "suite.yaml", "--set", files, code=2 if content == b"" else 1)
    assert message in found.stderr
    assert "train.txt" in found.stderr


def test_a_loss_that_is_no_number_fails_its_cells_with_the_step(bench):
    found = bench("run", "suite.yaml", "--set", "training.lr=1e38", code=1)
    assert "step" in found.stderr
    assert "Lower `lr`" in found.stderr
    folder = bench.folder / "reports" / "tests" / "tiny+training.lr=1e38-failed"
    assert "failed" in (folder / "report.md").read_text()


@pytest.mark.nightly
def test_an_interruption_exits_with_130_and_loses_nothing(bench):
    running = subprocess.Popen(
        [BENCH, "run", "suite.yaml", "--set", "training.epochs=100000"],
        cwd=bench.folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    store = bench.folder / ".bench" / "store"
    for _ in range(3000):  # until it trains
        if list(store.glob("prepare/*/manifest.json")) and list(store.glob("unfinished/train*")):
            break
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=300)
    assert running.returncode == 130
    assert "Traceback" not in errors
    assert "interrupted; finished stages are stored" in errors
    assert "seed 0 has no checkpoint yet" in errors or "from its checkpoint at step" in errors
    assert list(store.glob("prepare/*/manifest.json"))
    assert not list(store.glob("unfinished/*"))
    bench("run", "suite.yaml")


@pytest.mark.slow
def test_a_run_that_is_stopped_again_and_again_ends_as_if_undisturbed(bench, monkeypatch):
    """In this process, where a training begins at once."""
    monkeypatch.chdir(bench.folder)
    runner, left = CliRunner(), []
    changed = f"reports/tests/tiny{_suffix(['training.updates=200', 'training.epochs=null'])}"

    def run(*words):
        words = ["run", "suite.yaml", "--set", "training.updates=200", "--set", "training.epochs=null", *words]
        found = runner.invoke(group, [*words, "--workers", "0"], catch_exceptions=False, standalone_mode=False)
        report = Path(f"{changed}-incomplete" if found.return_value == 3 else changed)
        files = {name: (report / name).read_bytes() for name in ("report.md", "report.tex", "results.json")}
        left.append(len(list(Path(words[-1]).glob("checkpoint/*/manifest.json"))))
        return found.return_value, files

    _, wanted = run("--store", "undisturbed")
    seconds, code = 0.2, 3
    while code == 3:
        code, files = run("--stop-after", f"{seconds}s", "--store", "stopped")
        seconds *= 1.5
        if code == 3:
            assert b"not run" in files["report.md"]
    assert code == 0
    assert files == wanted
    assert any(left), "a training was stopped"
    assert not left[-1]


def test_without_any_time_a_run_performs_one_stage_says_so_and_exits_with_3(bench):
    found = bench("run", "suite.yaml", "--stop-after", "0s", code=3)
    assert "2 cells not run: " in found.stderr
    assert "the time limit was reached. Run the suite again to continue." in found.stderr
    assert "not run" in (bench.folder / "reports" / "tests" / "tiny-incomplete" / "report.md").read_text()
    assert "2 cells: 1 stage computed\n" in found.stdout
    store = bench.folder / ".bench" / "store"
    assert (store / "prepare").exists()
    assert not (store / "train").exists()


@pytest.mark.parametrize("option", ["--stop-after", "--checkpoint-every"])
@pytest.mark.parametrize("text", ["", "soon", "-1s", "nan", "inf", "1e999h", "9 parsecs", "1:30", "s"])
def test_what_is_no_length_of_time_is_refused(option, text):
    with pytest.raises(UsageError, match="is not a duration, such as 90s, 9m or"):
        CliRunner().invoke(
            group, ["run", "x.yaml", f"{option}={text}"], catch_exceptions=False, standalone_mode=False
        )


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("9m", 540), ("1.5h", 5400), ("12", 12), (" 0.5 s", 0.5)])
def test_lengths_of_time_have_units(text, seconds):
    assert DURATION.convert(text, None, None) == seconds


def test_corpora_are_listed_and_verified(bench):
    listed = json.loads(bench("data", "list", "--json", "--data", ".").stdout)
    assert {row["corpus"] for row in listed["corpora"]} >= {"wikitext-2", "ptb", "multi30k"}
    assert all(row["here"] == "no" for row in listed["corpora"])
    assert "wikitext-2" in bench("data", "verify", "wikitext-2", "--data", ".", code=2).stderr


def test_the_schema_is_json_and_knows_the_parts(bench):
    schema = json.loads(bench("schema").stdout)
    names = [
        one["properties"]["name"]["enum"] for one in schema["properties"]["models"]["additionalProperties"]["anyOf"]
    ]
    assert ["rnn-lm", "bench-rnn/rnn-lm"] in names


def test_doctor_finds_this_machine_well(bench):
    found = json.loads(bench("doctor", "--json").stdout)
    assert {row["what"] for row in found} >= {"Python", "torch", "plugins", "disk", "data"}


def test_check_build_prepares_and_builds(bench):
    assert "no problem found" in bench("check", "suite.yaml", "--build").stdout
    assert list((bench.folder / ".bench" / "store" / "prepare").iterdir())


def test_misfits_are_told_before_anything_is_planned(bench):
    path = bench.folder / "suite.yaml"
    start, end = SUITE.index("decoders:"), SUITE.index("metrics:")
    path.write_text(SUITE[:start] + SUITE[end : SUITE.index("tables:")])
    for verb in ("check", "plan", "run"):
        assert "the suite has no decoders" in bench(verb, "suite.yaml", code=2).stderr
