"""Test sets of sacrebleu, read from the folder where it keeps them."""

from __future__ import annotations

import socket

import pytest

from bench_authors.testing import TaskCase, check_task
from bench_core import DataError
from bench_data.plugin import CompletionConfig, TextToTextConfig

DATASETS = pytest.importorskip("sacrebleu.dataset").DATASETS
SOURCES, TARGETS = ["ein Hund", "zwei Katzen", "drei"], ["a dog", "two cats", "three"]
FIELDS = {"src": SOURCES, "ref": TARGETS, "docid": "aab", "genre": "nnn", "origlang": ["de"] * 3}
WMT14 = {"sacrebleu": "wmt14", "pair": "de-en"}
WMT22 = {"sacrebleu": "wmt22", "pair": "cs-en"}
XML = """<dataset id="wmttest2022"><doc id="news-1" origlang="cs">
<src lang="cs"><p><seg id="1">jeden</seg><seg id="2">dva</seg></p></src>
<ref lang="en" translator="A"><p><seg id="1">one A</seg><seg id="2">two A</seg></p></ref>
<ref lang="en" translator="B"><p><seg id="1">one B</seg><seg id="2">two B</seg></p></ref>
<hyp lang="en" system="refined"><p><seg id="1">x</seg><seg id="2">y</seg></p></hyp>
</doc></dataset>"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Put a test set of plain files where sacrebleu looks, and let nothing reach a network."""
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path / "sets"))
    for name in ("wmt14", "wmt22"):
        place = tmp_path / "sets" / name
        place.mkdir(parents=True)
        monkeypatch.setattr(DATASETS[name], "_outdir", str(place))
        monkeypatch.setattr(DATASETS[name], "_rawdir", str(place / "raw"))
    for field, lines in FIELDS.items():
        (tmp_path / f"sets/wmt14/wmt14.de-en.{field}").write_text("".join(f"{line}\n" for line in lines))

    def refuse(*_):
        raise AssertionError("a network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return tmp_path / "sets"


def put_xml(folder, text=XML):
    path = folder / "wmt22/raw" / DATASETS["wmt22"].langpairs["cs-en"]["path"]
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_a_test_set_keeps_all_contracts_and_has_the_lines_of_sacrebleu(folder, tmp_path):
    config = TextToTextConfig.model_validate({"data": {"test": WMT14}, "target_language": "en"})
    assert config.extras() == {"sacrebleu"}
    (tmp_path / "task").mkdir()
    case = TaskCase.of(config, tmp_path, tmp_path / "task")
    assert check_task(case)
    assert [*case.task.sources("test").values()] == [*DATASETS["wmt14"].source("de-en")] == SOURCES
    references = [(*one,) for one in case.task.references("test").values()]
    assert references == [(one.strip(),) for (one,) in DATASETS["wmt14"].references("de-en")]


def test_references_are_those_that_sacrebleu_compares_with_and_documents_are_groups(folder, prepared):
    put_xml(folder)
    task, _ = prepared(TextToTextConfig, data={"test": WMT22}, fields={"group": "docid", "id": "{docid}:{line}"})
    assert task.references("test") == {0: ["one B"], 1: ["two B"]}
    assert task.sources("test") == {0: "jeden", 1: "dva"}
    assert task.groups("test") == {0: 0, 1: 0}
    assert task.example_names("test") == {0: "news-1:1", 1: "news-1:2"}


def test_keys_follow_the_files_of_a_test_set(folder):
    config = CompletionConfig.model_validate({"data": {"test": WMT14}})
    before = config.reads(folder)
    assert {*before} == {f"sacrebleu wmt14.de-en.{field}" for field in FIELDS}
    (folder / "wmt14/wmt14.de-en.ref").write_text("other\n" * 3)
    after = config.reads(folder)
    assert {name for name in before if before[name] != after[name]} == {"sacrebleu wmt14.de-en.ref"}


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        ({"sacrebleu": "wmt41"}, "sacrebleu has no test set 'wmt41'. Did you mean 'wmt24'"),
        ({"pair": "de-xx"}, "test set wmt14 has no pair 'de-xx'"),
        (WMT22, "Run `sacrebleu --test-set wmt22 --language-pair cs-en --echo src` first"),
        ({"pair": "fr-en"}, "Run `sacrebleu --test-set wmt14 --language-pair fr-en --echo src` first"),
    ],
)
def test_a_test_set_that_is_not_here_is_named_with_what_to_do(folder, origin, told):
    with pytest.raises(DataError) as caught:
        TextToTextConfig.model_validate({"data": {"test": {**WMT14, **origin}}}).reads(folder)
    assert told in str(caught.value)


def test_files_of_unlike_lengths_and_broken_ones_are_named(folder, prepared):
    (folder / "wmt14/wmt14.de-en.ref").write_text("one\n")
    with pytest.raises(
        DataError, match=r"differ in their numbers of lines: .*wmt14\.de-en\.ref 1, wmt14\.de-en\.src 3"
    ):
        prepared(TextToTextConfig, data={"test": WMT14})
    put_xml(folder, "<dataset>")
    with pytest.raises(DataError, match="test set wmt22 cs-en cannot be read"):
        prepared(TextToTextConfig, data={"test": WMT22})
