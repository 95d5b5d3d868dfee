"""Artifacts are written atomically, are checked when they are read, and are computed by one at a time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bench_core.errors import StoreError
from bench_core.planning import cache_keys as keys
from bench_core.storage.store import Store


@pytest.fixture
def store(tmp_path):
    """Return a store that warns of nothing."""
    return Store(tmp_path / "store", warn=pytest.fail)


@pytest.fixture
def heard(tmp_path):
    """Return a store and the list of what it warns of."""
    warnings = []
    return Store(tmp_path / "store", warn=warnings.append), warnings


def filled(store, key="k", text="hello", kind="train"):
    with store.writing(kind, key, {"about": 1}) as folder:
        (folder / "a.txt").write_text(text)
        (folder / "inner").mkdir()
        (folder / "inner" / "b.json").write_text("[1]")
        save_file({"w": torch.zeros(2)}, folder / "w.safetensors")
    return store.get(kind, key)


def described(content):
    return {"bytes": len(content), "sha256": sha256(content).hexdigest()}


def forge(artifact, **changes):
    """Write a manifest anew, as another program might."""
    manifest = {"kind": "train", "key": "k", "files": artifact.manifest["files"], **changes}
    (artifact.folder / "manifest.json").write_text(json.dumps(manifest))


def refused(store, match):
    """See that an artifact is refused in one line, and that both ways of asking for it agree."""
    with pytest.raises(StoreError, match=match) as caught:
        store.get("train", "k")
    assert "\n" not in str(caught.value)
    assert str(store.path("train", "k")) in str(caught.value)
    assert not store.has("train", "k")


def unfinished(store):
    return [*(store.root / "unfinished").iterdir(), *(path for path in locks(store) if path != "gate.lock")]


def locks(store):
    return sorted(path.name for path in (store.root / "locks").iterdir())


# What is read


def test_what_is_written_is_read(store):
    artifact = filled(store)
    assert artifact.file("a.txt").read_text() == "hello"
    assert artifact.json("inner/b.json") == [1]
    assert artifact.manifest["about"] == 1
    assert store.has("train", "k")
    assert not store.has("decode", "k")
    artifact.check()


def test_an_artifact_that_was_seen_is_looked_at_again_once_it_changes(store, tmp_path):
    folder = filled(store).folder
    manifest = folder / "manifest.json"
    content = manifest.read_bytes()
    for damage in (
        manifest.unlink,
        lambda: manifest.write_bytes(content[:-1] + b"]"),
        lambda: folder.rename(tmp_path / "k"),
    ):
        assert store.has("train", "k")
        damage()
        assert not store.has("train", "k")
        (tmp_path / "k").rename(folder) if (tmp_path / "k").exists() else manifest.write_bytes(content)
    assert store.has("train", "k")


@pytest.mark.parametrize("flip", [0x01, 0x20])
def test_every_flipped_byte_of_every_file_is_seen(store, flip):
    folder = filled(store).folder
    names = [path for path in folder.rglob("*") if path.is_file()]
    assert len(names) == 4
    for path in names:
        content = path.read_bytes()
        for place in range(len(content)):
            path.write_bytes(content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :])
            with pytest.raises(StoreError):
                store.get("train", "k").check()
            assert store.has("train", "k") == (path.name != "manifest.json")
        path.write_bytes(content)
    store.get("train", "k").check()


def test_every_cut_of_every_file_is_seen(store):
    folder = filled(store).folder
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        content = path.read_bytes()
        for length in range(len(content)):
            path.write_bytes(content[:length])
            with pytest.raises(StoreError):
                store.get("train", "k").check()
        path.write_bytes(content + b"\n")
        with pytest.raises(StoreError):
            store.get("train", "k").check()
        path.write_bytes(content)


def test_a_damaged_file_is_named_with_what_is_wrong(store):
    artifact = filled(store)
    (artifact.folder / "a.txt").write_text("hallo")
    with pytest.raises(StoreError, match=r"train/k/a\.txt: the file is damaged: its digest"):
        artifact.file("a.txt")
    (artifact.folder / "a.txt").write_text("hello!")
    with pytest.raises(StoreError, match=r"a\.txt: the file is damaged: it has 6 bytes, but the manifest lists 5"):
        artifact.file("a.txt")
    (artifact.folder / "a.txt").unlink()
    with pytest.raises(StoreError, match=r"a\.txt: the artifact has no such file: there is no such file"):
        artifact.check()
    with pytest.raises(StoreError, match=r"c\.txt: the artifact has no such file"):
        artifact.file("c.txt")


def test_all_that_is_wrong_is_told_at_once(store):
    artifact = filled(store)
    (artifact.folder / "a.txt").unlink()
    (artifact.folder / "inner" / "b.json").write_text("[2]")
    (artifact.folder / "inner" / "foreign").touch()
    assert [
        str(problem).partition(": ")[0].removeprefix(f"{artifact.folder}/") for problem in artifact.problems()
    ] == [
        "a.txt",
        "inner/b.json",
        "inner/foreign",
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "Expecting value"),
        ("[]", "it is not a mapping"),
        ("{}", "another artifact"),
        ("\xff", "codec"),
        ("[" * 100_000, "nested too deeply"),
        (f'{{"n": {"9" * 5000}}}', "integer string conversion"),
        ({"key": "other", "kind": "train", "files": {}}, "another artifact, 'train' 'other'"),
        ({"key": "k", "kind": "decode", "files": {}}, "another artifact, 'decode' 'k'"),
        ({"key": "k", "kind": "train"}, "does not list files"),
        ({"key": "k", "kind": "train", "files": []}, "does not list files"),
        ({"key": "k", "kind": "train", "files": {"a": 1}}, "no digest and size for 'a'"),
        ({"key": "k", "kind": "train", "files": {"a": {"sha256": "0" * 64}}}, "no digest and size"),
        ({"key": "k", "kind": "train", "files": {"a": {"sha256": "0", "bytes": 0}}}, "no digest and size"),
        ({"key": "k", "kind": "train", "files": {"a": {"sha256": "0" * 64, "bytes": -1}}}, "no digest and size"),
        ({"key": "k", "kind": "train", "files": {"a": {"sha256": "0" * 64, "bytes": True}}}, "no digest and size"),
        ({"key": "k", "kind": "train", "files": {}, "format": 2}, "a newer version of bench wrote it, in format 2"),
        ({"key": "k", "kind": "train", "files": {}, "format": 0}, "another version of bench wrote it, in format 0"),
        ({"key": "k", "kind": "train", "files": {}, "format": True}, "another version"),
        ({"key": "k", "kind": "train", "files": {}, "format": 1}, "its checksum is missing"),
        ({"key": "k", "kind": "train", "files": {}, "ingredients": []}, "ingredients is not a mapping"),
        ({"key": "k", "kind": "train", "files": {}, "provenance": None}, "provenance is not a mapping"),
        ({"key": "k", "kind": "train", "files": {}, "cost": 1}, "cost is not a mapping"),
        ({"key": "k", "kind": "train", "files": {}, "cost": {"seconds": "1"}}, "its costs are not numbers"),
        ({"key": "k", "kind": "train", "files": {}, "cost": {"seconds": True}}, "its costs are not numbers"),
    ],
)
def test_what_is_no_manifest_of_the_artifact_is_refused(store, content, reason):
    path = filled(store).folder / "manifest.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_bytes(text.encode("latin-1"))
    refused(store, f"manifest cannot be read: .*{reason}")


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/passwd", "inner/../../secret", "", ".", "a//b", "c:d", "a\\b", "a\nb", "\ud800", "a\0b"],
)
def test_manifests_that_lead_elsewhere_are_refused(store, name, tmp_path):
    (store.root.parent / "secret").write_text("hello")
    forge(filled(store), files={name: described(b"hello")})
    refused(store, "which is not a valid file name")


def test_nothing_behind_a_link_is_read(store, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "b.json").write_text("[1]")
    artifact = filled(store)
    for place, target in [("inner/b.json", tmp_path / "secret" / "b.json"), ("inner", tmp_path / "secret")]:
        path = artifact.folder / place
        path.rename(tmp_path / "moved")
        path.symlink_to(target)
        for read in (artifact.json, artifact.file):
            with pytest.raises(StoreError, match="is a link"):
                read("inner/b.json")
        path.unlink()
        (tmp_path / "moved").rename(path)
    artifact.check()
    artifact.folder.rename(tmp_path / "elsewhere")
    artifact.folder.symlink_to(tmp_path / "elsewhere")
    refused(store, "this is a link, not an artifact")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
@pytest.mark.parametrize("name", ["a.txt", "manifest.json"])
def test_pipes_folders_and_devices_are_not_opened(store, make, name):
    artifact = filled(store)
    (artifact.folder / name).unlink()
    make(artifact.folder / name)
    with pytest.raises(StoreError, match=rf"{name}: .*it is a (device or a pipe|folder|link), not a file"):
        store.get("train", "k").check()
    assert store.has("train", "k") == (name == "a.txt")


def test_sizes_are_looked_at_before_anything_is_read(store):
    artifact = filled(store)
    with (artifact.folder / "inner" / "b.json").open("r+b") as file:
        file.truncate(2**40)  # takes no room, but would take a while to read
    with pytest.raises(StoreError, match="it has 1,099,511,627,776 bytes, but the manifest lists 3"):
        artifact.json("inner/b.json")
    forge(artifact, files={"inner/b.json": {"bytes": 2**40, "sha256": "0" * 64}, "a.txt": described(b"")})
    with pytest.raises(StoreError, match="the limit is 1,073,741,824"):
        store.get("train", "k").json("inner/b.json")
    with (artifact.folder / "manifest.json").open("r+b") as file:
        file.truncate(2**40)
    refused(store, "it has 1,099,511,627,776 bytes; the limit is 16,777,216")


def test_json_that_is_none_is_refused(store):
    artifact = filled(store)
    for content, reason in [(b"[" * 100_000, "nested too deeply"), (b"{", "Expecting"), (b"\xff", "utf-8")]:
        (artifact.folder / "inner" / "b.json").write_bytes(content)
        forge(artifact, files={"inner/b.json": described(content)})
        with pytest.raises(StoreError, match=rf"b\.json: the file cannot be read: .*{reason}"):
            store.get("train", "k").json("inner/b.json")


def test_a_pickle_in_place_of_weights_is_neither_opened_nor_executed(store, tmp_path):
    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "executed",)

    artifact = filled(store)
    torch.save({"w": torch.zeros(2)}, tmp_path / "saved")
    for content in (pickle.dumps(Bomb()), (tmp_path / "saved").read_bytes(), b"", b"\x08" + bytes(7) + b"{"):
        (artifact.folder / "w.safetensors").write_bytes(content)
        forge(artifact, files={"w.safetensors": described(content)})
        with pytest.raises(StoreError, match=r"w\.safetensors: not a safetensors file"):
            store.get("train", "k").file("w.safetensors")
    assert not (tmp_path / "executed").exists()


def test_an_artifact_under_the_key_of_another_is_refused(store):
    filled(store).folder.rename(store.root / "train" / "other")
    with pytest.raises(StoreError, match="another artifact, 'train' 'k'"):
        store.get("train", "other")
    filled(store).folder.parent.rename(store.root / "decode")
    with pytest.raises(StoreError, match="another artifact, 'train' 'k'"):
        store.get("decode", "k")


def test_ingredients_must_be_those_of_the_key(store):
    ingredients = {"kind": "train", "settings": {"seed": 1}}
    key = keys.key_of(ingredients)
    with store.writing("train", key, {"ingredients": ingredients}):
        pass
    with store.writing("train", "k", {"ingredients": ingredients}):
        pass
    store.get("train", key).check()
    with pytest.raises(StoreError, match=r"manifest\.json: the key does not match the ingredients"):
        store.get("train", "k").check()


def test_manifests_from_before_there_were_seals_are_read(store):
    artifact = filled(store)
    forge(artifact)
    store.get("train", "k").check()


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a/b", "/etc", "set-aside", "unfinished", "locks", "failures", "a\0b"]
)
def test_kinds_and_keys_never_lead_out_of_their_place(store, name):
    filled(store)
    for kind, key in ((name, "k"), ("train", name)):
        assert not store.has(kind, key)
        for action in (store.get, store.path, store.set_aside):
            with pytest.raises(StoreError, match="invalid name of an artifact"):
                action(kind, key)


# What is written


def test_an_error_leaves_nothing_behind(store):
    def interrupted():
        with store.writing("train", "k", {}) as folder:
            (folder / "a.txt").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not store.has("train", "k")
    assert not unfinished(store)


def write_to_a_full_device(folder):
    Path("/dev/full").write_text("a" * 100)


def tell_of_a_full_device(folder):
    raise ValueError(
        "Error while serializing: I/O error: No space left on device (os error 28)"
    )  # as safetensors does


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("fill", [write_to_a_full_device, tell_of_a_full_device])
def test_a_full_disk_is_told_in_a_line_and_leaves_nothing(store, fill):
    def write():
        with store.writing("train", "k", {}) as folder:
            (folder / "a.txt").write_text("half")
            fill(folder)

    with pytest.raises(StoreError, match=r"cannot be written: no space left on device\. Free some") as caught:
        write()
    assert "\n" not in str(caught.value)
    assert not store.has("train", "k")
    assert not unfinished(store)


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_disk_that_fails_when_all_is_written_leaves_nothing(store, call, monkeypatch):
    def fail(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StoreError, match="no space left on device"):
        filled(store)
    assert not store.has("train", "k")
    assert not unfinished(store)


def test_everything_is_on_the_disk_before_it_is_called_an_artifact(store, monkeypatch):
    synced, rename, fsync = [], os.rename, os.fsync

    def sync(handle):
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        fsync(handle)

    def renamed(source, target):
        assert sorted([*synced, "unfinished"]) == sorted(
            ["a.txt", "b.json", "inner", "w.safetensors", "manifest.json", Path(source).name, "store", "unfinished"]
        )
        rename(source, target)
        synced.clear()

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", renamed)
    filled(store)
    assert synced == ["train"]


def test_a_folder_that_vanishes_is_told_in_a_line(store):
    def write(inside):
        with store.writing("train", "k", {}) as folder:
            folder.rename(store.root / "gone")
            if inside:
                (folder / "a.txt").write_text("hello")

    for inside in (True, False):
        with pytest.raises(StoreError, match="It was removed in the meantime"):
            write(inside)
        (store.root / "gone").rmdir()
    assert not store.has("train", "k")


def test_errors_that_have_nothing_to_do_with_the_store_stay_what_they_are(store, tmp_path):
    def write():
        with store.writing("train", "k", {}):
            (tmp_path / "absent").read_text()

    with pytest.raises(FileNotFoundError):
        write()


@pytest.mark.parametrize("place", ["/sys/bench-store", "file", "store/unfinished", "store/train", "store/locks"])
def test_a_store_that_cannot_be_written_is_told_in_a_line(tmp_path, place):
    path = tmp_path / place
    if path.is_relative_to(tmp_path):
        path.parent.mkdir(exist_ok=True)
        path.write_text("in the way")
    store = Store(tmp_path / "store" if place.startswith("store/") else path)
    with pytest.raises(StoreError, match="the store cannot be written: ") as caught:
        filled(store)
    assert "\n" not in str(caught.value)
    assert not store.has("train", "k")


def test_the_log_of_a_failure_that_cannot_be_written_is_no_failure_of_its_own(heard):
    store, warnings = heard
    assert store.log_failure("train", "k", "text").read_text() == "text"
    store.root.joinpath("failures", "train-k.log").unlink()
    store.root.joinpath("failures").rmdir()
    store.root.joinpath("failures").write_text("in the way")
    store.log_failure("train", "k", "text")
    assert "the log of a failure cannot be written" in warnings[0]


@pytest.mark.parametrize("name", ["manifest.json", "a\nb", "link", "pipe"])
def test_what_could_not_be_read_again_is_not_stored(store, name):
    def write():
        with store.writing("train", "k", {}) as folder:
            if name == "link":
                (folder / name).symlink_to("/etc/passwd")
            elif name == "pipe":
                os.mkfifo(folder / name)
            else:
                (folder / name).write_text("hello")

    with pytest.raises(StoreError, match="cannot be stored"):
        write()
    assert not store.has("train", "k")
    assert not unfinished(store)


def test_the_first_of_two_equal_writers_wins(store):
    with store.writing("train", "k", {"about": 1}) as slow:
        (slow / "a.txt").write_text("same")
        with store.writing("train", "k", {"about": 2}) as fast:
            (fast / "a.txt").write_text("same")
    assert store.get("train", "k").manifest["about"] == 2
    assert not unfinished(store)
    assert not (store.root / "set-aside").exists()


def test_the_second_of_two_writers_is_set_aside_if_it_differs(heard):
    store, warnings = heard
    with store.writing("train", "k", {}) as slow:
        (slow / "a.txt").write_text("slow")
        (slow / "b.txt").write_text("same")
        with store.writing("train", "k", {}) as fast:
            (fast / "a.txt").write_text("fast")
            (fast / "b.txt").write_text("same")
    assert store.get("train", "k").file("a.txt").read_text() == "fast"
    (place,) = (store.root / "set-aside").glob("*/k")
    assert (place / "a.txt").read_text() == "slow"
    assert "with different files: a.txt. The first is kept" in warnings[0]
    assert str(place) in warnings[0]
    assert not unfinished(store)


@pytest.mark.parametrize("obstacle", ["damaged", "file", "link", "empty"])
def test_what_stands_in_the_place_of_an_artifact_is_set_aside(heard, obstacle, tmp_path):
    store, warnings = heard
    target = store.root / "train" / "k"
    if obstacle == "damaged":
        (filled(store).folder / "manifest.json").write_text("{}")
    else:
        target.parent.mkdir(parents=True)
        {"file": target.touch, "link": lambda: target.symlink_to(tmp_path), "empty": target.mkdir}[obstacle]()
    filled(store).check()
    assert len(warnings) == (obstacle != "empty")
    assert len(list((store.root / "set-aside").glob("*/k"))) == len(warnings)


def test_what_is_set_aside_is_kept(store):
    filled(store)
    place = store.set_aside("train", "k")
    assert not store.has("train", "k")
    assert (place / "a.txt").read_text() == "hello"
    filled(store, text="again")
    assert store.set_aside("train", "k") != place
    assert store.set_aside("train", "k") is None, "another process was faster"
    assert len(list((store.root / "set-aside").iterdir())) == 2


def test_others_may_read_what_the_umask_lets_them(store):
    before = os.umask(0o022)
    try:
        folder = filled(store).folder
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o755


# Locks

HOLDER = """
import sys
from pathlib import Path
from bench_core.storage.store import Store

store = Store(Path(sys.argv[1]))
with store.lock("train", "k"), store.writing("train", "k", {}) as folder:
    (folder / "a.txt").write_text("theirs")
    print("held", flush=True)
    sys.stdin.readline()
"""

COUNTER = """
import sys
from pathlib import Path
from bench_core.storage.store import Store

store, count = Store(Path(sys.argv[1])), Path(sys.argv[1], "count")
for _ in range(int(sys.argv[2])):
    with store.lock("train", "k"):
        number = int(count.read_text())
        count.write_text("")
        count.write_text(str(number + 1))
"""


@pytest.fixture
def holder(store):
    """Start a process that computes an artifact, and wait until it has the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, store.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_who_waits_tells_so_and_then_finds_the_artifact(store, holder):
    found, told = [], threading.Event()

    def wait():
        with store.lock("train", "k", told.set):
            found.append(store.get("train", "k").file("a.txt").read_text())

    thread = threading.Thread(target=wait)
    thread.start()
    assert told.wait(300)
    assert not found
    with store.lock("train", "another", pytest.fail):
        pass
    holder.communicate("\n")
    thread.join(300)
    assert found == ["theirs"]
    assert locks(store) == ["gate.lock"]


def test_the_lock_of_a_killed_process_blocks_nobody(store, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with store.lock("train", "k", pytest.fail):
        assert not store.has("train", "k")
        filled(store)
    assert len(list((store.root / "unfinished").iterdir())) == 1, "which is left to `bench store gc`"


def test_a_lock_is_held_by_one_at_a_time_though_its_file_comes_and_goes(store):
    store.root.mkdir()
    (store.root / "count").write_text("0")
    command = [sys.executable, "-c", COUNTER, store.root, "10"]
    for process in [subprocess.Popen(command) for _ in range(3)]:
        assert process.wait(300) == 0
    assert (store.root / "count").read_text() == "30"
    assert locks(store) == ["gate.lock"]


def test_a_lock_is_let_go_after_an_error(store):
    def fail():
        with store.lock("train", "k"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    with store.lock("train", "k", pytest.fail):
        pass


def test_without_locks_work_goes_on_with_a_warning(heard, monkeypatch):
    def flock(handle, operation):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    store, warnings = heard
    with store.lock("train", "k"):
        filled(store).check()
    with store.in_use():
        pass
    assert "does not support locks" in warnings[0]
    assert len(warnings) == 1
