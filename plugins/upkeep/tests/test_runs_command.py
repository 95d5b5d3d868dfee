"""`bench runs ls|rm`: what is listed of runs, and that nothing but runs is removed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import bench_small.plugin
import pytest
from bench_small.runs import HOSTILE
from bench_small.suites import SUITE

import bench_core
from bench_core import SuiteError, registry
from bench_core.commands.main import main
from bench_core.runs.results import read_run
from bench_core.storage.store import Store
from bench_upkeep.garbage import collect, weight
from bench_upkeep.run_folders import remove_run, run_folders

OTHER = SUITE.replace("two: {name: bigram, scale: 2.0}", "two: {name: bigram, breaks: training}")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run two suites that share a model, once for all tests; one model of the second fails."""
    folder = tmp_path_factory.mktemp("made")
    with registry.extra(bench_small.plugin):
        for name, text, profile in (("one-20260102-030405", SUITE, None), ("two-20260102-030405-2", OTHER, "tiny")):
            (folder / "suite.yaml").write_text(text.replace("epochs: 3", "epochs: 1"))
            run = bench_core.run(
                folder / "suite.yaml", seeds=1, profile=profile, store=folder / "store", out=folder / "runs", data=folder
            )  # fmt: skip
            run.folder.rename(folder / "runs" / name)
    return folder


@pytest.fixture
def bench(made, tmp_path, monkeypatch, capsys):
    """Return a function that runs a command where a copy of the store and the runs is."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def run(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["bench", "runs", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        said = "".join(capsys.readouterr())
        assert stop.value.code == code, said
        return said

    return run


ONE, TWO = "one-20260102-030405", "two-20260102-030405-2"


def test_runs_are_listed_with_their_cells_time_and_size(bench):
    shutil.copytree(f"runs/{ONE}", "runs/renamed")
    Path("runs/none").mkdir()
    Path("runs/.hidden").mkdir()
    Path("runs/.hidden/cells.jsonl").touch()
    Path("runs/file").touch()
    listed = {one["name"]: one for one in json.loads(bench("ls", "--json"))["found"]}
    assert {*listed} == {ONE, TWO, "renamed"}
    first, second = listed[ONE], listed[TWO]
    assert (first["suite"], first["profile"], first["time"]) == ("tests/small", None, "2026-01-02T03:04:05")
    assert [first[count] for count in ("done", "failed", "not_run")] == [4, 0, 0]
    assert (second["profile"], second["time"]) == ("tiny", "2026-01-02T03:04:05")
    assert [second[count] for count in ("done", "failed", "not_run")] == [2, 2, 0]
    assert first["size"] == sum(path.stat().st_size for path in Path("runs", ONE).rglob("*") if path.is_file())
    assert listed["renamed"]["time"].startswith("20")
    text = bench("ls")
    assert all(name in text for name in listed)
    assert "3 runs, " in text


def test_a_damaged_run_is_listed_as_such_and_can_be_removed(bench):
    Path("runs", ONE, "run.json").write_text("{")
    listed = {one["name"]: one for one in json.loads(bench("ls", "--json"))["found"]}
    assert "run.json" in listed[ONE]["damaged"]
    assert listed[TWO]["damaged"] == ""
    assert "damaged: see `bench verify`" in bench("ls")
    bench("rm", ONE, "--yes", "--store", "store")
    assert [path.name for path in run_folders(Path("runs"))] == [TWO]


def test_no_name_of_a_run_steers_the_terminal(bench):
    shutil.copytree(f"runs/{ONE}", f"runs/{HOSTILE.replace('/', '')}")
    assert "\x1b" not in bench("ls")
    assert "\x1b" not in bench("rm", f"runs/{HOSTILE.replace('/', '')}", "--yes", "--store", "store")


def test_where_there_are_no_runs_that_is_said(bench):
    assert "Choose a folder with --runs" in bench("ls", "--runs", "nowhere", code=2)
    Path("empty").mkdir()
    assert "0 runs" in bench("ls", "--runs", "empty")


def test_a_removed_run_is_gone_and_nothing_else(bench, made):
    before = {path for path in Path().rglob("*") if "locks" not in path.parts}
    said = bench("rm", ONE, "--yes", "--store", "store")
    assert "removed 1 run" in said
    gone = before - {*Path().rglob("*")}
    assert gone == {path for path in before if path.parts[:2] == ("runs", ONE)}
    assert [*Path("runs").iterdir()] == [Path("runs", TWO)]


def test_what_gc_would_free_then_is_said(bench):
    said = bench("rm", f"runs/{ONE}", "--yes", "--store", "store")
    keys = read_run(Path("runs", TWO)).named_keys()
    freed = collect(Store(Path("store")), keys, dry=True)
    assert 0 < sum(map(sum, freed.sizes.values())) < weight(Path("store"))
    assert f"would free {sum(map(sum, freed.sizes.values())) / 1024:.1f} KiB in store." in said
    assert f"`bench store gc --keep {Path.cwd() / 'runs'}/*`" in said
    said = bench("rm", TWO, "--yes", "--store", "store")
    assert "No other runs are left. Unless it is used elsewhere, all of store can be removed: " in said
    assert "There is no store nowhere." in bench("rm", restored(), "--yes", "--store", "nowhere")


def restored():
    """Write a run again, and return its path."""
    Path("runs/again").mkdir()
    for name in ("cells.jsonl", "run.json", "suite.yaml"):
        Path("runs/again", name).touch()
    return "runs/again"


def test_nothing_is_removed_unless_somebody_says_yes(bench, monkeypatch):
    assert "Use --yes" in bench("rm", ONE, "--store", "store", code=2)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code, left in (("n", 130, [ONE, TWO]), ("", 130, [ONE, TWO]), ("y", 0, [TWO])):
        asked = []
        monkeypatch.setattr(
            "click.termui.visible_prompt_func", lambda text, asked=asked, one=answer: asked.append(text) or one
        )
        bench("rm", ONE, "--store", "store", code=code)
        assert "Remove 1 run?" in "".join(asked)
        assert sorted(path.name for path in Path("runs").iterdir()) == left


def not_a_run(folder):
    (folder / "run.json").unlink()


def stranger(folder):
    (folder / "thesis.tex").write_text("mine")


def note(folder):
    (folder / "notes").mkdir()
    (folder / "notes" / "mine").touch()


def hidden(folder):
    (folder / ".git").mkdir()
    (folder / ".git" / "config").touch()


def link_inside(folder):
    (folder / "run.json").rename(folder.parent / "elsewhere")
    (folder / "run.json").symlink_to(folder.parent / "elsewhere")


def old(folder):
    (folder / "manifest.json").unlink()
    (folder / "thesis.tex").write_text("mine")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (not_a_run, "is not a run: it has no run.json"),
        (stranger, "thesis.tex is not a file of the run"),
        (old, "thesis.tex is not a file of the run"),
        (note, "notes is not a file of the run"),
        (hidden, ".git is not a file of the run"),
        (link_inside, "is not a run: it has no run.json"),
    ],
)
def test_a_folder_that_is_no_run_or_holds_more_than_one_left_stays_and_so_do_all_others(bench, change, message):
    change(Path("runs", TWO).absolute())
    before = {*Path().rglob("*")}
    said = bench("rm", ONE, TWO, "--yes", "--store", "store", code=2)
    assert message in said
    assert "Nothing is removed" in said
    assert {*Path().rglob("*")} == before


@pytest.mark.parametrize("name", ["runs", ".", "..", "/", "store", "runs/none", "suite.yaml"])
def test_no_other_folder_is_removed(bench, name):
    before = {*Path().rglob("*")}
    bench("rm", name, "--yes", code=2)
    assert {*Path().rglob("*")} == before


def test_links_are_not_followed(bench, tmp_path):
    Path("link").symlink_to(Path("runs", ONE), target_is_directory=True)
    assert "link is a link" in bench("rm", "link", "--yes", code=2)
    assert Path("runs", ONE, "cells.jsonl").is_file()
    history = Path("runs", ONE, "history")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    shutil.rmtree(history)
    history.symlink_to(tmp_path / "mine", target_is_directory=True)
    assert "history is not a file of the run" in bench("rm", ONE, "--yes", code=2)
    (Path("runs", ONE) / "manifest.json").unlink()  # as of an old run, in which nobody knows what belongs to it
    bench("rm", ONE, "--yes", "--store", "store")
    assert (tmp_path / "mine" / "thesis.tex").is_file()


def test_a_run_that_is_being_written_is_refused(bench):
    Path("runs", ONE).rename(f"runs/.{ONE}-0a1b2c3d")
    assert "is an unfinished run" in bench("rm", f"runs/.{ONE}-0a1b2c3d", "--yes", code=2)
    assert Path(f"runs/.{ONE}-0a1b2c3d").is_dir()


def test_a_run_that_is_named_twice_is_removed_once(bench):
    assert "removed 1 run" in bench("rm", ONE, f"runs/{ONE}", f"./runs/../runs/{ONE}", "--yes", "--store", "store")


def test_an_export_is_no_run(tmp_path):
    (tmp_path / "there.zip").touch()
    with pytest.raises(SuiteError, match="not a run"):
        remove_run(tmp_path / "there.zip")
