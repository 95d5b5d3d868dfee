"""`bench view`: what is found below a folder, what the page holds of it, and what it can never hold."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from math import inf, nan
from pathlib import Path

import pytest
from bench_small.runs import HOSTILE, cell, hostile_run, number, paper, run_of, some_run
from bench_small.viewed import FIRST, SECOND, history, output, put, two_runs, unpacked

from bench_core.errors import SuiteError
from bench_core.runs.manifest import FILE as MANIFEST
from bench_core.runs.manifest import read_manifest
from bench_core.runs.results import read_histories
from bench_core.terminal import visible
from bench_reports.render.report import write_report
from bench_reports.view import catalog as catalogs
from bench_reports.view.catalog import Catalog
from bench_reports.view.curves import MAX_POINTS, curves
from bench_reports.view.finding import MARK, find
from bench_reports.view.run_data import MAX_TEXT_CHARACTERS

BREAKING = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\u202e\x00<!--"


class Tags(HTMLParser):
    """The elements of a page, their attributes, and its text outside of scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.texts = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join("".join(self.texts).split())

    def attributes(self, name):
        return [about[name] for _, about in self.tags if name in about]


def names(found):
    return [path.as_posix() for path in found]


def one_run(root, name=FIRST, **about):
    return put(root, name, run_of(root, [cell("rnn", "greedy", 0, {"rate": number(1.0)})], {}, **about))


def problems(root):
    """Return why runs and reports of a folder cannot be read, by their names."""
    about, _ = unpacked(Catalog(root).page())
    return {one["name"]: one["problem"] for one in about if one["problem"]}


def test_runs_and_reports_are_found_at_any_depth_and_nothing_is_looked_for_inside_of_them(tmp_path):
    one_run(tmp_path / "a" / "b")
    run = one_run(tmp_path)
    write_report(run, tmp_path / "deep" / "er" / "report")
    (run.folder / "inner").mkdir()
    (run.folder / "inner" / "cells.jsonl").touch()
    found = find(tmp_path)
    assert names(found.runs) == [f"a/b/runs/{FIRST}", f"runs/{FIRST}"]
    assert names(found.reports) == ["deep/er/report"]


def test_hidden_folders_links_and_what_a_view_wrote_are_not_looked_into(tmp_path):
    one_run(tmp_path / "else")
    for name in (".hidden", "site"):
        (tmp_path / "root" / name).mkdir(parents=True)
        (tmp_path / "root" / name / "cells.jsonl").touch()
    (tmp_path / "root" / "site" / MARK).touch()
    (tmp_path / "root" / "far").symlink_to(tmp_path / "else")
    (tmp_path / "root" / "loop").symlink_to(tmp_path / "root")
    found = find(tmp_path / "root")
    assert found.runs == []
    assert names(found.links) == ["far", "loop"]
    with pytest.raises(SuiteError, match="far, loop: links are not followed; view their targets"):
        Catalog(tmp_path / "root").page()


def test_the_folder_itself_may_be_a_run_or_a_link(tmp_path):
    run = one_run(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    for folder, name in ((run.folder, "."), (tmp_path / "link", FIRST)):
        about, data = unpacked(Catalog(folder).page())
        assert [one["name"] for one in about] == [name]
        assert len(data[0]["cells"]) == 1
        assert about[0]["short"] == FIRST


def test_a_page_of_a_test_runner_is_no_report(tmp_path):
    (tmp_path / "report.html").write_text("<p>12 passed</p>")
    with pytest.raises(SuiteError, match="no runs or reports found in this folder or below"):
        Catalog(tmp_path).page()


def test_the_list_says_what_a_run_is(tmp_path):
    two_runs(tmp_path)
    text = Catalog(tmp_path).page()
    about, _ = unpacked(text)
    second, first = about  # the newest first
    assert [one["date"] for one in about] == ["2026-11-02 13:00", "2026-11-01 12:00"]
    assert (first["title"], first["suite"], first["profile"]) == ("Words <first>", "tests/report", "small")
    assert first["axes"]["model"] == ["rnn", "lstm", "gru"]
    assert first["metrics"] == ["rate", "nats"]
    assert (first["counts"], first["groups"]) == ([8, 1, 0], 3)
    assert second["counts"] == [3, 0, 0]
    shown = Tags(text).text
    assert "Words <first> runs/words-20261101-120000 tests/report · small 2026-11-01 12:00 9 cells, 1 failed" in shown
    assert "1 cell failed: out of memory" in shown
    lost = [cell("rnn", "greedy", seed, status="not run", reason="no time") for seed in range(3)]
    put(tmp_path / "other", FIRST, run_of(tmp_path, lost, {}))
    assert "3 cells not run: no time" in Tags(Catalog(tmp_path / "other").page()).text
    assert "2 runs, 1 report" in shown


@pytest.mark.parametrize(
    ("name", "date"),
    [("a-20261101-120000", "2026-11-01 12:00"), ("a-20261101-120000-2", "2026-11-01 12:00"), ("a", ""),
     ("a-20261399-120000", ""), ("20261101", "")],
)  # fmt: skip
def test_the_date_of_a_run_is_read_off_its_name(tmp_path, name, date):
    one_run(tmp_path, name)
    assert unpacked(Catalog(tmp_path).page())[0][0]["date"] == date


def test_a_version_is_that_of_the_manifest_else_those_of_the_environments(tmp_path):
    run = one_run(tmp_path, environments=[{"bench": "0.2.0"}, {"bench": "0.1.0"}, {"bench": "0.2.0"}])
    version = read_manifest(run.folder).bench
    with_manifest = unpacked(Catalog(tmp_path).page())[0][0]["version"]
    (run.folder / MANIFEST).unlink()
    assert unpacked(Catalog(tmp_path).page())[0][0]["version"] == "0.2.0, 0.1.0"
    assert with_manifest.split(",")[0] == version
    assert "0.1.0" not in with_manifest


def test_numbers_that_differ_in_kind_signature_or_sample_have_descriptions_of_their_own(tmp_path):
    two_runs(tmp_path)
    _, data = unpacked(Catalog(tmp_path).page())
    described = [{tuple(one[:5]) for one in run["variants"]} for run in (data[1], data[0])]
    assert described[0] == {
        ("rate", "%", "", "a|b", "s1"), ("nats", "%", "exact", "a|b", "s1"), ("nats", "%", "bound", "a|b", "s1"),
    }  # fmt: skip
    assert described[1] == {("rate", "%", "", "a|c", "s2")}


def test_every_number_of_every_cell_is_in_the_data_with_its_description(tmp_path):
    first, _ = two_runs(tmp_path)
    _, data = unpacked(Catalog(tmp_path).page())
    run = data[1]
    found = {}
    for group, seed, status, reason, _, values, _ in run["cells"]:
        model = run["groups"][group][1]
        for variant, value in zip(values[::2], values[1::2], strict=True):
            found[model, seed, run["variants"][variant][0]] = value
        assert (status, run["reasons"][reason]) == ((1, "out of memory") if (model, seed) == ("lstm", 2) else (0, ""))
    assert found == {
        (one.cell["model"], one.cell["seed"], name): number.value
        for one in first.cells
        for name, number in one.numbers.items()
    }


def test_numbers_that_json_has_not_are_words_and_a_missing_one_has_its_reason(tmp_path):
    numbers = {"rate": number(inf), "nats": number(nan)}
    lacking = {"rate": replace(number(None), reason="it was not to be"), "nats": number(-inf)}
    cells = [cell("rnn", "greedy", 0, numbers), cell("lstm", "greedy", 0, lacking)]
    put(tmp_path, FIRST, run_of(tmp_path, cells, {}))
    _, data = unpacked(Catalog(tmp_path).page())
    assert [one[5][1::2] for one in data[0]["cells"]] == [["nan", "inf"], ["-inf"]]
    metric, reason = data[0]["cells"][1][6]
    assert (metric, data[0]["reasons"][reason]) == ("rate", "it was not to be")


def test_outputs_are_kept_with_their_lines_and_cut_with_a_sign(tmp_path):
    samples = [
        output("rnn", "greedy", f"if x:\n    y{BREAKING}"),
        output("rnn", "greedy", "z" * (MAX_TEXT_CHARACTERS + 1), 8),
    ]
    one_run(tmp_path, samples=samples)
    _, data = unpacked(Catalog(tmp_path).page())
    run = data[0]
    (group, number, prompt, reference, text, finished, tokens), other = run["samples"]
    assert (run["groups"][group][1], number, finished, tokens) == ("rnn", 7, True, 3)
    assert [run["texts"][place] for place in (prompt, reference)] == ["the", "cat sat here"]
    assert run["texts"][text].startswith("if x:\n    y</script>")
    assert "[U+202E][U+0000]<!--" in run["texts"][text]
    assert run["texts"][other[4]] == "z" * MAX_TEXT_CHARACTERS + " …"


def test_the_curve_of_a_cell_is_that_of_its_training(tmp_path):
    two_runs(tmp_path)
    _, data = unpacked(Catalog(tmp_path).page())
    run = data[1]
    found = {(run["groups"][one[0]][1], one[1]): one[4] for one in run["cells"]}
    assert run["curves"][found["rnn", 0]] == {"steps": [10, 20, 30], "series": {"loss": [3.0, 2.0, 1.0]}}
    assert run["curves"][found["lstm", 0]]["series"] == {"loss": [4.0, 3.0]}
    assert {place for who, place in found.items() if who not in (("rnn", 0), ("lstm", 0))} == {-1}


def test_a_long_history_is_thinned_and_keeps_its_ends(tmp_path):
    history(tmp_path, "k" * 40, range(5_000))
    found = curves(read_histories(tmp_path))["k" * 12]
    assert len(found.steps) == MAX_POINTS
    assert (found.steps[0], found.steps[-1], found.series["loss"][-1]) == (10, 50_000, 4_999)
    assert found.steps == sorted(set(found.steps))


def test_a_curve_has_no_point_where_there_is_no_finite_number():
    entries = [{"step": step, "epoch": 0, "best": True, "loss": value} for step, value in enumerate([1.0, nan, inf, None, "x"])]  # fmt: skip
    found = curves([("key", entries)])["key"]
    assert dict(found.series) == {"loss": [1.0, None, None, None, None]}


def test_published_numbers_stand_beside_the_cells_that_their_table_sets_them_beside(tmp_path):
    cells = [
        cell(model, decoder, 0, {"rate": number(1.0), "nats": number(2.0)})
        for model in ("rnn", "lstm")
        for decoder in ("greedy", "beam")
    ]
    published = paper({"Greedy": {"rnn": (3.5, 0.5), "lstm": (nan, None)}, "beam": {"theirs": (1.0, None)}})
    reference = {"table": "p", "rows": {"Greedy": "greedy"}, "columns": {"theirs": "lstm"}}
    put(tmp_path, FIRST, run_of(tmp_path, cells, {"reference": reference}, published))
    _, data = unpacked(Catalog(tmp_path).page())
    found = {
        (*data[0]["groups"][group][1:3], metric): (mean, std, source)
        for group, metric, mean, std, source in data[0]["published"]
    }
    assert found == {
        ("rnn", "greedy", "rate"): (3.5, 0.5, "Table 1"),
        ("lstm", "greedy", "rate"): ("nan", None, "Table 1"),
        ("lstm", "beam", "rate"): (1.0, None, "Table 1"),
    }


def test_published_numbers_of_a_table_stand_beside_the_cells_that_it_selects_alone(tmp_path):
    cells = [cell("rnn", decoder, 0, {"rate": number(1.0)}) for decoder in ("greedy", "beam")]
    published = paper({"rnn": {"rate": (3.5, None)}})
    table = {"rows": ["model"], "columns": [], "where": {"decoder": ["beam"]}, "reference": {"table": "p"}}
    put(tmp_path, FIRST, run_of(tmp_path, cells, table, published))
    _, data = unpacked(Catalog(tmp_path).page())
    assert [data[0]["groups"][one[0]][2] for one in data[0]["published"]] == ["beam"]


def test_links_in_a_report_are_not_linked_to(tmp_path):
    two_runs(tmp_path / "root")
    (tmp_path / "secret.csv").write_text("private")
    report = tmp_path / "root" / "reports" / "words"
    (report / "tables" / "link.csv").symlink_to(tmp_path / "secret.csv")
    (report / "figures").symlink_to(tmp_path)
    catalog = Catalog(tmp_path / "root")
    page = catalog.page()
    assert "files/reports/words/tables/t.csv" in catalog.files
    assert not [link for link in (*catalog.files, *Tags(page).attributes("href")) if re.search("link|secret", link)]


def test_a_report_is_that_of_the_run_whose_digest_it_names(tmp_path):
    run = one_run(tmp_path)
    write_report(run, tmp_path / "reports" / "own")
    other = one_run(tmp_path / "other", title="Another run of the same name")
    write_report(other, tmp_path / "reports" / "of-other")
    links = Tags(Catalog(tmp_path).page().split("data-place")[2]).attributes("href")
    assert "files/reports/own/report.html" in links
    assert not [link for link in links if "of-other" in link]


def test_the_pages_tables_and_figures_of_a_report_are_linked_to_where_they_are(tmp_path):
    two_runs(tmp_path)
    (tmp_path / "reports" / "words" / "figures").mkdir()
    (tmp_path / "reports" / "words" / "figures" / "a b#?.svg").write_text("<svg/>")
    catalog = Catalog(tmp_path)
    links = {link for link in Tags(catalog.page()).attributes("href") if not link.startswith("#")}
    assert {"files/reports/words/report.html", "files/reports/words/tables/t.csv"} < links
    assert "files/reports/words/figures/a%20b%23%3F.svg" in links
    assert links <= catalog.files.keys()
    assert all(path.is_file() for path in catalog.files.values())


def test_a_report_whose_run_is_not_here_is_shown_with_the_cells_that_it_has(tmp_path):
    first, _ = two_runs(tmp_path)
    (tmp_path / "alone").mkdir()
    (tmp_path / "reports" / "words").rename(tmp_path / "alone" / "report")
    about, data = unpacked(Catalog(tmp_path / "alone").page())
    assert [(one["kind"], one["suite"], one["counts"]) for one in about] == [("report", "tests/report", [8, 1, 0])]
    assert len(data[0]["cells"]) == len(first.cells)
    assert about[0]["date"] == "2026-11-01 12:00"
    assert data[0]["samples"] == []


def test_reports_of_version_0_1_are_shown():
    folder = Path(__file__).parents[3] / "reports" / "0.1"
    about, data = unpacked(Catalog(folder).page())
    assert len(about) == len([*folder.rglob("results.json")]) > 0
    assert not [one["problem"] for one in about if one["problem"]]
    assert all(one["cells"] for one in data.values())


def write_over(folder, name, text):
    path = folder / name
    if text is None:
        path.unlink()
    elif isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [("cells.jsonl", '{"x"', "cells.jsonl"), ("cells.jsonl", None, "it has no cells.jsonl"),
     ("run.json", "[]", "run.json"), ("run.json", "[" * 100_000, ""), ("run.json", None, "run.json"),
     ("suite.yaml", "a: [", "suite.yaml"), ("suite.yaml", b"\xff\xfe\x00", ""), ("published.json", '{"p": 1}', "published"),
     ("run.json", '{"samples": [{"cell": {}, "id": 1}]}', "samples"),
     ("run.json", '{"tasks": {"words": {"entropy": 1e300}}}', "OverflowError")],
)  # fmt: skip
def test_a_damaged_run_is_named_with_the_reason_and_the_others_are_shown(tmp_path, name, text, told):
    first, _ = two_runs(tmp_path)
    write_over(first.folder, name, text)
    catalog = Catalog(tmp_path)
    page = catalog.page()
    about, data = unpacked(page)
    found = {one["name"]: one["problem"] for one in about}
    assert found[f"runs/{SECOND}"] == ""
    assert found[f"runs/{FIRST}"]
    assert told in found[f"runs/{FIRST}"]
    assert str(tmp_path) not in page + json.dumps(data)
    assert visible(found[f"runs/{FIRST}"]) in Tags(page).text
    assert "files/reports/words/report.html" in catalog.files


def test_a_damaged_history_costs_a_run_its_curves_alone(tmp_path):
    first, _ = two_runs(tmp_path)
    write_over(first.folder, "history/words-l0l0l0l0l0l0.jsonl", "{")
    page = Catalog(tmp_path).page()
    _, data = unpacked(page)
    assert "Training curves cannot be read: history/words-l0l0l0l0l0l0.jsonl" in Tags(page).text
    assert data[1]["curves"] == []
    assert len(data[1]["cells"]) == 9


def test_a_damaged_report_without_its_run_is_named(tmp_path):
    two_runs(tmp_path)
    (tmp_path / "reports" / "words" / "results.json").write_text('{"cells": 1}')
    assert "cells" in problems(tmp_path / "reports")["words"]


@pytest.mark.parametrize("name", ["cells.jsonl", "run.json", "suite.yaml", "history/words-0123456789ab.jsonl"])
def test_a_run_whose_files_are_elsewhere_is_not_read(tmp_path, name):
    first, _ = two_runs(tmp_path / "root")
    (tmp_path / "secret").write_text('{"title": "the secret"}')
    (first.folder / name).unlink(missing_ok=True)
    (first.folder / name).symlink_to(tmp_path / "secret")
    page = Catalog(tmp_path / "root").page()
    about, _ = unpacked(page)
    assert f"{name} is a link to a file outside the viewed folder" in [one["problem"] for one in about]
    assert "the secret" not in page


def test_a_pipe_in_the_place_of_a_file_holds_nothing_up(tmp_path):
    first, _ = two_runs(tmp_path)
    for path in (first.folder / "manifest.json", first.folder / "run.json", tmp_path / "reports/words/manifest.json"):
        path.unlink()
        os.mkfifo(path)
    assert "run.json is not a file" in problems(tmp_path)[f"runs/{FIRST}"]


def test_hostile_text_is_text_wherever_it_lands(tmp_path):
    run = hostile_run(tmp_path)
    cells = [*run.cells, cell(BREAKING, "greedy", 1, status="failed", reason=BREAKING)]
    about = {**run.info, "title": BREAKING, "samples": [output(BREAKING, "greedy", BREAKING)], "profile": BREAKING}
    folder = tmp_path / "<img src=x onerror=alert(1)>\n\u202e\udcff"
    put(folder, FIRST, replace(run, cells=cells, info=about), "report")
    (folder / "runs" / "'><script>").mkdir()
    (folder / "runs" / "'><script>" / "cells.jsonl").write_bytes(b"\xff" + BREAKING.encode())
    page = Catalog(tmp_path).page()
    found = Tags(page)
    data = unpacked(page)[1]
    assert len([tag for tag, _ in found.tags if tag == "script"]) == 2 + len(data)
    assert not [tag for tag, _ in found.tags if tag in ("img", "iframe", "object", "link", "base")]
    assert not [
        name for _, about in found.tags for name in about if name.startswith("on") or name in ("style", "src")
    ]
    assert visible(BREAKING) in found.text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069\u2028\u2029]", page + json.dumps(data, ensure_ascii=False))  # fmt: skip
    assert page.encode()
    assert not [link for link in found.attributes("href") if re.match(r"[a-z]+:|//", link)]


def test_a_page_loads_nothing_and_names_no_place(tmp_path):
    two_runs(tmp_path)
    page = Catalog(tmp_path).page()
    (policy,) = [about["content"] for _, about in Tags(page).tags if "http-equiv" in about]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|import\(|eval\(|innerHTML", page)
    assert str(tmp_path) not in page
    assert str(tmp_path) not in json.dumps(unpacked(page)[1])


def test_the_same_folder_has_the_same_page(tmp_path):
    two_runs(tmp_path)
    catalog = Catalog(tmp_path)
    assert catalog.page() == catalog.page() == Catalog(tmp_path).page()


def test_only_what_changed_is_read_again(tmp_path, monkeypatch):
    read = []
    first, _ = two_runs(tmp_path)
    whole = catalogs.read_entry
    monkeypatch.setattr(
        catalogs, "read_entry", lambda root, folder, reports: read.append(folder.name) or whole(root, folder, reports)
    )
    catalog = Catalog(tmp_path)
    catalog.page()
    catalog.page()
    assert read == [FIRST, SECOND]
    (first.folder / "run.json").write_text("{}")
    one_run(tmp_path, "words-20261103-000000")
    assert next(one["name"] for one in unpacked(catalog.page())[0]) == "runs/words-20261103-000000"
    assert read[2:] == [FIRST, "words-20261103-000000"]
    for path in sorted(first.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    first.folder.rmdir()
    assert f"runs/{FIRST}" not in [one["name"] for one in unpacked(catalog.page())[0]]


def test_a_run_with_infinite_numbers_and_hostile_outputs_has_data(tmp_path):
    put(tmp_path, FIRST, some_run(tmp_path))
    about, data = unpacked(Catalog(tmp_path).page())
    assert about[0]["problem"] == ""
    assert [visible(text) for text in data[0]["texts"]] == ["", visible(HOSTILE)]
