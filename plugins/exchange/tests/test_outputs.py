"""`bench outputs`: what it writes is what stages wrote, whatever the texts are and however many."""

from __future__ import annotations

import csv
import gc
import gzip
import json
import os
import subprocess
import sys
import tracemalloc
import unicodedata
from dataclasses import fields, replace
from math import inf

import bench_small.plugin
import pytest
from bench_small import read_back
from bench_small.suites import SUITE

import bench_core
from bench_core import Hypothesis, Prediction, SuiteError, registry
from bench_core.commands.main import main
from bench_core.runs.results import read_run
from bench_core.stage_kinds import PREDICTIONS
from bench_core.storage.predictions import read_predictions, write_predictions
from bench_core.storage.store import Store
from bench_core.terminal import UNSEEN
from bench_exchange.exporting import export_run
from bench_exchange.importing import import_run
from bench_exchange.outputs import COLUMNS, Outputs, write_lines

HOSTILE = "=1+1\x00\x1b[31m\x9b2J\u202e\u2028\x85 \t,\"'é--ș 日"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run the small suite once; return the folder with its store and runs."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "suite.yaml").write_text(SUITE.replace("epochs: 3", "epochs: 1"))
    with registry.extra(bench_small.plugin):
        run = bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", data=folder)
    run.folder.rename(folder / "runs" / "one")
    return folder


@pytest.fixture
def run(made):
    return read_run(made / "runs" / "one")


@pytest.fixture
def bench(made, monkeypatch, capfdbinary):
    """Return a function that runs `bench outputs` and returns what it wrote, and what it said beside that."""
    monkeypatch.chdir(made)

    def outputs(*words, code=0, store="store", name="one"):
        monkeypatch.setattr(sys, "argv", ["bench", "outputs", name, *words, "--store", str(store)])
        with pytest.raises(SystemExit) as stop:
            main()
        sys.stdout.flush()
        out, said = capfdbinary.readouterr()
        assert stop.value.code == code, said.decode()
        return out.decode(), said.decode()

    return outputs


def stored(made, run):
    """Return all predictions by stage and axes, read from the store by the keys of the cells."""
    found = {}
    for one in run.cells:
        for kind, name in (("decode", "decode"), ("score", "score/nats")):
            axes = [one.cell[axis] for axis in read_back.AXES]
            axes[2] = axes[2] if kind == "decode" else None
            path = made / "store" / kind / one.artifacts[name] / PREDICTIONS
            found[(kind, *axes, None if kind == "decode" else "exact")] = [*read_predictions(path)]
    return found


def of_cell(run, tmp_path, predictions):
    """Return the first cell of a run, and a store in which its predictions are others."""
    store, one = Store(tmp_path / "other"), run.cells[0]
    with store.writing("decode", one.artifacts["decode"], {}, sync=False) as folder:
        write_predictions(folder / PREDICTIONS, predictions)
    return Outputs(replace(run, cells=[replace(one, artifacts={"decode": one.artifacts["decode"]})]), store)


def test_lines_of_json_and_csv_give_back_every_prediction_of_a_run(made, run, bench):
    expected = stored(made, run)
    assert len(expected) == 8 + 4
    assert read_back.of_json(bench()[0]) == expected
    assert read_back.of_csv(bench("--format", "csv")[0]) == expected


def test_a_text_file_has_the_outputs_of_a_cell_in_order_of_their_examples(made, run, bench, tmp_path):
    cell = next(
        one for one in run.cells if (one.cell["model"], one.cell["decoder"], one.cell["seed"]) == ("one", "draw", 1)
    )
    predictions = [*read_predictions(made / "store" / "decode" / cell.artifacts["decode"] / PREDICTIONS)]
    assert [one.id for one in predictions] == [*range(13)]
    words = ("model=one", "decoder=draw,seed=1", "--format", "text")
    assert bench(*words)[0].split("\n") == [*(one.texts[0] for one in predictions), ""]
    assert bench(*words, "--out", str(tmp_path / "out.txt"))[0] == ""
    assert (tmp_path / "out.txt").read_text().splitlines() == [one.texts[0] for one in predictions]


def test_cells_and_kinds_are_chosen(made, run, bench):
    expected = stored(made, run)
    for words in (["model=two", "seed=1"], ["mod=two,se=1"], ["two/seed 1"]):
        found = read_back.of_json(bench(*words)[0])
        assert found == {place: one for place, one in expected.items() if place[2] == "two" and place[-2] == 1}
    for kind in ("decode", "score"):
        found = read_back.of_json(bench("--kind", kind)[0])
        assert found == {place: one for place, one in expected.items() if place[0] == kind}
    assert "no model of these cells is called 'three'" in bench("model=three", code=2)[1]
    assert {json.loads(line)["by"] for line in bench("--kind", "score")[0].splitlines()} == {"exact"}


def test_text_of_several_cells_or_of_none_is_refused(bench, run):
    assert "8 cells match ''. Choose by model (one, two), decoder" in bench("--format", "text", code=2)[1]
    scored = replace(run.cells[0], artifacts={"score/nats": "0" * 64})
    with pytest.raises(SuiteError, match="nothing was decoded for this cell, so it has no texts"):
        Outputs(replace(run, cells=[scored]), Store(run.folder)).lines("text")


def test_of_an_imported_run_come_the_same_lines(made, run, bench, tmp_path):
    export_run(run, Store(made / "store"), tmp_path / "there.zip")
    found = import_run(tmp_path / "there.zip", Store(tmp_path / "here"), tmp_path / "runs", trust=True)
    for form in ("jsonl", "csv"):
        here = bench("--format", form, name=str(found.run), store=tmp_path / "here")[0]
        assert here == bench("--format", form)[0]


def test_what_an_export_of_numbers_left_out_is_said_cell_by_cell(made, run, bench, tmp_path):
    export_run(run, Store(made / "store"), tmp_path / "there.zip", numbers_only=True)
    found = import_run(tmp_path / "there.zip", Store(tmp_path / "here"), tmp_path / "runs", trust=True)
    out, said = bench(name=str(found.run), store=tmp_path / "here", code=1)
    assert out == ""
    assert len(said.splitlines()) == 8 + 4


# what cannot be read


def test_missing_and_damaged_predictions_are_named_and_the_others_come(made, run, bench, tmp_path):
    expected = stored(made, run)
    store = tmp_path / "store"
    subprocess.run(["cp", "-r", str(made / "store"), str(store)], check=True)
    Store(store).remove("decode", run.cells[0].artifacts["decode"])
    damaged = store / "decode" / run.cells[1].artifacts["decode"] / PREDICTIONS
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\1")
    for form, read in (("jsonl", read_back.of_json), ("csv", read_back.of_csv)):
        out, said = bench("--format", form, store=store, code=1)
        places = [place for place in expected if place[0] == "decode"]
        assert read(out) == {place: one for place, one in expected.items() if place not in places[:2]}
        first, second = said.splitlines()
        assert "words/one/argmax/test, seed 0: its decode" in first
        assert "Name the store that the run used, or run the suite again" in first
        assert "words/one/argmax/test, seed 1:" in second
        assert "its digest differs from the manifest" in second


def test_a_cell_that_failed_says_why_it_has_no_outputs(run, tmp_path):
    failed = replace(run.cells[0], status="failed", reason="out of luck", artifacts={"prepare": "0" * 64})
    found = Outputs(replace(run, cells=[failed]), Store(tmp_path))
    assert [*found.lines("jsonl")] == []
    assert found.problems == [
        "words/one/argmax/test, seed 0: failed (out of luck); it has neither outputs nor scores."
    ]
    lost = replace(failed, artifacts=run.cells[0].artifacts)
    found = Outputs(replace(run, cells=[lost]), Store(tmp_path))
    assert [*found.lines("jsonl")] == []
    assert "(out of luck)" in found.problems[0]


def test_a_file_that_is_there_is_kept_and_one_is_there_only_when_it_is_whole(made, bench, run, tmp_path):
    path = tmp_path / "out"
    path.write_text("mine")
    assert "already exists. Choose another file with --out" in bench("--out", str(path), code=2)[1]
    assert path.read_text() == "mine"
    assert "cannot be written" in bench("--out", str(tmp_path / "none" / "out"), code=2)[1]
    found = of_cell(run, tmp_path, [Prediction(0, hypotheses=[Hypothesis([], True)], texts=["a\nb"])])
    with pytest.raises(SuiteError, match="line break"):
        write_lines(found.lines("text"), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert not [*tmp_path.glob(".new*")]


def test_who_stops_reading_sees_no_traceback(made):
    command = [sys.executable, "-m", "bench_core", "outputs", "runs/one", "--store", "store"]
    with subprocess.Popen(command, cwd=made, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait()


# texts


@pytest.mark.parametrize(
    "text", [HOSTILE, "-inf", "@SUM(A1)", "'=a", "\ttab", "  ", "", '"', "a\nb\r\nc", "\n", "nan"]
)
def test_hostile_texts_come_back_as_they_were(run, tmp_path, text):
    output = Hypothesis([1, 2], False, log_prob=-inf, actions=[3], values={"x": inf, "y": 1.5})
    other = Hypothesis([], True, log_prob=None, actions=None, token_count=3)
    whole = Prediction(
        7, text, [text, "b"], [output, other], [text, text], target_log_prob=-inf, target_tokens=3, target_words=2,
        target_bytes=9, target_characters=8, weight=1.5, values={"z": -inf}, group=4,
        by_token={"gold": [1, 2, 0], "log_prob": [-0.25, -inf, 0.0]}, written=text,
    )  # fmt: skip
    not_set = [each.name for each in fields(whole) if getattr(whole, each.name) == each.default]
    assert not_set == ["prompt"] * (not text)
    found = of_cell(run, tmp_path, [whole, Prediction(8, "p", [text])])
    for form, read in (("jsonl", read_back.of_json), ("csv", read_back.of_csv)):
        path = tmp_path / f"{form}.out"
        write_lines(found.lines(form), path)
        (several,) = read(path.read_bytes().decode()).values()
        assert several == [whole, Prediction(8, "p", [text])]


def test_no_field_of_a_csv_file_is_read_as_a_formula(run, tmp_path):
    signs = ["=1+1", "+1+1", "-1+1", "@A1", "\t=1", "\r=1", "\n=1"]
    predictions = [
        Prediction(place, sign, [sign], [Hypothesis([], True)], [sign]) for place, sign in enumerate(signs)
    ]
    write_lines(of_cell(run, tmp_path, predictions).lines("csv"), tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert len(rows) == len(signs)
    assert [value for row in rows for value in row if value[:1] in "=+-@\t\r\n" and value] == []


def test_json_is_ascii_and_strict(run, tmp_path):
    output = Hypothesis([1], True, log_prob=-inf, values={"a": inf})
    found = of_cell(run, tmp_path, [Prediction(0, HOSTILE, [], [output], [HOSTILE])])
    (line,) = found.lines("jsonl")
    assert line[:-1].isascii()
    assert line[:-1].isprintable()

    def refused(word):
        raise AssertionError(word)

    assert json.loads(line, parse_constant=refused)["outputs"][0]["log_prob"] == "-inf"


def test_lone_surrogates_end_nothing(made, run, bench, tmp_path):
    """They cannot be stored by a stage; an artifact that was written by something else may hold them."""
    store, key = Store(tmp_path / "other"), run.cells[0].artifacts["decode"]
    with store.writing("decode", key, {}) as folder:
        text = json.dumps(
            {"id": 0, "hypotheses": [{"tokens": [], "finished": True, "actions": None}], "texts": ["a\ud800b"]}
        )
        (folder / PREDICTIONS).write_bytes(gzip.compress(text.encode()))
    words = ["model=one,decoder=argmax,seed=0", "--kind", "decode"]
    found = read_back.of_json(bench(*words, store=store.root)[0])
    assert [[one.texts for one in several] for several in found.values()] == [[["a\ud800b"]]]
    for form, expected in (("csv", "a\\ud800b"), ("text", "a\\ud800b\n")):
        assert expected in bench(*words, "--format", form, store=store.root)[0]
        bench(*words, "--format", form, "--out", str(tmp_path / form), store=store.root)
        assert expected in (tmp_path / form).read_text()


@pytest.mark.parametrize(("text", "sign"), [("a\nb", "U+000A"), ("a\rb", "U+000D"), ("\n", "U+000A")])
def test_an_output_of_several_lines_is_refused_in_a_text_file(run, tmp_path, text, sign):
    predictions = [
        Prediction(place, hypotheses=[Hypothesis([], True)], texts=[text if place == 2 else "a"])
        for place in range(4)
    ]
    lines = of_cell(run, tmp_path, predictions).lines("text")
    assert [next(lines), next(lines)] == ["a\n", "a\n"]
    with pytest.raises(
        SuiteError, match=rf"output of example 2 has a line break \({sign.replace('+', '.')}\).*jsonl"
    ):
        next(lines)


def test_all_else_of_a_text_comes_as_it_is(run, tmp_path):
    texts = [HOSTILE, "", " a ", "\x0b\x0c", "=1+1"]
    predictions = [
        Prediction(place, hypotheses=[Hypothesis([], True)], texts=[text]) for place, text in enumerate(texts)
    ]
    write_lines(of_cell(run, tmp_path, predictions).lines("text"), tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes().decode() == "".join(f"{text}\n" for text in texts)


def test_a_terminal_is_not_steered(run, tmp_path, monkeypatch, capsys):
    predictions = [Prediction(0, HOSTILE, [HOSTILE], [Hypothesis([], True)], [HOSTILE])]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for form in ("jsonl", "csv", "text"):
        write_lines(of_cell(run, tmp_path / form, predictions).lines(form), None)
        printed = capsys.readouterr().out
        assert "1+1" in printed
        assert {sign for sign in printed if unicodedata.category(sign) in UNSEEN} <= {"\n"}


# data that reports may not show


@pytest.mark.parametrize("quote", [(), False, True])
def test_what_reports_may_not_show_is_written_all_the_same(run, tmp_path, quote):
    prediction = Prediction(0, "prompt", ["reference"], [Hypothesis([1], True)], ["output"])
    restricted = {"words": {**run.info["tasks"]["words"], "restricted": "a licence"}}
    whole = of_cell(run, tmp_path, [prediction])
    suite = run.suite.model_copy(update={"quote": quote})
    found = Outputs(replace(whole.run, suite=suite, info={**run.info, "tasks": restricted}), whole.store)
    (line,), (_, row) = found.lines("jsonl"), found.lines("csv")
    one = json.loads(line)
    assert (one["prompt"], one["references"]) == ("prompt", ["reference"])
    assert "prompt" in row
    assert "reference" in row


# many


def peak(work):
    """Return the most bytes that Python held at a time while it worked, besides what it held before."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def many(number):
    for place in range(number):
        found = Hypothesis([place % 7 + 1] * 20, place % 3 > 0, log_prob=-place / 7)
        yield Prediction(place, f"prompt {place}", [f"text {place}", "another"], [found], [f"TEXT {place}"])


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["jsonl", "csv", "text"])
def test_memory_does_not_grow_with_the_number_of_predictions(run, tmp_path, form):
    found = {number: of_cell(run, tmp_path / str(number), many(number)) for number in (300, 1_000, 2_000)}

    def work(number):
        write_lines(found[number].lines(form), tmp_path / f"{number}.out")
        (tmp_path / f"{number}.out").unlink()

    work(300)
    few, twice = peak(lambda: work(1_000)), peak(lambda: work(2_000))
    assert twice < few + 20_000  # of 1,000 more predictions the lines have 300,000 bytes, the objects 3,000,000
    assert os.listdir(tmp_path / "2000") == ["other"]
