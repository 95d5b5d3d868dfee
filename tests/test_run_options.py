"""Options of `bench run` and `bench plan`: parts of a suite, previews, and what is printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench_core.commands.main import bench
from bench_core.runs.results import read_run

QUICK = ("--profile", "tiny", "--workers", "0")


@pytest.fixture
def go(suite_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite_file()

    def run(*words, code=0):
        found = CliRunner().invoke(bench, words, standalone_mode=False)
        if found.exception is not None:
            assert code == 2, found.exc_info
            return str(found.exception), ""
        assert (found.return_value or 0) == code, found.output
        return found.stdout, found.stderr

    return run


def the_run():
    (folder,) = Path("runs").iterdir()
    return read_run(folder)


def reports():
    return {path.parent.relative_to("reports").as_posix() for path in Path("reports").rglob("report.md")}


def test_a_limit_lowers_the_number_of_examples_and_keeps_the_report_of_the_suite(go):
    go("run", "suite.yaml", *QUICK)
    whole = {cell.numbers["nats"].examples for cell in the_run().cells}
    assert min(whole) > 2
    before = Path("reports/tests/small-tiny/report.md").read_text()
    stdout, _ = go("run", "suite.yaml", *QUICK, "--limit", "2", "--json")
    limited = read_run(Path(json.loads(stdout)["run"]))
    assert {number.examples for cell in limited.cells for number in cell.numbers.values()} == {2}
    assert {*limited.cells[0].artifacts.values()} & {*the_other(limited).cells[0].artifacts.values()}, "same training"
    assert Path("reports/tests/small-tiny/report.md").read_text() == before
    assert reports() == {"tests/small-tiny", "tests/small-tiny+limits.examples=2+limits.scored=2"}


def the_other(run):
    (folder,) = [one for one in Path("runs").iterdir() if one.name != run.folder.name]
    return read_run(folder)


def test_a_limit_never_raises_that_of_the_suite(go):
    _, _ = go("run", "suite.yaml", *QUICK, "--set", "limits={max_tokens: 6, examples: 1}", "--limit", "3")
    (cell, *_) = the_run().cells
    assert (cell.numbers["ended"].examples, cell.numbers["nats"].examples) == (1, 3)


def test_only_the_selected_cells_are_run_and_the_others_say_so(go):
    stdout, _ = go("run", "suite.yaml", *QUICK, "--only", "two", "--only", "decoder=argmax")
    found = the_run()
    done = {(cell.cell["model"], cell.cell["decoder"]) for cell in found.cells if cell.status == "done"}
    assert done == {("two", "argmax")}
    assert {cell.reason for cell in found.cells if cell.status != "done"} == {"not selected by --only"}
    assert "1 cell: " in stdout
    assert "tests/small-tiny" not in reports()
    assert len(reports()) == 1
    assert len([path for path in Path(".bench/store/train").iterdir() if path.is_dir()]) == 1


def test_a_stage_that_no_selected_cell_needs_is_not_computed(go):
    go("run", "suite.yaml", *QUICK, "--only", "model=two,decoder=draw")
    stored = {kind: [*Path(".bench/store", kind).glob("*/manifest.json")] for kind in ("train", "decode")}
    counts = {kind: len([one for one in Path(".bench/store", kind).iterdir() if one.is_dir()]) for kind in stored}
    assert counts == {"train": 1, "decode": 1}


def test_a_filter_that_selects_nothing_is_an_error_before_anything_runs(go):
    told, _ = go("run", "suite.yaml", *QUICK, "--only", "model=tow", code=2)
    assert "no model of these cells is called 'tow'. Did you mean 'two'?" in told
    assert not Path("runs").exists()


def test_a_dry_run_names_what_a_run_computes_and_computes_nothing(go):
    stdout, _ = go("run", "suite.yaml", *QUICK, "--dry-run")
    assert not Path("runs").exists()
    assert not Path("reports").exists()
    assert not [*Path(".").glob(".bench/store/*/*/*")]
    planned = stdout.splitlines()[:-1]
    assert "train words x two, seed 0" in planned
    go("run", "suite.yaml", *QUICK)
    (log,) = Path("runs").glob("*/log")
    run = {re.sub(r": [0-9.]+ s \(.*", "", line) for line in log.read_text().splitlines()}
    assert run == {*planned}
    stdout, _ = go("run", "suite.yaml", *QUICK, "--dry-run")
    assert stdout == "tests/small-tiny: 0 stages would be computed.\n"


def test_a_quiet_run_prints_the_path_of_its_report_alone(go):
    stdout, stderr = go("run", "suite.yaml", *QUICK, "-q")
    assert stdout == "reports/tests/small-tiny/report.md\n"
    assert stderr == ""
    failing = ("--set", "models.two.breaks=training")
    stdout, stderr = go("run", "suite.yaml", *QUICK, "-q", *failing, code=1)
    assert stdout.count("\n") == 1
    assert "2 cells failed: train of words x two" in stderr


def test_the_summary_of_a_run_is_json_on_standard_output_and_nothing_else_is(go):
    stdout, stderr = go("run", "suite.yaml", *QUICK, "--json", "--set", "models.two.breaks=training", code=1)
    found = json.loads(stdout)
    assert found["exit_code"] == 1
    assert {(cell["model"], cell["status"]) for cell in found["cells"]} == {("one", "done"), ("two", "failed")}
    assert all(cell["values"]["nats"] > 0 for cell in found["cells"] if cell["status"] == "done")
    assert Path(found["report"]).is_file()
    assert "train words x one, seed 0" in stderr
    again, _ = go("run", "suite.yaml", *QUICK, "--json")
    assert json.loads(again)["exit_code"] == 0


def test_a_plan_counts_the_selected_cells_and_the_limited_examples(go):
    go("run", "suite.yaml", *QUICK)
    every = json.loads(go("plan", "suite.yaml", "--profile", "tiny", "--json")[0])
    one = json.loads(go("plan", "suite.yaml", "--profile", "tiny", "--json", "--only", "one/draw", "--limit", "1")[0])
    assert (every["cells"], one["cells"]) == (4, 1)
    todo = {row["stage"]: (row["used"], row["to do"]) for row in one["stages"]}
    assert todo["train"] == (1, 0)
    assert todo["decode"] == (1, 1)


@pytest.mark.parametrize(
    ("setting", "left"),
    [("models.two", ["one"]), ("decoders.draw", ["one", "two"]), ("metrics.ended", ["one", "two"])],
)
def test_an_entry_is_removed_by_null_and_what_still_names_it_is_told(go, setting, left):
    _, stderr = go("run", "suite.yaml", *QUICK, "--set", f"{setting}=null", "--dry-run")
    assert ("note: " in stderr) == (setting == "metrics.ended"), "a table names the metric"
    assert stderr.count(f"--set {setting}=null` removes it") <= 1
    go("run", "suite.yaml", *QUICK, "--set", f"{setting}=null")
    assert sorted({cell.cell["model"] for cell in the_run().cells}) == left


def test_a_table_is_removed_by_its_id_and_the_places_of_others_stay_right(go, suite_file):
    text = (
        Path("suite.yaml")
        .read_text()
        .replace("profiles:", "  - {id: second, rows: [decoder], columns: [model], values: [endde]}\nprofiles:")
    )
    Path("suite.yaml").write_text(text)
    line = text[: text.index("second")].count("\n") + 1
    column = text.splitlines()[line - 1].index("values:") + 1
    told, _ = go("plan", "suite.yaml", "--set", "tables.main=null", code=2)
    assert told.startswith(f"suite.yaml:{line}:{column}: no metric of this suite is called 'endde'")
    go("plan", "suite.yaml", "--set", "tables.second=null")
    told, _ = go("plan", "suite.yaml", "--set", "tables.secnd=null", code=2)
    assert "there is nothing to remove. Did you mean 'second'?" in told


def test_what_a_selection_of_checkpoints_needs_cannot_be_removed(go):
    told, _ = go("plan", "suite.yaml", "--set", "metrics.nats=null", code=2)
    assert "metric 'nats' is needed here, but the profile or `--set` removes it" in told


def test_a_name_that_is_not_there_cannot_be_removed(go):
    told, _ = go("plan", "suite.yaml", "--set", "models.tow=null", code=2)
    assert told == "--set models.tow: there is nothing to remove. Did you mean 'two'?"


def test_a_stage_that_fails_names_file_and_line_in_the_plugin(go):
    _, stderr = go("run", "suite.yaml", *QUICK, "--set", "models.two.breaks=building", code=1)
    source = (Path(__file__).parent / "small" / "bench_small" / "parts.py").read_text().splitlines()
    reason = next(cell.reason for cell in the_run().cells if cell.status == "failed")
    place = re.search(r"\((bench_small/parts\.py), line (\d+), in (\w+)\)", reason)
    assert place, reason
    assert "raise" in source[int(place[2]) - 1]
    assert reason in stderr
