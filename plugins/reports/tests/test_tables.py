"""Tables of results: rows, columns, published values, what is missing, and what stands around them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from math import inf, nan, sqrt

import pytest
from bench_small.runs import (
    cell,
    number,
    paper,
    run_of,
    sampled,
    samples,
    shown,
    written,
)

from bench_core.runs.results import Score
from bench_reports.content.numbers import printed, rounded
from bench_reports.content.outputs import samples as gathered
from bench_reports.content.page import statistics
from bench_reports.content.result_tables import results_table
from bench_reports.content.table_notes import details, footnotes
from bench_reports.content.tables import grids
from bench_reports.language.published import Value
from bench_reports.render.latex import LATEX, latex
from bench_reports.render.records import records


def test_mean_and_sample_deviation_over_seeds(tmp_path):
    values = {"rnn": [1.0, 2.0, 6.0], "lstm": [0.5, 0.5, 0.5]}
    cells = [cell(m, "greedy", s, {"rate": number(v)}) for m in values for s, v in enumerate(values[m])]
    assert sqrt(((1 - 3) ** 2 + (2 - 3) ** 2 + (6 - 3) ** 2) / 2) == pytest.approx(2.6458, abs=1e-4)
    assert shown(run_of(tmp_path, cells, {})) == {"greedy": {"rnn": "3.0 ± 2.6", "lstm": "0.5 ± 0.0"}}


def test_all_columns_of_a_metric_have_as_many_digits_as_its_surest_numbers(tmp_path):
    values = {"rnn": [20.0, 30.0, 47.0], "lstm": [32.801, 32.83, 32.85]}
    numbers = {m: [{"rate": number(v), "nats": number(100 * v)} for v in values[m]] for m in values}
    cells = [cell(m, "greedy", s, found) for m in numbers for s, found in enumerate(numbers[m])]
    table = shown(run_of(tmp_path, cells, {"values": ["rate", "nats"]}))["greedy"]
    assert table["rnn/rate"] == "32.33 ± 13.65"
    assert table["lstm/rate"] == "32.83 ± 0.02"
    assert table["rnn/nats"] == "3233.3 ± 1365.0"
    assert table["lstm/nats"] == "3282.7 ± 2.5"


def test_a_column_that_was_not_run_keeps_unit_and_direction(tmp_path):
    cells = [
        cell("rnn", "greedy", 0, status="not run"),
        cell("lstm", "greedy", 0, {"rate": number(7.0, label="Rate")}),
    ]
    run = run_of(tmp_path, cells, {})
    assert results_table(run, grids(run)[0]).description == "Rate (%), lower is better."
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": ["decoder"], "values": ["rate", "nats"]})
    assert "Rate (%) ↓" in results_table(run, grids(run)[0]).headings


@pytest.mark.parametrize(
    ("models", "trained"),
    [
        ({"rnn": {"updates": 0}, "lstm": {"updates": 0}}, False),
        ({"rnn": {"updates": 0}, "lstm": {"updates": 9}}, True),
        ({"rnn": {"updates": 9}, "lstm": {"updates": 9}}, True),
        ({}, True),
    ],
)
def test_nothing_is_said_of_trainings_where_no_model_was_trained(tmp_path, models, trained):
    cells = sampled(tmp_path, {"rnn": [[1.0, 2.0, 3.0] * 9], "lstm": [[5.0, 7.0, 6.0] * 9]})
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": []}, models=models)
    (note,) = [note for note in footnotes(run, grids(run)[0]) if "paired test over examples" in note]
    assert ("training variance unknown" in note) == trained


def test_one_seed_has_a_mean_alone_and_its_interval_goes_to_the_files(tmp_path):
    run = run_of(tmp_path, [cell("rnn", "greedy", 0, {"rate": number(7.0, digits=1)})], {})
    assert shown(run) == {"greedy": {"rnn": "7.0"}}
    assert results_table(run, grids(run)[0]).description == "rate (%), lower is better."
    assert footnotes(run, grids(run)[0])[0] == "One seed."
    run = run_of(tmp_path, sampled(tmp_path, {"rnn": [[6.0, 7.0, 8.0]]}), {})
    assert footnotes(run, grids(run)[0])[0] == "One seed."
    assert details(run, grids(run)[0])[0] == "95 % intervals and p-values are in tables/t.csv."
    (record,) = records(grids(run)[0])
    assert (record["n"], record["std"]) == (1, None)
    assert record["low"] < 7 < record["high"]


def test_rows_and_columns_stand_in_the_order_of_the_suite_and_only_if_they_occur(tmp_path):
    cells = [cell(m, d, 0, {"rate": number(1.0)}) for m, d in product(["lstm", "rnn"], ["beam", "greedy"])]
    assert list(shown(run_of(tmp_path, cells, {}))) == ["greedy", "beam"]
    assert list(shown(run_of(tmp_path, cells, {}))["greedy"]) == ["rnn", "lstm"]
    assert list(shown(run_of(tmp_path, cells, {"where": {"decoder": "beam"}}))) == ["beam"]
    assert list(shown(run_of(tmp_path, cells[:2], {}))["beam"]) == ["lstm"]


def test_where_chooses_on_an_axis_that_is_not_shown(tmp_path):
    cells = [cell("rnn", d, 0, {"rate": number(v)}) for d, v in [("greedy", 1.0), ("beam", 2.0)]]
    table = {"rows": ["model"], "columns": []}
    assert shown(run_of(tmp_path, cells, {**table, "where": {"decoder": "beam"}})) == {"rnn": {"rate": "2.00"}}
    assert shown(run_of(tmp_path, cells, {**table, "where": {"decoder": "greedy"}})) == {"rnn": {"rate": "1.00"}}


def test_cells_without_a_decoder_pass_every_choice_of_decoder(tmp_path):
    cells = [cell("rnn", None, 0, {"nats": number(3.0)}), cell("rnn", "greedy", 0, {"rate": number(1.0)})]
    table = {"rows": ["model"], "columns": [], "values": ["rate", "nats"], "where": {"decoder": "greedy"}}
    assert shown(run_of(tmp_path, cells, table)) == {"rnn": {"rate": "1.00", "nats": "3.00"}}


def test_labels_name_the_metric_where_there_are_several_or_no_other_axis(tmp_path):
    cells = [cell("rnn", "greedy", 0, {"rate": number(1.0), "nats": number(2.0)})]
    both = shown(run_of(tmp_path, cells, {"values": ["rate", "nats"]}))
    assert both == {"greedy": {"rnn/rate": "1.00", "rnn/nats": "2.00"}}
    alone = shown(run_of(tmp_path, cells, {"rows": ["model", "decoder"], "columns": []}))
    assert alone == {"rnn/greedy": {"rate": "1.00"}}


def test_published_numbers_stand_beside_ours_by_the_mapping(tmp_path):
    cells = [cell(m, "greedy", s, {"rate": number(10.0 + s)}) for m in ("rnn", "lstm") for s in (0, 2)]
    published = paper(
        {
            "argmax": {"tanh": (12.35, 5.18), "lstm": (1.5, None), "gru": (9.0, None)},
            "oracle": {"tanh": (0.0, None)},
            "beam": {"tanh": (1.38, 0.95)},
        }
    )
    rows, columns = {"argmax": "greedy", "oracle": None}, {"tanh": "rnn", "gru": None}
    run = run_of(tmp_path, cells, {"reference": {"table": "p", "rows": rows, "columns": columns}}, published)
    assert shown(run) == {
        "greedy": {"rnn": "11.0 ± 1.4 <sub>12.35 ± 5.18</sub>", "lstm": "11.0 ± 1.4 <sub>1.5</sub>"},
        "beam": {"rnn": "not run <sub>1.38 ± 0.95</sub>", "lstm": "–"},
    }
    assert shown(run, LATEX)["greedy"]["rnn"] == r"11.0 $\pm$ 1.4 {\scriptsize 12.35 $\pm$ 5.18}"


def test_published_rows_and_columns_that_a_profile_leaves_out_are_shown_last(tmp_path):
    published = paper({"beam-4": {"rnn": (1.0, None), "gpt": (2.0, None)}, "greedy": {"rnn": (3.0, None)}})
    cells = [cell("rnn", "greedy", 0, {"rate": number(5.0)})]
    run = run_of(tmp_path, cells, {"reference": {"table": "p"}}, published)
    assert shown(run) == {
        "greedy": {"rnn": "5.00 <sub>3.00</sub>", "gpt": "–"},
        "beam-4": {"rnn": "not run <sub>1.00</sub>", "gpt": "not run <sub>2.00</sub>"},
    }


def test_a_published_number_keeps_the_digits_that_it_was_given():
    assert printed(Value(mean=12.345), 2) == "12.345"
    assert printed(Value(mean=12.3, std=0.1), 2) == "12.30 ± 0.10"
    assert printed(Value(mean=27.0), 0) == "27"
    assert printed(Value(mean="yes"), 2) == "yes"
    assert printed(Value(mean=[14, 20]), 2) == "14, 20"


def test_a_row_fails_where_all_seeds_do_and_is_marked_where_some_do(tmp_path):
    done = {"rate": number(4.0)}
    cells = [
        cell("rnn", "greedy", 0, status="failed", reason="the loss is nan"),
        cell("rnn", "greedy", 1, status="failed", reason="the loss is nan"),
        cell("lstm", "greedy", 0, done),
        cell("lstm", "greedy", 1, {"rate": number(6.0)}),
        cell("lstm", "greedy", 2, status="failed", reason="out of memory"),
        cell("lstm", "beam", 0, done),
        cell("lstm", "beam", 1, status="not run", reason="interrupted"),
        cell("rnn", "beam", 0, status="not run", reason="interrupted"),
    ]
    run = run_of(tmp_path, cells, {})
    assert shown(run) == {
        "greedy": {"rnn": r"failed<sup>\[1\]</sup>", "lstm": r"5.0 ± 1.4<sup>†2/3 \[2\]</sup>"},
        "beam": {"rnn": r"not run<sup>\[3\]</sup>", "lstm": r"4.0<sup>†1/2 \[3\]</sup>"},
    }
    text = written(run, tmp_path / "report")["report.md"].decode()
    for line in (r"- \[1\] the loss is nan", r"- \[2\] out of memory", r"- \[3\] interrupted", "- Mean ±"):
        assert line in text
    assert "- words/lstm/greedy/test, seed 2 (failed): out of memory" in text
    assert "seed 1 (not run): interrupted" in text
    assert "words/lstm/greedy/test, seed 0" not in text


def test_what_a_failed_cell_did_measure_counts(tmp_path):
    reason = "no stop within 10 tokens"
    cells = [cell("rnn", "greedy", 0, {"rate": Score(reason=reason), "nats": number(2.0)}, "failed", "other")]
    run = run_of(tmp_path, cells, {"values": ["rate", "nats"]})
    assert shown(run) == {"greedy": {"rnn/rate": r"failed<sup>\[1\]</sup>", "rnn/nats": "2.00"}}
    assert grids(run)[0].reasons == [reason]


def test_a_metric_that_was_skipped_is_no_failure(tmp_path):
    skip = [{"metric": "rate", "model": "rnn"}]
    cells = [cell("rnn", "greedy", 0, status="failed", reason="x"), cell("lstm", "greedy", 0, {"rate": number(1.0)})]
    assert shown(run_of(tmp_path, cells, {}, skip=skip)) == {"greedy": {"rnn": "–", "lstm": "1.00"}}
    cells[0] = cell("rnn", "greedy", 0, {})
    assert shown(run_of(tmp_path, cells, {})) == {"greedy": {"rnn": "–", "lstm": "1.00"}}


def test_different_kinds_never_share_a_column(tmp_path):
    kinds = {"a": "exact", "b": "bound", "c": "estimate"}
    cells = [cell(name, "greedy", 0, {"rate": number(1.0, kind=kind)}) for name, kind in kinds.items()]
    cells.append(cell("b", "greedy", 1, status="failed", reason="x"))
    published = paper({"b": {"rate": (8.0, None)}})
    table = {"rows": ["model"], "columns": [], "reference": {"table": "p"}}
    run = run_of(tmp_path, cells, table, published, names=kinds)
    headings = ["rate (exact)", "rate (≤ bound)", r"rate (~ estimate)"]
    assert [list(row.values()) for row in shown(run).values()] == [
        ["1.00", "–", "–"],
        ["–", r"1.00<sup>†1/2 \[1\]</sup> <sub>8.00</sub>", "–"],
        ["–", "–", "1.00"],
    ]
    assert list(shown(run)["a"]) == headings
    upwards = [replace(one, numbers={"rate": replace(one.numbers["rate"], better=1)}) for one in cells[1:2]]
    assert list(shown(run_of(tmp_path, upwards, table, names=kinds))["b"]) == ["rate (≥ bound)"]


def test_different_signatures_never_share_a_column_and_the_heading_says_where_they_differ(tmp_path):
    signatures = {"rnn": "case:mixed|tok:13a", "lstm": "case:mixed|tok:none"}
    cells = [cell(name, "greedy", 0, {"rate": number(1.0, signature=sign)}) for name, sign in signatures.items()]
    found = shown(run_of(tmp_path, cells, {"rows": ["model"], "columns": []}))
    assert found == {
        "rnn": {"rate (tok:13a)": "1.00", "rate (tok:none)": "–"},
        "lstm": {"rate (tok:13a)": "–", "rate (tok:none)": "1.00"},
    }
    apart = shown(run_of(tmp_path, cells, {}))
    assert apart == {"greedy": {"rnn": "1.00", "lstm": "1.00"}}


def test_seeds_of_two_signatures_are_not_averaged(tmp_path):
    cells = [cell("rnn", "greedy", s, {"rate": number(float(s), signature=f"v{s}")}) for s in (1, 2)]
    cells.append(cell("rnn", "greedy", 3, {"rate": number(4.0, signature="v2")}))
    assert shown(run_of(tmp_path, cells, {})) == {"greedy": {"rnn (v1)": "1.00", "rnn (v2)": "3.0 ± 1.4"}}


def test_a_row_that_failed_has_failed_in_every_part_of_a_split_column(tmp_path):
    cells = [
        cell("a", "greedy", 0, {"rate": number(1.0, kind="exact")}),
        cell("b", "greedy", 0, {"rate": number(1.0, kind="bound")}),
        cell("c", "greedy", 0, status="failed", reason="x"),
    ]
    published = paper({"c": {"rate": (8.0, None)}})
    table = {"rows": ["model"], "columns": [], "reference": {"table": "p"}}
    found = shown(run_of(tmp_path, cells, table, published, names="abc"))["c"]
    mark = r"failed<sup>\[1\]</sup>"
    assert list(found.values()) == [f"{mark} <sub>8.00</sub>", mark]


def test_numbers_are_written_for_people():
    assert rounded(inf, 2) == "∞"
    assert rounded(-inf, 2) == "−∞"
    assert rounded(nan, 2) == "–"
    assert rounded(-1.25, 1) == "−1.2"
    assert rounded(-0.001, 2) == "0.00"
    assert rounded(1e30, 2) == "1.00e+30"
    assert latex(rounded(-inf, 2)) == r"$-$$\infty$"


def test_infinite_and_undefined_seeds_are_not_hidden(tmp_path):
    cells = [cell("rnn", "greedy", s, {"rate": number(value)}) for s, value in enumerate([1.0, inf])]
    cells += [cell("lstm", "greedy", s, {"rate": number(value)}) for s, value in enumerate([1.0, nan])]
    run = run_of(tmp_path, cells, {})
    assert shown(run) == {"greedy": {"rnn": "∞", "lstm": "–"}}
    files = written(run, tmp_path / "report")
    assert [row["mean"] for row in json.loads(files["results.json"])["tables"]["t"]] == ["inf", "nan"]


def test_footnotes_say_what_is_behind_the_numbers(tmp_path):
    cells = [cell("rnn", "greedy", s, {"rate": number(1.0, signature="limit:9", kind="bound")}) for s in range(3)]
    published = paper({"greedy": {"rnn": (1.0, None)}}, runs=10, corpus="WikiText-2", note="By words.")
    run = run_of(tmp_path, cells, {"reference": {"table": "p"}}, published, profile="quick")
    text = written(run, tmp_path / "report")["report.md"].decode()
    for line in (
        "- Mean ± standard deviation over 3 seeds.",
        "- rate: %, lower is better, a bound, over 100 examples, signature limit:9.",
        "- Limits: 1,000 tokens per output, all examples decoded, all scored. Profile quick.",
        "- Corpus: Words",
        "- Small type: published values (Table 1, corpus WikiText-2, 10 runs). By words.",
    ):
        assert f"{line}\n" in text


def test_the_head_tells_the_data_and_the_models_but_neither_host_nor_time(tmp_path):
    about = {
        "title": "A question",
        "environment": {"python": "3.11.7", "device": "cpu", "threads": 2, "host": "secret", "time": "12:34"},
        "tasks": {
            "words": {
                "corpus": "Words",
                "notice": "made up",
                "vocabulary": 5000,
                "statistics": {"test": {"rows": 1234, "x": 0.5}},
            }
        },
        "models": {"rnn": {"parameters": 12345}},
    }
    files = written(run_of(tmp_path, [cell("rnn", "greedy", 0)], {}, **about), tmp_path / "report")
    text = files["report.md"].decode()
    assert text.startswith("# A question\n")
    assert "- Computed with: python 3.11.7, device cpu, threads 2\n" in text
    assert "- Models: rnn (12,345 parameters), lstm\n" in text
    assert "- Notice: made up\n" in text
    assert "- Vocabulary: 5,000\n" in text
    assert re.search(r"\| words, test +\| +1,234 \| +0\.50 \|", text)
    assert not any(word in content for content in files.values() for word in (b"secret", b"12:34"))


def test_sample_outputs_are_shown_with_what_the_run_discloses(tmp_path):
    run = run_of(tmp_path, [cell("rnn", "greedy", 0)], {}, samples=samples("so it goes"))
    text = written(run, tmp_path / "report")["report.md"].decode()
    assert "### words/test, example 7\n" in text
    assert re.search(r"\| rnn/greedy +\| so it goes \(truncated at the limit\) +\|", text)
    assert "prompt" not in text
    (long,) = gathered(replace(run, info={"samples": samples("word " * 1000)}))
    assert len(long.outputs[0][1]) < 400


@pytest.mark.parametrize(
    ("asked", "unlike", "wanted"),
    [
        (10, {4, 7}, [0, 4, 7]),  # those that end in one cell alone come first, each in its place
        (10, {2, 5, 6, 9}, [2, 5, 6]),
        (10, set(), [0, 1, 2]),
        (10, set(range(10)), [0, 1, 2]),
        (3, {4, 7}, [*range(10)]),  # those that figures add are shown
    ],
)
def test_of_many_outputs_those_are_shown_that_end_in_some_cells_and_not_in_others(tmp_path, asked, unlike, wanted):
    outputs = [
        {"cell": cell("rnn", decoder, 0).cell | {"split": split}, "id": number, "text": f"{decoder} {number}",
         "finished": split == "test" and (decoder == "beam" or number not in unlike)}
        for split in ("valid", "test") for decoder in ("greedy", "beam") for number in range(10)
    ]  # fmt: skip
    run = run_of(tmp_path, [cell("rnn", "greedy", 0), cell("rnn", "beam", 0)], {}, samples=outputs)
    run = replace(run, suite=run.suite.model_copy(update={"samples": asked}))
    files = written(run, tmp_path / "report")
    for name, heading in (("report.md", "### words/test, example "), ("report.tex", "words/test, example ")):
        assert [*map(int, re.findall(f"{heading}(\\d)", files[name].decode()))] == wanted
    assert all(f"beam {number}" in files["report.html"].decode() for number in range(10))
    elsewhere = re.findall(r"### words/valid, example (\d)", files["report.md"].decode())
    assert len(elsewhere) == (3 if asked == 10 else 10)


def test_a_statistic_that_rounds_to_zero_has_no_sign(tmp_path):
    tasks = {"words": {"statistics": {"test": {"bias": -0.001, "least": -0.0, "drop": -0.25}}}}
    assert statistics(run_of(tmp_path, [], {}, tasks=tasks))[1][1:] == ["0.00", "0.00", "-0.25"]
