"""Artifacts are there as a whole or not at all, and are checked when they are read."""

from __future__ import annotations

import json

import pytest

from bench_core.errors import StoreError
from bench_core.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def filled(store, key="k", text="hello"):
    with store.writing("train", key, {"about": 1}) as folder:
        (folder / "a.txt").write_text(text)
        (folder / "inner").mkdir()
        (folder / "inner" / "b.json").write_text("[1]")
    return store.get("train", key)


def test_what_is_written_is_read(store):
    artifact = filled(store)
    assert artifact.file("a.txt").read_text() == "hello"
    assert artifact.json("inner/b.json") == [1]
    assert artifact.manifest["about"] == 1
    assert store.has("train", "k")
    assert not store.has("decode", "k")


def test_an_error_leaves_nothing_behind(store):
    def interrupted():
        with store.writing("train", "k", {}) as folder:
            (folder / "a.txt").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not store.has("train", "k")
    assert not list((store.root / "unfinished").iterdir())


def test_every_flipped_byte_of_a_file_is_seen(store):
    artifact = filled(store)
    path = artifact.folder / "a.txt"
    for place in range(len("hello")):
        content = bytearray(b"hello")
        content[place] ^= 1
        path.write_bytes(content)
        with pytest.raises(StoreError, match="damaged"):
            artifact.file("a.txt")


def test_missing_files_and_foreign_manifests_are_seen(store):
    artifact = filled(store)
    (artifact.folder / "a.txt").unlink()
    with pytest.raises(StoreError, match="no such file"):
        artifact.check()
    manifest = artifact.folder / "manifest.json"
    for content in ("", "[]", "{}", json.dumps({"key": "other", "files": {}}), json.dumps({"key": "k", "files": []})):
        manifest.write_text(content)
        with pytest.raises(StoreError, match="manifest cannot be read"):
            store.get("train", "k")


def test_the_first_of_two_writers_wins(store):
    with store.writing("train", "k", {}) as slow:
        (slow / "a.txt").write_text("slow")
        filled(store, text="fast")
    assert store.get("train", "k").file("a.txt").read_text() == "fast"
    assert not list((store.root / "unfinished").iterdir())


def test_what_is_set_aside_is_kept(store):
    filled(store)
    place = store.set_aside("train", "k")
    assert not store.has("train", "k")
    assert (place / "a.txt").read_text() == "hello"
    filled(store, text="again")
    assert store.set_aside("train", "k") != place
