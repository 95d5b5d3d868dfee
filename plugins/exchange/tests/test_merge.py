"""Several runs of one suite made one: the same as if it had been one run, and nothing united that is not alike."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from bench_small import plugin
from bench_small.runs import with_sections, written
from bench_small.suites import SUITE
from click.testing import CliRunner

import bench_core
from bench_core import registry
from bench_core.errors import SuiteError
from bench_core.runs.manifest import problems
from bench_core.runs.provenance import read_stages
from bench_core.runs.results import cells_text, read_run
from bench_core.storage.store import Store
from bench_exchange.commands.merge import command
from bench_exchange.compared_with_store import unlike_store
from bench_exchange.exporting import export_run
from bench_exchange.importing import import_run
from bench_exchange.merge import merge
from bench_exchange.verifying import verify_run

FIGURES = """
figures:
  - {id: spread, kind: histogram, values: [ended], by: [model, decoder]}
  - {id: curve, kind: line, x: step, y: loss, by: [model]}
  - {id: both, kind: scatter, x: ended, y: nats, by: [model, decoder]}
  - {id: ends, kind: survival, by: [model, decoder]}
  - {id: by-length, kind: line, x: reference.tokens, y: ended, by: [model, decoder], bins: 3}
claims:
  - {id: C, text: something, assert: "v('nats', model='one') < v('nats', model='two')"}
"""
TEXT = SUITE.strip().replace("seeds: 2", "seeds: 3\nsamples: 5") + FIGURES


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A function that runs the small suite with some settings, once, in a store of its own."""
    import bench_small.plugin

    known = {}

    def run(*settings, **replaced):
        asked = (settings, *replaced.items())
        if asked not in known:
            text = TEXT
            for old, new in replaced.items():
                assert old in text
                text = text.replace(old, new)
            place = tmp_path_factory.mktemp("made")
            (place / "suite.yaml").write_text(text)
            (place / "words.txt").write_text("ab abc abcd a b c d ab ab abc d d a")
            with registry.extra(bench_small.plugin):
                known[asked] = bench_core.run(
                    place / "suite.yaml", settings=settings, store=place / "store", out=place / "runs", data=place
                )
        return known[asked]

    return run


@pytest.fixture
def copied(tmp_path):
    """A function that copies a run, with changed cells or info, for a test to merge."""

    def copy(run, name, cells=None, **info):
        folder = tmp_path / name
        shutil.copytree(run.folder, folder)
        if cells is not None:
            (folder / "cells.jsonl").write_text(cells_text(cells), encoding="utf-8")
        (folder / "run.json").write_text(json.dumps({**run.info, **info}))
        return folder

    return copy


def report(tmp_path, run, figures=False):
    """Return the files of a report but for the costs; figures, which take long to draw, only if asked for."""
    drawn = run if figures else with_sections(run, figures=[])
    files = written(drawn, tmp_path / f"report-{run.folder.parent.parent.name}-{run.folder.name}")
    for name in ("costs.csv", "costs.html"):
        files.pop(name)
    return files


@pytest.mark.slow
def test_seeds_split_over_two_machines_and_merged_are_one_run(made, tmp_path):
    whole = made()
    imported = []
    for name, seeds in (("a", "seeds=[0, 2]"), ("b", "seeds=[1]")):
        part = made(seeds)
        export_run(part, Store(part.folder.parent.parent / "store"), tmp_path / f"{name}.zip")
        with registry.extra(plugin):
            imported.append(import_run(tmp_path / f"{name}.zip", Store(tmp_path / "home"), tmp_path / "runs").run)
    merged = merge(imported, tmp_path / "merged")
    ours, theirs = report(tmp_path, merged, figures=True), report(tmp_path, whole, figures=True)
    assert {"report.md", "report.tex", "results.json", "figures/spread.svg", "figures/curve.csv"} <= ours.keys()
    assert ours == theirs
    for name in (
        "suite.yaml",
        "cells.jsonl",
        "distributions.jsonl",
        "lengths.jsonl",
        "by_length.jsonl",
        "draws.safetensors",
        "published.json",
    ):
        assert (merged.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    histories = [
        {path.name: path.read_text() for path in (run.folder / "history").iterdir()} for run in (merged, whole)
    ]
    assert histories[0] == histories[1]
    assert len(histories[0]) == 6
    lines = [sorted(line.rsplit(",", 10)[0] for line in (run.folder / "costs.csv").open()) for run in (merged, whole)]
    assert lines[0] == lines[1]


@pytest.mark.slow
def test_a_merged_run_verifies_without_the_store_of_either_machine(made, tmp_path):
    several = [made("seeds=[0, 1]"), made("seeds=[2]", **{"max_tokens: 6": "max_tokens: 6, batch_size: 4"})]
    run = merge([one.folder for one in several], tmp_path / "runs")
    assert [remark.text for remark in verify_run(run, None) if remark.wrong] == []
    assert [remark.text for remark in problems(run.folder) if remark.wrong] == []
    stages = read_stages(run.folder)
    assert {cell.artifacts["decode"] for cell in run.cells} <= {*stages}
    assert {stages[cell.artifacts["decode"]].settings["batch_size"] for cell in run.cells} == {4, 128}
    for one in several:
        assert [
            remark.text for remark in unlike_store(run, Store(one.folder.parents[1] / "store")) if remark.wrong
        ] == []


def test_a_cell_of_a_merged_run_that_is_taken_for_another_seed_is_named(made, tmp_path):
    run = merge([made("seeds=[0, 1]").folder, made("seeds=[2]").folder], tmp_path / "runs")
    other = {1: 2, 2: 1}
    cells = [replace(one, cell={**one.cell, "seed": other.get(one.cell["seed"], 0)}) for one in run.cells]
    told = [remark.text for remark in verify_run(replace(run, cells=cells), None) if remark.wrong]
    assert any("words/one/argmax/test, seed 2: train: seed is 1, but the cell has 2" in text for text in told)


@pytest.mark.slow
def test_it_does_not_matter_which_run_is_named_first(made, tmp_path):
    parts = [made("seeds=[0, 2]").folder, made("seeds=[1]").folder]
    first, second = merge(parts, tmp_path / "merged"), merge(parts[::-1], tmp_path / "merged")
    assert first.folder != second.folder
    assert (first.folder / "cells.jsonl").read_bytes() == (second.folder / "cells.jsonl").read_bytes()
    assert report(tmp_path, first) == report(tmp_path, second)


@pytest.mark.slow
def test_a_merged_run_can_be_merged_again(made, tmp_path):
    early = merge([made("seeds=[0]").folder, made("seeds=[1]").folder], tmp_path / "merged")
    assert early.suite.seeds == 2
    late = merge([early.folder, made("seeds=[2]").folder], tmp_path / "merged")
    assert report(tmp_path, late) == report(tmp_path, made())


@pytest.mark.slow
def test_rows_that_were_skipped_elsewhere_come_together(made, tmp_path):
    one, two = made("skip=[{model: two}]"), made("skip=[{model: one}]")
    merged = merge([one.folder, two.folder], tmp_path / "merged")
    assert not merged.suite.skip
    assert (merged.folder / "cells.jsonl").read_bytes() == (made().folder / "cells.jsonl").read_bytes()
    assert report(tmp_path, merged) == report(tmp_path, made())


def test_what_all_skip_stays_skipped(made, tmp_path):
    one = made("skip=[{model: two}, {model: one, decoder: draw}]")
    two = made("skip=[{model: one}, {model: two, decoder: argmax}, {metric: ended, model: one, decoder: argmax}]")
    merged = merge([one.folder, two.folder], tmp_path / "merged")
    kept = [{axis: names for axis, names in skip if names} for skip in merged.suite.skip]
    assert kept == [
        {"model": ("one",), "decoder": ("draw",)},
        {"model": ("two",), "decoder": ("argmax",)},
    ]
    assert {(one.cell["model"], one.cell["decoder"]) for one in merged.cells} == {("one", "argmax"), ("two", "draw")}


@pytest.mark.slow
def test_models_that_only_one_machine_knows_stand_in_their_order(made, tmp_path):
    third = "  two: {name: bigram, scale: 2.0}\n  three: {name: bigram, scale: 0.5}\n"
    three = made(**{"  two: {name: bigram, scale: 2.0}\n": third})
    merged = merge([made().folder, three.folder], tmp_path / "merged")
    assert [*merged.suite.models] == ["one", "two", "three"]
    assert [*merge([three.folder, made().folder], tmp_path / "merged").suite.models] == ["one", "two", "three"]
    assert report(tmp_path, merged) == report(tmp_path, three)


@pytest.mark.slow
def test_metrics_that_only_one_machine_measured_are_united(made, tmp_path):
    more = made("metrics.third={name: ended, most: 2}", "skip=[{model: two}]")
    merged = merge([made().folder, more.folder], tmp_path / "merged")
    for one in merged.cells:
        assert ("third" in one.numbers) == (one.cell["model"] == "one")
        assert one.status == "done"


@pytest.mark.quick(2, 2)
@pytest.mark.parametrize(
    ("settings", "replaced", "message"),
    [
        (["models.two.scale=3.0"], {}, r"models\.two\.scale: 2\.0 in .*, 3\.0 in "),
        (["models.one.scale=0.2"], {}, r"models\.one\.scale: nothing in .*, 0\.2 in "),
        (["training.lr=0.2"], {}, r"training\.lr: 0\.1 in .*, 0\.2 in "),
        (["limits.max_tokens=5"], {}, r"limits\.max_tokens: 6 in .*, 5 in "),
        (["metrics.ended={name: ended, most: 3}"], {}, r"metrics\.ended\.most: nothing in .*, 3 in "),
        ([], {"caption: Main": "caption: Other"}, r'tables\.0\.caption: "Main" in .*, "Other" in '),
        ([], {"suite: tests/small": "suite: tests/other"}, r'suite: "tests/small" in .*, "tests/other" in '),
        ([], {"id: C,": "id: D,"}, r'claims\.0\.id: "C" in .*, "D" in '),
        ([], {"tables:": "note: Mind\ntables:"}, r'note: "" in .*, "Mind" in '),
    ],
)
def test_suites_that_differ_are_refused_by_what_differs(made, tmp_path, settings, replaced, message):
    other = made(*settings, "seeds=[7]", **replaced)
    with pytest.raises(SuiteError, match=message) as error:
        merge([made().folder, other.folder], tmp_path / "merged")
    assert str(made().folder) in str(error.value)
    assert not (tmp_path / "merged").exists()


def test_data_that_differ_are_refused(made, tmp_path):
    words = {"{name: letters}": "{name: letters, file: words.txt}"}
    one, two = made("seeds=[0]", **words), made("seeds=[1]", **words)
    info = {**two.info, "read": {"tasks": {"words": {"words.txt": "another digest"}}, "models": {}}}
    shutil.copytree(two.folder, tmp_path / "other")
    (tmp_path / "other" / "run.json").write_text(json.dumps(info))
    merge([one.folder, two.folder], tmp_path / "merged")
    with pytest.raises(SuiteError, match=r"files of tasks\.words\.words\.txt: "):
        merge([one.folder, tmp_path / "other"], tmp_path / "merged")


def test_profiles_that_differ_are_refused(made, tmp_path, copied):
    with pytest.raises(SuiteError, match=r'profile: nothing in .*, "tiny" in '):
        merge([made("seeds=[0]").folder, copied(made("seeds=[1]"), "other", profile="tiny")], tmp_path / "merged")


def test_a_cell_that_was_computed_otherwise_is_refused_unless_one_is_preferred(made, tmp_path):
    one, other = made(), made("hardware.threads=2", "seeds=[0]")
    with pytest.raises(SuiteError, match=r"words/one/argmax/test, seed 0; .*: threads 1 and 2 \(") as error:
        merge([one.folder, other.folder], tmp_path / "merged")
    assert "Choose a run with --prefer RUN" in str(error.value)
    assert not (tmp_path / "merged").exists()
    for preferred in (one, other):
        merged = merge([one.folder, other.folder], tmp_path / "merged", [preferred.folder])
        keys = {place(cell): cell.artifacts for cell in merged.cells}
        assert all(keys[place(cell)] == cell.artifacts for cell in preferred.cells)
        assert len(merged.info["notes"]) == 4
        assert "taken from" in merged.info["notes"][0]
        assert "threads 1 and 2" in merged.info["notes"][0] or "threads 2 and 1" in merged.info["notes"][0]
    with pytest.raises(SuiteError, match="--prefer elsewhere: this is not one of the runs"):
        merge(
            [one.folder, other.folder],
            tmp_path / "merged",
            [Path("elsewhere")],
        )


def place(cell):
    return tuple(cell.cell.values())


def test_other_numbers_under_the_same_keys_are_refused(made, tmp_path, copied):
    run = made("seeds=[0]")
    number = replace(run.cells[0].numbers["nats"], value=99.0)
    wrong = replace(run.cells[0], numbers={**run.cells[0].numbers, "nats": number})
    other = copied(run, "other", [wrong, *run.cells[1:]])
    with pytest.raises(SuiteError, match="different numbers under the same keys"):
        merge([run.folder, other], tmp_path / "merged")


def test_the_same_cell_of_two_runs_is_one(made, tmp_path):
    merged = merge([made("seeds=[0]").folder, made().folder], tmp_path / "merged")
    assert merged.info["notes"] == []
    assert report(tmp_path, merged) == report(tmp_path, made())


def test_done_is_taken_before_failed_and_that_before_not_run(made, tmp_path, copied):
    run = made("seeds=[0]")

    def with_status(name, *statuses):
        cells = [
            replace(one, status=status, numbers=one.numbers if status == "done" else {}, artifacts={})
            for one, status in zip(run.cells, statuses, strict=True)
        ]
        return copied(run, name, cells)

    one = with_status("one", "done", "failed", "failed", "not run")
    two = with_status("two", "failed", "done", "not run", "failed")
    three = with_status("three", "not run", "not run", "not run", "not run")
    merged = merge([three, one, two], tmp_path / "merged")
    assert [cell.status for cell in merged.cells] == ["done", "done", "failed", "failed"]
    assert merged.cells[0].numbers == run.cells[0].numbers
    assert "taken from one, where it is done, but failed in two" in "\n".join(merged.info["notes"])
    assert (merged.folder / "log").read_text().splitlines() == merged.info["notes"]


def test_cells_that_no_run_has_are_told_of(made, tmp_path):
    one, two = made("skip=[{model: two}]", "seeds=[0, 1]"), made("skip=[{model: one}]", "seeds=[0]")
    merged = merge([one.folder, two.folder], tmp_path / "merged")
    missing = [cell for cell in merged.cells if cell.status != "done"]
    assert {(cell.cell["model"], cell.cell["seed"], cell.status) for cell in missing} == {("two", 1, "not run")}
    text = report(tmp_path, merged)["report.md"].decode()
    assert "†1/2" in text
    assert "words/two/draw/test, seed 1 (not run): in none of the merged runs" in text


@pytest.mark.slow
def test_numbers_computed_differently_stand_together_only_with_a_footnote(made, tmp_path, copied):
    one, two = made("seeds=[0, 2]"), made("seeds=[1]")
    (environment,) = two.info["environments"]
    text = report(tmp_path, merge([one.folder, two.folder], tmp_path / "merged"))["report.md"].decode()
    assert "Computed in different environments" not in text
    other = {**environment, "device": "cuda", "code": {**environment["code"], "model bigram": "0123456789ab"}}
    merged = merge([copied(two, "other", environments=[other]), one.folder], tmp_path / "merged")
    files = report(tmp_path, merged, figures=True)
    text = files["report.md"].decode()
    own = environment["code"]["model bigram"]
    ours = rf"device cpu, code of model bigram {own} \(seed 0, 2\)"
    theirs = r"device cuda, code of model bigram 0123456789ab \(seed 1\)"
    assert (
        len(re.findall(rf"- Computed in different environments: {ours}; {theirs}\.\n", text.replace("\\_", "_"))) == 1
    )
    (told,) = re.findall(r"- Computed with: (.*)\n", text)
    assert [told.count(word) for word in ("python", "device cpu", "device cuda", "; ")] == [2, 1, 1, 1]
    results = json.loads(files["results.json"])
    assert [one["device"] for one in results["environments"]] == ["cpu", "cuda"]
    assert {(cell["cell"]["seed"], *cell["environments"]) for cell in results["cells"]} == {(0, 0), (2, 0), (1, 1)}


def test_hardware_of_two_names_becomes_an_axis(made, tmp_path):
    half = {
        "hardware: {threads: 1, device: cpu}": "hardware: {half: {threads: 1, device: cpu, precision: bf16}}",
        "rows: [decoder]": "rows: [decoder, hardware]",
        "by: [model, decoder]": "by: [model, decoder, hardware]",
        "by: [model]}": "by: [model, hardware]}",
        "claims:\n  - {id: C, text: something, assert: \"v('nats', model='one') < v('nats', model='two')\"}\n": "",
    }
    full = {**half, "hardware: {threads: 1, device: cpu}": "hardware: {full: {threads: 1, device: cpu}}"}
    merged = merge([made("seeds=1", **full).folder, made("seeds=1", **half).folder], tmp_path / "merged")
    assert [*merged.suite.hardware] == ["full", "half"]
    assert {cell.status for cell in merged.cells} == {"done"}
    text = report(tmp_path, merged)["report.md"].decode()
    assert (
        "Computed in different environments: precision fp32 (hardware full); precision bf16 (hardware half)." in text
    )


def test_settings_of_a_part_of_the_cells_are_no_change_of_the_whole(made, tmp_path):
    assert made("seeds=[0]").info["changes"] == ["seeds"]
    merged = merge([made("seeds=[0]").folder, made("seeds=[1]").folder], tmp_path / "merged")
    assert "changes" not in merged.info
    others = [made("models.two.scale=2.0", seeds) for seeds in ("seeds=[0]", "seeds=[1]")]
    assert merge([one.folder for one in others], tmp_path / "merged").info["changes"] == ["models.two.scale"]


def test_runs_of_before_environments_were_told_for_each_cell_can_be_merged(made, tmp_path, copied):
    old = []
    for number, seeds in enumerate(("seeds=[0, 2]", "seeds=[1]")):
        run = made(seeds)
        info = {name: value for name, value in run.info.items() if name not in ("environments", "read")}
        info["environment"] = {"python": f"3.{number + 11}", "device": "cpu"}
        folder = copied(run, f"old{number}")
        (folder / "run.json").write_text(json.dumps(info))
        lines = [json.loads(line) for line in (folder / "cells.jsonl").read_text().splitlines()]
        stripped = [{name: value for name, value in line.items() if name != "environments"} for line in lines]
        (folder / "cells.jsonl").write_text("".join(json.dumps(line) + "\n" for line in stripped))
        old.append(folder)
    text = report(tmp_path, merge(old, tmp_path / "merged"))["report.md"].decode()
    assert "Computed with: python 3.11, device cpu (seed 0, 2); python 3.12, device cpu (seed 1)" in text


@pytest.mark.slow
def test_the_command_writes_a_report_and_says_where(made, tmp_path):
    runs = [str(made(seeds).folder) for seeds in ("seeds=[0, 2]", "seeds=[1]")]
    options = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "reports")]
    done = CliRunner().invoke(command, [*runs, *options], standalone_mode=False)
    assert done.return_value == 0, done.output
    assert "12 cells\n" in done.output
    assert (tmp_path / "reports" / "tests" / "small" / "report.md").is_file()
    (folder,) = (tmp_path / "runs").iterdir()
    assert read_run(folder).info["merged"] == [
        {"run": made("seeds=[0, 2]").folder.name, "cells": 8},
        {"run": made("seeds=[1]").folder.name, "cells": 4},
    ]
    failing = CliRunner().invoke(command, [runs[0], runs[0], *options], standalone_mode=False)
    assert "give the folders of two or more runs" in str(failing.exception).lower()
