"""Verdicts beside published numbers."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from bench_small.runs import HOSTILE, cell, number, paper, run_of, written
from bench_small.suites import SUITE
from scipy.stats import t, ttest_ind_from_stats

from bench_core.errors import SuiteError
from bench_core.suites.load import load
from bench_reports.content.grid import GridEntry
from bench_reports.content.numbers import comparison_text
from bench_reports.content.result_tables import differences_table
from bench_reports.content.tables import grids
from bench_reports.content.verdicts import PublishedComparison, comparison
from bench_reports.language.of_suite import language
from bench_reports.language.published import Published, Value
from bench_reports.render.latex import LATEX
from bench_reports.render.markdown import MARKDOWN
from bench_reports.render.records import records
from bench_reports.render.report import screen
from bench_reports.statistics.estimate import Measured
from bench_reports.statistics.intervals import Summary, summary


def ours(*values, **about):
    """Return an entry of a table, of a whole population."""
    settings = {"scale": "linear", **about}
    scaled = np.log(values) if settings["scale"] == "log" else np.array(values, dtype=float)
    one = Measured(scaled, **settings) if np.isfinite(values).all() else None
    return GridEntry(
        "done",
        len(values),
        summary(values),
        cells=(cell("rnn", "greedy", 0),) * len(values),
        measure=lambda: (one,) if one else (),
    )


def verdict(entry, printed, runs=1, tolerance=None, better=-1):
    found = comparison(entry, Value.model_validate(printed), runs, tolerance, better)
    return found and found.verdict


def test_a_difference_is_told_where_its_interval_is_beyond_the_tolerance():
    """As Welch's t-test has it: ours 10, 12, 14, theirs 5 ± 2 of 3."""
    p = ttest_ind_from_stats(12, 2, 3, 5, 2, 3, equal_var=False).pvalue
    assert p < 0.05
    assert verdict(ours(10, 12, 14), {"mean": 5, "std": 2}, runs=3) == "worse"
    assert verdict(ours(10, 12, 14), {"mean": 5, "std": 2}, runs=3, better=1) == "better"
    assert verdict(ours(10, 12, 14), {"mean": 5, "std": 2}, runs=3, better=0) == "different"
    assert verdict(ours(10, 12, 14), {"mean": 8, "std": 2}, runs=3) == "cannot tell"
    assert verdict(ours(10, 12, 14), {"mean": 5, "std": 2}, runs=3, tolerance=5.0) == "cannot tell"


def test_equivalence_needs_a_tolerance_and_an_interval_within_it():
    near = {"mean": 10.1, "std": 0.2}
    assert verdict(ours(10.0, 10.2, 9.9, 10.1), near, runs=5, tolerance=1.0) == "equivalent"
    assert verdict(ours(10.0, 10.2, 9.9, 10.1), near, runs=5) == "cannot tell"
    assert verdict(ours(10.0, 10.2, 9.9, 10.1), near, runs=5, tolerance=0.1) == "cannot tell"
    assert verdict(ours(10.0, 12.2, 7.9, 10.1), near, runs=5, tolerance=1.0) == "cannot tell", "we vary too much"


def test_a_deviation_that_is_not_printed_is_taken_as_ours():
    """The difference of a mean of 4 and of one training of the same kind has the variance s^2 (1 / 4 + 1)."""
    values = [9.0, 10.0, 11.0, 10.0]
    half = t.ppf(0.975, 3) * np.std(values, ddof=1) * np.sqrt(1.25)
    assert verdict(ours(*values), {"mean": 10 - 1.01 * half}) == "worse"
    assert verdict(ours(*values), {"mean": 10 - 0.99 * half}) == "cannot tell"


def test_with_one_seed_the_deviation_is_theirs_or_nobody_knows():
    assert verdict(ours(12.0), {"mean": 10.0, "std": 0.1}, runs=10) == "worse"
    assert verdict(ours(10.1), {"mean": 10.0, "std": 0.1}, runs=10, tolerance=1.0) == "equivalent"
    assert verdict(ours(12.0), {"mean": 10.0, "std": 0.1}, runs=1) == "cannot tell", "one run has no deviation"
    assert verdict(ours(12.0), {"mean": 10.0}) == "cannot tell"


def test_how_many_seeds_would_tell_is_told():
    found = comparison(ours(9.0, 10.0, 11.5), Value(mean=9.5, std=0.1), 10, 1.0, -1)
    assert found.verdict == "cannot tell"
    assert found.seeds > 3
    assert comparison_text(found, 2) == f"+0.67 cannot tell ({found.seeds} seeds needed)"
    assert comparison(ours(9.0), Value(mean=9.5), 1, 1.0, -1).seeds is None
    assert comparison(ours(9.0, 10.0, 11.5), Value(mean=9.5, std=1.0), 2, 1.0, -1).seeds is None, "theirs are too few"


def test_perplexities_are_compared_by_their_logarithms():
    """A deviation of 10 at 100 is a tenth, and so is one of 20 at 200."""
    values = [190.0, 200.0, 210.0]
    logs = np.log(values)
    half = t.ppf(0.975, 2) * logs.std(ddof=1) * np.sqrt(1 / 3 + 1)
    assert verdict(ours(*values, scale="log"), {"mean": float(np.exp(logs.mean() - 1.01 * half))}) == "worse"
    assert verdict(ours(*values, scale="log"), {"mean": float(np.exp(logs.mean() - 0.99 * half))}) == "cannot tell"


def test_counts_that_no_training_changes_are_compared_as_they_are():
    count = GridEntry("done", 1, Summary(76_488.0, None, 1))
    assert verdict(count, {"mean": 78_274}, tolerance=1_600.0, better=0) == "different"
    assert verdict(count, {"mean": 78_274}, tolerance=2_000.0, better=0) == "equivalent"
    assert verdict(ours(5.0, 5.0, trained=False), {"mean": 5.0}, tolerance=0.0) == "equivalent"


@pytest.mark.parametrize("mean", ["yes", True, [1, 2], nan, inf])
def test_what_is_no_number_gets_no_difference(mean):
    one = ours(inf if mean == inf else 1.0)
    assert comparison(one, Value(mean=mean), 1, 0.05, 1) is None
    assert comparison(ours(nan), Value(mean=1.0), 1, 0.05, 1) is None


def test_an_infinite_mean_is_worse():
    assert verdict(ours(inf, inf), {"mean": 5.0}) == "worse"
    assert comparison_text(PublishedComparison(inf, "worse"), 2) == "+∞ worse"


def test_differences_are_signed_unless_they_round_to_nothing():
    assert comparison_text(PublishedComparison(1.234, "worse"), 2) == "+1.23 worse"
    assert comparison_text(PublishedComparison(-1.234, "better"), 1) == "−1.2 better"
    assert comparison_text(PublishedComparison(0.001, "equivalent"), 2) == comparison_text(
        PublishedComparison(-0.001, "equivalent"), 2
    )
    assert comparison_text(PublishedComparison(0.001, "equivalent"), 2) == "0.00 equivalent"
    assert comparison_text(PublishedComparison(2e12, "worse"), 1) == "+2.0e+12 worse"
    assert comparison_text(None, 2) == "–"


TOLERANCE = {"within": 0.6, "why": "half of the gain"}


def some_run(tmp_path, profile=None, tolerance=None, **reference):
    values = {("rnn", "greedy"): 10.0, ("lstm", "greedy"): 2.0, ("rnn", "beam"): 1.0, ("gru", "greedy"): 3.0}
    cells = [cell(m, d, s, {"rate": number(v + s / 100)}) for (m, d), v in values.items() for s in (0, 2)]
    cells.append(cell("lstm", "beam", 0, status="failed", reason="x"))
    published = paper(
        {
            "argmax": {"tanh": (10.1, 0.2), "lstm": (4.5, None)},
            "beam": {"tanh": (4.0, 0.5), "lstm": (1.0, None)},
        },
        runs=4,
        tolerance=TOLERANCE if tolerance is None else tolerance,
    )
    mapping = {"table": "p", "rows": {"argmax": "greedy"}, "columns": {"tanh": "rnn"}}
    table = {"reference": {**mapping, **reference}}
    return run_of(tmp_path, cells, table, published, names=("rnn", "lstm", "gru"), profile=profile)


def differences(run, markup=MARKDOWN):
    (grid,) = grids(run)
    headings, *rows = markup.rows(differences_table(run, grid))
    return {row[0]: dict(zip(headings[1:], row[1:], strict=True)) for row in rows}


def test_the_second_table_has_the_same_rows_and_a_column_where_ours_stands_beside_theirs(tmp_path):
    assert differences(some_run(tmp_path)) == {
        "greedy": {"rnn": "−0.09 equivalent", "lstm": "−2.49 better"},
        "beam": {"rnn": "−2.99 better", "lstm": "–"},
    }
    wide = differences(some_run(tmp_path, tolerance={"tanh": {"within": 9, "why": "wide"}}))
    assert wide["beam"] == {"rnn": "−2.99 equivalent", "lstm": "–"}
    assert wide["greedy"]["lstm"] == "−2.49 better"
    assert differences(some_run(tmp_path), LATEX)["greedy"]["lstm"] == "$-$2.49 better"


def test_a_profile_makes_numbers_incomparable_unless_it_is_that_of_the_paper(tmp_path):
    small = some_run(tmp_path, profile="small")
    assert differences(small)["greedy"] == {"rnn": "−0.09", "lstm": "−2.49"}
    text = written(small, tmp_path / "report")["report.md"].decode()
    assert "- Not comparable: profile small.\n" in text
    assert differences(some_run(tmp_path, profile="paper")) == differences(some_run(tmp_path))


def test_a_changed_setting_makes_numbers_incomparable(tmp_path):
    run = some_run(tmp_path)
    run.info["changes"] = ["models.lstm.hidden"]
    assert differences(run)["greedy"]["lstm"] == "−2.49"
    text = written(run, tmp_path / "report")["report.md"].decode()
    assert "- Not comparable: changed by --set models.lstm.hidden.\n" in text
    assert "Changed by --set: models.lstm.hidden." in text


def test_a_reference_says_why_its_numbers_are_incomparable(tmp_path):
    run = some_run(tmp_path, profile="small", differs="Another corpus.")
    assert differences(run)["beam"] == {"rnn": "−2.99", "lstm": "–"}
    text = written(run, tmp_path / "report")["report.md"].decode()
    assert "- Not comparable: profile small.\n- Not comparable: Another corpus.\n" in text
    alone = some_run(tmp_path, differs="Another corpus")
    assert differences(alone)["greedy"]["rnn"] == "−0.09"


def test_which_way_is_better_is_known_from_the_metric_or_else_from_the_paper(tmp_path):
    def found(better, **direction):
        cells = [cell("rnn", "greedy", s, {"rate": replace(number(5.0 + s / 100), better=better)}) for s in range(3)]
        values = {"greedy": {"tanh": {"mean": 1.0}}}
        printed = Published.model_validate({"id": "p", "place": "", "rows": values, "direction": direction})
        table = {"reference": {"table": "p", "columns": {"tanh": "rnn"}}}
        return differences(run_of(tmp_path, cells, table, printed))["greedy"]["rnn"]

    assert (found(-1), found(1)) == ("+4.01 worse", "+4.01 better")
    assert (found(0, tanh="up"), found(0, tanh="down"), found(0)) == (
        "+4.01 better",
        "+4.01 worse",
        "+4.01 different",
    )
    assert found(1, tanh="down") == "+4.01 better"


def test_published_settings_get_no_difference(tmp_path):
    cells = [cell(m, "greedy", 0, {"rate": number(1.0)}) for m in ("rnn", "lstm")]
    values = {"greedy": {"rnn": {"mean": True}, "lstm": {"mean": 1, "std": 0.1}}}
    about = {"runs": 5, "tolerance": {"within": 1, "why": "-"}}
    printed = Published.model_validate({"id": "p", "place": "", "rows": values, **about})
    assert differences(run_of(tmp_path, cells, {"reference": {"table": "p"}}, printed)) == {
        "greedy": {"lstm": "0.00 equivalent"}
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
    assert re.search(r"\| greedy +\| −0\.09 equivalent \| −2\.49 better +\|", text)
    assert (
        "- Difference: ours minus published.\n- Equivalent: the 90 % interval of the difference lies within" in text
    )
    assert "- Tolerance: 0.6 (half of the gain).\n" in text
    assert rb"\caption{t: differences from the published numbers}" in files["tables/t-published.tex"]
    assert r"greedy & $-$0.09 equivalent & $-$2.49 better \\" in files["tables/t-published.tex"].decode()
    rows = {(row["row"], row["column"]): row for row in csv.DictReader(files["tables/t.csv"].decode().splitlines())}
    assert float(rows["greedy", "rnn"]["difference"]) == pytest.approx(-0.09)
    assert rows["greedy", "rnn"]["verdict"] == "equivalent"
    assert (rows["greedy", "gru"]["difference"], rows["greedy", "gru"]["verdict"]) == ("", "")
    assert json.loads(files["results.json"])["tables"]["t"] == json.loads(json.dumps(records(grids(run)[0])))
    assert re.search(r"greedy +−0\.09 equivalent +−2\.49 better\n", screen(run))


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
        ("differs: [a]", "'differs' must be text"),
        ("differ: a", "unknown key 'differ'. Did you mean 'differs'"),
    ],
)
def test_settings_of_a_reference_are_checked(suite_file, tmp_path, setting, message):
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "a.yaml").write_text(REFERENCES)
    table = "values: [ended], where: {model: one}, reference: {table: printed, %s}"
    path = lambda text: suite_file(SUITE.replace("values: [ended, nats]", table % text))  # noqa: E731
    suite = load(path("differs: a corpus of our own"))
    assert language(suite).tables[0].reference.differs == "a corpus of our own"
    with pytest.raises(SuiteError, match=rf":20:\d+: {re.escape(message)}"):
        load(path(setting))


@pytest.mark.parametrize(
    ("tolerance", "message"),
    [
        ("{within: -1, why: x}", "'within' must be at least 0"),
        ("{within: 1}", "the key 'why' is missing"),
        ("{within: 1, why: ''}", "'why'"),
        ("0.5", "'tolerance' must be"),
        ("{two: {within: 1, why: x}}", "'tolerance' names 'two', which is not a column of this table"),
    ],
)
def test_tolerances_are_checked(suite_file, tmp_path, tolerance, message):
    (tmp_path / "references").mkdir()
    wrong = REFERENCES.replace("place: Table 1,", f"place: Table 1, tolerance: {tolerance},")
    (tmp_path / "references" / "a.yaml").write_text(wrong)
    table = "values: [ended], where: {model: one}, reference: {table: printed}"
    with pytest.raises(SuiteError) as error:
        load(suite_file(SUITE.replace("values: [ended, nats]", table)))
    assert message in str(error.value)
