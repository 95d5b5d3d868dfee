"""Data sets of the library datasets: saved folders, and revisions in the cache of the hub, without a network."""

from __future__ import annotations

import json
import socket

import pytest
from pydantic import ValidationError

from bench_authors.testing import TaskCase, check_task
from bench_core import DataError
from bench_core.planning.path_settings import mark
from bench_data.plugin import CompletionConfig, TextToTextConfig

pytestmark = pytest.mark.extra("bench-data", "datasets")

ROWS = [
    {"id": number, "q": {"text": f"q {number}"}, "a": [f"a {number}", "b"], "extra": b"\0"} for number in range(5)
]
FIELDS = {"source": "q.text", "target": "{id}", "references": "a", "id": "id"}
REVISION, OTHER = "0123456789" * 4, "f" * 40
HUB = {"hub": "me/mine", "revision": REVISION, "split": "test"}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Let nothing reach a network."""

    def refuse(*_):
        raise AssertionError("a network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def saved(tmp_path):
    """Save rows as a data set with two splits; return its folder."""
    import datasets

    datasets.disable_progress_bars()
    splits = {"first": ROWS[:3], "second": ROWS[3:]}
    found = {name: datasets.Dataset.from_list(rows) for name, rows in splits.items()}
    datasets.DatasetDict(found).save_to_disk(tmp_path / "saved")
    found["first"].save_to_disk(tmp_path / "alone")
    return tmp_path / "saved"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Put a revision with two configurations into a cache of the hub; return the folder of the data set."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "hub" / "datasets--me--mine"
    snapshot = folder / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (folder / "blobs").mkdir()
    parts = [{"config_name": name, "data_files": [{"split": "test", "path": f"{name}.jsonl"}]} for name in "ab"]
    (snapshot / "README.md").write_text(f"---\nconfigs: {json.dumps(parts)}\n---\n")
    for name in "ab":
        rows = [{"q": f"q {number}", "a": f"{name} {number}"} for number in range(3)]
        (snapshot / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_saved_folder_keeps_all_contracts_and_its_rows(saved, tmp_path):
    data = {"train": {"saved": str(saved), "split": "first"}, "test": {"saved": str(saved), "split": "second"}}
    config = TextToTextConfig.model_validate({"data": data, "fields": FIELDS})
    assert config.extras() == {"datasets"}
    (tmp_path / "folder").mkdir()
    before = mark(saved, "saved", tmp_path)
    case = TaskCase.of(config, tmp_path, tmp_path / "folder")
    assert check_task(case)
    assert case.task.sources("test") == {0: "q 3", 1: "q 4"}
    assert case.task.references("train") == {0: ["a 0", "b"], 1: ["a 1", "b"], 2: ["a 2", "b"]}
    assert case.task.example_names("test") == {0: "3", 1: "4"}
    assert mark(saved, "saved", tmp_path) == before  # reading leaves no file there


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        ({"saved": "saved"}, "has the splits 'first', 'second': set `split:` to one of them"),
        ({"saved": "saved", "split": "third"}, "there is no split 'third'"),
        ({"saved": "alone", "split": "first"}, "is a single data set without splits. Leave out `split: first`"),
        ({"saved": "nothing"}, "was not written by `save_to_disk`"),
        ({"saved": "alone", "fields": {"target": "answer"}}, "alone has no field 'answer'; it has 'id', 'q', 'a'"),
        ({"saved": "alone", "fields": {"target": "a"}}, "alone: row 1 has ['a 0', 'b'] as 'a', which must be text"),
    ],
)
def test_what_is_wrong_with_a_saved_folder_is_named(saved, tmp_path, prepared, origin, told):
    data = {"test": {**origin, "saved": str(tmp_path / origin["saved"])}}
    with pytest.raises(DataError) as caught:
        prepared(TextToTextConfig, data=data, fields=FIELDS)
    assert told in str(caught.value)


def test_a_revision_in_the_cache_is_read_without_a_network(cache, prepared):
    for name in "ab":
        task, info = prepared(
            TextToTextConfig, data={"test": {**HUB, "config": name}}, fields={"source": "q", "target": "a"}
        )
        assert task.references("test") == {number: [f"{name} {number}"] for number in range(3)}
        assert info.extras["corpus"] == {"test": f"me/mine {name} test (01234567)"}
        assert task.config.reads(cache) == {}


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        ({"revision": OTHER}, f"data set me/mine of revision {OTHER} is not available"),
        ({"hub": "me/other"}, "Set `allow_download: true`"),
        ({"config": "c"}, "BuilderConfig 'c' not found"),
        ({"config": "a", "split": "train"}, "me/mine a train of"),
        ({"config": "a", "fields": {"target": "z"}}, "has no field 'z'; it has 'q', 'a'"),
    ],
)
def test_what_is_wrong_with_a_data_set_of_the_hub_is_named(cache, prepared, origin, told):
    with pytest.raises(DataError) as caught:
        prepared(CompletionConfig, data={"test": {**HUB, **origin}}, fields={"target": "a"})
    assert told in str(caught.value)


def test_a_revision_that_is_not_here_or_not_whole_is_known_before_anything_runs(cache, tmp_path):
    def config(**other):
        return CompletionConfig.model_validate({"data": {"test": {**HUB, **other}}, "fields": {"target": "a"}})

    assert config(revision=OTHER, allow_download=True).reads(tmp_path) == {}
    with pytest.raises(DataError, match="is not available"):
        config(revision=OTHER).reads(tmp_path)
    (cache / "blobs" / "abc.incomplete").touch()
    with pytest.raises(DataError, match="download of data set me/mine was interrupted"):
        config().reads(tmp_path)


@pytest.mark.parametrize(
    "wrong", [{"revision": "main"}, {"revision": REVISION[:7]}, {"revision": None}, {"hub": "../x/y"}, {"split": ""}]
)
def test_data_sets_of_the_hub_are_pinned(wrong):
    with pytest.raises(ValidationError):
        CompletionConfig.model_validate({"data": {"test": {**HUB, **wrong}}})
    with pytest.raises(ValidationError):
        CompletionConfig.model_validate({"data": {"test": {"hub": "me/mine", "split": "test"}}})


def test_a_download_is_of_the_revision_and_only_where_it_is_allowed(cache, prepared, monkeypatch):
    import huggingface_hub

    asked = []

    def download(name, **settings):
        asked.append((name, settings["repo_type"], settings["revision"], settings["local_files_only"]))
        return str(cache / "snapshots" / REVISION)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    for allowed in (False, True):
        origin = {**HUB, "config": "a", "allow_download": allowed}
        prepared(CompletionConfig, data={"test": origin}, fields={"target": "a"})
    assert asked == [("me/mine", "dataset", REVISION, True), ("me/mine", "dataset", REVISION, False)]
