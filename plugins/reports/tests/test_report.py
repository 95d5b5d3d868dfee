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
from bench_small.runs import (
    HOSTILE,
    cell,
    hostile_run,
    number,
    paper,
    run_of,
    some_run,
    stored,
    with_sections,
    written,
)
from click.testing import CliRunner
from markdown_it import MarkdownIt

from bench_core.data import Hypothesis, Prediction
from bench_core.errors import StoreError, SuiteError
from bench_core.storage.predictions import write_predictions
from bench_core.storage.store import Store
from bench_core.terminal import visible
from bench_reports import document as doc
from bench_reports.content.tables import grids
from bench_reports.language.of_suite import language
from bench_reports.render.latex_tables import SIZES, Tabular
from bench_reports.render.latex_text import latex
from bench_reports.render.markdown import markdown
from bench_reports.render.records import records
from bench_reports.render.report import write_report


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
    files = written(hostile_run(tmp_path), tmp_path / "report")
    check_balanced(files["report.tex"].decode())
    check_balanced(re.sub("(?m)^% .*\n", "", files["tables/t.tex"].decode()))
    body = files["tables/t.tex"].decode().split(r"\toprule")[1].split(r"\bottomrule")[0]
    bare = re.sub(r"\\[\\{}$&#%_]", "", body)
    found = [line.count("&") for line in bare.splitlines() if "&" in line]
    assert found == [3] * len(found)
    assert len(found) > 5, "headings of several lines, and four rows"
    assert not re.search(r"^\s*[\[*]", bare, re.MULTILINE)


def check_balanced(text):
    assert text.isascii()
    bare = re.sub(r"\\[\\{}$&#%_]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert sorted(re.findall(r"\\begin{(\w+)}", text)) == sorted(re.findall(r"\\end{(\w+)}", text))
    assert not re.search(r"[#^_~|<>]", re.sub(r"\\ifdim.*|\\newcommand.*", "", bare))
    assert "%" not in re.sub(r"%$", "", bare, flags=re.MULTILINE)


def test_latex_escapes_by_hand():
    assert latex("50% of {a_b} & $c#~^") == r"50\% of \{a\_b\} \& \$c\#\textasciitilde{}\textasciicircum{}"
    assert latex("a\\b <c> [d] *") == r"a\textbackslash{}b \textless{}c\textgreater{} {[}d{]} {*}"
    assert latex("é ñ ș ß 3 ± 1 ≤ ∞") == r"\'{e} \~{n} \textcommabelow{s} \ss{} 3 $\pm$ 1 $\le$ $\infty$"
    assert latex("--- ?` ''") == "-{}-{}- ?{`} '{}'"
    assert latex("日\x00") == "{[}U+65E5{]}{[}U+0000{]}"


needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")


def compiled(folder, name="report.tex", times=1):
    """Return what pdflatex says in the end; it must not fail."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", name]
    for _ in range(times):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@needs_latex
def test_latex_compiles_as_it_stands(tmp_path):
    folder = tmp_path / "report"
    write_report(hostile_run(tmp_path), folder)
    compiled(folder)


def paper_of(folder, packages, body):
    lines = [r"\documentclass{article}", rf"\usepackage{{{packages}}}", r"\begin{document}", body, r"\end{document}"]
    (folder / "paper.tex").write_text("\n".join(lines))


@needs_latex
def test_a_paper_may_input_one_table_alone(tmp_path):
    write_report(hostile_run(tmp_path), tmp_path / "report")
    write_report(some_run(tmp_path), tmp_path / "report" / "other")
    tables = r"\input{tables/t.tex}\input{other/tables/t.tex}\input{other/tables/t-published}"
    paper_of(tmp_path / "report", "booktabs", f"Some words {tables} and others.")
    assert "(1 page," in compiled(tmp_path / "report", "paper.tex")


def long_run(tmp_path, models=60, **table):
    names = [f"model-{place}" for place in range(models)]
    cells = [cell(name, "greedy", 0, {"rate": number(1.0), "nats": number(2.0)}) for name in names]
    return run_of(tmp_path, cells, {"rows": ["model"], "columns": ["decoder"], **table}, names=names)


def test_a_table_of_more_than_forty_rows_continues_in_another_float(tmp_path):
    short = written(long_run(tmp_path, 40), tmp_path / "short")["tables/t.tex"].decode()
    assert short.count(r"\begin{table*}") == 1
    text = written(long_run(tmp_path, 41), tmp_path / "long")["tables/t.tex"].decode()
    assert text.count(r"\begin{table*}") == text.count(r"\caption{") == text.count(r"Model & greedy \\") == 2
    assert (text.count(r"\label{"), text.count("(continued)"), text.count(r"\addtocounter{table}{-1}")) == (1, 1, 1)
    rows = re.findall(r"^model-(?:\{\})?(\d+) &", text, re.MULTILINE)
    assert [*map(int, rows)] == [*range(41)]


def test_many_notes_take_a_float_of_their_own(tmp_path):
    cells = [cell(f"m{n}", "greedy", 0, status="failed", reason=f"reason {n}, {'long ' * 50}") for n in range(25)]
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": ["decoder"]}, names=[f"m{n}" for n in range(25)])
    assert written(run, tmp_path / "report")["tables/t.tex"].count(rb"\begin{table*}") == 2


def test_a_table_is_set_smaller_the_more_it_holds_across():
    for columns, size in ((2, 0), (6, 0), (10, 1), (12, 2), (40, 2)):
        row = [doc.TableCell([doc.Span("12 ± 3.4")])] * columns
        assert Tabular(doc.TableBlock("t", "t", ["m"] * columns, [row] * 3)).size(6.75) == SIZES[size], columns


@needs_latex
def test_a_long_table_compiles_and_takes_the_number_of_its_caption(tmp_path):
    folder = tmp_path / "report"
    write_report(long_run(tmp_path, values=["rate", "nats"]), folder)
    text = (
        (folder / "report.tex").read_text().replace(r"\end{document}", r"\typeout{tables \thetable.}\end{document}")
    )
    (folder / "report.tex").write_text(text)
    said = compiled(folder, times=3)
    assert "tables 1." in said
    assert "Rerun" not in said
    paper_of(folder, "booktabs", r"\input{tables/t.tex}")
    assert "(2 pages," in compiled(folder, "paper.tex")


def test_what_neighbouring_headings_share_stands_above_them(tmp_path):
    text = written(long_run(tmp_path, 2, values=["rate", "nats"]), tmp_path / "report")["tables/t.tex"].decode()
    head = "\\toprule\n & \\multicolumn{2}{c}{greedy} \\\\\n\\cmidrule(lr){2-3}\nModel & rate (\\%) $\\downarrow$ & nats (\\%) $\\downarrow$ \\\\\n\\midrule\n"
    assert head in text
    alone = written(long_run(tmp_path, 2, values=["rate"]), tmp_path / "alone")["tables/t.tex"].decode()
    assert "\\toprule\nModel & greedy \\\\\n\\midrule\n" in alone


def test_groups_are_those_of_axes_whatever_names_hold(tmp_path):
    """`a/b` is one name here, and `gru` has one column only; `a/b/other` is in the published table alone."""
    cells = [cell(model, "greedy", 0, {"rate": number(1.0)}) for model in ("a/b", "a/c", "gru")]
    cells += [cell("a/b", "beam", 0, {"rate": number(1.0, kind="bound")})]
    published = paper({"test": {"a/b/other": (1.0, None), "a/b/greedy": (1.0, None), "else": (2.0, None)}})
    table = {"rows": ["split"], "columns": ["model", "decoder"], "reference": {"table": "p"}}
    run = run_of(tmp_path, cells, table, published, names=("a/b", "a/c", "gru"))
    files = written(run, tmp_path / "report")
    above, rules, head = files["tables/t.tex"].decode().partition("\\toprule\n")[2].splitlines()[:3]
    words = ["2}{c}{a/b", "1}{c}{a/c", "1}{c}{gru", "1}{c}{a/b"]
    assert above == " & " + " & ".join(rf"\multicolumn{{{word}}}" for word in words) + r" &  \\"
    assert rules == r"\cmidrule(lr){2-3}\cmidrule(lr){4-4}\cmidrule(lr){5-5}\cmidrule(lr){6-6}"
    assert head == r"Split & greedy & beam ($\le$ bound) & greedy & greedy & other & else \\"
    assert "\nSplit & greedy \\\\\n" in files["tables/t-published.tex"].decode()


@needs_latex
def test_grouped_tables_of_hostile_names_compile(tmp_path):
    cells = [cell(HOSTILE, decoder, 0, {"rate": number(1.0)}) for decoder in ("greedy", "beam")]
    table = {"rows": ["split"], "columns": ["model", "decoder"], "caption": HOSTILE}
    files = written(run_of(tmp_path, cells, table, names=(HOSTILE,)), tmp_path / "report")
    assert b"\\multicolumn{2}{c}{a\\textbar{}b" in files["tables/t.tex"]
    compiled(tmp_path / "report")


def test_two_tables_never_share_a_file(tmp_path):
    run = some_run(tmp_path)
    other = language(run).tables[0].model_copy(update={"id": "t-published", "reference": None})
    run = with_sections(run, tables=[*language(run).tables, other])
    files = written(run, tmp_path / "report")
    assert [name for name in files if name.endswith(".tex")] == [
        "report.tex",
        "tables/t.tex",
        "tables/t-published-published.tex",
        "tables/t-published.tex",
    ]
    assert b"ours minus published" in files["tables/t-published-published.tex"]


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
        "report.txt",
        "results.json",
        "tables/t-published.tex",
        "tables/t.csv",
        "tables/t.tex",
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

    return CliRunner().invoke(import_module(f"bench_reports.commands.{name}").command, list(map(str, arguments)))


def test_the_report_command_writes_below_out_by_the_label(tmp_path):
    run = stored(some_run(tmp_path))
    done = invoke("report", run.folder, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0
    assert str(tmp_path / "out/tests/report-failed/report.md") in json.loads(done.output)
    assert (tmp_path / "out/tests/report-failed/costs.csv").is_file()


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
    predictions = [
        Prediction(n, f"prompt {n}", ["gold"], [Hypothesis([1], True)], [f"out\x1bput {n}", "next best"])
        for n in range(9)
    ]
    with Store(tmp_path / "store").writing("decode", "0" * 8, {}) as folder:
        write_predictions(folder / "predictions.jsonl.gz", predictions)
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
        ("s=0", "is ambiguous: split, seed"),
        ("colour=red", "no axis .* 'colour'"),
        ("rnn", "8 cells match 'rnn'. Choose by decoder"),
        ("rnn/gredy", "no cell is called 'rnn/gredy'. Did you mean 'greedy'"),
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
    with pytest.raises(StoreError, match=r"taken.*: cannot be written: .*Choose another folder with --out"):
        write_report(run, tmp_path / "taken")
