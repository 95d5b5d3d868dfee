"""Runs carried between machines: what goes into a file, what is made of it, and which files are refused."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import struct
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np
import pytest
from bench_small import forging
from bench_small.command_line import bench_here
from bench_small.runs import cell, run_of, written
from bench_small.runs import stored as stored_run
from bench_small.suites import SUITE
from click.testing import CliRunner

import bench_core
from bench_core import registry
from bench_core.errors import StoreError, SuiteError
from bench_core.execution.progress import ProgressDisplay
from bench_core.planning.cache_keys import key_of
from bench_core.runs.manifest import NOTES
from bench_core.runs.manifest import write_manifest as write_run_manifest
from bench_core.runs.provenance import STAGES, files_digest, read_stages, write_stages
from bench_core.runs.results import number_digest, read_run
from bench_core.storage.artifact import FORMER_FILES, write_manifest
from bench_core.storage.contents import records
from bench_core.storage.predictions import write_lines
from bench_core.storage.store import Store
from bench_exchange.artifact_files import carried
from bench_exchange.commands.export import command as export_command
from bench_exchange.commands.import_ import command as import_command
from bench_exchange.exporting import export_run
from bench_exchange.importing import import_run
from bench_exchange.merge import merge
from bench_exchange.unpacking import MAX_UNPACKED_BYTES
from bench_exchange.verifying import Verifier
from bench_reports.render.report import screen
from bench_upkeep.commands.plan import command as plan_command
from block_bootstrap import REPLICATES, write_replicates
from code_digests import CodeDigests

FIGURES = """
figures:
  - {id: spread, kind: histogram, values: [ended], by: [model, decoder]}
  - {id: curve, kind: line, x: step, y: loss, by: [model]}
  - {id: ends, kind: survival, by: [model, decoder]}
  - {id: by-length, kind: line, x: reference.tokens, y: ended, by: [model, decoder], bins: 3}
"""


class Heard(ProgressDisplay):
    def __init__(self):
        self.kinds, self.warnings = [], []

    def begin(self, stage, number, total):
        self.kinds.append(stage.kind)

    def warn(self, text):
        self.warnings.append(text)


@pytest.fixture(scope="module")
def away(tmp_path_factory):
    """A folder of another machine: a suite, its run, the store behind, and the file that carries it."""
    import bench_small.plugin

    folder = tmp_path_factory.mktemp("away")
    (folder / "suite.yaml").write_text(SUITE.strip() + FIGURES)
    with registry.extra(bench_small.plugin):
        run = bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", data=folder)
    export_run(run, Store(folder / "store"), folder / "run.zip")
    return folder


@pytest.fixture
def home(tmp_path, away, small):
    """A folder of this machine, with the suite."""
    folder = tmp_path / "home"
    folder.mkdir()
    shutil.copy(away / "suite.yaml", folder)
    return folder


def store_of(folder):
    return Store(folder / "store")


def run_away(away):
    (folder,) = (away / "runs").iterdir()
    return read_run(folder)


def brought(home, path):
    return import_run(path, store_of(home), home / "runs")


def go(home, *settings):
    heard = Heard()
    options = {"store": home / "store", "out": home / "again", "data": home, "progress": heard}
    return bench_core.run(home / "suite.yaml", settings=settings, **options), heard


def entries(path):
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def first(names, *words):
    return next(name for name in names if all(word in name for word in words))


# what is carried


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes_here_and_from_where_it_was_imported(away, home, in_worker):
    export_run(run_away(away), store_of(away), home / "again.zip")
    assert (home / "again.zip").read_bytes() == (away / "run.zip").read_bytes()
    told = brought(home, away / "run.zip")
    export_run(read_run(told.run), store_of(home), home / "onward.zip")
    assert (home / "onward.zip").read_bytes() == (away / "run.zip").read_bytes()


def test_a_file_has_sorted_plain_entries_without_a_clock_and_no_weights_or_data(away):
    with ZipFile(away / "run.zip") as archive:
        infos = archive.infolist()
    names = [info.filename for info in infos]
    assert names == [*sorted(names[:-1]), "bundle.json"]
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    assert {name.rpartition("/")[2] for name in names if name.startswith("store/trained/")} == {
        "history.jsonl", "manifest.json", "training.json",
    }  # fmt: skip
    assert {name.rpartition("/")[2] for name in names if name.startswith("store/prepared/")} == {
        "task_info.json", "manifest.json",
    }  # fmt: skip
    assert not any(
        name.endswith("weights.safetensors") or name.startswith(("store/train/", "store/prepare/")) for name in names
    )


def test_every_kind_of_artifact_of_a_run_has_only_files_that_are_carried_or_left_behind_on_purpose(away):
    store = store_of(away)
    left = {"train": {"weights.safetensors"}, "prepare": {"data"}}
    for kind, key in store.entries():
        files = {name.partition("/")[0] for name in store.get(kind, key).manifest["files"]}
        carried_files = {*carried()[records().get(kind, kind)]} - {*FORMER_FILES.values()}
        assert files == carried_files | left.get(kind, set()), kind


@pytest.mark.slow
def test_a_run_after_an_import_computes_nothing_and_reports_the_same(away, home):
    told = brought(home, away / "run.zip")
    assert sum(told.added.values()) == 1 + 4 + 8 + 4 + 12
    words = [str(home / "suite.yaml"), "--store", str(home / "store"), "--data", str(home), "--json"]
    planned = json.loads(CliRunner().invoke(plan_command, words).output)["stages"]
    assert [(row["stage"], row["to do"]) for row in planned if row["used"]] == [
        ("prepare", 0), ("train", 0), ("decode", 0), ("score", 0), ("measure", 0),
    ]  # fmt: skip
    run, heard = go(home)
    assert heard.kinds == []
    reports = [written(each, home / name) for name, each in (("a", run), ("b", run_away(away)))]
    assert reports[0].keys() == reports[1].keys()
    assert {"figures/curve.svg", "figures/spread.svg", "report.tex"} <= reports[0].keys()
    assert reports[0] == reports[1]


def test_an_imported_run_is_reported_without_any_store(away, home):
    told = brought(home, away / "run.zip")
    assert (told.run / "cells.jsonl").read_bytes() == (run_away(away).folder / "cells.jsonl").read_bytes()
    text = screen(read_run(told.run))
    assert text == screen(run_away(away))
    assert "argmax" in text


def test_a_metric_added_after_an_import_is_measured_on_what_was_carried(away, home):
    brought(home, away / "run.zip")
    run, heard = go(home, "metrics.third={name: ended, most: 2}")
    assert set(heard.kinds) == {"measure"}
    assert all(one.numbers["third"].value is not None for one in run.cells)


@pytest.mark.slow
def test_a_training_without_weights_is_no_trained_model(away, home):
    brought(home, away / "run.zip")
    store = store_of(home)
    assert not [name for name in store.entries() if name[0] in ("train", "prepare")]
    run, heard = go(home, "decoders.short={name: argmax, max_tokens: 2}")
    assert {kind: heard.kinds.count(kind) for kind in ("prepare", "train", "decode", "score")} == {
        "prepare": 1, "train": 4, "decode": 4, "score": 0,
    }  # fmt: skip
    assert {one.status for one in run.cells} == {"done"}
    assert heard.warnings == []


def test_a_training_that_comes_out_otherwise_than_the_imported_one_is_told_of(away, home):
    told = changed(away / "run.zip", home / "other.zip", lambda all: other_weights(all, home))
    brought(home, told)
    _, heard = go(home, "decoders.short={name: argmax, max_tokens: 2}")
    assert len(heard.warnings) == 1
    assert re.search(
        r"train of words x .* differs from the imported record \(weights.safetensors\)", heard.warnings[0]
    )


def other_weights(all, folder):
    """Let one training of a file say that its weights were others, and the run of the file record that."""
    name = first(all, "store/trained/", "manifest.json")
    manifest = json.loads(all[name])
    manifest["left_out"]["weights.safetensors"]["sha256"] = "0" * 64
    reseal(all, folder, manifest)
    changed_run(all, folder, lambda run: with_stage(run, manifest["key"], result=files_digest(manifest)))


def with_stage(run, key, **changes):
    """Let a run record a stage otherwise."""
    stages = read_stages(run)
    write_stages(run / STAGES, {**stages, key: replace(stages[key], **changes)}.values())


def changed_run(all, folder, change):
    """Change the run in a file, and its manifest with it."""
    place = folder / "changed" / "run"
    shutil.rmtree(place, ignore_errors=True)
    for name in [name for name in all if name.startswith("run/")]:
        path = place / name.removeprefix("run/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(all.pop(name))
    change(place)
    forging.reseal(place)
    for path in place.rglob("*"):
        if path.is_file():
            all[f"run/{path.relative_to(place).as_posix()}"] = path.read_bytes()


def reseal(all, folder, manifest):
    """Put a changed manifest into a file as if it had always been so."""
    kind, key = manifest["kind"], manifest["key"]
    place = folder / f"resealed-{kind}-{key}"
    place.mkdir()
    for name in manifest["files"]:
        (place / name).write_bytes(all[f"store/{kind}/{key}/{name}"])
    about = {name: value for name, value in manifest.items() if name not in ("files", "seal", "format")}
    write_manifest(place, kind, key, about)
    all[f"store/{kind}/{key}/manifest.json"] = (place / "manifest.json").read_bytes()


@pytest.mark.slow
def test_what_is_here_already_is_kept(away, home):
    brought(home, away / "run.zip")
    store = store_of(home)
    kept = {path: path.stat().st_mtime_ns for path in (home / "store").rglob("*.json")}
    told = brought(home, away / "run.zip")
    assert not told.added
    assert told.known == len(store.entries())
    assert told.left_out == {}
    assert {path: path.stat().st_mtime_ns for path in (home / "store").rglob("*.json")} == kept
    assert len(list((home / "runs").iterdir())) == 1


@pytest.mark.slow
def test_another_run_of_the_same_name_is_kept_beside(away, home):
    first_run = brought(home, away / "run.zip").run
    (first_run / "log").write_text("changed\n")
    second = brought(home, away / "run.zip").run
    assert second.name == f"{first_run.name}-2"
    assert (first_run / "log").read_text() == "changed\n"


def tampered(store, kind, change):
    """Let the first stored artifact of a kind have another content under its key."""
    key = next(key for known, key in store.entries() if known == kind)
    artifact = store.get(kind, key)
    change(artifact.folder)
    about = {name: artifact.manifest[name] for name in ("ingredients", "provenance", "cost")}
    (artifact.folder / "manifest.json").unlink()
    write_manifest(artifact.folder, kind, key, about)
    return key


def test_an_artifact_of_another_content_is_left_out_and_ours_stays(away, home):
    shutil.copytree(away / "store", home / "store")
    store = store_of(home)
    number = json.loads(next((home / "store" / "measure").glob("*/number.json")).read_text())
    other = {**number, "value": 7.0}
    key = tampered(store, "measure", lambda folder: (folder / "number.json").write_text(json.dumps(other)))
    imported = brought(home, away / "run.zip")
    assert imported.left_out == {
        key: f"measure {key} is left out: the store has other content under this key (number.json)"
    }
    assert store.get("measure", key).json("number.json") == other


def test_what_was_computed_from_an_artifact_of_another_content_is_left_out_with_it(away, home):
    (home / "store").mkdir()
    shutil.copytree(away / "store" / "train", home / "store" / "train")
    store = store_of(home)
    key = tampered(store, "train", lambda folder: (folder / "weights.safetensors").write_bytes(b"others"))
    imported = brought(home, away / "run.zip")
    behind = {
        one.artifacts[name]: name.partition("/")[0] for one in run_away(away).cells if one.artifacts["train"] == key
        for name in one.artifacts if name != "prepare"
    }  # fmt: skip
    assert imported.left_out.keys() == behind.keys()
    assert "(weights.safetensors)" in imported.left_out[key]
    assert not any(store.has(kind, key) for key, kind in behind.items() if kind != "train")
    _, heard = go(home)
    assert sorted(set(heard.kinds)) == ["decode", "measure", "prepare", "score"], "ours is what goes on being used"


@pytest.mark.slow
def test_what_results_were_computed_with_travels_with_them(away, home):
    brought(home, changed(away / "run.zip", home / "other.zip", lambda all: other_python(all, home)))
    run, heard = go(home, "seeds=[0, 1, 2]")
    assert heard.kinds.count("train") == 2
    text = written(run, home / "report")["report.md"].decode()
    assert re.search(r"- Computed with: python 9\.9\.9, torch [^;]*\(seed 0, 1\); python 3\.[^;]*\(seed 2\)\n", text)
    notes = re.findall(
        r"- Computed in different environments: python 9\.9\.9 \(seed 0, 1\); python 3\.[\d.]+ \(seed 2\)\.\n", text
    )
    assert len(notes) == 1, "once, for the table and all figures"


def other_python(all, folder):
    """Let all results of a file have been computed with another Python."""
    for name in artifact_manifests(all):
        manifest = json.loads(all[name])
        manifest["provenance"]["python"] = "9.9.9"
        reseal(all, folder, manifest)

    def told(info):
        info["environments"][0]["python"] = "9.9.9"

    changed_run(all, folder, lambda run: forging.edited_json(run / "run.json", told))


def artifact_manifests(all):
    return [name for name in all if name.startswith("store/") and name.endswith("manifest.json")]


def test_numbers_alone_hold_neither_outputs_nor_facts(away, home):
    told = export_run(run_away(away), store_of(away), home / "numbers.zip", numbers_only=True)
    kinds = {name.split("/")[1] for name in entries(home / "numbers.zip") if name.startswith("store/")}
    assert kinds == {"measure", "trained"}
    assert {*told.left_out} == {"decode", "score", "prepare"}
    brought(home, home / "numbers.zip")
    run, heard = go(home)
    assert "measure" not in heard.kinds
    assert [one.numbers for one in run.cells] == [one.numbers for one in run_away(away).cells]


@pytest.mark.parametrize(
    ("part", "carried"), [(1, True), ([1, [2.5, None]], True), ("word", False), ({"a": 1}, False)]
)
def test_parts_that_hold_words_are_no_numbers(tmp_path, part, carried):
    key = "a" * 64
    one = cell("rnn", "greedy", 0)
    run = stored_run(run_of(tmp_path, [type(one)(one.cell, "done", artifacts={"measure/rate": key})], {}))
    write_run_manifest(run.folder, "run", "run")
    with Store(tmp_path / "store").writing("measure", key, {}) as folder:
        write_lines(folder / "parts.jsonl.gz", [1, part])
        (folder / "number.json").write_text("{}")
    told = export_run(run, Store(tmp_path / "store"), tmp_path / "numbers.zip", numbers_only=True)
    assert bool(told.carried["measure"]) is carried


def test_what_is_missing_or_damaged_is_told_and_left_out(away, home):
    shutil.copytree(away / "store", home / "store")
    store = store_of(home)
    gone, damaged = [key for kind, key in store.entries() if kind == "measure"][:2]
    shutil.rmtree(store.path("measure", gone))
    (store.path("measure", damaged) / "number.json").write_text("{}")
    run = run_away(away).folder
    done = CliRunner().invoke(
        export_command,
        [str(run), "-o", str(home / "rest.zip"), "--store", str(home / "store")],
        standalone_mode=False,
    )
    assert done.return_value == 1
    assert "not in the store: 1 artifacts" in done.output
    assert f"{damaged}/number.json: the file is damaged" in done.output
    assert brought(home / "other", home / "rest.zip").added["measure"] == 10


def test_an_export_overwrites_nothing_and_leaves_nothing_half_written(away, home):
    (home / "there.zip").write_text("precious")
    with pytest.raises(SuiteError, match=r"there.zip already exists"):
        export_run(run_away(away), store_of(away), home / "there.zip")
    with pytest.raises(SuiteError, match="cannot be written: there is no such file"):
        export_run(run_away(away), store_of(away), home / "nowhere" / "x.zip")
    assert {path.name for path in home.iterdir()} == {"suite.yaml", "there.zip"}


def test_notes_of_people_do_not_keep_a_run_from_being_exported(away, home):
    shutil.copytree(away / "runs", home / "runs")
    (folder,) = (home / "runs").iterdir()
    (folder / NOTES).mkdir()
    (folder / NOTES / "why.txt").write_text("To see whether it ends.")
    export_run(read_run(folder), store_of(away), home / "noted.zip")
    assert (home / "noted.zip").read_bytes() == (away / "run.zip").read_bytes()


# what is refused


def changed(path, target, change, relist=True):
    """Write a file again with changed entries, in whose list of contents they are unless that is to stay as it was."""
    all = entries(path)
    change(all)
    if relist:
        about = json.loads(all["bundle.json"])
        about["digests"] = {
            name: sha256(content).hexdigest() for name, content in all.items() if name != "bundle.json"
        }
        all["bundle.json"] = json.dumps(about).encode()
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for name, content in all.items():
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return target


def refused(path, home, limit=MAX_UNPACKED_BYTES):
    """Return why a file is not taken in, after looking that it left nothing."""
    with pytest.raises(StoreError) as error:
        import_run(path, store_of(home), home / "runs", limit)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{path}: ")
    assert not (home / "store").exists()
    assert not (home / "runs").exists()
    return str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        "../evil", "/evil", "run/../../evil", "run/history/../../../evil.jsonl", "run\\evil", "C:\\evil", "evil", "run/evil",
        f"store/decode/{'a' * 64}/../../../evil", f"store/train/{'a' * 64}/weights.safetensors", "store/decode/a/x",
        f"store/../{'a' * 64}/number.json", f"store/decode/{'a' * 64}/number.json", "run/", "run/history/.jsonl/x.jsonl",
    ],
)  # fmt: skip
def test_entries_with_other_names_are_refused(away, home, name):
    path = changed(away / "run.zip", home / "x.zip", lambda all: all.update({name: b"{}"}))
    assert re.search(r"an unexpected or duplicate entry|is a folder", refused(path, home))


def test_a_link_is_unpacked_as_text_and_never_followed(away, home):
    info = ZipInfo("run/log")
    info.create_system, info.external_attr = 3, 0o120777 << 16

    def change(all):
        changed_run(all, home, lambda run: (run / "log").write_text("/etc/passwd"))

    changed(away / "run.zip", home / "y.zip", change)
    with ZipFile(home / "x.zip", "w") as archive:
        for name, content in entries(home / "y.zip").items():
            archive.writestr(info if name == "run/log" else name, content)
    log = brought(home, home / "x.zip").run / "log"
    assert not log.is_symlink()
    assert log.read_text() == "/etc/passwd"


def test_one_name_twice_is_refused(away, home):
    shutil.copy(away / "run.zip", home / "x.zip")
    with pytest.warns(UserWarning, match="Duplicate name"), ZipFile(home / "x.zip", "a") as archive:
        archive.writestr("run/log", b"another")
    assert "it contains an unexpected or duplicate entry: 'run/log'" in refused(home / "x.zip", home)


def test_more_than_the_limit_is_refused_by_what_is_declared(away, home):
    path = changed(away / "run.zip", home / "x.zip", lambda all: all.update({"run/log": b" " * 2**24}))
    assert path.stat().st_size < 2**18
    assert "unpacked it exceeds 4,194,304 bytes" in refused(path, home, limit=2**22)


def test_more_than_the_limit_is_refused_when_it_is_packed_twice(away, home):
    def swell(all):
        replaced(all, home, first(all, "parts.jsonl.gz"), gzip.compress(b"1\n" * 2**20))

    path = changed(away / "run.zip", home / "x.zip", swell)
    assert path.stat().st_size < 2**17
    assert "unpacked it exceeds 1,048,576 bytes" in refused(path, home, limit=2**20)


def test_no_more_is_unpacked_of_an_entry_than_it_declares(away, home):
    path = changed(away / "run.zip", home / "x.zip", lambda all: all.update({"run/log": b"1234567890" * 1000}))
    content = bytearray(path.read_bytes())
    place = content.rindex(b"run/log") - 46  # of its entry in the directory at the end
    assert content[place : place + 4] == b"PK\x01\x02"
    struct.pack_into("<L", content, place + 24, 10)
    path.write_bytes(content)
    assert "run/log is damaged" in refused(path, home)


@pytest.mark.parametrize("kept", [0, 10, 0.5, -1, -30])
def test_what_is_cut_off_is_refused(away, home, kept):
    content = (away / "run.zip").read_bytes()
    end = int(len(content) * kept) if isinstance(kept, float) else kept
    (home / "x.zip").write_bytes(content[:end])
    assert "not a complete zip file" in refused(home / "x.zip", home)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_flipped_byte_is_noticed(away, home, share):
    content = bytearray((away / "run.zip").read_bytes())
    with ZipFile(away / "run.zip") as archive:
        info = archive.infolist()[int(share * len(archive.infolist()))]
    content[info.header_offset + 30 + len(info.filename) + info.compress_size // 2] ^= 1
    (home / "x.zip").write_bytes(content)
    assert "damaged" in refused(home / "x.zip", home)


@pytest.mark.parametrize("name", ["run/log", "store/measure/", "store/trained/"])
def test_a_content_that_is_not_that_of_the_list_is_refused(away, home, name):
    def change(all):
        found = first(all, name)
        all[found] = all[found][:-1] + bytes([all[found][-1] ^ 1])

    path = changed(away / "run.zip", home / "x.zip", change, relist=False)
    assert "is damaged: its digest differs from bundle.json" in refused(path, home)


@pytest.mark.parametrize(
    "about", [{}, [], {"format": "other"}, {"format": "bench export", "version": 1, "files": {}}]
)
def test_zips_of_others_and_of_other_versions_are_refused(away, home, about):
    def change(all):
        all["bundle.json"] = json.dumps(about).encode()

    text = refused(changed(away / "run.zip", home / "x.zip", change, relist=False), home)
    assert re.search("it was not written by `bench export` of this version .*; export it again", text)
    path = changed(away / "run.zip", home / "y.zip", lambda all: all.pop("bundle.json"), relist=False)
    assert "it was not written by `bench export` of this version" in refused(path, home)


@pytest.mark.parametrize("what", ["text", "nothing", "folder"])
def test_what_is_no_zip_is_refused(home, what):
    path = home / "x.zip"
    if what == "text":
        path.write_text("Dear reader,\n" * 100)
    if what == "folder":
        path.mkdir()
    assert re.search("not a complete zip file|: there is no such file|: is a directory", refused(path, home))


def test_what_the_list_has_too_much_or_too_little_is_refused(away, home):
    path = changed(away / "run.zip", home / "x.zip", lambda all: all.pop("run/log"), relist=False)
    assert "'run/log' is missing from the file or from its bundle.json" in refused(path, home)
    path = changed(
        away / "run.zip",
        home / "y.zip",
        lambda all: all.update({f"store/score/{'f' * 64}/predictions.jsonl.gz": b""}),
        False,
    )
    assert "is missing from the file or from its bundle.json" in refused(path, home)


def two(all, kind):
    """Return the folders of two artifacts of a kind that differ."""
    names = {
        name: set() for name in sorted(name.rpartition("/")[0] for name in all if name.startswith(f"store/{kind}/"))
    }
    for name, content in all.items():
        if name.rpartition("/")[0] in names and not name.endswith("/manifest.json"):
            names[name.rpartition("/")[0]].add(content)
    one, *others = names
    return one, next(other for other in others if names[one] != names[other])


# what contradicts itself


def cells_of(all, folder, change):
    changed_run(all, folder, lambda run: forging.edited_lines(run / "cells.jsonl", change))


def better(cell):
    """Let all numbers of a cell be good."""
    return cell | {"numbers": {name: one | {"value": 0.001} for name, one in cell["numbers"].items()}}


def swapped(cell):
    other = {"one": "two", "two": "one"}[cell["cell"]["model"]]
    return cell | {"cell": cell["cell"] | {"model": other}}


def forged_number(all, folder, value=0.001):
    """Forge a number in its artifact, in the cells, and in what the run records of the stage."""
    name = first(all, "store/measure/", "number.json")
    key = name.split("/")[2]
    all[name] = json.dumps({**json.loads(all[name]), "value": value}).encode()
    reseal(all, folder, json.loads(all[f"store/measure/{key}/manifest.json"]))

    def follow(run):
        def change(cell):
            for metric in cell["numbers"]:
                if cell["artifacts"][f"measure/{metric}"] == key:
                    cell["numbers"][metric]["value"] = value
            return cell

        forging.edited_lines(run / "cells.jsonl", change)
        found = read_run(run)
        numbers = {
            one.artifacts[f"measure/{name}"]: number for one in found.cells for name, number in one.numbers.items()
        }
        with_stage(run, key, result=number_digest(numbers[key], found.draws[key]))

    changed_run(all, folder, follow)
    return key


def test_numbers_that_are_not_those_of_the_artifacts_beside_them_are_refused(away, home):
    path = changed(away / "run.zip", home / "x.zip", lambda all: cells_of(all, home, better))
    text = refused(path, home)
    assert "run: words/one/argmax/test, seed 0: " in text
    assert "the number differs from the result of its stage" in text


def test_models_that_were_exchanged_are_refused(away, home):
    text = refused(changed(away / "run.zip", home / "x.zip", lambda all: cells_of(all, home, swapped)), home)
    assert "run: words/two/argmax/test, seed 0: train: model.scale is 0.1, but model 'two' on 'words' has 2.0" in text


def test_a_run_that_was_edited_without_its_manifest_is_refused(away, home):
    text = refused(changed(away / "run.zip", home / "x.zip", lambda all: all.update({"run/log": b"fine\n"})), home)
    assert "run/log: the file was changed: its digest differs from manifest.json" in text


def test_a_number_that_was_forged_everywhere_is_measured_again_from_its_predictions(away, home):
    path = changed(away / "run.zip", home / "x.zip", lambda all: forged_number(all, home))
    assert re.search(
        r"measure of (ended|nats) of words x .*: value is [\d.]+ but 0.001 in the store", refused(path, home)
    )


@pytest.mark.parametrize("file", ["draws.npy", "parts.jsonl.gz"])
def test_replicates_and_parts_that_were_forged_everywhere_are_computed_again(away, home, file):
    def change(all):
        name = first(all, "store/measure/", file)
        key = name.split("/")[2]
        content = BytesIO()
        draws = np.full((1, REPLICATES), 7.0)
        if file == "draws.npy":
            np.save(content, draws)
        else:
            content.write(gzip.compress(b"[1]\n" * 13, mtime=0))
        all[name] = content.getvalue()
        reseal(all, home, json.loads(all[f"store/measure/{key}/manifest.json"]))

        def follow(run):
            found = read_run(run)
            told = {**found.draws, key: draws} if file == "draws.npy" else found.draws
            write_replicates(run / "draws.safetensors", sorted(told.items()))
            numbers = {
                one.artifacts[f"measure/{name}"]: number
                for one in found.cells
                for name, number in one.numbers.items()
            }
            with_stage(run, key, result=number_digest(numbers[key], told[key]))

        changed_run(all, home, follow)

    text = refused(changed(away / "run.zip", home / "x.zip", change), home)
    assert f"{file}" in text, text


def test_a_forged_number_of_code_that_is_not_here_is_told_of_as_not_checked(away, home):
    def change(all):
        key = forged_number(all, home)
        manifest = json.loads(all[f"store/measure/{key}/manifest.json"])
        ingredients = {**manifest["ingredients"], "libraries": {"numpy": "0.1"}}
        new = key_of(ingredients)
        for name in [name for name in all if key in name]:
            all[name.replace(key, new)] = all.pop(name)
        reseal(all, home, {**manifest, "ingredients": ingredients, "key": new})

        def follow(run):
            text = (run / "cells.jsonl").read_text().replace(key, new)
            (run / "cells.jsonl").write_text(text)
            stages = [
                replace(stage, key=new, ingredients=ingredients) if stage.key == key else stage
                for stage in read_stages(run).values()
            ]
            write_stages(run / STAGES, stages)
            draws = read_run(run).draws
            write_replicates(
                run / "draws.safetensors",
                sorted({new if name == key else name: one for name, one in draws.items()}.items()),
            )

            def told(info):
                info["environments"] = [{**one, "libraries": {}} for one in info["environments"]]

            forging.edited_json(run / "run.json", told)

        changed_run(all, home, follow)

    imported = brought(home, changed(away / "run.zip", home / "x.zip", change))
    assert len(imported.unchecked) == 1
    assert re.search(r"1 of 12 numbers could not be recomputed, such as: .*numpy \(", imported.unchecked[0])


# code that is not here


@pytest.fixture
def edited(monkeypatch):
    """Return a context in which the code of some names is another one here than away."""

    @contextmanager
    def edit(*names):
        of_parts = CodeDigests.of_parts

        def other(self, roots):
            return {name: f"other {one}" if name in names else one for name, one in of_parts(self, roots).items()}

        with monkeypatch.context() as patch:
            patch.setattr(CodeDigests, "of_parts", other)
            yield

    return edit


#: What takes part in the small suite -> how many of its 29 stages it takes part in.
TAKING_PART = {
    "prepare": 1, "task letters": 17, "model bigram": 16, "decoder draw": 4, "metric ended": 8, "metric nats": 8,
    "train": 4, "score": 4, "decode": 8, "measure": 12,
}  # fmt: skip


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", TAKING_PART)
def test_no_stage_is_taken_whose_code_is_not_here(away, home, edited, name):
    with edited(name):
        text = refused(away / "run.zip", home)
    what = f"{TAKING_PART[name]} of 29 stages were computed by code that is not installed here: {name}"
    assert f"{what}; install that version, or import them unverified with --trust" in text


def test_parts_that_are_not_installed_are_named(away, tmp_path):
    text = refused(away / "run.zip", tmp_path)
    assert "29 of 29 stages were computed by code that is not installed here: task letters, model bigram" in text


NOTE = "Imported without verification (decoder draw): the code of decoder draw was not installed."


@pytest.mark.slow
def test_what_is_imported_on_trust_is_marked_wherever_its_numbers_stand(away, home, edited):
    """In the run that came, in one that reuses its stages, in both merged; not where the code is installed."""
    with edited("decoder draw"):
        brought = import_run(away / "run.zip", store_of(home), home / "runs", trust=True)
        assert NOTE in screen(read_run(brought.run))
        remarks = [*Verifier(store_of(home), home / "runs").verify(brought.run)]
    assert [remark.text for remark in remarks if remark.wrong] == []
    (text,) = [remark.text for remark in remarks if "on trust" in remark.text]
    assert "8 stages imported on trust or computed from such stages" in text  # with what was measured of them
    run, heard = go(home)
    assert heard.kinds == []
    assert NOTE in screen(run)
    more, _ = go(home, "seeds=[2]")
    assert NOTE not in screen(more)
    merged = merge([run.folder, more.folder], home / "runs")
    assert "Imported without verification (decoder draw; seed 0, 1)" in screen(merged)
    assert [remark.text for remark in Verifier(store_of(home)).verify(merged.folder) if remark.wrong] == []
    export_run(run, store_of(home), home / "onward.zip")
    other = import_run(home / "onward.zip", Store(home / "other"), home / "others")
    assert "without verification" not in screen(read_run(other.run))
    assert not (home / "other" / "trusted").exists()


KINDS = {
    "seeds trained together": {"batch_size: 8, select: {metric: nats}": "batch_size: 8, vmap_seeds: true"},
    "a decoder that chooses weights": {"select: {metric: nats}": "select: {metric: ended, decoder: draw}"},
    "an optimizer of our own": {"lr: 0.1": "optimizer: {name: 'steady_optimizer:Plain'}"},
}


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", KINDS)
def test_code_that_is_installed_is_no_false_alarm(home, monkeypatch, kind):
    text = SUITE.strip()
    (home / "steady_optimizer.py").write_text("import torch\n\nclass Plain(torch.optim.SGD):\n    pass\n")
    monkeypatch.syspath_prepend(home)
    for old, new in KINDS[kind].items():
        assert old in text
        text = text.replace(old, new)
    (home / "suite.yaml").write_text(text)
    run, _ = go(home)
    export_run(run, store_of(home), home / "run.zip")
    imported = import_run(home / "run.zip", Store(home / "other"), home / "others")
    assert not imported.unchecked
    assert not (imported.run / "unverified.json").exists()


def test_an_artifact_that_no_stage_of_the_run_left_is_refused(away, home):
    def change(all):
        changed_run(all, home, forgotten)

    def forgotten(run):
        write_stages(run / STAGES, [stage for stage in read_stages(run).values() if stage.kind != "score"])

    assert re.search("score|measure", refused(changed(away / "run.zip", home / "x.zip", change), home))


def test_an_export_is_verified_as_it_is(away, home, capsys):
    verifier = Verifier(Store(home / "none"))
    assert [*verifier.verify(away / "run.zip")] == []
    path = changed(away / "run.zip", home / "x.zip", lambda all: cells_of(all, home, better))
    told = [remark.text for remark in verifier.verify(path)]
    assert told[0].startswith(f"{path}: run: words/one/argmax/test, seed 0: ")
    assert not list(home.glob("store*"))


def test_swapped_entries_are_refused_however_well_they_are_listed(away, home):
    def files(all):
        one, other = two(all, "measure")
        for name in ("number.json", "parts.jsonl.gz"):
            all[f"{one}/{name}"], all[f"{other}/{name}"] = all[f"{other}/{name}"], all[f"{one}/{name}"]

    def folders(all):
        one, other = two(all, "decode")
        for name in ("manifest.json", "predictions.jsonl.gz", "samples.json"):
            all[f"{one}/{name}"], all[f"{other}/{name}"] = all[f"{other}/{name}"], all[f"{one}/{name}"]

    def renamed(all):
        folders(all)
        for folder in two(all, "decode"):
            manifest = json.loads(all[f"{folder}/manifest.json"])
            reseal(all, home, {**manifest, "key": folder.rpartition("/")[2]})

    assert re.search(
        "the file is damaged|is not what", refused(changed(away / "run.zip", home / "x.zip", files), home)
    )
    assert "belongs to another artifact" in refused(changed(away / "run.zip", home / "y.zip", folders), home)
    assert "the key does not match the ingredients" in refused(
        changed(away / "run.zip", home / "z.zip", renamed), home
    )


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"left_out": {"weights.safetensors": {"bytes": 1}}}, "no digest and size for 'weights.safetensors'"),
        ({"left_out": [1]}, "it does not list files"),
        ({"ingredients": {"kind": "train", "inputs": {"task": ["prepare"]}}}, "key does not match the ingredients"),
        ({"ingredients": None}, "ingredients is not a mapping"),
    ],
)
def test_manifests_that_no_bench_writes_are_refused(away, home, about, why):
    def change(all):
        name = first(all, "store/trained/", "manifest.json")
        manifest = {key: value for key, value in {**json.loads(all[name]), **about}.items() if key != "seal"}
        body = json.dumps(manifest, indent=1, sort_keys=True)
        seal = sha256(body.encode()).hexdigest()
        all[name] = f'{body[:-2]},\n "seal": "{seal}"\n}}'.encode()

    assert why in refused(changed(away / "run.zip", home / "x.zip", change), home)


def test_a_training_cannot_come_as_another_kind(away, home):
    def change(all):
        (folder, _) = two(all, "trained")
        key = folder.rpartition("/")[2]
        manifest = json.loads(all[f"{folder}/manifest.json"])
        info = all.pop(f"{folder}/history.jsonl") and all[first(all, "task_info.json")]
        all.pop(f"{folder}/training.json"), all.pop(f"{folder}/manifest.json")
        all[f"store/prepared/{key}/task_info.json"] = info
        reseal(all, home, {**manifest, "kind": "prepared", "files": {"task_info.json": {}}})

    text = refused(changed(away / "run.zip", home / "x.zip", change), home)
    assert "its ingredients belong to a train stage" in text


DEEP = b"[" * 100_000
SHAPES = [
    ("task_info.json", b'{"vocabulary": [1]}'), ("task_info.json", b'{"vocabulary": ["a"], "more": 1}'), ("task_info.json", DEEP),
    ("training.json", b'{"parameters": "many", "updates": 1}'), ("training.json", b"\xff"),
    ("trained/", b'{"step": [1], "epoch": 1}\n'), ("samples.json", b'[{"id": 1, "text": null}]'), ("number.json", b"{}"),
    ("predictions.jsonl.gz", b"no gzip"), ("predictions.jsonl.gz", gzip.compress(b'{"id": 1, "hypotheses": [{}]}\n', mtime=0)),
    ("predictions.jsonl.gz", gzip.compress(b'{"id": 1}\n')[:-9]), ("parts.jsonl.gz", gzip.compress(DEEP)),
    ("run/run.json", b"[]"), ("run/run.json", b'{"samples": 1}'), ("run/cells.jsonl", b'{"cell": 1}\n'), ("run/suite.yaml", b"suite: [x]"),
    ("run/suite.yaml", b"suite: !!python/object:os.system x"), ("run/published.json", b'{"a": {"id": 1}}'),
    ("run/history/", b'{"step": 1, "epoch": 1, "loss": 1' + b"0" * 400 + b"}\n"),
    ("run/distributions.jsonl", b'{"cell": {}}\n'), ("run/lengths.jsonl", b'{"ends": 1}\n'), ("run/by_length.jsonl", b"\xff"), ("run/history/", b"[]\n"), ("run/costs.csv", b"\xff\xfe"),
]  # fmt: skip


def replaced(all, folder, name, content):
    """Give an entry another content; to the manifest of its artifact, too."""
    all[name] = content
    if name.startswith("store/"):
        reseal(all, folder, json.loads(all[f"{name.rpartition('/')[0]}/manifest.json"]))


@pytest.mark.quick(8, 8)
@pytest.mark.parametrize(("name", "content"), SHAPES, ids=range(len(SHAPES)))
def test_content_of_another_shape_is_refused(away, home, name, content):
    path = changed(away / "run.zip", home / "x.zip", lambda all: replaced(all, home, first(all, name), content))
    assert re.search(r"cannot be read|invalid (artifact|file): |run/suite.yaml|: history/\S+: ", refused(path, home))


def test_entries_that_are_not_those_of_their_manifest_are_refused(away, home):
    path = changed(away / "run.zip", home / "x.zip", lambda all: all.update({first(all, "number.json"): b"{}"}))
    assert "the file is damaged" in refused(path, home)


def test_cells_of_unknown_environments_are_refused(away, home):
    def change(all):
        all["run/cells.jsonl"] = all["run/cells.jsonl"].replace(b'"environments": [0]', b'"environments": [7]', 1)

    text = refused(changed(away / "run.zip", home / "x.zip", change), home)
    assert "a cell refers to an unknown environment" in text


def test_a_label_that_is_too_long_for_a_folder_is_refused(away, home):
    def change(all):
        all["run/run.json"] = json.dumps({**json.loads(all["run/run.json"]), "label": "é" * 126}).encode()

    text = refused(changed(away / "run.zip", home / "x.zip", change), home)
    assert "run.json: the label is too long to be the name of a folder" in text


@pytest.mark.parametrize("name", ["../evil", "", ".", "..", "a/b", "/evil", "-rf/..", "a" * 300, ".hidden", 7])
def test_runs_with_names_that_lead_elsewhere_are_refused(away, home, name):
    def change(all):
        all["bundle.json"] = json.dumps({**json.loads(all["bundle.json"]), "run": name}).encode()

    assert "(bundle.json: run: " in refused(changed(away / "run.zip", home / "x.zip", change), home)


def test_artifacts_with_keys_of_another_scheme_are_left_out(away, home):
    def change(all):
        for name in artifact_manifests(all):
            reseal(all, home, {**json.loads(all[name]), "scheme": 99})
        changed_run(all, home, all_of_another_scheme)

    def all_of_another_scheme(run):
        write_stages(run / STAGES, [replace(stage, scheme=99) for stage in read_stages(run).values()])

    path = changed(away / "run.zip", home / "x.zip", change)
    words = [str(path), "--store", str(home / "store"), "--runs", str(home / "runs")]
    done = CliRunner().invoke(import_command, words)
    assert done.exit_code == 0, done.output
    assert done.output.count("its key has scheme 99") == 29
    assert "not checked: run/stages.jsonl.gz: the keys of 29 stages have a scheme unknown" in done.output
    assert store_of(home).entries() == []
    assert len(list((home / "runs").iterdir())) == 1


def test_the_commands_say_what_they_did_and_exit_with_2_where_they_cannot(away, tmp_path):
    def bench(*words, code=0):
        done = bench_here(*words, folder=tmp_path)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    run = run_away(away).folder
    told = bench("export", run, "--store", away / "store").stdout
    assert re.search(
        rf"{run.name}\.zip: [\d.]+ KiB: the run, 8 decode, 12 measure, 1 prepare, 4 score, 4 train\n", told
    )
    text = "29 of 29 stages were computed by code that is not installed here: task letters, model bigram"
    assert text in bench("import", f"{run.name}.zip", code=2).stderr
    told = bench("import", f"{run.name}.zip", "--trust").stdout
    assert "4 train new, 0 already present" in told
    assert f"run     runs/{run.name}" in told
    assert "no artifacts new, 29 already present" in bench("import", f"{run.name}.zip", "--trust").stdout
    (tmp_path / "bad.zip").write_bytes(b"PK")
    assert bench("import", "bad.zip", code=2).stderr.startswith("bench: bad.zip: not a complete zip file")
    assert "there is no such file" in bench("import", "absent.zip", code=2).stderr
    assert "already exists" in bench("export", run, "-o", "bad.zip", code=2).stderr
    assert "nowhere is not a run" in bench("export", "nowhere", code=2).stderr
