"""CSV that spreadsheets open."""

from __future__ import annotations

import csv
import io

import pytest
from bench_small.runs import cell, number, run_of, stored, written

from bench_core.runs.results import write_costs
from bench_reports.content.cost_tables import stages_of
from plain_files import from_csv, to_csv

FORMULAS = [
    "=cmd|' /C calc'!A1",
    "+1+1",
    "-1+cmd",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1+1",
    "'=1",
    "''=1",
    "-",
    '=1,"2',
]


def fields(text):
    return [field for line in csv.reader(io.StringIO(text, newline="")) for field in line]


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_a_spreadsheet_would_compute_begins_with_an_apostrophe_and_is_read_as_it_was(text):
    written = to_csv([{text: text, "b": "plain"}], [text, "b"])
    assert [field[0] for field in fields(written) if field not in ("b", "plain")] == ["'", "'"]
    assert from_csv(written) == [{text: text, "b": "plain"}]


@pytest.mark.parametrize(
    "value", [-3.5, 0, -1e-9, float("-inf"), "-3.5", "+2", "-1e-05", "word", "'quoted'", "", None, True]
)
def test_numbers_and_plain_text_are_written_as_they_are(value):
    assert fields(to_csv([{"a": value}], ["a"])) == (["a", "" if value is None else str(value)])
    assert from_csv(to_csv([{"a": value, "b": 1}], ["a", "b"]))[0]["a"] == ("" if value is None else str(value))


def test_lines_that_are_too_short_lack_their_fields_and_an_empty_file_has_no_lines():
    assert from_csv("a,b\n1\n\n2,3,4\n") == [{"a": "1"}, {"a": "2", "b": "3"}]
    assert from_csv("") == []


def test_costs_are_no_formulas_and_are_read_as_they_were(tmp_path):
    write_costs(tmp_path / "costs.csv", [("train", "=1+1", "k" * 20, {"seconds": 1.5})])
    text = (tmp_path / "costs.csv").read_text(encoding="utf-8")
    assert "'=1+1" in text
    assert [(one["what"], one["seconds"]) for one in stages_of(text)] == [("=1+1", "1.5")]


def test_no_table_of_a_report_holds_a_formula_even_of_a_run_that_another_wrote(tmp_path):
    name = "=cmd|calc!A1"
    cells = [cell(name, "greedy", 0, {"rate": number(-3.5)})]
    table = {"rows": ["model"], "columns": ["decoder"]}
    run = stored(run_of(tmp_path, cells, table, names=(name,)))
    (run.folder / "costs.csv").write_text(f"stage,what,key,seconds\ntrain,{name},0,1.5\n", encoding="utf-8")
    files = {
        path: content.decode() for path, content in written(run, tmp_path / "report").items() if path.endswith(".csv")
    }
    assert {"tables/t.csv", "costs.csv"} <= files.keys()
    for content in files.values():
        assert f"'{name}" in content
        assert not any(field.startswith("=") for field in fields(content))
    assert "-3.5" in fields(files["tables/t.csv"])
