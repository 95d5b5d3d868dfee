"""Reports in every format, and the commands that write and show them."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from itertools import product
from math import sqrt

import pytest
from bench_small.runs import HOSTILE, cell, hostile_run, number, run_of, some_run, stored, written
from click.testing import CliRunner
from markdown_it import MarkdownIt

from bench_core.data import Hypothesis, Outcome
from bench_core.errors import StoreError, SuiteError
from bench_core.outcomes import write_outcomes
from bench_core.reporting.markup import latex, markdown, visible
from bench_core.reporting.report import records, write_report
from bench_core.reporting.tables import grids
from bench_core.store import Store


def test_markdown_shows_hostile_text_as_it_is(tmp_path):
    html = MarkdownIt("commonmark", {"html": True}).enable("table")
    text = written(hostile_run(tmp_path), tmp_path / "report")["report.md"].decode()
    rendered = html.render(text)
    assert "<script" not in rendered
    assert rendered.count("<tr>") == 7  # results, statistics and outputs
    assert len(re.findall(r"<t[dh]\b", rendered)) == 4 * 5 + 2 * 2
    assert unescape(rendered).count(visible(HOSTILE)) >= 7
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)


@pytest.mark.parametrize("text", [HOSTILE, "- a", "1. a", "---", "# a #", "+", "    a", "> a", "\\|", "a\\", "&amp;"])
def test_markdown_gives_back_any_text_at_the_start_of_an_item(text):
    html = MarkdownIt("commonmark").render(f"- {markdown(text)}\n")
    assert unescape(html) == f"<ul>\n<li>{visible(text)}</li>\n</ul>\n"


def test_latex_of_hostile_text_is_ascii_and_balanced(tmp_path):
    text = written(hostile_run(tmp_path), tmp_path / "report")["report.tex"].decode()
    assert text.isascii()
    bare = re.sub(r"\\[\\{}$&#%_]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert sorted(re.findall(r"\\begin{(\w+)}", text)) == sorted(re.findall(r"\\end{(\w+)}", text))
    assert not re.search(r"[#^_~|<>]", re.sub(r"\\ifdim.*", "", bare))
    body = bare.split(r"\toprule")[1].split(r"\bottomrule")[0]
    assert [line.count("&") for line in body.splitlines() if "&" in line] == [3] * 5
    assert not re.search(r"^\s*[\[*]", body, re.MULTILINE)


def test_latex_escapes_by_hand():
    assert latex("50% of {a_b} & $c#~^") == r"50\% of \{a\_b\} \& \$c\#\textasciitilde{}\textasciicircum{}"
    assert latex("a\\b <c> [d] *") == r"a\textbackslash{}b \textless{}c\textgreater{} {[}d{]} {*}"
    assert latex("é ñ ș ß 3 ± 1 ≤ ∞") == r"\'{e} \~{n} \textcommabelow{s} \ss{} 3 $\pm$ 1 $\le$ $\infty$"
    assert latex("--- ?` ''") == "-{}-{}- ?{`} '{}'"
    assert latex("日\x00") == "{[}U+65E5{]}{[}U+0000{]}"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles_as_it_stands(tmp_path):
    folder = tmp_path / "report"
    write_report(hostile_run(tmp_path), folder)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_report_depends_neither_on_place_nor_on_the_order_of_cells(tmp_path):
    run = stored(some_run(tmp_path))
    first = written(run, tmp_path / "a")
    shuffled = list(run.cells)
    random.Random(0).shuffle(shuffled)
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(run.folder / "costs.csv", tmp_path / "elsewhere")
    again = written(replace(run, cells=shuffled, folder=tmp_path / "elsewhere"), tmp_path / "b")
    assert first == again
    assert sorted(first) == [
        "costs.csv",
        "costs.html",
        "report.html",
        "report.md",
        "report.tex",
        "results.json",
        "tables/t.csv",
    ]
    assert not any(str(tmp_path).encode() in content for content in first.values())


def test_csv_holds_the_numbers_unrounded(tmp_path):
    run = some_run(tmp_path)
    text = written(run, tmp_path / "report")["tables/t.csv"].decode()
    rows = {(row["row"], row["column"]): row for row in csv.DictReader(text.splitlines(keepends=True))}
    assert len(rows) == 4
    rnn = rows["greedy", "rnn"]
    assert float(rnn["mean"]) == pytest.approx(1 + 1 / 3, abs=1e-12)
    assert (rnn["n"], rnn["seeds"], rnn["status"], rnn["reason"]) == ("3", "4", "done", 'one,\n"two"')
    assert (float(rnn["published_mean"]), float(rnn["published_std"])) == (1.0, 0.5)
    lstm = rows["beam", "lstm"]
    assert float(lstm["mean"]) == pytest.approx(1.5 + 1 / 3, abs=1e-12)
    assert float(lstm["std"]) == pytest.approx(sqrt(5 / 3), abs=1e-12)
    assert lstm["published_mean"] == ""


def test_results_hold_every_cell_in_order(tmp_path):
    results = json.loads(written(some_run(tmp_path), tmp_path / "report")["results.json"])
    axes = [(one["cell"]["model"], one["cell"]["decoder"], one["cell"]["seed"]) for one in results["cells"]]
    assert axes == list(product(["rnn", "lstm"], ["greedy", "beam"], range(4)))
    assert results["cells"][0]["numbers"]["nats"]["value"] == "inf"
    assert results["tables"]["t"] == json.loads(json.dumps(records(grids(some_run(tmp_path))[0])))


def invoke(name, *arguments):
    from importlib import import_module

    return CliRunner().invoke(import_module(f"bench_core.commands.{name}").command, list(map(str, arguments)))


def test_the_report_command_writes_below_out_by_the_label(tmp_path):
    run = stored(some_run(tmp_path))
    done = invoke("report", run.folder, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0
    assert str(tmp_path / "out/tests/report/report.md") in json.loads(done.output)
    assert (tmp_path / "out/tests/report/costs.csv").is_file()


def test_a_label_cannot_lead_out_of_the_folder_of_reports(tmp_path):
    run = stored(run_of(tmp_path, [], {}, label="../../x"))
    assert isinstance(invoke("report", run.folder, "--out", tmp_path / "out").exception, SuiteError)
    assert not (tmp_path.parent / "x").exists()


def test_the_show_command_finds_one_cell_by_names_cut_short(tmp_path):
    run = stored(some_run(tmp_path))
    store = ["--store", tmp_path / "store"]
    done = invoke("show", run.folder, "mod=rn,dec=gr", "seed=3", *store)
    assert done.output.splitlines()[:2] == ["words/rnn/greedy/test, seed 3", 'failed: one, ↵ "two"']
    data = json.loads(invoke("show", run.folder, "model=lstm decoder=beam seed=1", "--json", *store).output)
    assert data["cell"]["seed"] == 1
    assert data["numbers"]["rate"]["value"] == pytest.approx(4 / 3)


def test_the_show_command_prints_the_first_outputs_that_the_store_holds(tmp_path):
    run = stored(some_run(tmp_path))
    outcomes = [
        Outcome(n, f"prompt {n}", ["gold"], [Hypothesis([1], True)], [f"out\x1bput {n}", "next best"])
        for n in range(9)
    ]
    with Store(tmp_path / "store").writing("decode", "0" * 8, {}) as folder:
        write_outcomes(folder / "outcomes.jsonl.gz", outcomes)
    chosen = ["show", run.folder, "model=rnn,decoder=beam,seed=1"]
    text = invoke(*chosen, "--store", tmp_path / "store").output
    assert "example: 0\nprompt: prompt 0\noutput: out[U+001B]put 0\nreference: gold\n" in text
    assert text.count("output: ") == 3
    assert "output: " not in invoke(*chosen, "--store", tmp_path / "none").output
    data = json.loads(invoke(*chosen, "--json", "--store", tmp_path / "store").output)
    assert [one["texts"][0] for one in data["outputs"]] == [f"out\x1bput {n}" for n in range(3)]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ("model=rnn,decoder=greedy", r"4 cells match .* Choose by seed \(0, 1, 2, 3\)"),
        ("model=lstn", "Did you mean 'lstm'"),
        ("s=0", "may mean any axis of split, seed"),
        ("colour=red", "no axis .* 'colour'"),
        ("rnn", "Write AXIS=NAME"),
        ("model=rnn,decoder=greedy,seed=7", "Known: 0, 1, 2, 3"),
        ("model=lstm,decoder=beam,seed=1", "no seed .* '1'"),
    ],
)
def test_the_show_command_says_what_it_needs(tmp_path, filters, message):
    run = some_run(tmp_path)
    others = [one for one in run.cells if (one.cell["model"], one.cell["decoder"]) != ("lstm", "beam")]
    run = stored(replace(run, cells=[*others, cell("lstm", "beam", 10)]))
    error = invoke("show", run.folder, filters).exception
    assert isinstance(error, SuiteError)
    assert re.search(message, str(error))


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path):
    run = run_of(tmp_path, [cell("rnn", "greedy", 0, {"rate": number(1.0)})], {})
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StoreError, match=r"taken.*: cannot be written: .*Name another folder by --out"):
        write_report(run, tmp_path / "taken")
