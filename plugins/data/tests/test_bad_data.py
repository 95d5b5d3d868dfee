"""What is wrong with a user's data is told with its place, what was found, and what to do."""

from __future__ import annotations

import gzip
import json

import pytest
from pydantic import ValidationError

from bench_core import DataError
from bench_data.plugin import CompletionConfig, TextToTextConfig

GOOD = {"id": "1", "source": "a", "target": "b"}


def lines(*rows):
    return "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows).encode()


def refused(prepared, path, kind=TextToTextConfig, split="train", **settings):
    """Return why data are refused, with the place as A in it."""
    with pytest.raises(DataError) as caught:
        prepared(kind, data={split: str(path)}, **settings)
    return str(caught.value).replace(str(path), "A")


BAD_RECORDS = {
    "no field 'source'; it has 'id', 'target'": {"id": "2", "target": "b"},
    "has null as 'source', which must be text": {**GOOD, "id": "2", "source": None},
    "has inf as 'target', which must be text": {**GOOD, "id": "2", "target": float("inf")},
    "has {'b': True} as 'target', which must be text": {**GOOD, "id": "2", "target": {"b": True}},
    "has ['b'] as 'target', which must be text": {**GOOD, "id": "2", "target": ["b"]},
    "has a blank text as 'source'": {**GOOD, "id": "2", "source": "\u3000 "},
    "has an unpaired surrogate, '\\udc80', in 'target'": {**GOOD, "id": "2", "target": "x\udc80"},
    "has no field 'id'": {"source": "a", "target": "b"},
    "has the id '1', which is also the id of A:1": {**GOOD},
    "has a blank id": {**GOOD, "id": " "},
}


@pytest.mark.parametrize("told", BAD_RECORDS)
def test_a_record_that_is_wrong_is_named_by_file_and_line(tmp_path, prepared, told):
    (tmp_path / "a.jsonl").write_bytes(lines(GOOD, "\n", BAD_RECORDS[told]))
    message = refused(prepared, tmp_path / "a.jsonl", fields={"id": "id"})
    assert message.startswith("A:3 ")
    assert told in message


def test_numbers_and_texts_that_read_alike_are_one_id(tmp_path, prepared):
    (tmp_path / "a.jsonl").write_bytes(lines({**GOOD, "id": 1}, {**GOOD, "id": "1"}))
    assert "A:2 has the id '1', which is also the id of A:1" in refused(
        prepared, tmp_path / "a.jsonl", fields={"id": "id"}
    )


def test_ids_are_unique_over_all_files_of_a_split_and_not_over_splits(tmp_path, prepared):
    paths = []
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(lines(GOOD))
        paths.append(str(tmp_path / f"{name}.jsonl"))
    with pytest.raises(DataError, match=r"b\.jsonl:1 has the id '1', which is also the id of .*a\.jsonl:1"):
        prepared(TextToTextConfig, data={"train": paths}, fields={"id": "id"})
    task, _ = prepared(TextToTextConfig, data={"train": paths[0], "test": paths[1]}, fields={"id": "id"})
    assert task.example_names("train") == task.example_names("test") == {0: "1"}


BAD_FILES = {
    "A:2 is not JSON": ("a.jsonl", lines(GOOD, '{"source": "a"\n')),
    "A:1 is not JSON: 'source' is duplicated in a JSON object": ("a.jsonl", b'{"source": "a", "source": "b"}'),
    "A:2 is [1]. Each line must be a JSON object": ("a.jsonl", lines(GOOD, "[1]\n")),
    "A is empty": ("a.jsonl", b""),
    "have no records": ("a.jsonl", b"\n\n"),
    "A is not UTF-8: byte 0xe9 at offset": ("a.jsonl", '{"source": "é"}'.encode("latin-1")),
    "A is UTF-16, not UTF-8": ("a.csv", "source,target\na,b\n".encode("utf-16")),
    "A cannot be read": ("a.jsonl.gz", gzip.compress(lines(GOOD))[:-9]),
    "A is not a list of objects": ("a.json", b'{"source": "a"}'),
    "A: number 2 of its list is 3, which is not an object": ("a.json", b'[{"source": "a", "target": "b"}, 3]'),
    "A is not JSON: 'a' is duplicated in a JSON object": ("a.json", b'[{"a": 1, "a": 2}]'),
    "A: number 1 has no field 'target'; it has 'source'": ("a.json", b'[{"source": "a"}]'),
    "A:3 has 1 cells, but the header has 2: source, target": ("a.csv", b"source,target\na,b\nc\n"),
    "A:4 has 3 cells": ("a.csv", b'source,target\n"a\nb",c\nd,e,f\n'),
    "A:2: unexpected end of data": ("a.csv", b'source,target\n"a,b\nc,d\n'),
    "has a duplicate": ("a.csv", b"source,target,source\na,b,c\n"),
    "A:1 is empty, but must contain the column names": ("a.csv", b"\n\nsource,target\na,b\n"),
    "or a blank name": ("a.csv", b"source,,target\na,b,c\n"),
    "A:2 has no field 'target'; it has 'source', 'answer'": ("a.csv", b"source,answer\na,b\n"),
    "have no records. Correct `data: train:`": ("a.tsv", b"source\ttarget\n"),
    "A:2: a carriage return without a line feed": ("a.tsv", b"source\ttarget\na\rb\tc\n"),
}


@pytest.mark.parametrize("told", BAD_FILES)
def test_a_file_that_is_wrong_is_named_with_the_line(tmp_path, prepared, told):
    name, content = BAD_FILES[told]
    (tmp_path / name).write_bytes(content)
    assert told in refused(prepared, tmp_path / name)


def test_a_file_that_is_missing_is_named(tmp_path, prepared):
    assert (
        refused(prepared, tmp_path / "a.jsonl") == "A cannot be read (No such file or directory). Correct its path."
    )
    data = {"source": str(tmp_path / "s"), "target": str(tmp_path / "t")}
    with pytest.raises(DataError, match="s cannot be read"):
        prepared(TextToTextConfig, data={"train": data})


def test_formats_go_by_the_end_of_a_name_in_any_case(tmp_path, prepared):
    (tmp_path / "A.JSONL").write_bytes(lines(GOOD))
    task, _ = prepared(TextToTextConfig, data={"test": str(tmp_path / "A.JSONL")})
    assert task.sources("test") == {0: "a"}


@pytest.mark.extra("bench-data", "parquet")
def test_a_file_that_is_no_parquet_or_lacks_a_column_is_named(tmp_path, write, prepared):
    path = write("a.parquet", [GOOD])
    assert refused(prepared, path, fields={"target": "answer"}).startswith(
        "A has no field 'answer'; it has 'id', 'source', 'target'"
    )
    path = write("b.parquet", [GOOD, {**GOOD, "target": None}])
    assert refused(prepared, path).startswith("A: row 2 has null as 'target'")
    path.write_bytes(b"PAR1 and no more")
    assert "A cannot be read as Parquet" in refused(prepared, path)


@pytest.mark.parametrize("found", [-1, "x", "nan", "inf", 1e999, None, True, [1], 10**400])
def test_weights_are_finite_numbers_from_0(tmp_path, prepared, found):
    (tmp_path / "a.jsonl").write_bytes(lines({**GOOD, "w": 1}, {**GOOD, "w": found}))
    message = refused(prepared, tmp_path / "a.jsonl", fields={"weight": "w"})
    assert message.startswith("A:2 ")
    assert "as 'w', which must be a finite number from 0" in message


@pytest.mark.parametrize("found", [[], ["a", None], ["a", " "], {"a": "b"}, ["a", ["b"]]])
def test_references_are_texts(tmp_path, prepared, found):
    (tmp_path / "a.jsonl").write_bytes(lines({**GOOD, "all": found}))
    assert refused(prepared, tmp_path / "a.jsonl", fields={"references": "all"}).startswith("A:1 has ")


@pytest.mark.parametrize(
    "template",
    [
        "{source.__class__}",
        "{0}",
        "{source!r}",
        "{source:>999999999}",
        "{source[0]}",
        "{__import__('os')}",
        "{ source}",
    ],
)
def test_templates_do_nothing_but_name_fields(tmp_path, prepared, template):
    (tmp_path / "a.jsonl").write_bytes(lines(GOOD))
    message = refused(prepared, tmp_path / "a.jsonl", fields={"source": template})
    assert message.startswith(f"A:1 has no field {template[1:-1]!r}; it has 'id', 'source', 'target'")


def test_what_a_template_puts_in_is_filled_no_further(write, prepared):
    path = str(write("a.jsonl", [{"source": "{target} {{", "target": "b"}]))
    task, _ = prepared(TextToTextConfig, data={"test": path}, fields={"source": "<{source}>"})
    assert task.sources("test") == {0: "<{target} {{>"}


@pytest.mark.parametrize("template", ["{", "a}", "{}", "{a", "{a{b}}", ""])
def test_braces_that_do_not_match_are_refused_before_anything_is_read(template):
    with pytest.raises(ValidationError, match=r"brace|at least 1 character"):
        TextToTextConfig.model_validate({"data": {"test": "a.jsonl"}, "fields": {"source": template}})


def test_files_side_by_side_have_equally_many_lines(tmp_path, prepared):
    for name, text in {"s": "1\n2\n3\n", "t": "1\n2\n", "u": "3\n", "v": "\n", "w": ""}.items():
        (tmp_path / name).write_text(text)

    def told(**names):
        data = {key: [str(tmp_path / name) for name in value] for key, value in names.items()}
        with pytest.raises(DataError) as caught:
            prepared(TextToTextConfig, data={"train": data})
        return str(caught.value).replace(f"{tmp_path}/", "")

    assert told(source="s", target="t").startswith("s has 3 lines, but t has 2: line n of one must")
    assert told(source="st", target="su").startswith("t has 2 lines, but u has 1: line n of one must")
    assert told(source="s", target="s", references="t").startswith("s has 3 lines, but t has 2: line n of one must")
    assert told(source="s", target="tuv").startswith("s has 3 lines, but t and u and v has 4: ")
    assert told(source="u", target="v").startswith("v:1 has a blank text as 'target'; `empty: keep` or `empty: drop`")
    assert told(source="u", target="w").startswith("w is empty")


def test_dropping_blank_texts_is_for_training_alone(tmp_path, prepared):
    (tmp_path / "a.jsonl").write_bytes(lines(GOOD, {**GOOD, "target": ""}))
    message = refused(prepared, tmp_path / "a.jsonl", split="test", empty="drop")
    assert message.startswith("A:2 has a blank text as 'target'; `empty: keep` allows it")


def test_conditions_that_no_record_meets_are_named(tmp_path, prepared):
    (tmp_path / "a.jsonl").write_bytes(lines(GOOD))
    data = {"files": str(tmp_path / "a.jsonl"), "where": {"id": "2"}}
    with pytest.raises(
        DataError, match=r"data of test .*a.jsonl\) have no records selected by `where: \{'id': '2'\}`"
    ):
        prepared(TextToTextConfig, data={"test": data})
    with pytest.raises(DataError, match=r"a\.jsonl:1 has no field 'part'"):
        prepared(TextToTextConfig, data={"test": {**data, "where": {"part": "2"}}})


@pytest.mark.parametrize(
    ("kind", "settings", "told"),
    [
        (TextToTextConfig, {"data": {}}, "at least one of `train`, `valid`, `test` and `tests`"),
        (TextToTextConfig, {"data": {"dev": "a.jsonl"}}, "dev"),
        (TextToTextConfig, {"data": {"train": {"source": "a"}}}, "`train` needs targets"),
        (TextToTextConfig, {"data": {"train": {"files": "a.jsonl", "targets": False}}}, "`train` needs targets"),
        (TextToTextConfig, {"data": {"test": []}}, "at least 1 item"),
        (TextToTextConfig, {"data": {"test": {"references": ["a"]}}}, "give the files of `source`"),
        (
            TextToTextConfig,
            {"data": {"test": {"files": "a.jsonl", "share": [90, 80]}}},
            "`share` must be two numbers",
        ),
        (TextToTextConfig, {"data": {"test": "a.jsonl"}, "fields": {"prompt": "a"}}, "have no `prompt`"),
        (TextToTextConfig, {"data": {"test": {"target": "a"}}}, "needs the files of `source`"),
        (TextToTextConfig, {"data": {"test": {"source": "a", "prompt": "b"}}}, "not use files of `prompt`"),
        (CompletionConfig, {"data": {"test": {"source": "a", "target": "b"}}}, "not use files of `source`"),
        (CompletionConfig, {"data": {"test": "a.jsonl"}, "fields": {"source": "a"}}, "have no `source`"),
        (CompletionConfig, {"data": {"test": "a.jsonl"}, "fields": {"prompt": "a"}, "prefix": 2}, "either `prefix`"),
        (CompletionConfig, {"data": {"test": {"prompt": "a", "target": "b"}}, "prefix": 2}, "either `prefix`"),
        (TextToTextConfig, {"data": {"test": "a.jsonl"}, "target_language": "English"}, "target_language"),
        (
            TextToTextConfig,
            {"data": {"test": "a"}, "shared": True, "tokenizer": {"source": "char", "target": "word"}},
            "same tokenizer",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(kind, settings, told):
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(settings)
    assert told in str(caught.value)
