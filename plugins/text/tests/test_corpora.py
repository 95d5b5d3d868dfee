from __future__ import annotations

import gzip
import re
import threading
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench_core import DataError
from bench_core.files import data_folder
from bench_core.registry import configured
from bench_text.api import corpora

TEXT = b"one line\nand another\n"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture
def home(tmp_path):
    """The address of a folder that a server on this machine publishes, and the folder."""
    folder = tmp_path / "published"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", folder
        server.shutdown()


@pytest.fixture
def toy(home, monkeypatch):
    """A corpus of one file, at the address `home`."""
    address, folder = home
    (folder / "a.txt").write_bytes(TEXT)
    file = corpora.File(sha256(TEXT).hexdigest(), f"{address}/a.txt")
    entry = corpora.Corpus("toy", "a toy", "none", {"a.txt": file})
    monkeypatch.setattr(corpora, "catalogue", lambda: {"toy": entry})
    return folder


def test_the_catalogue_names_every_corpus_of_the_suites():
    names = """wikitext-2 wikitext-2-raw wikitext-103 ptb multi30k small_parallel_enja wmt-ro-en wmt-tr-en tatoeba-tr-ro-en kftt django
        django-clean word-frequency coco-captions coco-mini flickr8k-mini"""
    assert set(corpora.catalogue()) == set(names.split())


def test_every_corpus_can_be_fetched_or_says_how_it_is_got():
    for entry in corpora.catalogue().values():
        assert entry.about
        assert entry.licence
        assert entry.fetchable != bool(entry.get), entry.name
        assert entry.advice.endswith(".")


def test_digests_are_sha256_and_addresses_name_a_commit():
    for entry in corpora.catalogue().values():
        for file in entry.files.values():
            assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert file.url is None or re.match(r"https://[^/]+/[^/]+/[^/]+/[0-9a-f]{40}/", file.url)


def test_an_unknown_corpus_is_answered_with_the_nearest_name():
    with pytest.raises(DataError, match="'wikitext-2'"):
        corpora.corpus("wikitex-2")


def test_the_data_folder_is_the_given_one_then_that_of_the_environment_then_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "environment"))
    assert data_folder(tmp_path) == tmp_path
    assert data_folder() == tmp_path / "environment"
    monkeypatch.setenv("BENCH_DATA", "")
    assert "bench" in data_folder().parts


def test_all_missing_and_empty_files_are_named_at_once_with_folder_and_command(tmp_path):
    (tmp_path / "ptb").mkdir()
    (tmp_path / "ptb" / "ptb.valid.txt").touch()
    with pytest.raises(DataError) as caught:
        corpora.locate("ptb", ["ptb.train.txt", "ptb.valid.txt"], tmp_path)
    for part in (
        "ptb.train.txt is missing",
        "ptb.valid.txt is empty",
        str(tmp_path / "ptb"),
        "`bench data fetch ptb`",
    ):
        assert part in str(caught.value)


def test_a_folder_that_the_user_added_is_found(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_bytes(TEXT)
    assert corpora.locate("mine", ["a.txt"], tmp_path) == [tmp_path / "mine" / "a.txt"]
    with pytest.raises(DataError, match=r"b\.txt is missing.*--data"):
        corpora.locate("mine", ["a.txt", "b.txt"], tmp_path)


def test_fetch_downloads_what_is_missing_and_verify_agrees(toy, tmp_path):
    assert not corpora.present("toy", tmp_path)
    (path,) = corpora.fetch("toy", tmp_path)
    assert path.read_bytes() == TEXT
    assert corpora.present("toy", tmp_path)
    assert corpora.verify("toy", tmp_path) == [path]


def test_fetch_refuses_another_file_than_the_published_one(toy, tmp_path):
    (toy / "a.txt").write_bytes(b"something else")
    with pytest.raises(DataError, match=r"could not be fetched.*manually"):
        corpora.fetch("toy", tmp_path)
    assert not (tmp_path / "toy" / "a.txt").exists()


def test_fetch_says_that_an_address_leads_nowhere(toy, tmp_path):
    (toy / "a.txt").unlink()
    with pytest.raises(DataError, match="404"):
        corpora.fetch("toy", tmp_path)


def test_fetch_leaves_a_users_own_file_alone_and_says_that_it_differs(toy, tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "a.txt").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"a\.txt has a different sha256"):
        corpora.fetch("toy", tmp_path)
    assert (tmp_path / "toy" / "a.txt").read_bytes() == b"mine"


def test_a_corpus_without_addresses_says_how_it_is_got(tmp_path):
    with pytest.raises(DataError, match=r"wikitext-103-v1\.zip"):
        corpora.fetch("wikitext-103", tmp_path)
    with pytest.raises(DataError, match=r"wikitext-103-v1\.zip"):
        corpora.locate("wikitext-103", ["train.txt"], tmp_path)


def test_a_digest_is_that_of_the_whole_file(tmp_path):
    content = bytes(range(256)) * 5000
    (tmp_path / "a").write_bytes(content)
    assert corpora.digest(tmp_path / "a") == sha256(content).hexdigest()


def test_only_line_feeds_end_lines_and_no_sign_is_lost(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("one\u2028still one\x85\r\n\n\ufefftwo\ufeff\n".encode())
    assert corpora.read_lines(path) == ["one\u2028still one\x85", "", "\ufefftwo\ufeff"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_byte_order_mark_is_no_part_of_the_first_word_but_a_sign_elsewhere(pack, tmp_path):
    path = tmp_path / ("a.gz" if pack is gzip.compress else "a.txt")
    path.write_bytes(pack("\ufeff\ufeffone\n\ufefftwo\n".encode()))
    assert corpora.read_lines(path) == ["\ufeffone", "\ufefftwo"]


@pytest.mark.parametrize(
    ("content", "line"), [(b"a\r\nb\rc\n", 2), (b"a\rb\rc", 1), (b"a\n\r\r\n", 2), (b"a\nb\r", 2)]
)
def test_a_carriage_return_without_a_line_feed_is_refused_with_file_and_line(content, line, tmp_path):
    (tmp_path / "a.txt").write_bytes(content)
    for read in (corpora.read_text, corpora.read_lines):
        with pytest.raises(DataError, match=rf"a\.txt:{line}: a carriage return"):
            read(tmp_path / "a.txt")


def test_a_packed_file_is_read_like_a_plain_one(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT))
    assert corpora.read_text(tmp_path / "a.gz") == TEXT.decode()
    (tmp_path / "b.gz").write_bytes(gzip.compress(TEXT)[:-9])
    with pytest.raises(DataError, match=r"b\.gz cannot be read"):
        corpora.read_text(tmp_path / "b.gz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\nna\xefve\n", r"0xef at offset 7, in line 2"),
        ("text".encode("utf-16"), "UTF-16"),
        (b"GIF\0\1", "zero byte at offset 3"),
    ],
)
def test_what_is_not_utf8_text_is_refused_with_its_place(content, message, tmp_path):
    path: Path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        corpora.read_text(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"na\xefve\n", r"0xef at offset 200002, in line 40001"),
        (b"a\0b\n", "zero byte at offset 200001"),
        (b"a\rb\n", r"a\.txt:40001: a carriage return"),
    ],
)
def test_the_place_of_invalid_text_is_known_in_any_block_of_lines(wrong, message, tmp_path):
    path: Path = tmp_path / "a.txt"
    path.write_bytes(b"fine\n" * 40_000 + wrong + b"fine\n" * 40_000)
    with pytest.raises(DataError, match=message):
        corpora.read_text(path)
    path.write_bytes(b"\xc3\xa4\r\nb\n" * 40_000)
    assert corpora.read_lines(path) == ["ä", "b"] * 40_000


def test_files_that_are_called_otherwise_where_they_come_from_are_fetched_from_there():
    files = corpora.corpus("tatoeba-tr-ro-en").files
    ends = {name: file.url.rpartition("testsets/")[2] for name, file in files.items()}
    assert ends == {
        f"tatoeba-test-v2021-08-07.eng-{other}.{language}": f"eng-{other}/tatoeba-test-v2021-08-07.{language}"
        for other in ("tur", "ron")
        for language in ("eng", other)
    }
    assert all(file.url.endswith(f"/{name}") for name, file in corpora.corpus("wmt-ro-en").files.items())


def test_reports_show_the_texts_of_corpora_whose_licence_permits_it_and_of_no_others():
    free = {name for name, one in corpora.catalogue().items() if one.licence.startswith(("MIT (", "CC BY", "MIT"))}
    free = (free | {"wikitext-2"}) - {"wmt-ro-en"}  # text of Wikipedia; of the other, scripts are MIT, texts are not
    assert {name for name in corpora.catalogue() if not corpora.restriction(name)} == free


@pytest.mark.parametrize("name", ["tatoeba", "coco", "flickr8k", "flickr30k"])
def test_other_names_of_a_restricted_corpus_are_restricted_too(name):
    assert corpora.restriction(name).startswith(f"licence of {name}: not stated")


@pytest.mark.parametrize("name", ["", "my-folder", "cpython-docs", "english"])
def test_data_of_which_the_catalogue_knows_nothing_are_shown(name):
    assert corpora.restriction(name) == ""


@pytest.mark.parametrize(
    ("task", "settings", "restricted"),
    [
        ("sequence-completion", {"corpus": "ptb"}, True),
        ("language-modeling", {"corpus": "ptb"}, True),
        ("language-modeling", {"corpus": "wikitext-2"}, False),
        ("word-order", {"corpus": "ptb"}, True),
        ("word-generation", {"corpus": "ptb"}, True),
        ("translation", {"corpus": "multi30k"}, True),
        ("captioning", {"corpus": "coco-mini"}, True),
        ("code-generation", {"corpus": "django"}, False),
        ("sequence-completion", {"corpus": {"train": "a", "valid": "b", "test": "c"}}, False),
    ],
)
def test_every_task_of_a_restricted_corpus_is_known_by_its_settings(task, settings, restricted):
    assert bool(configured("task", {"name": task, **settings}).restriction) == restricted
