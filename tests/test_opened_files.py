"""What `bench check` opens: files line by line, large ones to their first record, each once, and without torch."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tracemalloc
from collections import Counter
from random import Random

import bench_small.plugin
import pytest
from bench_faults.place import Place
from bench_faults.server import serving
from bench_faults.working import WORKING, lines, records, sentences, stories, translation
from bench_small.command_line import bench_here

import bench_data.inspecting
from bench_core import DataError, files, inspection, registry
from bench_core.inspection import Inspection
from bench_data.plugin import CompletionConfig
from bench_text.api import corpora

PIECES = ["a", "ä", " ", "\n", "\r\n", "\u2028", "\u0085", "\x0c", "\ufeff", "\t", "𝔸"]


@pytest.fixture
def place(tmp_path):
    """Return a place for a working suite."""
    with serving() as server:
        yield Place(tmp_path, Random(7), server)


def check(place, *words):
    """Check the suite; return its exit code and what was printed."""
    found = bench_here("check", place.suite, *words, folder=place.folder)
    return found.returncode, found.stdout + found.stderr


@pytest.mark.parametrize("build", [records, lines, translation, sentences])
def test_examples_of_test_that_are_in_train_are_a_warning_with_their_number(place, build):
    build(place)
    if build is records:
        train, test = (next(name for name in place.rows if name.startswith(split)) for split in ("train", "test"))
        for row in (1, 4, 5):
            same = {field: place.rows[train][row + 2][field] for field in ("topic", "de", "en")}
            place.rows[test][row] |= same
    else:
        for name in place.lines:
            if name.startswith("test"):
                other = place.lines[name.replace("test", "train")]
                place.lines[name][1:2], place.lines[name][4:6] = other[3:4], other[6:8]
    place.write()
    code, text = check(place)
    assert code == 0
    assert "no problem found" in text
    assert "warning: 3 of 7 distinct examples of 'test' are also in 'train'." in text


@pytest.mark.parametrize("build", [records, stories])
def test_of_a_large_file_the_first_record_alone_is_read(place, build, monkeypatch):
    name = "train.jsonl" if build is records else "stories.jsonl"
    while name not in place.rows:
        place.rows.clear()
        build(place)
    place.write()
    monkeypatch.setattr(inspection, "MAX_BYTES", 100)
    whole = place.read(name)
    place.file(name, whole + b"{broken\n")
    code, text = check(place)
    assert code == 0
    assert f"not checked: {place.folder}" in text
    assert f"{name} after its first record" in text
    place.file(name, b"{broken\n" + whole)
    code, text = check(place)
    assert code == 2
    assert f"{name}:1" in text


@pytest.mark.slow
def test_a_file_is_never_in_memory_as_a_whole(tmp_path):
    row = json.dumps({"text": "word " * 80}) + "\n"
    (tmp_path / "a.jsonl").write_text(row * 5_000)  # 2 MB
    (tmp_path / "a.csv").write_text("text\n" + f"{'word ' * 80}\n" * 5_000)
    (tmp_path / "a.txt").write_text(f"{'word ' * 80}\n" * 5_000)
    for name in ("a.jsonl", "a.csv", "a.txt"):
        config = CompletionConfig.model_validate({"data": {"train": tmp_path / name}})
        found = Inspection(tmp_path)
        bench_data.inspecting.inspect(config, found)
        tracemalloc.start()
        bench_data.inspecting.inspect(config, found)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert not found.problems
        assert peak < 500_000, (name, peak)


def test_lines_are_those_of_the_whole_text(tmp_path):
    draws = Random(3)
    for number in range(300):
        content = "".join(draws.choices(PIECES, k=draws.randrange(12))).encode()
        path = tmp_path / f"a{number}.txt"
        path.write_bytes(content)
        whole = content.decode().removeprefix("\ufeff").replace("\r\n", "\n")
        assert corpora.read_text(path) == whole
        assert [*corpora.lines(path)] == corpora.read_lines(path) == whole.removesuffix("\n").split("\n")
        packed = tmp_path / f"a{number}.gz"
        packed.write_bytes(gzip.compress(content))
        assert corpora.read_text(packed) == whole


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"one\ntwo\xff\n", "0xff at offset 7, in line 2"),
        (b"one\ntw\0o\n", "zero byte at offset 6"),
        (b"one\ntw\ro\n", ".txt:2: a carriage return"),
        (b"one\ntwo\r", ".txt:2: a carriage return"),
        ("one".encode("utf-16"), "UTF-16"),
    ],
)
def test_a_line_that_is_no_text_is_named(tmp_path, content, words):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match=words):
        corpora.read_text(tmp_path / "a.txt")


def test_profiles_read_a_file_once(place, monkeypatch):
    lines(place)
    place.settings["profiles"] = {name: {"seeds": 2} for name in ("small", "large")}
    place.write()
    read, splits = bench_data.inspecting._read, []
    monkeypatch.setattr(bench_data.inspecting, "_read", lambda *words: (splits.append(words[1]), read(*words)))
    code, text = check(place)
    assert code == 0
    assert text.count("no problem found") == 3
    assert sorted(splits) == ["test", "train", "valid"]


def test_what_is_not_looked_for_is_said(place):
    lines(place)
    (place.folder / "suite.yaml").write_text(json.dumps(place.settings))
    code, text = check(place, "--elsewhere")
    assert code == 0
    assert "not checked: files, servers and devices." in text


def test_problems_of_files_and_settings_are_reported_at_once(place):
    records(place)
    place.task["fields"]["target"] = "enn"
    place.settings["models"]["ours"]["hiden"] = place.settings["models"]["ours"].pop("hidden")
    place.rows["theirs.jsonl"][2]["id"] = "nobody"
    place.write()
    code, text = check(place)
    assert code == 2
    assert "'enn'" in text
    assert "hiden" in text


@pytest.mark.slow
def test_nothing_that_is_opened_needs_torch(tmp_path):
    with serving() as server:
        suites = []
        for name, build in WORKING.items():
            place = Place(tmp_path / name, Random(1), server)
            place.folder.mkdir()
            build(place)
            place.write()
            suites.append(str(place.suite))
        program = (
            "import sys; from bench_core.commands.main import bench; "
            f"code = bench(['check', *{suites!r}], standalone_mode=False); "
            "sys.exit(code or int('torch' in sys.modules))"
        )
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 0, found
    assert found.stdout.count("no problem found") == len(WORKING), found


def test_an_inspector_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_small.plugin.LettersConfig, "inspector", "bench_small.nothing:inspect")
    (tmp_path / "a.yaml").write_text("suite: a\ntasks: {words: {name: letters}}\n")
    with registry.extra(bench_small.plugin):
        found = bench_here("check", tmp_path / "a.yaml", folder=tmp_path)
    assert found.returncode == 2
    assert "bench_small.nothing:inspect" in found.stderr


@pytest.mark.parametrize("build", [records, lines, sentences, translation])  # each split has files of its own
def test_no_file_of_data_is_read_whole_twice_whatever_models_and_profiles_ask(place, build, monkeypatch):
    place.rows.clear()
    build(place)
    place.settings["profiles"] = {name: {"seeds": 2} for name in ("small", "large")}
    place.write()
    whole, plain = Counter(), corpora._blocks

    def counted(path):
        yield from plain(path)
        whole[path.name] += 1

    monkeypatch.setattr(corpora, "_blocks", counted)
    monkeypatch.setattr(files.hashlib, "file_digest", lambda *words: pytest.fail("a digest reads a file whole"))
    code, text = check(place)
    assert code == 0, text
    assert text.count("no problem found") == 3
    assert whole
    assert {*whole.values()} == {1}, whole


def test_a_digest_is_one_again_behind_the_look_for_files(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    with files.opened_only():
        assert files.digest(tmp_path / "a") == ""
        with pytest.raises(FileNotFoundError):
            files.digest(tmp_path / "b")
    assert files.digest(tmp_path / "a").startswith("ba7816bf8f01cfea")
