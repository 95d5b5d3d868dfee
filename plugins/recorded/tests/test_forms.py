"""Outputs in every form that data may have are what JSON lines of the same outputs are."""

from __future__ import annotations

import csv
import gzip
import json

import pytest

from bench_core import DataError
from bench_recorded.plugin import RecordedConfig
from bench_recorded.reading.recording import read_recording

ROWS = [
    {"id": "7", "output": "a cat, \"red\"", "log_prob": -1.5, "tokens": 3, "prompt": "ein"},
    {"id": "x", "output": "", "log_prob": None, "tokens": 0, "prompt": None},
    {"id": "n", "output": "日本 \u2028 ok", "log_prob": -0.25, "tokens": None, "prompt": "zwei"},
]  # fmt: skip


@pytest.fixture
def read(tmp_path):
    """Write content to a file and read it."""

    def reading(content, name, **settings):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_recording(path, RecordedConfig(outputs=path, **settings))

    return reading


def table(rows, delimiter=","):
    import io

    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, [*rows[0]], delimiter=delimiter, quoting=csv.QUOTE_MINIMAL)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def parquet(rows):
    import io

    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


UNQUOTED = [{name: "a cat" if value == ROWS[0]["output"] else value for name, value in row.items()} for row in ROWS]
FORMS = {
    "out.json": (ROWS, lambda rows: json.dumps(rows, indent=2)),
    "out.json.gz": (ROWS, lambda rows: gzip.compress(json.dumps(rows).encode())),
    "one.jsonl": (ROWS, json.dumps),  # a list on one line
    "out.csv": (ROWS, table),
    "out.tsv": (UNQUOTED, lambda rows: table(rows, "\t")),
}


def of(found):
    return [(one.id, one.prompt, [(x.text, x.log_prob, x.tokens) for x in one.outputs]) for one in found.records]


@pytest.mark.parametrize(
    "name", [*FORMS, pytest.param("out.parquet", marks=pytest.mark.extra("bench-data", "parquet"))]
)
def test_every_form_gives_what_json_lines_give(read, name):
    rows, write = FORMS.get(name, (ROWS, parquet))
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    assert of(read(write(rows), name)) == of(read(lines, "lines.jsonl"))


def test_results_of_coco_are_matched_by_their_images(read):
    found = read(
        json.dumps([{"image_id": 12, "caption": "a dog"}, {"image_id": 3, "caption": "two\ncats"}]), "r.json"
    )
    assert found.file.format == "coco"
    assert [(one.id, one.outputs[0].text) for one in found.records] == [("12", "a dog"), ("3", "two\ncats")]


def test_a_list_of_several_outputs_has_fields_of_ones_own(read):
    rows = [{"key": {"n": 1}, "best": ["a", "b"]}, {"key": {"n": 2}, "best": ["c"]}]
    found = read(json.dumps(rows), "r.json", fields={"id": "key.n", "outputs": "best"})
    assert [(one.id, [x.text for x in one.outputs]) for one in found.records] == [("1", ["a", "b"]), ("2", ["c"])]


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.5, "3.5"), (3, "3"), (-0.25, "-0.25"), (True, "true"), (False, "false"), (1e30, "1e+30"), (10**20, str(10**20))],
)  # fmt: skip
def test_numbers_and_truth_values_are_written_as_json_writes_them(read, value, text):
    assert json.dumps(value) == text
    for name, content in (("a.jsonl", {"output": value}), ("a.json", [{"outputs": [value]}])):
        assert read(json.dumps(content), name).records[0].outputs[0].text == text


FAULTS = {
    "n.json: number 2 has null in 'output', which is not text": [{"output": "a"}, {"output": None}],
    "n.json: number 1 has NaN in 'output', which is not text": [{"output": float("nan")}],
    "n.json: number 2 has no 'output' and no 'outputs'; it has 'text'": [{"output": "a"}, {"text": "b"}],
    "n.json: number 2 of its list is 'b', which is not an object": [{"output": "a"}, "b"],
    "n.json: number 1 has [\"a\"] in 'output'": [{"output": ["a"]}],
}


@pytest.mark.parametrize("words", FAULTS)
def test_what_is_wrong_in_a_list_is_named_by_its_number(read, words):
    with pytest.raises(DataError) as found:
        read(json.dumps(FAULTS[words]), "n.json")
    assert words in str(found.value)


@pytest.mark.parametrize("content", ['[{"output": "a"}', "[", '[{"output": "a", "output": "b"}]', "[]"])
def test_a_list_that_is_none_is_refused(read, content):
    with pytest.raises(DataError, match=r"n\.json"):
        read(content, "n.json").records[0]


BEFORE = [
    "2021-05-04 12:00:01 | INFO | fairseq_cli.generate | ", "[2021-05-04 12:00:01,123][fairseq_cli.generate][INFO] - ",
    "2021-05-04T12:00:01.5Z ", "0: ", "[1,0]<stdout>:", "INFO:fairseq_cli.generate:",
]  # fmt: skip
LOG = ["S-0\tein Hund", "T-0\ta dog", "H-0\t-0.5\ta do g", "D-0\t-0.5\ta dog", "P-0\t-0.25 -0.5",
       "S-1\tnein", "H-1\t-1\tno", "D-1\t-1\tno | D-1", "P-1\t-1.0", "Generate test with beam=5: BLEU4 = 31.41"]  # fmt: skip


@pytest.mark.parametrize("before", BEFORE)
def test_a_log_behind_time_stamps_is_the_log(read, before):
    plain = read("".join(f"{line}\n" for line in LOG), "plain.log")
    found = read("".join(f"{before}{line}\n" for line in LOG), "stamped.log")
    assert found.file.format == "fairseq"
    assert of(found) == of(plain)
    assert [one.outputs[0].text for one in found.records] == ["a dog", "no | D-1"]


def test_a_log_behind_time_stamps_that_is_cut_off_is_named(read):
    with pytest.raises(DataError, match=r"cut\.log:4 has no score, so the log is truncated"):
        read("".join(f"{BEFORE[0]}{line}\n" for line in [*LOG[:3], "D-0"]), "cut.log")


THOUGHT = "<think>\nTwo and two.\n</think>\n\n4"


def test_thinking_in_outputs_is_refused_taken_off_or_kept(read):
    lines = "".join(
        f"{json.dumps({'id': n, 'output': text})}\n" for n, text in enumerate([THOUGHT, "5", "<think>so"])
    )
    with pytest.raises(DataError, match=r"a\.jsonl:1 has <think> in an output.*`thinking: drop`"):
        read(lines, "a.jsonl")
    outputs = [one.outputs[0] for one in read(lines, "a.jsonl", thinking="drop").records]
    assert [(one.text, one.finished) for one in outputs] == [("4", True), ("5", True), ("", False)]
    kept = [one.outputs[0].text for one in read(lines, "a.jsonl", thinking="keep").records]
    assert kept == [THOUGHT, "5", "<think>so"]


@pytest.mark.parametrize("value", [0, 0.0, -0.0, -1e-9, 1e-9])
def test_outputs_that_are_all_certain_are_refused(read, value):
    rows = [{"output": "a b", "log_prob": value} for _ in range(5)]
    with pytest.raises(DataError, match=r"a\.jsonl:1 is the first of 5 outputs that all have log-probability 0"):
        read("".join(f"{json.dumps(row)}\n" for row in rows), "a.jsonl")
    rows[3]["log_prob"] = -0.5
    found = read("".join(f"{json.dumps(row)}\n" for row in rows), "a.jsonl")
    assert [one.outputs[0].log_prob for one in found.records] == [min(value, 0)] * 3 + [-0.5, min(value, 0)]
    assert read(json.dumps(rows[0]), "a.jsonl").records[0].outputs[0].log_prob == min(value, 0)


def test_a_log_of_fairseq_with_zeros_is_refused(read):
    log = "".join(f"H-{n}\t0\ta\nP-{n}\t0.0 0.0\n" for n in range(3))
    with pytest.raises(DataError, match="is the first of 3 outputs that all have"):
        read(log, "a.log")
