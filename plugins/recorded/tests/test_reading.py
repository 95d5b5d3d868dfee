"""Every format of recorded outputs is read as it was written, and what is wrong is named with its file and line."""

from __future__ import annotations

import gzip
import json
from math import log

import pytest

from bench_core import DataError
from bench_recorded.plugin import RecordedConfig
from bench_recorded.reading.recording import read_recording
from bench_recorded.reading.text_lines import read_lines

NBEST = """\
0 ||| a cat sat ||| LM0= -3.5 WordPenalty0= -3 ||| -2.5
0 ||| the cat sat ||| LM0= -4 WordPenalty0= -3 ||| -3.25
1 ||| no ||| LM0= -1 ||| -0.5
"""

FAIRSEQ = """\
INFO | fairseq_cli.generate | loading model(s)
S-1\tein Hund
T-1\ta dog
H-1\t-0.5\ta d@@ og
D-1\t-0.5\ta dog
P-1\t-0.25 -0.5 -0.75 -0.5
S-0\teine Katze
H-0\t-1.0\ta c@@ at
D-0\t-1.0\ta cat
P-0\t-1.0 -1.0
H-0\t-2.0\tthe c@@ at
D-0\t-2.0\tthe cat
P-0\t-2.0 -2.0 -2.0
Generate test with beam=5: BLEU4 = 31.41
"""


def harness(doc_id, answers, filter="none", prompt="2 + 2 ="):
    return {
        "doc_id": doc_id, "doc": {"question": prompt}, "target": "4",
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["\n"]}}},
        "resps": [[f" {one}." for one in answers]], "filtered_resps": answers, "filter": filter,
    }  # fmt: skip


@pytest.fixture
def read(tmp_path):
    """Write a file and read it, with settings of the Config."""

    def reading(text, name="out.txt", **settings):
        path = tmp_path / name
        data = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(data)
        return read_recording(path, RecordedConfig(outputs=path, **settings))

    return reading


@pytest.fixture
def read_json(read):
    def reading(*objects, name="out.jsonl", **settings):
        return read("".join(f"{json.dumps(one)}\n" for one in objects), name, **settings)

    return reading


def texts(found):
    return [[one.text for one in record.outputs] for record in found.records]


def ids(found):
    return [record.id for record in found.records]


def error(reading, *arguments, **settings):
    with pytest.raises(DataError) as found:
        reading(*arguments, **settings)
    return str(found.value)


def test_a_text_file_has_an_output_a_line(read):
    found = read("one\n\n three \nfour")
    assert texts(found) == [["one"], [""], [" three"], ["four"]]
    assert ids(found) == [None] * 4
    assert [one.line for one in found.records] == [1, 2, 3, 4]
    assert found.file.format == "lines"


@pytest.mark.parametrize("inside", ["\u2028", "\x0b", "\x0c", "\x85", "\r", "\x1c"])
def test_line_feeds_alone_end_lines(read, inside):
    assert texts(read(f"a{inside}b\nc\n")) == [[f"a{inside}b"], ["c"]]


def test_lines_are_those_that_the_command_of_sacrebleu_compares(tmp_path):
    from sacrebleu.utils import smart_open

    path = tmp_path / "a.txt"
    path.write_bytes("a \r\n\n b\u2028c\x0cd\u00a0\nlast".encode())
    with smart_open(str(path)) as file:
        assert read_lines(path) == [line.rstrip() for line in file]


def test_a_packed_file_and_a_byte_order_mark_change_nothing(read):
    plain = texts(read("ä\nb\n"))
    assert texts(read(gzip.compress("ä\nb\n".encode()), "out.txt.gz")) == plain
    assert texts(read("\ufeffä\nb\n")) == plain


def test_a_list_of_moses_has_the_best_of_each_example_first(read):
    found = read(NBEST)
    assert found.file.format == "moses-nbest"
    assert ids(found) == ["0", "1"]
    assert texts(found) == [["a cat sat", "the cat sat"], ["no"]]
    assert [one.values for one in found.records[0].outputs] == [{"score": -2.5}, {"score": -3.25}]
    assert {one.log_prob for record in found.records for one in record.outputs} == {None}


def test_an_empty_output_of_a_list_is_one(read):
    assert texts(read("0 |||  ||| f ||| -1\n1 ||| b ||| f ||| -1\n")) == [[""], ["b"]]


def test_a_log_of_fairseq_has_detokenized_texts_and_log_probabilities_in_nats(read):
    found = read(FAIRSEQ)
    assert found.file.format == "fairseq"
    assert ids(found) == ["1", "0"]
    assert texts(found) == [["a dog"], ["a cat", "the cat"]]
    assert [record.prompt for record in found.records] == ["ein Hund", "eine Katze"]
    outputs = [one for record in found.records for one in record.outputs]
    assert [one.log_prob for one in outputs] == pytest.approx([-2 * log(2), -2 * log(2), -6 * log(2)])
    assert [one.tokens for one in outputs] == [4, 2, 3]
    assert [one.values["score"] for one in outputs] == [-0.5, -1.0, -2.0]


def test_a_log_without_detokenized_texts_has_those_of_the_search(read):
    lines = [line for line in FAIRSEQ.splitlines() if not line.startswith("D-")]
    log = "\n".join(lines)
    assert texts(read(log, pieces="none")) == [["a d@@ og"], ["a c@@ at", "the c@@ at"]]
    assert texts(read(log, pieces="subword-nmt")) == [["a dog"], ["a cat", "the cat"]]
    assert "out.txt:4 has 'a d@@ og', which looks split into subword-nmt pieces" in error(read, log)


def test_an_empty_output_of_fairseq_is_one(read):
    assert texts(read("H-0\t-1.5\t\nH-1\t-2\tb\n")) == [[""], ["b"]]


def test_json_lines_have_one_output_or_several_with_what_is_known_of_them(read_json):
    found = read_json(
        {"id": "x", "output": "one", "log_prob": -1.5, "tokens": 7, "prompt": "p"},
        {"id": 12, "outputs": ["a", "b"], "log_prob": [-1, None], "tokens": [["a"], 3]},
        {"output": ""},
    )
    assert ids(found) == ["x", "12", None]
    assert texts(found) == [["one"], ["a", "b"], [""]]
    assert [one.log_prob for record in found.records for one in record.outputs] == [-1.5, -1, None, None]
    assert [one.tokens for record in found.records for one in record.outputs] == [7, 1, 3, -1]
    assert [record.prompt for record in found.records] == ["p", None, None]


def test_fields_are_named_and_lie_inside_of_others(read_json):
    fields = {"id": "doc.key", "output": "answer.text", "log_prob": "answer.logp"}
    found = read_json({"doc": {"key": "k"}, "answer": {"text": "t", "logp": -2}}, fields=fields)
    (record,) = found.records
    assert (record.id, record.outputs[0].text, record.outputs[0].log_prob) == ("k", "t", -2)


def test_empty_lines_between_objects_are_left_out_and_counted(read):
    found = read('{"output": "a"}\n\n{"output": "b"}\n', "out.jsonl")
    assert [record.line for record in found.records] == [1, 3]


def test_rounding_above_zero_is_a_log_probability_of_zero(read_json):
    assert read_json({"output": "a", "log_prob": 1e-9}).records[0].outputs[0].log_prob == 0


def test_a_sample_log_has_filtered_answers_and_prompts(read_json):
    found = read_json(harness(3, ["4"]), harness(1, ["5", "6"]))
    assert found.file.format == "lm-eval"
    assert ids(found) == ["3", "1"]
    assert texts(found) == [["4"], ["5", "6"]]
    assert {record.prompt for record in found.records} == {"2 + 2 ="}
    assert texts(read_json(harness(3, ["4"]), fields={"output": "resps"})) == [[" 4."]]


def test_an_older_sample_log_has_its_prompts_in_lists(read_json):
    line = {**harness(0, ["4"]), "arguments": [["2 + 2 =", {"until": ["\n"]}]]}
    assert read_json(line).records[0].prompt == "2 + 2 ="


def test_of_several_filters_one_is_chosen(read_json):
    lines = harness(0, ["4"], "strict"), harness(0, ["four"], "loose")
    assert texts(read_json(*lines, filter="loose")) == [["four"]]
    assert "Set `filter` to one of: strict, loose." in error(read_json, *lines)
    assert "without the filter 'lose'; it has strict, loose" in error(read_json, *lines, filter="lose")


def test_a_format_that_is_named_is_the_one(read):
    assert texts(read(NBEST, format="lines")) == [[line] for line in NBEST.splitlines()]


WRONG = {  # what a file says -> its error, which begins with file and line
    "out.jsonl": {
        '{"output": "a"}\n{"output": \n': "2 is not JSON",
        '{"output": "a"}\n["b"]\n': '2 is ["b"], not an object',
        '{"output": "a"}\n{"text": "b"}\n': "2 has no 'output' and no 'outputs'; it has 'text'. Set other names under `fields`",
        '{"output": "a"}\n{}\n': "2 has no 'output' and no 'outputs'; it has no fields.",
        '{"output": {}}\n': "1 has {} in 'output', which is not text. Write empty outputs as",
        '{"output": null}\n': "1 has null in 'output', which is not text",
        '{"outputs": []}\n': "1 has [] in 'outputs', not a list of one or more texts",
        '{"outputs": "a"}\n': "1 has \"a\" in 'outputs'",
        '{"outputs": ["a", null]}\n': "1 has null in 'outputs', which is not text",
        '{"outputs": ["a", "b"], "log_prob": [-1]}\n': "1 has 2 outputs, but [-1] in 'log_prob', not a matching list",
        '{"outputs": ["a", "b"], "tokens": 3}\n': "1 has 2 outputs, but 3 in 'tokens'",
        '{"output": "a"}\n{"output": "b", "log_prob": NaN}\n': "2 has log_prob NaN",
        '{"output": "b", "log_prob": 0.5}\n': "1 has log_prob 0.5, which is not a log-probability: these are finite and at most 0",
        '{"output": "b", "log_prob": -Infinity}\n': "1 has log_prob -inf, which is not a log-probability",
        '{"output": "b", "log_prob": Infinity}\n': "1 has log_prob inf, which is not a log-probability",
        '{"output": "b", "log_prob": true}\n': "1 has log_prob 'True', which is not a number",
        '{"output": "b", "log_prob": "x"}\n': "1 has log_prob 'x', which is not a number",
        '{"output": "b", "tokens": -2}\n': "1 has -2 in 'tokens', not a list of tokens or their number",
        '{"output": "b", "tokens": 2.5}\n': "1 has 2.5 in 'tokens'",
        '{"output": "b", "id": 1.5}\n': "1 has id 1.5. An id must be a string or an integer",
        '{"output": "b", "id": true}\n': "1 has id true",
        '{"output": "b\\ud800"}\n': "1 has an unpaired surrogate in 'output'",
        '{"output": "b", "prompt": []}\n': "1 has [] in 'prompt', which is not text",
        "[" * 100_000: "1 is not JSON",
    },
    "nbest.txt": {
        "0 ||| a ||| f ||| -1\nb\n": "2 is not `id ||| text ||| features ||| score`",
        "0 ||| a ||| f ||| -1\nx ||| b ||| f ||| -1\n": "2 is not `id ||| text",
        "0 ||| a ||| f ||| -1\n1 ||| b ||| f ||| high\n": "2 has score 'high', which is not a number",
        "0 ||| a ||| f ||| nan\n": "1 has score NaN",
        "0 ||| a ||| f ||| -1\n1 ||| b ||| f ||| -1\n0 ||| c ||| f ||| -2\n": (
            "3 has id 0 again; its other outputs start at line 1"
        ),
    },
    "generate.log": {
        "H-0\t-1\ta\nH-1\n": "2 has no score, so the log is truncated. Generate again.",
        "H-0\t-1\ta\nH-1\tx\tb\n": "2 has score 'x', which is not a number",
        "H-0\t-1\ta\nP-0\t-1 nan\n": "2 has log-probability NaN",
        "H-0\t-1\ta\nP-0\t-1 2.5\n": "2 has the log-probability 1.03972, which is not a log-probability",
    },
}
CASES = [(name, text, words) for name, wrong in WRONG.items() for text, words in wrong.items()]


@pytest.mark.parametrize(("name", "text", "words"), CASES, ids=[words for _, _, words in CASES])
def test_what_is_wrong_is_named_with_its_line(read, tmp_path, name, text, words):
    assert error(read, text, name).startswith(f"{tmp_path / name}:{words}")


def test_the_error_of_a_line_says_how_the_file_was_read(read):
    assert error(read, "b\n", "x.jsonl").endswith("(Read as jsonl, by its extension.)")
    assert error(read, "0 ||| a\nb\n").endswith("(Read as moses-nbest, by its first line.)")
    assert error(read, "b\n", format="fairseq").endswith("(Read as fairseq, as set by `format`.)")


def test_a_log_without_generations_is_none(read):
    assert "starts a file without lines `H-0 TAB score TAB text`" in error(read, "b\n", format="fairseq")


def test_a_sample_log_of_likelihoods_has_no_texts(read_json):
    line = {**harness(0, []), "filtered_resps": [[-1.5, False]], "resps": [[[-1.5, False]]]}
    assert "not generated texts. Use the log of a task with `output_type: generate_until`" in error(read_json, line)
    assert "1 has no 'filtered_resps'" in error(read_json, {"doc_id": 0, "resps": []})
    assert "2 has no 'doc_id'" in error(read_json, harness(0, ["a"]), {"filtered_resps": ["a"]})


def test_other_encodings_are_named_with_line_and_byte(read, tmp_path):
    found = error(read, "grün\nweiß\n".encode("latin1"))
    assert found.startswith(f"{tmp_path / 'out.txt'}:1: byte 3 of the line, 0xfc, is not UTF-8.")
    assert "iconv -f latin1 -t utf-8" in found
    assert "out.txt:2: byte 4" in error(read, b"ok\nwei\xdf\n")
    assert "out.txt:1 is UTF-16. Convert the file: iconv -f utf-16 -t utf-8." in error(read, "a\n".encode("utf-16"))


def test_what_cannot_be_read_at_all_is_named(read, tmp_path):
    assert "out.txt is empty. It must have one entry per example." in error(read, "")
    assert "cannot be decompressed" in error(read, b"no gzip", "out.txt.gz")
    packed = gzip.compress(b"a\nb\n" * 100)
    assert "cannot be decompressed" in error(read, packed[:-12], "out.txt.gz")
    missing = tmp_path / "missing.txt"
    assert f"{missing} cannot be read (No such file or directory)" in error(
        lambda: read_recording(missing, RecordedConfig(outputs=missing))
    )


def test_prompts_in_a_file_of_their_own_stand_beside_outputs_line_by_line(tmp_path):
    outputs, prompts = tmp_path / "out.txt", tmp_path / "prompts.txt"
    outputs.write_text("a\nb\n")
    prompts.write_text("x\ny\n")
    config = RecordedConfig(outputs=outputs)
    assert [record.prompt for record in read_recording(outputs, config, prompts).records] == ["x", "y"]
    prompts.write_text("x\n")
    assert f"{prompts} has 1 prompt, but {outputs} has 2 examples" in error(read_recording, outputs, config, prompts)


def test_a_field_that_stands_twice_in_a_line_is_refused_as_one_of_them_would_be_lost(read):
    found = error(read, '{"id": 1, "output": "a"}\n{"id": 2, "output": "b", "output": "c"}\n', "out.jsonl")
    assert "out.jsonl:2: is not JSON" in found or "out.jsonl:2 is not JSON" in found
    assert "'output' is duplicated in a JSON object" in found
