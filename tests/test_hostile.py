"""What is in a store or a run may be odd, or come from somebody who means harm: it is told in a line, and harms nothing."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
import yaml
from bench_small.asking import asked
from bench_small.flipping import UNDRAWN, Place
from bench_small.mangling import mangled_file

from bench_core.errors import BenchError
from bench_core.runs.results import read_run
from bench_core.storage.artifact import MANIFEST, write_manifest
from bench_core.storage.locks import Locks
from bench_reports.figures.distributions import DISTRIBUTIONS


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run the small suite once for all tests; return where."""
    import bench_small.plugin

    from bench_core import registry

    with registry.extra(bench_small.plugin):
        place = Place(tmp_path_factory.mktemp("made"))
    (run,) = (place.folder / "runs").iterdir()
    run.rename(run.with_name("run"))
    return place


@pytest.fixture
def place(made, tmp_path, small):
    """Return a copy of the store and the run, for a test to spoil."""
    shutil.copytree(made.folder, tmp_path / "copy")
    return made.at(tmp_path / "copy")


def bench(place, *words, codes=(0, 1, 2)):
    """Ask for something in a place; see that the answer is in words, and return it."""
    answer = asked([str(word) for word in words], codes)
    assert not [text for text in answer.wrong if text != "it says not where"], answer
    return answer


def questions(place):
    """Return every command that reads a run."""
    run, store = place.folder / "runs" / "run", ("--store", place.store.root)
    new = place.folder / "new"
    other = (
        shutil.copytree(run, place.folder / "runs" / "other")
        if not (place.folder / "runs" / "other").exists()
        else run
    )
    return {
        "show": ["show", run, "one", "argmax"],
        "report": ["report", run, "--out", new],
        "verify": ["verify", run, *store],
        "merge": ["merge", run, other, "--runs", new / "runs", "--out", new],
        "export": ["export", run, *store, "-o", place.folder / "x.zip"],
        "why": ["why", run, *store],
        "gc": ["store", "gc", "--keep", run, "--dry-run", *store],
    }


# Runs


DEEP = b"[" * 100_000
ODD = [
    ("cells.jsonl", b"{"), ("cells.jsonl", DEEP), ("cells.jsonl", b'{"a":' * 50_000), ("cells.jsonl", b"[]\n"),
    ("cells.jsonl", b"null\n"), ("cells.jsonl", b"1\n"), ("cells.jsonl", b"{}\n"), ("cells.jsonl", b"\xff\xfe"), ("cells.jsonl", b"\0"),
    ("run.json", b""), ("run.json", DEEP), ("run.json", b"[]"), ("run.json", b"3"), ("run.json", b"null"), ("run.json", b'{"tasks": []}'),
    ("run.json", b'{"samples": [{"cell": 1}]}'), ("run.json", b'{"models": {"one": 1}}'), ("run.json", b'{"label": "' + b"x" * 9000 + b'"}'),
    ("run.json", b'{"environments": 1}'), ("run.json", b'{"read": 1}'), ("run.json", b'{"changes": [1]}'),
    ("published.json", b"[]"), ("published.json", DEEP), ("published.json", b'{"a": 1}'), ("published.json", b'{"a": {"id": 1}}'),
    ("suite.yaml", b""), ("suite.yaml", b"- a"), ("suite.yaml", DEEP), ("suite.yaml", b"suite: !!python/object:os.system x"),
    ("suite.yaml", b"suite: a"), ("suite.yaml", b"\xff"), ("distributions.jsonl", b"[]\n"), ("distributions.jsonl", DEEP),
    ("distributions.jsonl", b'{"counts": {}}\n'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content"), ODD, ids=range(len(ODD)))
def test_odd_files_of_a_run_are_told_in_a_line(place, name, content):
    (place.folder / "runs" / "run" / name).write_bytes(content)
    with pytest.raises(BenchError) as caught:
        DISTRIBUTIONS.read(read_run(place.folder / "runs" / "run"))
    assert "\n" not in str(caught.value) or name == "suite.yaml"
    assert len(str(caught.value)) < 500 + len(str(place.folder))
    assert name in str(caught.value)


def test_every_command_that_reads_a_run_refuses_an_odd_one(place):
    for words in questions(place).values():
        (place.folder / "runs" / "run" / "cells.jsonl").write_bytes(b'{"cell": []}\n')
        answer = bench(place, *words, codes=(1,) if words[0] == "verify" else (2,))
        assert "cells.jsonl: cell: Input should be" in answer.text


@pytest.mark.parametrize("field", ["cell", "status", "reason", "numbers", "artifacts"])
@pytest.mark.parametrize("value", [None, [], {"x": []}, 1, "gone"])
def test_cells_that_lack_something_or_have_something_else_are_refused(place, field, value):
    path = place.folder / "runs" / "run" / "cells.jsonl"
    cell, *rest = map(json.loads, path.read_text().splitlines())
    changed = {key: one for key, one in cell.items() if key != field} if value == "gone" else {**cell, field: value}
    if type(changed.get(field)) is not type(cell[field]):
        path.write_text("".join(f"{json.dumps(one)}\n" for one in [*rest, changed]))
        with pytest.raises(BenchError, match=rf"cells\.jsonl: {field}"):
            read_run(path.parent)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("units", -1),
        ("units", 1.5),
        ("block", "two"),
        ("error", None),
        ("error", "a"),
        ("scale", "square"),
        ("interval", [0, 1]),
    ],
)
def test_what_tests_need_of_a_number_is_checked(place, field, value):
    path = place.folder / "runs" / "run" / "cells.jsonl"
    cells = [json.loads(line) for line in path.read_text().splitlines()]
    cells[0]["numbers"]["ended"][field] = value
    path.write_text("".join(f"{json.dumps(one)}\n" for one in cells))
    with pytest.raises(BenchError, match=rf"cells\.jsonl: numbers\.ended\.{field}"):
        read_run(path.parent)


@pytest.mark.parametrize(("key", "value"), [("lr", "fast"), ("batch_size", 0), ("phases", [{"updates": "x"}])])
def test_settings_of_a_training_are_checked(place, key, value):
    path = place.folder / "runs" / "run" / "suite.yaml"
    data = yaml.safe_load(path.read_text())
    data["training"][key] = value
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(BenchError, match=rf"suite\.yaml: {key}"):
        read_run(path.parent)


@pytest.mark.parametrize("name", ["cells.jsonl", "run.json", "published.json", "suite.yaml", "distributions.jsonl"])
@pytest.mark.parametrize("what", ["pipe", "folder", "device", "huge"])
def test_what_is_no_file_of_a_run_is_not_opened(place, name, what):
    path = place.folder / "runs" / "run" / name
    path.unlink()
    make = {
        "pipe": os.mkfifo,
        "folder": os.mkdir,
        "device": lambda path: os.symlink("/dev/zero", path),
        "huge": _huge,
    }
    make[what](path)
    with pytest.raises(BenchError, match=name):
        DISTRIBUTIONS.read(read_run(path.parent))


def _huge(path):
    with path.open("wb") as file:
        file.truncate(2**40)  # takes no room


@pytest.mark.quick(2)
@pytest.mark.parametrize("seed", range(4))
def test_mangled_runs_are_read_or_refused_in_words(made, tmp_path, small, seed):
    for number in range(12):
        random = Random(f"{seed}/{number}")
        place = made.at(shutil.copytree(made.folder, tmp_path / str(number)))
        run = place.folder / "runs" / "run"
        files = sorted(path for path in run.rglob("*") if path.is_file() and path.name != "log")
        path = random.choice([*files, run / "cells.jsonl", run / "run.json"])
        path.write_bytes(mangled_file(path.name, path.read_bytes(), random))
        asked_for = questions(place)
        bench(place, *random.choice([words for name, words in asked_for.items() if name not in ("report", "merge")]))


# Stores


def forge(folder):
    """Write a manifest for what is in the folder of an artifact, as somebody might who changed it."""
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).unlink()
    about = {name: manifest[name] for name in ("ingredients", "provenance", "cost", "label") if name in manifest}
    write_manifest(folder, manifest["kind"], manifest["key"], about)


FOREIGN = [
    ("measure", "number.json", b"[]"), ("measure", "number.json", b'{"value": 1}'), ("measure", "number.json", DEEP),
    ("measure", "draws.npy", b""), ("measure", "draws.npy", b"\x80\x04K\x01."), ("prepare", "task_info.json", b"{}"), ("prepare", "task_info.json", b"null"),
    ("prepare", "task_info.json", b'{"vocabulary": 3}'), ("train", "training.json", b"[]"), ("decode", "samples.json", b'{"a": 1}'),
    ("decode", "samples.json", b"[[]]"),
]  # fmt: skip


@pytest.mark.quick(4, 4)
@pytest.mark.parametrize(("kind", "name", "content"), FOREIGN, ids=range(len(FOREIGN)))
def test_what_no_stage_writes_is_set_aside_and_made_again_though_its_manifest_fits(place, kind, name, content):
    path = next((place.store.root / kind).glob(f"*/{name}"))
    path.write_bytes(content)
    forge(path.parent)
    found, warnings = place.report()
    assert found == place.wanted
    assert sum(str(path) in text for text in warnings) == 1
    assert len(list((place.store.root / "set-aside").glob(f"*/*/{name}"))) == 1, "nothing is lost"


@pytest.mark.parametrize("kind", ["measure", "decode", "train"])
def test_swapped_artifacts_are_told_and_made_again(place, kind):
    one, other, *_ = sorted((place.store.root / kind).iterdir())
    shutil.move(one, place.folder / "aside")
    shutil.move(other, one)
    shutil.move(place.folder / "aside", other)
    told = bench(place, "store", "verify", "--store", place.store.root, codes=(1,)).text
    assert told.count("it belongs to another artifact") == 2
    found, warnings = place.report()
    assert found == place.wanted
    assert len(warnings) == 2


def test_swapped_files_are_told_and_made_again(place):
    numbers = sorted((place.store.root / "measure").glob("*/number.json"))
    one, other = next((a, b) for a in numbers for b in numbers if a.read_bytes() != b.read_bytes())
    ours, theirs = one.read_bytes(), other.read_bytes()
    one.write_bytes(theirs), other.write_bytes(ours)
    found, warnings = place.report()
    assert found == place.wanted
    assert {str(one), str(other)} == {text.split(": ")[0] for text in warnings}


def test_artifacts_of_a_newer_version_are_kept_aside_and_made_again(place):
    folder = next((place.store.root / "measure").iterdir())
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "format": 2}))
    told = bench(place, "store", "verify", "--store", place.store.root, codes=(1,)).text
    assert "a newer version of bench wrote it, in format 2, but this version reads format 1" in told
    found, _ = place.report()
    assert found == place.wanted
    (kept,) = (place.store.root / "set-aside").glob(f"*/*/{MANIFEST}")
    assert json.loads(kept.read_text())["format"] == 2


def test_predictions_that_are_no_predictions_though_their_manifest_says_so_fail_their_cells(place):
    for folder in (place.store.root / "decode").iterdir():
        (folder / "predictions.jsonl.gz").write_bytes(gzip.compress(b'{"id": "__import__(\'os\')"}\n'))
        forge(folder)
    shutil.rmtree(place.store.root / "measure")
    (place.folder / "undrawn.yaml").write_text(UNDRAWN)
    answer = bench(place, "run", place.folder / "undrawn.yaml", "--workers", 0, "--store", place.store.root,
                   "--runs", place.folder / "new", "--out", place.folder / "new", "--data", place.folder, codes=(0, 1))  # fmt: skip
    assert answer.code == 1
    assert "failed" in answer.text


def test_a_lock_that_is_a_link_does_no_harm_to_what_it_points_at(tmp_path):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "locks").mkdir()
    for name in ("gate", "train-k"):
        link = tmp_path / "locks" / f"{name}.lock"
        link.symlink_to(tmp_path / "mine")
        with (
            pytest.raises(BenchError, match="the store cannot be written"),
            Locks(tmp_path / "locks").hold("train-k"),
        ):
            pass
        assert (tmp_path / "mine").read_text() == "precious"
        link.unlink()


@pytest.mark.parametrize("content", [b"", b"12345", DEEP])
def test_what_a_dead_process_left_in_a_lock_means_nothing(place, content):
    locks = place.store.root / "locks"
    for path in sorted((place.store.root / "measure").iterdir()):
        (locks / f"measure-{path.name}.lock").write_bytes(content)
        shutil.rmtree(path)
    found, warnings = place.report()
    assert (found, warnings) == (place.wanted, [])


@pytest.mark.slow
def test_a_clock_that_goes_back_changes_nothing(place, monkeypatch):
    for path in place.store.root.rglob("*"):
        os.utime(path, (2**32, 2**32))  # in the year 2106
    now = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(now)))
    monkeypatch.setattr(time, "strftime", lambda form, *given: "20010101-000000")
    for _ in range(3):
        shutil.rmtree(place.store.root / "score")
        shutil.rmtree(place.store.root / "measure")
        assert place.report() == (place.wanted, [])
    names = sorted(path.name for path in (place.folder / "runs").iterdir())
    assert names == ["run", *(f"tests-small-20010101-000000{number}" for number in ("", "-2", "-3"))]


# File systems of their own

CHILD = """
import json, shutil, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import bench_small.plugin
from bench_core import registry
from bench_small.asking import asked
from bench_small.flipping import UNDRAWN
from bench_reports.figures.distributions import DISTRIBUTIONS

mounted, source = Path(sys.argv[3]), Path(sys.argv[2])
mount = lambda options: subprocess.run(["mount", "-o", options, "-t", "tmpfs", "tmpfs", mounted], check=True)

def run(runs="new", more=()):
    new = source / runs
    (source / "undrawn.yaml").write_text(UNDRAWN)
    words = ["run", source / "undrawn.yaml", "--store", mounted / "store", "--runs", new, "--out", new, "--data", source]
    answer = asked([*map(str, words), "--workers", "0", *more], (0, 1, 2))
    reports = sorted(new.rglob("results.json"))
    return [answer.code, answer.text, [one for one in answer.wrong if "where" not in one], reports and reports[0].read_text()]

with registry.extra(bench_small.plugin):
    print(json.dumps(ACTION))
"""
READ_ONLY = """(mount("size=16m"), shutil.copytree(source / "store", mounted / "store"), mount("remount,ro"), run(),
    run("other", ["--set", "models.two.scale=3.0"]))[3:]"""
FULL = """(mount("size=100k"), run(), mount("remount,size=16m"), run("other"))[1::2]"""


@pytest.fixture
def child(place):
    """Return a function that does something where file systems can be mounted that others do not see."""
    alone = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
    mounted = place.folder / "mounted"
    mounted.mkdir()
    trial = [*alone, "mount", "-t", "tmpfs", "tmpfs", mounted]
    if not shutil.which("unshare") or subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")

    def go(action):
        code = CHILD.replace("ACTION", action)
        words = [*alone, sys.executable, "-c", code, Path(__file__).parent / "small", place.folder, mounted]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return go


@pytest.mark.nightly
def test_a_store_that_can_only_be_read_is_enough_where_all_is_stored_and_told_of_where_it_is_not(place, child):
    whole, lacking = child(READ_ONLY)
    assert whole == [0, whole[1], [], place.wanted["report/results.json"].decode()]
    assert "all stored, nothing computed" in whole[1]
    assert lacking[0] == 1
    assert not lacking[2]
    assert "the store cannot be written: read-only file system. Use a writable store with --store." in lacking[1]


@pytest.mark.nightly
def test_a_full_store_is_told_of_and_goes_on_where_it_was_once_there_is_room(place, child):
    full, roomy = child(FULL)
    assert full[0] == 1
    assert not full[2]
    assert "the store cannot be written: no space left on device. Free some space" in full[1]
    assert roomy == [0, roomy[1], [], place.wanted["report/results.json"].decode()]
