"""Verdicts beside published numbers."""

from __future__ import annotations

import csv
import json
import re
from math import inf, nan

import pytest
from bench_small.runs import HOSTILE, cell, number, paper, run_of, written
from bench_small.suites import SUITE

from bench_core.errors import SuiteError
from bench_core.runs.results import Number
from bench_core.suites.load import load
from bench_core.suites.published import Published, Value
from bench_reports.content.numbers import judged
from bench_reports.content.result_tables import differences_table
from bench_reports.content.tables import grids
from bench_reports.content.verdicts import Comparison, comparison
from bench_reports.render.latex import LATEX
from bench_reports.render.markdown import MARKDOWN
from bench_reports.render.records import records
from bench_reports.render.report import screen
from bench_reports.statistics.intervals import Summary


def verdict(ours, printed, runs=10, tolerance=0.05, better=-1):
    found = comparison(ours, Value.model_validate(printed), runs, tolerance, better)
    return found and found.verdict


def test_what_lies_within_two_standard_errors_is_reproduced():
    """The error of a difference: sqrt(3 ** 2 / 9 + 4 ** 2 / 4) = sqrt(5), and twice that is 4.47."""
    ours = lambda mean: Summary(mean, 3.0, 9)  # noqa: E731
    printed = {"mean": 10.0, "std": 4.0}
    assert verdict(ours(14.47), printed, runs=4) == verdict(ours(5.53), printed, runs=4) == "reproduced"
    assert (verdict(ours(14.48), printed, runs=4), verdict(ours(5.52), printed, runs=4)) == ("worse", "better")
    assert (verdict(ours(14.48), printed, runs=4, better=1), verdict(ours(14.48), printed, 4, 0.05, 0)) == (
        "better",
        "differs",
    )


def test_what_lies_within_the_tolerance_is_reproduced():
    ours = lambda mean: Summary(mean, None, 1)  # noqa: E731
    assert verdict(ours(105.0), {"mean": 100}) == verdict(ours(95.0), {"mean": 100}) == "reproduced"
    assert (verdict(ours(105.1), {"mean": 100}), verdict(ours(94.9), {"mean": 100})) == ("worse", "better")
    assert verdict(ours(105.1), {"mean": 100}, tolerance=0.06) == "reproduced"
    assert verdict(ours(-105.0), {"mean": -100}) == "reproduced"
    assert verdict(ours(0.0), {"mean": 0.0}) == "reproduced"
    assert verdict(ours(0.01), {"mean": 0.0}) == "worse"


def test_a_missing_deviation_counts_as_none():
    ours = Summary(12.0, None, 1)
    assert verdict(ours, {"mean": 10.0, "std": 1.0}, runs=1) == "reproduced"
    assert verdict(ours, {"mean": 10.0, "std": 0.9}, runs=1) == "worse"
    assert verdict(Summary(12.0, 2.0, 4), {"mean": 10.0}) == "reproduced"


@pytest.mark.parametrize("mean", ["yes", True, [1, 2], nan, inf])
def test_what_is_no_number_gets_no_difference(mean):
    ours = Summary(inf if mean == inf else 1.0, None, 1)
    assert comparison(ours, Value(mean=mean), 1, 0.05, 1) is None
    assert comparison(Summary(nan, None, 1), Value(mean=1.0), 1, 0.05, 1) is None


def test_an_infinite_mean_is_worse():
    assert verdict(Summary(inf, None, 2), {"mean": 5.0}) == "worse"
    assert judged(Comparison(inf, "worse"), 2) == "+∞ worse"


def test_differences_are_signed_unless_they_round_to_nothing():
    assert judged(Comparison(1.234, "worse"), 2) == "+1.23 worse"
    assert judged(Comparison(-1.234, "better"), 1) == "−1.2 better"
    assert judged(Comparison(0.001, "reproduced"), 2) == judged(Comparison(-0.001, "reproduced"), 2)
    assert judged(Comparison(0.001, "reproduced"), 2) == "0.00 reproduced"
    assert judged(Comparison(2e12, "worse"), 1) == "+2.0e+12 worse"
    assert judged(None, 2) == "–"


def some_run(tmp_path, profile=None, **reference):
    values = {("rnn", "greedy"): 10.0, ("lstm", "greedy"): 2.0, ("rnn", "beam"): 1.0, ("gru", "greedy"): 3.0}
    cells = [cell(m, d, s, {"rate": number(v + s)}) for (m, d), v in values.items() for s in (0, 2)]
    cells.append(cell("lstm", "beam", 0, status="failed", reason="x"))
    published = paper(
        {
            "argmax": {"tanh": (8.0, 1.0), "lstm": (4.5, None)},
            "beam": {"tanh": (4.0, 0.5), "lstm": (1.0, None)},
        },
        runs=4,
    )
    mapping = {"table": "p", "rows": {"argmax": "greedy"}, "columns": {"tanh": "rnn"}}
    table = {"reference": {**mapping, **reference}}
    return run_of(tmp_path, cells, table, published, names=("rnn", "lstm", "gru"), profile=profile)


def differences(run, markup=MARKDOWN):
    (grid,) = grids(run)
    headings, *rows = markup.rows(differences_table(run, grid))
    return {row[0]: dict(zip(headings[1:], row[1:], strict=True)) for row in rows}


def test_the_second_table_has_the_same_rows_and_a_column_where_ours_stands_beside_theirs(tmp_path):
    """For rnn/greedy: ours 11 ± sqrt(2) of 2, theirs 8 ± 1 of 4; two errors are 2.24."""
    assert differences(some_run(tmp_path)) == {
        "greedy": {"rnn": "+3.00 worse", "lstm": "−1.50 reproduced"},
        "beam": {"rnn": "−2.00 reproduced", "lstm": "–"},
    }
    wide = differences(some_run(tmp_path, tolerance=0.5))
    assert wide["greedy"] == {"rnn": "+3.00 reproduced", "lstm": "−1.50 reproduced"}
    assert differences(some_run(tmp_path), LATEX)["greedy"]["lstm"] == "$-$1.50 reproduced"


def test_a_profile_makes_numbers_incomparable_unless_it_is_that_of_the_paper(tmp_path):
    small = some_run(tmp_path, profile="small")
    assert differences(small)["greedy"] == {"rnn": "+3.00 not comparable", "lstm": "−1.50 not comparable"}
    text = written(small, tmp_path / "report")["report.md"].decode()
    assert "- Not comparable: profile small.\n" in text
    assert differences(some_run(tmp_path, profile="paper")) == differences(some_run(tmp_path))


def test_a_changed_setting_makes_numbers_incomparable(tmp_path):
    run = some_run(tmp_path)
    run.info["changes"] = ["models.lstm.hidden"]
    assert differences(run)["greedy"]["lstm"] == "−1.50 not comparable"
    text = written(run, tmp_path / "report")["report.md"].decode()
    assert "- Not comparable: changed by --set models.lstm.hidden.\n" in text
    assert "Changed by --set: models.lstm.hidden." in text


def test_a_reference_says_why_its_numbers_are_incomparable(tmp_path):
    run = some_run(tmp_path, profile="small", differs="Another corpus.")
    assert differences(run)["beam"] == {"rnn": "−2.00 not comparable", "lstm": "–"}
    text = written(run, tmp_path / "report")["report.md"].decode()
    assert "- Not comparable: profile small.\n- Not comparable: Another corpus.\n" in text
    alone = some_run(tmp_path, differs="Another corpus")
    assert differences(alone)["greedy"]["rnn"] == "+3.00 not comparable"


def test_which_way_is_better_is_known_from_the_metric_or_else_from_the_paper(tmp_path):
    def found(better, **direction):
        cells = [cell("rnn", "greedy", 0, {"rate": Number(5.0, better=better)})]
        values = {"greedy": {"tanh": {"mean": 1.0}}}
        printed = Published.model_validate({"id": "p", "place": "", "rows": values, "direction": direction})
        table = {"reference": {"table": "p", "columns": {"tanh": "rnn"}}}
        return differences(run_of(tmp_path, cells, table, printed))["greedy"]["rnn"]

    assert (found(-1), found(1)) == ("+4.00 worse", "+4.00 better")
    assert (found(0, tanh="up"), found(0, tanh="down"), found(0)) == ("+4.00 better", "+4.00 worse", "+4.00 differs")
    assert found(1, tanh="down") == "+4.00 better"


def test_published_settings_get_no_difference(tmp_path):
    cells = [cell(m, "greedy", 0, {"rate": number(1.0)}) for m in ("rnn", "lstm")]
    values = {"greedy": {"rnn": {"mean": True}, "lstm": {"mean": 1}}}
    printed = Published.model_validate({"id": "p", "place": "", "rows": values})
    assert differences(run_of(tmp_path, cells, {"reference": {"table": "p"}}, printed)) == {
        "greedy": {"lstm": "0.00 reproduced"}
    }


def test_there_is_no_second_table_where_nothing_stands_together(tmp_path):
    cells = [cell("rnn", "greedy", 0, {"rate": number(1.0)})]
    for published in (None, paper({"beam": {"rnn": (1.0, None)}}), paper({"greedy": {"lstm": (1.0, None)}})):
        run = run_of(tmp_path, cells, {"reference": {"table": "p"}} if published else {}, published)
        assert differences_table(run, grids(run)[0]) is None
        files = written(run, tmp_path / "report")
        assert b"beside the published" not in files["report.md"] + files["report.tex"]
        assert "eside the published" not in screen(run)


def test_every_format_tells_the_verdicts(tmp_path):
    run = some_run(tmp_path)
    files = written(run, tmp_path / "report")
    text = files["report.md"].decode()
    assert text.index("- Mean ±") < text.index("### t beside the published\n")
    assert re.search(r"\| greedy +\| +\+3\.00 worse \| −1\.50 reproduced \|", text)
    rule = "- Difference: ours minus published. Reproduced: within two standard errors, or 5 % of the published.\n"
    assert rule in text
    latex = files["report.tex"].decode()
    assert r"\caption{t beside the published}" in latex
    assert r"greedy & +3.00 worse & $-$1.50 reproduced \\" in files["tables/t-published.tex"].decode()
    rows = {(row["row"], row["column"]): row for row in csv.DictReader(files["tables/t.csv"].decode().splitlines())}
    assert (float(rows["greedy", "rnn"]["difference"]), rows["greedy", "rnn"]["verdict"]) == (3.0, "worse")
    assert (rows["greedy", "gru"]["difference"], rows["greedy", "gru"]["verdict"]) == ("", "")
    assert json.loads(files["results.json"])["tables"]["t"] == json.loads(json.dumps(records(grids(run)[0])))
    assert re.search(r"greedy +\+3\.00 worse +−1\.50 reproduced\n", screen(run))


def test_hostile_reasons_are_escaped(tmp_path):
    files = written(some_run(tmp_path, differs=HOSTILE), tmp_path / "report")
    text = files["report.tex"].decode()
    assert text.isascii()
    bare = re.sub(r"\\[\\{}$&#%_]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert "<script" not in files["report.md"].decode()


REFERENCES = """
paper: A paper
tables:
  - {id: printed, place: Table 1, rows: {argmax: {one: {mean: 1.5}}, draw: {one: {mean: 2}}}}
"""


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tolerance: -0.1", "'tolerance' must be at least 0"),
        ("tolerance: wide", "'tolerance' must be a number"),
        ("differs: [a]", "'differs' must be text"),
        ("differ: a", "unknown key 'differ'. Did you mean 'differs'"),
    ],
)
def test_settings_of_a_reference_are_checked(suite_file, tmp_path, setting, message):
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "a.yaml").write_text(REFERENCES)
    table = "values: [ended], where: {model: one}, reference: {table: printed, %s}"
    path = lambda text: suite_file(SUITE.replace("values: [ended, nats]", table % text))  # noqa: E731
    suite = load(path("tolerance: 0.1, differs: a corpus of our own"))
    assert (suite.tables[0].reference.tolerance, suite.tables[0].reference.differs) == (0.1, "a corpus of our own")
    with pytest.raises(SuiteError, match=rf":20:\d+: {re.escape(message)}"):
        load(path(setting))
