"""Tables of tasks: statistics of their data beside the published ones, with models or without."""

from __future__ import annotations

import json

import pytest
from bench_small.command_line import bench_here
from bench_small.runs import cell, number, paper, run_of, shown, stored, written
from bench_small.suites import SUITE

import bench_core
from bench_core.errors import DataError, SuiteError
from bench_core.suites.load import load
from bench_reports.content.table_notes import footnotes
from bench_reports.content.tables import grids
from bench_reports.render.records import records

TABLE = {"of": "tasks", "rows": ["task"], "columns": [], "values": ["train/rows", "train/length", "vocabulary"]}
WORDS = {"statistics": {"train": {"rows": 76_488, "length": 25.915}, "test": {"rows": 9338}}, "vocabulary": 33_237}

DATA = """
suite: tests/data
tasks:
  few: {name: letters, words: 12}
  many: {name: letters, words: 40}
tables:
  - {id: data, of: tasks, values: [train/words, vocabulary]}
"""


def test_statistics_stand_beside_the_published_ones_by_the_mapping(tmp_path):
    published = paper({"word": {"train": (78_274, None), "avg": (24, None), "vocab": (33_182, None)}})
    columns = {"train": "train/rows", "avg": "train/length", "vocab": "vocabulary"}
    reference = {"table": "p", "rows": {"word": "words"}, "columns": columns}
    run = run_of(tmp_path, [], {**TABLE, "reference": reference}, published, tasks={"words": WORDS})
    assert shown(run) == {
        "words": {
            "train/rows": "76488 <sub>78274</sub>",
            "train/length": "25.91 <sub>24.00</sub>",
            "vocabulary": "33237 <sub>33182</sub>",
        }
    }
    assert [entry.comparison.verdict for entry in grids(run)[0].entries[0]] == ["different", "different", "different"]
    first, *_ = records(grids(run)[0])
    told = {key: first[key] for key in ("row", "column", "value", "unit", "mean", "published_mean", "n")}
    expected = {"row": "words", "column": "", "value": "train/rows", "unit": "rows", "n": 1}
    assert told == {**expected, "mean": 76_488.0, "published_mean": 78_274}


def test_seeds_limits_and_metrics_are_no_matter_of_tasks(tmp_path):
    cells = [cell("rnn", "greedy", 0, {"rate": number(1.0)})]
    run = run_of(tmp_path, cells, TABLE, tasks={"words": {**WORDS, "corpus": "WikiText-2"}})
    assert footnotes(run, grids(run)[0]) == ["Corpus: WikiText-2."]


def test_a_footnote_says_which_statistics_there_are_instead(tmp_path):
    table = {**TABLE, "values": ["train/rows", "train/words", "entropy"]}
    run = run_of(tmp_path, [], table, tasks={"words": WORDS})
    assert shown(run) == {"words": {"train/rows": "76488", "train/words": "–", "entropy": "–"}}
    (grid,) = grids(run)
    assert [entry.status for entry in grid.entries[0]] == ["done", "none", "none"]
    known = "train/rows, train/length, test/rows, vocabulary"
    assert footnotes(run, grid)[0] == f"words has no statistic train/words, entropy. Available: {known}."


def test_a_task_that_was_not_prepared_says_why(tmp_path):
    lost = {"vocabulary": 0, "status": "not run", "reason": "words.txt is missing"}
    run = run_of(tmp_path, [], TABLE, tasks={"words": lost})
    assert set(shown(run)["words"].values()) == {r"not run<sup>\[1\]</sup>"}
    assert footnotes(run, grids(run)[0]) == ["[1] words.txt is missing"]


def test_a_suite_without_models_prepares_its_tasks_and_tells_what_they_hold(suite_file, tmp_path):
    run = bench_core.run(suite_file(DATA), store=tmp_path / "store", out=tmp_path / "runs")
    assert run.cells == []
    assert shown(run) == {
        "few": {"train/words": "12", "vocabulary": "5"},
        "many": {"train/words": "40", "vocabulary": "5"},
    }
    assert b"Corpus: made-up letters (few), made-up letters (many)" in written(run, tmp_path / "r")["report.md"]
    assert len(list((tmp_path / "store" / "prepare").iterdir())) == 2
    assert not (tmp_path / "store" / "train").exists()


def test_where_chooses_tasks(suite_file, tmp_path):
    path = suite_file(DATA.replace("vocabulary]", "vocabulary], where: {task: many}"))
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs")
    assert list(shown(run)) == ["many"]


def test_a_task_whose_data_is_missing_leaves_those_of_others(suite_file, tmp_path):
    path = suite_file(DATA.replace("few: {name: letters, words: 12}", "few: {name: letters, file: absent.txt}"))
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path)
    assert shown(run)["many"] == {"train/words": "40", "vocabulary": "5"}
    assert set(shown(run)["few"].values()) == {r"not run<sup>\[1\]</sup>"}
    assert "absent.txt is missing" in grids(run)[0].reasons[0]
    with pytest.raises(DataError, match=r"absent\.txt is missing"):
        bench_core.run(path, settings=["tasks.many.file=absent.txt"], data=tmp_path)


def test_tables_of_tasks_stand_beside_those_of_results(suite_file, tmp_path):
    text = SUITE.replace("tables:\n", "tables:\n  - {id: data, of: tasks, values: [train/words]}\n")
    path = suite_file(text)
    run = bench_core.run(path, seeds=1, store=tmp_path / "store", out=tmp_path / "runs")
    data, main = grids(run)
    assert data.entries[0][0].summary.mean == 40
    assert len(main.entries) == 2
    for artifact in (tmp_path / "store" / "prepare").iterdir():
        artifact.rename(tmp_path / artifact.name)
    again = bench_core.run(path, seeds=1, store=tmp_path / "store", out=tmp_path / "runs")
    assert grids(again)[0].entries[0][0].summary.mean == 40


def test_the_command_line_fails_where_a_task_cannot_be_prepared(tmp_path):
    english = "{name: sequence-completion, corpus: {name: english, sentences: 60}, prefix: 2}"
    text = DATA.replace("train/words", "train/sentences").replace("{name: letters, words: 12}", english)
    (tmp_path / "suite.yaml").write_text(text.replace("{name: letters, words: 40}", english.replace("60", "61")))
    command = ["run", "suite.yaml", "--workers", "0"]
    done = bench_here(*command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0 cells: 4 stages computed" in done.stdout
    lost = "--set=tasks.few.corpus={train: a.txt, valid: a.txt, test: a.txt}"
    failed = bench_here(*command, lost, folder=tmp_path)
    assert failed.returncode == 1
    assert "task 'few' not run: missing or empty: a.txt" in failed.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("of: tasks, values: [train/words, vocabulary]", "of: tasks", "a table needs `values`: statistics of tasks"),
        ("of: tasks", "of: tasks, columns: [split]", "a table of tasks has rows `[task]`, no columns"),
        ("of: tasks", "of: tasks, where: {model: a}", "a table of tasks has rows `[task]`, no columns"),
        ("of: tasks", "of: tasks, where: {task: fwe}", "no task of this suite is called 'fwe'. Did you mean 'few'"),
        ("of: tasks, ", "rows: [task], ", "table 'data' shows results of models, but the suite has no models"),
        ("of: tasks", "of: task", "'of': unknown value 'task'. Did you mean 'tasks'?"),
    ],
)
def test_a_table_of_tasks_that_cannot_be_is_refused(suite_file, old, new, message):
    with pytest.raises(SuiteError) as error:
        load(suite_file(DATA.replace(old, new)))
    assert message in str(error.value)


def test_published_statistics_must_be_mapped(suite_file, tmp_path):
    (tmp_path / "references").mkdir()
    printed = (
        "paper: A paper\ntables:\n  - {id: t7, place: Table 7, rows: {word: {train: {mean: 9}, vocab: {mean: 5}}}}\n"
    )
    (tmp_path / "references" / "a.yaml").write_text(printed)
    reference = ", reference: {table: t7, rows: {word: few}, columns: {vocab: vocabulary, train: %s}}"
    with pytest.raises(SuiteError, match="published 'train' must be mapped to a label of this table"):
        load(suite_file(DATA.replace("vocabulary]", "vocabulary]" + reference % "train/rows")))
    run = bench_core.run(
        suite_file(DATA.replace("vocabulary]", "vocabulary]" + reference % "train/words")),
        store=tmp_path / "store",
        out=tmp_path / "runs",
    )
    assert shown(run)["few"] == {"train/words": "12 <sub>9</sub>", "vocabulary": "5 <sub>5</sub>"}


def test_statistics_are_read_from_the_run_folder(tmp_path):
    run = stored(run_of(tmp_path, [], TABLE, tasks={"words": WORDS}))
    assert shown(run)["words"]["train/rows"] == "76488"
    tables = json.loads(written(run, tmp_path / "report")["results.json"])["tables"]["t"]
    assert [row["mean"] for row in tables] == [76488.0, 25.915, 33237.0]
