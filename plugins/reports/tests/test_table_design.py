"""Tables as papers print them: labels, headings, digits, averages, ranks, differences, widths, floats."""

from __future__ import annotations

import csv
import random
import re
import subprocess
from dataclasses import replace
from itertools import product
from math import exp, inf, log, nan
from statistics import fmean, geometric_mean, stdev

import numpy as np
import pytest
from bench_small.printing import needs_latex, overfull
from bench_small.runs import HOSTILE, Mean, cell, number, paper, run_of, shown, stored, with_sections, written
from tabulate import tabulate

from bench_core.computing.bootstrap import draws
from bench_reports import document as doc
from bench_reports.content.numbers import worth
from bench_reports.content.pairs import pairs_of, pairs_table
from bench_reports.content.result_tables import levels, results_table
from bench_reports.content.table_notes import footnotes
from bench_reports.content.tables import grids
from bench_reports.document import spans_of
from bench_reports.language.of_suite import language
from bench_reports.render.fitting import pieces
from bench_reports.render.latex_tables import INCH, SIZES, Tabular, too_wide
from bench_reports.render.records import records
from bench_reports.render.report import screen, write_report
from bench_reports.render.terminal import LINE_CHARACTERS
from bench_reports.render.written import report
from bench_reports.statistics.comparisons import holm
from bench_reports.verification.report import verify_report
from bench_reports.verification.written_tables import (
    latex_rows,
    letters,
    markdown_tables,
    numbers,
    plain_latex,
    plain_markdown,
)
from block_bootstrap import mark, write_replicates

MODELS, DECODERS = ("rnn", "lstm", "gru"), ("greedy", "beam")
MEANS = {"rnn": (5.0, 8.0), "lstm": (6.0, 7.0), "gru": (9.0, 9.5)}  # by decoder


def several(tmp_path, table=None, seeds=3, scale="linear", suite=None, metrics=("rate",), **about):
    """Return a run of three models on two test sets, which decoders stand for, whose numbers can be tested."""
    dice, cells, found = np.random.default_rng(0), [], {}
    for model, (place, decoder), seed in product(MODELS, enumerate(DECODERS), range(seeds)):
        rates = (MEANS[model][place] + np.random.default_rng(place).normal(size=200) / 2 + dice.normal()
                 * 0.05 + 0.1 * dice.normal(size=200)).tolist()  # fmt: skip
        key = f"{model}-{decoder}-{seed}"
        found[key] = draws(Mean(None), rates)[None]
        settings = {"sample": f"{decoder} {mark(range(200))}", "units": 200, "scale": scale, "unit": "", **about}
        own = number(fmean(rates), **settings)
        one = cell(model, decoder, seed, dict.fromkeys(metrics, own))
        keys = {**one.artifacts, **{f"measure/{metric}": key for metric in metrics}}
        cells.append(replace(one, artifacts=keys))
    (tmp_path / "run").mkdir(exist_ok=True)
    write_replicates(tmp_path / "run" / "draws.safetensors", sorted(found.items()))
    asked = {"rows": ["model"], "columns": ["decoder"], "values": [*metrics], **(table or {})}
    run = run_of(tmp_path, cells, asked, names=MODELS)
    return replace(run, suite=run.suite.model_copy(update=suite or {}))


def by_seed(run, model, decoder):
    chosen = [one for one in run.cells if (one.cell["model"], one.cell["decoder"]) == (model, decoder)]
    return [one.numbers["rate"].value for one in chosen]


def entry(run, row, column):
    (grid,) = grids(run)
    rows, columns = [one.label for one in grid.rows], [one.label for one in grid.columns]
    return grid.entries[rows.index(row)][columns.index(column)]


# Labels and headings


def test_labels_of_the_suite_and_of_the_table_stand_in_place_of_names(tmp_path):
    labels = {"rnn": "Simple RNN", "greedy": "Greedy", "model": "System"}
    run = several(tmp_path, {"labels": {"greedy": "Argmax"}}, suite={"labels": labels})
    table = results_table(run, grids(run)[0])
    assert [*table.headings] == ["System", "Argmax", "beam"]
    assert [row[0].spans[0].text for row in table.rows] == ["Simple RNN", "lstm", "gru"]
    first = records(grids(run)[0])[0]
    assert (first["row"], first["column"], first["row_label"], first["column_label"]) == (
        "rnn", "greedy", "Simple RNN", "Argmax",
    )  # fmt: skip


def test_metrics_have_their_own_labels_units_and_arrows(tmp_path):
    values = {"better": 1, "label": "BLEU", "unit": ""}, {"better": -1, "label": "", "unit": "nats"}
    cells = [cell("rnn", "greedy", 0, {"rate": number(1.0, **values[0]), "nats": number(2.0, **values[1])})]
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": [], "values": ["rate", "nats"]})
    assert [*results_table(run, grids(run)[0]).headings[1:]] == ["BLEU ↑", "nats ↓"]
    renamed = run.suite.model_copy(update={"metrics": {"rate": {"name": "bleu"}, "nats": {"name": "nats"}}})
    assert results_table(replace(run, suite=renamed), grids(replace(run, suite=renamed))[0]).headings[1] == "BLEU ↑"
    twice = run.suite.model_copy(update={"metrics": {"rate": {"name": "bleu"}, "nats": {"name": "bleu"}}})
    assert results_table(replace(run, suite=twice), grids(replace(run, suite=twice))[0]).headings[1] == "rate ↑"
    declared = run.suite.model_copy(update={"labels": {"rate": "BLEU-4"}})
    assert results_table(run, grids(replace(run, suite=declared))[0]).headings[1] == "BLEU-4 ↑"


def test_the_label_of_a_combination_begins_with_that_of_its_grid(tmp_path):
    cells = [cell("lstm/hidden=64", "greedy", 0, {"rate": number(1.0)})]
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": []}, names=("lstm/hidden=64",))
    run = replace(run, suite=run.suite.model_copy(update={"labels": {"lstm": "LSTM"}}))
    assert results_table(run, grids(run)[0]).rows[0][0].spans[0].text == "LSTM, hidden=64"


@pytest.mark.parametrize(
    ("level", "above", "found"),
    [
        (["", "a", "a", "b"], [], [("", 1), ("a", 2), ("b", 1)]),
        (["", "x", "x", "x"], [["", "a", "a", "b"]], [("", 1), ("x", 2), ("x", 1)]),
        (["", "", "", "a"], [], [("", 1), ("", 1), ("", 1), ("a", 1)]),
    ],
)
def test_neighbours_share_a_heading_only_below_the_same(level, above, found):
    assert spans_of(level, above) == found


def test_headings_of_fewer_levels_stand_at_the_bottom():
    assert levels([("a", "b", "c"), ("d",)]) == ([["a", ""], ["b", ""]], ["c", "d"])


@pytest.mark.slow
def test_every_format_shows_the_same_headings_and_rows_of_any_design(tmp_path):
    """With labels, groups, averages, ranks, differences, pieces and transposition, in all combinations."""
    settings = product([False, True], ["std", "interval", "none"], [["model"], ["model", "split"]])
    for place, (transpose, spread, rows) in enumerate(settings):
        table = {
            "transpose": transpose,
            "spread": spread,
            "rows": rows,
            "average": True,
            "ranks": True,
            "pairs": True,
        }
        table |= {"baseline": "rnn", "differences": True} if rows == ["model"] else {"labels": {"rnn": HOSTILE}}
        run = stored(several(tmp_path, table, metrics=("rate", "nats")))
        folder = tmp_path / f"report-{place}"
        write_report(run, folder)
        assert [*verify_report(folder, run)] == [], (transpose, spread, rows)
        text = (folder / "report.md").read_text()
        (found,) = (rows for name, rows in markdown_tables(text).items() if name == "t")
        size = (3, 2 * 2 + 2 + 2)
        assert (len(found) - 1, len(found[0]) - 1) == (size[::-1] if transpose else size)


def test_verification_finds_a_changed_average_rank_or_difference(tmp_path):
    table = {"average": True, "ranks": True, "baseline": "rnn", "differences": True}
    run = stored(several(tmp_path, table))
    write_report(run, tmp_path / "report")
    path, known = tmp_path / "report" / "report.md", shown(run)
    text = path.read_text()
    row = next(line for line in text.split("\n") if line.startswith("| lstm"))
    cells = row.split("|")
    for place, wrong in enumerate(["9.99 ± 0.1 (+1.0)", "7 ± 0.1 (+9.99)", "1.00 ± 0.1 (+0.1)", "3.0"]):
        changed = "|".join([*cells[: place + 2], f" {wrong} ", *cells[place + 3 :]])
        path.write_text(text.replace(row, changed))
        assert any("report.md: table t, lstm x " in str(one.text) for one in verify_report(tmp_path / "report", None))
    assert known["lstm"]["rank"] == "1.5"


# Digits


@pytest.mark.parametrize(
    ("errors", "own", "digits"),
    [
        ([], 2, 2), ([0.23], 2, 2), ([1.5], 2, 1), ([12.0], 2, 0), ([400.0], 2, 0), ([0.023, 5.0, 7.0], 2, 1),
        ([1e-9], 2, 2), ([0.0, nan, 0.4], 1, 1), ([0.0004], 4, 4), ([0.4], 0, 0), ([float("inf")], 2, 2),
    ],
)  # fmt: skip
def test_digits_are_two_of_the_usual_error_and_never_more_than_the_metric_has(errors, own, digits):
    assert worth(errors, own) == digits


def test_a_table_may_say_its_digits(tmp_path):
    run = several(tmp_path, {"digits": 4})
    assert shown(run)["rnn"]["greedy"].strip("*") == f"{fmean(by_seed(run, 'rnn', 'greedy')):.4f} ± " + (
        f"{stdev(by_seed(run, 'rnn', 'greedy')):.4f}"
    )
    assert re.fullmatch(r"\d ± \d", shown(several(tmp_path, {"digits": {"rate": 0}}))["rnn"]["greedy"].strip("*"))


@pytest.mark.parametrize(("spread", "pattern"), [
    ("std", r"[\d.]+ ± [\d.]+"), ("interval", r"[\d.]+ \\\[[\d.]+, [\d.]+\\\]"), ("none", r"[\d.]+"),
])  # fmt: skip
def test_beside_a_mean_stands_its_deviation_its_interval_or_nothing(tmp_path, spread, pattern):
    run = several(tmp_path, {"spread": spread})
    assert re.fullmatch(pattern, shown(run)["lstm"]["greedy"])
    one = entry(run, "lstm", "greedy")
    if spread == "interval":
        assert one.interval[0] < one.summary.mean < one.interval[1]
        assert "Mean over 3 seeds with 95 % interval." in footnotes(run, grids(run)[0])


# Averages, ranks, differences


def test_an_average_is_the_mean_over_columns_seed_by_seed(tmp_path):
    run = several(tmp_path, {"average": True})
    one = entry(run, "lstm", "average")
    seeds = [fmean(pair) for pair in zip(by_seed(run, "lstm", "greedy"), by_seed(run, "lstm", "beam"), strict=True)]
    assert one.summary.mean == pytest.approx(fmean(seeds))
    assert one.summary.std == pytest.approx(stdev(seeds))
    halves = [entry(run, "lstm", name) for name in DECODERS]
    width = lambda found: found.interval[1] - found.interval[0]  # noqa: E731
    assert width(one) < max(map(width, halves)), "two test sets say more than one"


def test_perplexities_are_averaged_geometrically(tmp_path):
    run = several(tmp_path, {"average": True}, scale="log")
    means = [entry(run, "gru", name).summary.mean for name in DECODERS]
    one = entry(run, "gru", "average")
    assert one.summary.mean == pytest.approx(geometric_mean(means))
    logs = [
        exp(fmean([log(a), log(b)]))
        for a, b in zip(by_seed(run, "gru", "greedy"), by_seed(run, "gru", "beam"), strict=True)
    ]
    assert one.summary.std == pytest.approx(stdev(logs))
    assert any("geometric mean" in note for note in footnotes(run, grids(run)[0]))


def test_averages_are_compared_over_all_test_sets(tmp_path):
    """rnn is better on one, lstm on the other: no average is the best, while gru is worse than either."""
    run = several(tmp_path, {"average": True})
    (grid,) = grids(run)
    place = [column.label for column in grid.columns].index("average")
    tests = [test for test in grid.tests if test.first[1] == place]
    assert {grid.rows[test.first[0]].label for test in tests} <= {"rnn", "lstm"}
    p = {grid.rows[test.other[0]].label: test.p for test in tests}
    assert p["gru"] < 0.001
    assert min(one for name, one in p.items() if name != "gru") > 0.05
    assert not any(row[place].best for row in grid.entries)


def test_there_is_no_average_where_a_column_has_no_number_and_none_of_one_column(tmp_path):
    run = several(tmp_path, {"average": True})
    cells = [one for one in run.cells if (one.cell["model"], one.cell["decoder"]) != ("lstm", "beam")]
    assert shown(replace(run, cells=cells))["lstm"]["average"] == "–"
    alone = several(tmp_path, {"average": True, "where": {"decoder": "beam"}})
    assert [*shown(alone)["lstm"]] == ["beam"]


def test_ranks_are_means_over_columns_and_ties_share_theirs(tmp_path):
    run = several(tmp_path, {"ranks": True})
    assert {row: found["rank"] for row, found in shown(run).items()} == {"rnn": "1.5", "lstm": "1.5", "gru": "3.0"}
    values = {"a": (1.0, 5.0), "b": (1.0, nan), "c": (2.0, 4.0), "d": (1.0, 4.0)}
    cells = [cell(m, d, 0, {"rate": number(v)}) for m in values for d, v in zip(DECODERS, values[m], strict=True)]
    ranked = shown(
        run_of(tmp_path, cells, {"rows": ["model"], "columns": ["decoder"], "ranks": True}, names=[*values])
    )
    assert {row: found["rank"] for row, found in ranked.items()} == {
        "a": "2.2", "b": "–", "c": "2.2", "d": "1.5",
    }, "a: 1.5 and 3; c: 3 and 1.5; d: 1.5 and 1.5; b has no number in one column"  # fmt: skip
    cells = [replace(one, numbers={"rate": replace(one.numbers["rate"], better=0)}) for one in cells]
    neutral = run_of(tmp_path, cells, {"rows": ["model"], "columns": ["decoder"], "ranks": True}, names=[*values])
    assert "rank" not in shown(neutral)["a"]


def test_differences_from_a_baseline_stand_beside_each_number_with_what_a_test_says(tmp_path):
    run = several(tmp_path, {"baseline": "rnn", "differences": True})
    greedy = {row: found["greedy"] for row, found in shown(run).items()}
    assert "(" not in greedy["rnn"]
    change = fmean(by_seed(run, "gru", "greedy")) - fmean(by_seed(run, "rnn", "greedy"))
    assert re.search(r"\(\+([\d.]+)\\\*\\\*\)", greedy["gru"])[1] == f"{change:.2f}"
    assert any(note.startswith("In parentheses: difference from rnn; * p < 0.05") for note in footnotes(run, grids(run)[0]))  # fmt: skip
    near = several(tmp_path, {"baseline": "rnn", "differences": True}, seeds=1)
    assert entry(near, "lstm", "greedy").change == pytest.approx(
        by_seed(near, "lstm", "greedy")[0] - by_seed(near, "rnn", "greedy")[0]
    )


def test_all_pairs_are_told_with_intervals_and_p_values_for_all_of_them(tmp_path):
    run = several(tmp_path, {"pairs": True, "average": True})
    (grid,) = grids(run)
    found = [*pairs_of(grid)]
    assert len(found) == 3 * 3, "pairs of models in two columns and their average"
    greedy = [pair for pair in found if pair.column.label == "greedy"]
    p = [pair.test.p for pair in greedy]
    assert [pair.test.adjusted for pair in greedy] == holm(p)
    for pair in greedy:
        assert pair.difference == pytest.approx(
            fmean(by_seed(run, pair.row.label, "greedy")) - fmean(by_seed(run, pair.other.label, "greedy"))
        )
        assert (pair.test.p < 0.05) == (not pair.interval[0] <= 0 <= pair.interval[1])
    files = written(run, tmp_path / "report")
    rows = [*csv.DictReader(files["tables/t-pairs.csv"].decode().splitlines())]
    assert [(row["row"], row["other"], row["column"]) for row in rows] == [
        (pair.row.label, pair.other.label, pair.column.label) for pair in found
    ]
    assert b"rnn $-$ gru" in files["tables/t-pairs.tex"]
    assert "strong" not in {
        span.style for row in pairs_table(run, grid).rows for cell in row for span in cell.spans
    }, "in plain text, a bold number has a star, as a small p-value has"
    assert b"t: all pairs" in files["report.md"]
    assert not [*pairs_of(grids(several(tmp_path))[0])]


def test_a_report_with_differences_that_are_infinite_has_no_contradictions(tmp_path):
    run = several(tmp_path, {"average": True, "ranks": True, "baseline": "rnn", "differences": True}, seeds=1)
    endless = [
        replace(one, numbers={name: replace(own, value=inf) for name, own in one.numbers.items()}, artifacts={})
        if one.cell["model"] == "gru"
        else one
        for one in run.cells
    ]
    whole = replace(run, cells=endless)
    write_report(whole, tmp_path / "report")
    assert "∞ (+∞)" in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert [*verify_report(tmp_path / "report", whole)] == []


def test_an_average_of_numbers_that_cannot_be_tested_is_geometric_too(tmp_path):
    run = several(tmp_path, {"average": True}, scale="log", seeds=1)
    found = entry(replace(run, cells=[replace(one, artifacts={}) for one in run.cells]), "lstm", "average")
    columns = [entry(run, "lstm", name).summary.mean for name in DECODERS]
    assert found.interval is None
    assert found.summary.mean == pytest.approx(geometric_mean(columns))


def test_pairs_of_perplexities_are_ratios(tmp_path):
    run = several(tmp_path, {"pairs": True}, scale="log")
    pair = next(pairs_of(grids(run)[0]))
    ratio = geometric_mean(by_seed(run, "rnn", "greedy")) / geometric_mean(by_seed(run, "lstm", "greedy"))
    assert pair.difference == pytest.approx(ratio)
    assert pair.text.startswith(f"{ratio:.3f}× [")


# Widths


def rows_of(table):
    return [[plain_markdown(word) for word in row] for row in table]


def test_pieces_hold_every_column_once_and_no_line_is_too_long():
    dice = random.Random(0)
    for _ in range(200):
        widths = [dice.randint(1, 30) for _ in range(dice.randint(1, 12))]
        rows = [["x" * dice.randint(1, width) for width in widths] for _ in range(dice.randint(1, 4))]
        width = dice.randint(20, 60)
        found = [*pieces(rows, width, 2)]
        assert all(row[0] == rows[place][0] for one in found for place, row in enumerate(one))
        joined = [row[0:1] + [word for one in found for word in one[place][1:]] for place, row in enumerate(rows)]
        assert joined == rows
        for one in found:
            line = max(map(len, tabulate(one[1:], one[0]).split("\n")))
            assert line <= width or len(one[0]) <= 2


def test_a_terminal_shows_no_line_that_is_longer_than_it(tmp_path):
    names = [f"model-{place}" for place in range(12)]
    cells = [cell(name, decoder, 0, {"rate": number(1.0)}) for name in names for decoder in DECODERS]
    run = run_of(tmp_path, cells, {"rows": ["decoder"], "columns": ["model"]}, names=names)
    for width in (40, 60, LINE_CHARACTERS, 300):
        assert max(map(len, screen(run, width).split("\n"))) <= width
    text = screen(run)
    assert all(text.count(name) >= 1 for name in names)
    assert text.count("Decoder ") > 1, "labels stand before each piece"


def test_what_is_shown_of_a_report_that_is_there_fits_a_narrow_terminal_too(tmp_path, monkeypatch):
    run = stored(several(tmp_path, {"average": True, "ranks": True}, metrics=("rate", "nats")))
    shown = {}
    for columns in ("50", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        shown[columns] = report(run, tmp_path / "report")
    assert max(map(len, shown["50"].split("\n"))) <= 50
    assert shown["200"] == (tmp_path / "report" / "report.txt").read_text()


def test_markdown_is_cut_into_pieces_that_read_back_as_one(tmp_path):
    names = [f"model-{place}" for place in range(25)]
    cells = [cell(name, decoder, 0, {"rate": number(1.0)}) for name in names for decoder in DECODERS]
    run = stored(run_of(tmp_path, cells, {"rows": ["decoder"], "columns": ["model"]}, names=names))
    write_report(run, tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert text.count("| greedy") > 1
    assert rows_of(markdown_tables(text)["t"])[0] == ["Decoder", *names]
    assert [*verify_report(tmp_path / "report", run)] == []


def test_a_table_that_is_too_wide_in_print_is_told_and_one_that_fits_is_not(tmp_path):
    names = [f"a-rather-long-name-{place}" for place in range(12)]
    cells = [cell(name, "greedy", 0, {"rate": number(1.0)}) for name in names]
    wide = run_of(tmp_path, cells, {"rows": ["decoder"], "columns": ["model"]}, names=names)
    assert "Set `transpose: true`" in too_wide(results_table(wide, grids(wide)[0]))
    files = written(wide, tmp_path / "wide")
    assert b"tables/t.tex is about" in files["report.txt"]
    assert b"% tables/t.tex is about" in files["tables/t.tex"]
    tall = with_sections(wide, tables=[language(wide).tables[0].model_copy(update={"transpose": True})])
    assert too_wide(results_table(tall, grids(tall)[0])) == ""
    assert b"is about" not in written(tall, tmp_path / "tall")["report.txt"]


def test_width_chooses_the_float_and_the_size_of_type(tmp_path):
    run = several(tmp_path, metrics=("rate", "nats"))
    tabular = Tabular(results_table(run, grids(run)[0]))
    for size in SIZES:
        wide = several(tmp_path, {"width": tabular.width(size) / INCH + 0.01}, metrics=("rate", "nats"))
        assert rf"\sbox0{{{size.before}%" in written(wide, tmp_path / "report")["tables/t.tex"].decode()
    for width, kind in (("page", "table*"), ("column", "table"), (3.0, "table*")):
        text = written(several(tmp_path, {"width": width}), tmp_path / "report")["tables/t.tex"].decode()
        assert rf"\begin{{{kind}}}[tbp]" in text


def test_captions_labels_and_notes_are_in_the_file_and_how_it_was_measured_is_in_comments(tmp_path):
    run = several(tmp_path, {"caption": "Rates of models", "note": "A note\nfor readers."}, signature="v:1")
    run = replace(run, info={**run.info, "label": "some/suite"})
    text = written(run, tmp_path / "report")["tables/t.tex"].decode()
    assert r"\caption{Rates of models}" + "\n" + r"\label{tab:some/suite:t}" in text
    body = re.sub("(?m)^%.*\n", "", text)
    assert "A note for readers." in body
    assert "signature" not in body
    assert "Limits" not in body
    assert "% rate: lower is better, over 100 examples, signature v:1." in text


def test_groups_of_rows_stand_above_them_in_latex(tmp_path):
    run = several(tmp_path, {"rows": ["model", "decoder"], "columns": []})
    text = written(run, tmp_path / "report")["tables/t.tex"].decode()
    assert text.count(r"\multicolumn{2}{l}{") == 3
    rows = latex_rows(text)
    assert [letters(row[0]) for row in rows[1:]] == [
        f"{model}{decoder}" for model, decoder in product(MODELS, DECODERS)
    ]
    alone = several(tmp_path, {"rows": ["model", "split"], "columns": ["decoder"]})
    assert r"\multicolumn" not in written(alone, tmp_path / "alone")["tables/t.tex"].decode()


@needs_latex
@pytest.mark.parametrize("options", ["10pt", "10pt,twocolumn"])
def test_tables_of_any_design_fit_an_article(tmp_path, options):
    published = paper({"rnn": {"greedy": (12.35, 5.18)}})
    for transpose, width, columns in product([False, True], ["column", "page"], [["decoder"], []]):
        table = {"transpose": transpose, "width": width, "columns": columns, "average": bool(columns)}
        table |= {"rows": ["model"] if columns else ["model", "decoder"], "reference": {"table": "p"}}
        run = several(tmp_path, table, metrics=("rate", "nats"), signature="a" * 200)
        run = with_sections(run, published={"p": published})
        name = f"r{transpose}{width}{len(columns)}"
        write_report(run, tmp_path / name)
        body = rf"Some words. \input{{{name}/tables/t.tex}} Others."
        assert [one for one in overfull(tmp_path, body, options) if one > 1] == []


@needs_latex
def test_the_width_that_is_told_is_about_that_of_print(tmp_path):
    for columns, text in ((3, "12.35 ± 5.18"), (8, "1.2"), (5, "a word")):
        rows = [[doc.text_cell("row"), *[doc.text_cell(text)] * columns] for _ in range(3)]
        tabular = Tabular(doc.TableBlock("t", "t", ["", *[f"heading {n}" for n in range(columns)]], rows))
        for size in SIZES:
            body = tabular.set([line for one in tabular.rows() for line in one], size)
            body = body.partition(r"\ifdim")[0] + r"\typeout{wide: \the\wd0}"
            (tmp_path / "w.tex").write_text(
                rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{body}\end{{document}}"
            )
            done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "w.tex"], cwd=tmp_path, capture_output=True, text=True, check=False)  # fmt: skip
            true = float(re.search(r"wide: ([\d.]+)pt", done.stdout)[1])
            assert true <= tabular.width(size) <= 1.35 * true, (columns, text, size, true / INCH)


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        (plain_markdown, r"**-12.5** <sub>[11.0, 1,400.0]</sub> \[∞\]"),
        (plain_latex, r"\textbf{−12.5} {\scriptsize [11.0, 1,400.0]} {[}∞{]}"),
    ],
)
def test_verification_reads_the_same_numbers_from_each_format(plain, text):
    assert numbers(plain(text)) == ["-12.5", "11.0", "1400.0", "∞"]
    assert " ".join(plain(text).split()).replace("−", "-") == "-12.5 [11.0, 1,400.0] [∞]"
