"""The report of a suite is of a whole run of that suite, and a run that computes nothing leaves nothing new."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bench_small.runs import run_of, sampled, stored, written
from click.testing import CliRunner

import bench_core
from bench_core import SuiteError
from bench_core.commands.main import bench as group
from bench_core.errors import BenchError
from bench_core.planning import hardware
from bench_core.runs.reporting import place
from bench_core.runs.results import CellResult, read_run
from bench_core.runs.selecting import LEFT_OUT
from bench_reports.render import report as reporting
from bench_reports.statistics.intervals import rounded

TINY = ("--profile", "tiny")


@pytest.fixture
def bench(suite_file, tmp_path, monkeypatch):
    """Return a function that calls a command in this process, and returns its exit code and what it says."""
    monkeypatch.chdir(tmp_path)
    suite_file()

    def call(*words):
        try:
            found = CliRunner().invoke(group, words, catch_exceptions=False, standalone_mode=False)
        except BenchError as error:
            return 2, str(error)
        return found.return_value or 0, found.output

    return call


def run(bench, *words):
    return bench("run", "suite.yaml", *words, "--workers", "0")


def contents(folder):
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.mark.quick(1, 2)
@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--set", "models.one.scale=0.5"], "small-tiny+models.one.scale=0.5"),
        (["--seeds", "2"], "small-tiny+seeds=2"),
        (["--set", "models.one.scale=0.5", "--seeds", "2"], "small-tiny+models.one.scale=0.5+seeds=2"),
        (["--limit", "9", "--only", "model=one"], "small-tiny+examples=9+scored=9+model=one-f2bc623d"),
        (["--set", "models.one.breaks=training"], "small-tiny+models.one.breaks=training-failed"),
        (["--stop-after", "0s"], "small-tiny-incomplete"),
    ],
)
def test_another_run_than_that_of_the_suite_as_it_stands_leaves_its_report_alone(bench, words, name):
    words = [*words, *(["--store", "other"] if "--stop-after" in words else [])]
    run(bench, *TINY)
    before = contents("reports/tests/small-tiny")
    assert before
    _, told = run(bench, *TINY, *words)
    assert contents("reports/tests/small-tiny") == before
    assert f"reports/tests/{name}/report.md" in told
    assert (Path("reports/tests") / name / "report.md").is_file()
    assert "reports/tests/small-tiny is not replaced" in told


def test_seeds_that_are_those_of_the_suite_change_nothing(bench):
    _, told = run(bench, *TINY, "--seeds", "1")
    assert "report  reports/tests/small-tiny/report.md\n" in told
    assert "is not replaced" not in told


def test_a_report_written_again_goes_where_its_run_belongs(bench):
    run(bench, *TINY)
    before = contents("reports/tests/small-tiny")
    run(bench, *TINY, "--set", "models.one.scale=0.5")
    folder = max(Path("runs").iterdir(), key=lambda path: path.stat().st_mtime)
    _, told = bench("report", str(folder))
    assert "small-tiny+models.one.scale=0.5" in told
    assert contents("reports/tests/small-tiny") == before


@pytest.mark.parametrize(
    "asked", [["../../../x=1"], ["a=/etc/passwd"], ["a=" + "x" * 500], ["a=é\x1b[31m"], ["a=b", "a=b+c=d"]]
)
def test_names_of_reports_are_plain_short_and_different(tmp_path, asked):
    def name(asked):
        return place(run_of(tmp_path, [], {}, asked=asked), tmp_path / "reports")[0]

    folder = name(asked)
    assert folder.parent == tmp_path / "reports" / "tests"
    assert len(folder.name) < 60
    assert folder.name.isascii()
    assert folder.name.isprintable()
    assert name([*asked, "z=1"]) != folder
    assert name([asked[0] + "2"]) != folder


def test_a_label_cannot_lead_out_of_the_folder_of_reports(tmp_path):
    with pytest.raises(SuiteError, match="would be outside of"):
        place(run_of(tmp_path, [], {}, label="../../x"), tmp_path / "reports")


def test_cells_that_a_filter_left_out_are_not_missing(tmp_path):
    axes = {"task": "words", "model": "rnn", "decoder": "greedy", "split": "test", "hardware": "default", "seed": 0}
    cells = [CellResult(axes, "not run", LEFT_OUT), CellResult({**axes, "seed": 1}, "done")]
    folder, _ = place(run_of(tmp_path, cells, {}, asked=["only=seed=1"]), tmp_path)
    assert folder.name == "report+only=seed=1"


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("change", "apart"),
    [
        (lambda text: text, False),
        (lambda text: f"# a comment\n{text}", False),
        (lambda text: text.replace("title:", "title: Another", 1), True),
        (lambda text: text.replace("scale: ", "scale: 1", 1), True),
    ],
    ids=["a copy", "a comment", "another title", "another setting"],
)
def test_another_file_with_the_name_of_a_suite_gets_a_report_of_its_own_if_it_is_another_suite(bench, change, apart):
    text = Path("suite.yaml").read_text()
    Path("copy.yaml").write_text(changed := change(text))
    assert (changed != text) or not apart
    run(bench, *TINY)
    before = contents("reports/tests/small-tiny")
    _, told = bench("run", "copy.yaml", *TINY, "--workers", "0")
    others = [one.name for one in Path("reports/tests").iterdir() if one.name != "small-tiny"]
    assert len(others) == apart
    assert ("suite.yaml has a suite of the same name, so reports/tests/small-tiny is not replaced" in told) == apart
    if apart:
        assert others[0].startswith("small-tiny-copy-")
        assert contents("reports/tests/small-tiny") == before


def test_a_suite_that_is_edited_keeps_the_folder_of_its_report(bench):
    run(bench, *TINY)
    text = Path("suite.yaml").read_text()
    Path("suite.yaml").write_text(text.replace("title:", "title: Another", 1))
    _, told = run(bench, *TINY)
    assert "is not replaced" not in told
    assert [one.name for one in Path("reports/tests").iterdir()] == ["small-tiny"]


def test_other_data_below_another_file_are_another_suite(tmp_path):
    def with_data(file, digest):
        return run_of(tmp_path, [], {}, file=file, read={"tasks": {"words": {"file": digest}}})

    first = stored(with_data("a.yaml", "1"))
    place_of_first, _ = place(first, tmp_path / "reports")
    written(first, place_of_first)
    assert place(with_data("b.yaml", "1"), tmp_path / "reports")[0] == place_of_first
    assert place(with_data("a.yaml", "2"), tmp_path / "reports")[0] == place_of_first
    other, why = place(with_data("b.yaml", "2"), tmp_path / "reports")
    assert other.name.startswith("report-b-")
    assert why == "a.yaml has a suite of the same name"
    assert place(with_data("c/b.yaml", "2"), tmp_path / "reports")[0] not in (other, place_of_first)


@pytest.mark.parametrize(("status", "suffix"), [("failed", "-failed"), ("not run", "-incomplete"), ("done", "")])
def test_cells_without_numbers_keep_a_run_from_the_report_of_its_suite(tmp_path, status, suffix):
    axes = {"task": "words", "model": "rnn", "decoder": "greedy", "split": "test", "hardware": "default", "seed": 0}
    folder, why = place(run_of(tmp_path, [CellResult(axes, status)], {}), tmp_path)
    assert folder.name == f"report{suffix}"
    assert bool(why) == bool(suffix)


def test_a_run_that_computes_nothing_points_to_the_one_that_it_equals(bench):
    _, first = run(bench, *TINY)
    left = contents(".")
    code, second = run(bench, *TINY)
    assert code == 0
    assert "all stored, nothing computed" in second
    assert ", which has the same results" in second
    assert contents(".") == left
    assert (
        first.partition("Main\n")[2].partition("\n4 cells")[0]
        == second.partition("Main\n")[2].partition("\n4 cells")[0]
    )
    assert second.startswith("Main\n"), "the tables are shown again"


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "cells.jsonl").unlink(),
        lambda folder: (folder / "cells.jsonl").write_text(
            (folder / "cells.jsonl").read_text().replace("0.", "1.", 1)
        ),
        shutil.rmtree,
    ],
    ids=["a file is gone", "another number", "the folder is gone"],
)
def test_a_run_is_written_anew_where_its_folder_is_gone_or_damaged_or_tells_otherwise(bench, damage):
    run(bench, *TINY)
    (folder,) = Path("runs").iterdir()
    before = read_run(folder).cells
    damage(folder)
    left = {*Path("runs").iterdir()}
    _, told = run(bench, *TINY)
    (new,) = {*Path("runs").iterdir()} - left
    assert "which has the same results" not in told
    assert read_run(new).cells == before


def test_another_caption_or_claim_is_another_run_though_nothing_is_computed(bench):
    run(bench, *TINY)
    text = Path("suite.yaml").read_text()
    Path("suite.yaml").write_text(text.replace("caption: Main", "caption: Other"))
    _, told = run(bench, *TINY)
    assert "nothing computed" in told
    assert "which has the same results" not in told
    assert len(list(Path("runs").iterdir())) == 2
    assert "Other" in Path("reports/tests/small-tiny/report.md").read_text()


def test_a_report_that_is_there_is_not_written_again_and_one_that_is_not_whole_is(bench, monkeypatch):
    run(bench, *TINY)
    report, calls = Path("reports/tests/small-tiny"), []
    before, write = contents(report), reporting.write_report
    monkeypatch.setattr(reporting, "write_report", lambda *words: calls.append(words) or write(*words))
    run(bench, *TINY)
    assert not calls
    for damage in ((report / "report.md").unlink, lambda: (report / "tables" / "main.csv").write_text("1\n")):
        damage()
        run(bench, *TINY)
        assert contents(report) == before
    assert len(calls) == 2


@pytest.mark.slow
def test_a_run_that_computes_nothing_imports_no_torch(bench, tmp_path):
    text = Path("suite.yaml").read_text()
    parts = {
        "letters": "sequence-completion, corpus: {name: english, sentences: 60}, prefix: 2", "bigram": "ngram-lm, order: 2",
        "bigram, scale: 2.0": "ngram-lm, order: 3", "argmax": "greedy", "draw": "ancestral", "ended": "non-termination",
        "nats": "perplexity",
    }  # fmt: skip
    for old, new in parts.items():
        text = text.replace(f"name: {old}}}", f"name: {new}}}")
    Path("suite.yaml").write_text(text.replace("tasks: {words: {words: 12}}", "title: Tiny"))
    code = (
        "import sys; from bench_core.commands.main import main\n"
        "try: main()\n"
        "finally: print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    words = ["run", "suite.yaml", "--workers", "0", *TINY]
    code_of_first, said = bench(*words)
    assert code_of_first == 0, said
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "which has the same results" in done.stdout
    assert done.stdout.endswith("False False\n")


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_a_device_that_is_not_there_is_one_error_before_anything_runs(bench, verb, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, told = bench(verb, "suite.yaml", "--set", "hardware.device=cuda")
    assert code == 2
    assert told.count("torch finds no CUDA device here") == 1
    assert not {path.name for path in Path(".").iterdir()} & {"runs", "reports", ".bench"} or not contents("runs")


def test_a_device_with_a_number_is_a_mistake_of_the_suite(bench):
    code, told = bench("run", "suite.yaml", "--set", "hardware.device=cuda:3")
    assert code == 2
    assert "'device': unknown value 'cuda:3'. Did you mean 'cuda'?" in told


def test_a_device_that_is_not_there_is_a_mistake_unless_another_machine_computes(bench, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, told = bench("check", "suite.yaml", "--set", "hardware.device=cuda", *TINY)
    assert code == 2
    assert "--set hardware.device: hardware.device cuda: torch finds no CUDA device here" in told
    code, told = bench("check", "suite.yaml", "--elsewhere", "--set", "hardware.device=cuda", *TINY)
    assert code == 0
    code, _ = bench("plan", "suite.yaml", "--set", "hardware.device=cuda", "--executor", "slurm")
    assert code == 0


def test_torch_is_not_asked_for_devices_that_no_stage_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not hardware.missing_device(["auto", "cpu"])
    with pytest.raises(ImportError):
        hardware.missing_device(["cuda"])


def test_p_values_have_three_digits_wherever_programs_read_them(tmp_path):
    rates = {"rnn": [[1.0, 0, 1, 0, 0, 1, 1, 0] * 6], "lstm": [[0.0, 0, 1, 0, 0, 1, 0, 0] * 6]}
    cells, _ = (
        sampled(tmp_path, rates) if isinstance(sampled(tmp_path, rates), tuple) else (sampled(tmp_path, rates), 0)
    )
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": ["decoder"]})
    files = written(run, tmp_path / "report")
    told = [row["p"] for row in csv.DictReader(files["tables/t.csv"].decode().splitlines()) if row["p"]]
    again = [str(row["p"]) for row in json.loads(files["results.json"])["tables"]["t"] if row["p"] is not None]
    assert told
    assert told == again
    assert all(float(one) == rounded(float(one)) for one in told)


@pytest.mark.parametrize(
    ("p", "kept"), [(4.8594578140194325e-50, 4.86e-50), (0.04996, 0.05), (1.0, 1.0), (0.0, 0.0), (None, None)]
)
def test_a_p_value_is_rounded_to_what_counts(p, kept):
    assert rounded(p) == kept
    assert rounded(kept) == kept


def test_python_gets_the_run_that_is_there(suite_file, tmp_path):
    def call():
        return bench_core.run(suite_file(), "tiny", data=tmp_path, store=tmp_path / "store", out=tmp_path / "runs")

    assert call().folder == call().folder
