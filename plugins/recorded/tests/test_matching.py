"""Outputs are those of their examples, whatever the order of a file; what does not fit is refused by name."""

from __future__ import annotations

import json
import random

import pytest

from bench_authors.testing import TEXT_CONTRACTS, TextCase, check_text_generator
from bench_core import DataError, Generation, Prompt, Rng, TaskInfo
from bench_recorded.plugin import AsRecordedConfig, RecordedConfig
from bench_recorded.system import AsRecorded, RecordedOutputs

NUMBER = 12
PROMPTS = [Prompt(number, f"source {number}", f"doc-{number}") for number in range(NUMBER)]
UNNAMED = [Prompt(number, f"source {number}") for number in range(NUMBER)]


def lines(order=range(NUMBER), **more):
    return [{"id": f"doc-{number}", "output": f"out {number}", **more} for number in order]


@pytest.fixture
def answer(tmp_path):
    """Write outputs, as text or as objects, and ask for those of some prompts; return texts and warnings."""

    def answering(content, prompts=PROMPTS, name=None, examples=NUMBER, best=None, **settings):
        path = tmp_path / (name or ("out.txt" if isinstance(content, str) else "out.jsonl"))
        plain = isinstance(content, str)
        path.write_text(content if plain else "".join(f"{json.dumps(one)}\n" for one in content))
        config, decoder = RecordedConfig(outputs=path, **settings), AsRecordedConfig(best=best)
        warnings = []
        generation = Generation(decoder, "test", 0, Rng(0), tmp_path, warnings.append, examples)
        found = AsRecorded(decoder).decode_texts(RecordedOutputs(config, TaskInfo(())), prompts, generation)
        return [[one.text for one in row] for row in found], warnings

    return answering


EXPECTED = [[f"out {number}"] for number in range(NUMBER)]
PLAIN = "".join(f"out {number}\n" for number in range(NUMBER))


def shuffled():
    order = [*range(NUMBER)]
    random.Random(3).shuffle(order)
    assert order != sorted(order)
    return order


def refusal(answer, *arguments, **settings):
    with pytest.raises(DataError) as found:
        answer(*arguments, **settings)
    return str(found.value)


def test_shuffled_ids_give_what_order_gives(answer):
    assert answer(PLAIN) == (EXPECTED, [])
    assert answer(lines()) == (EXPECTED, [])
    assert answer(lines(shuffled())) == (EXPECTED, [])


def test_numbers_are_those_of_examples_in_any_order(answer):
    numbered = [{"id": number, "output": f"out {number}"} for number in shuffled()]
    assert answer(numbered, UNNAMED)[0] == EXPECTED, "examples without names have numbers"
    assert answer(numbered, match="number")[0] == EXPECTED
    nbest = "".join(f"{number} ||| out {number} ||| f ||| -1\n" for number in shuffled())
    assert answer(nbest)[0] == EXPECTED, "ids of such lists are numbers, also of examples with names"


def test_ids_can_be_left_out_of_account(answer):
    order = shuffled()
    assert answer(lines(order), match="order")[0] == [[f"out {number}"] for number in order]


def test_prompts_are_answered_in_their_order_and_in_any_part(answer):
    chosen = [PROMPTS[number] for number in (7, 2, 11)]
    for content in (PLAIN, lines(shuffled())):
        assert answer(content, chosen)[0] == [["out 7"], ["out 2"], ["out 11"]]


def test_the_best_of_several_are_given(answer):
    several = [{"output": f"a{number}"} for number in range(11)] + [{"outputs": ["x", "y", "z"]}]
    assert answer(several)[0][-1] == ["x", "y", "z"]
    assert answer(several, best=2)[0][-1] == ["x", "y"]


@pytest.mark.parametrize("lines_there", [NUMBER - 1, NUMBER + 1])
def test_another_number_of_outputs_is_refused(answer, tmp_path, lines_there):
    found = refusal(answer, "a\n" * lines_there)
    assert found.startswith(
        f"{tmp_path / 'out.txt'} has {lines_there} outputs, but the split 'test' has 12 examples."
    )
    assert "write an empty line for an empty output" in found


def test_an_additional_empty_line_at_the_end_is_an_output_too(answer):
    assert "has 13 outputs" in refusal(answer, PLAIN + "\n")


def test_a_missing_id_is_named_with_how_many_are_missing(answer, tmp_path):
    without = [one for one in lines(shuffled()) if one["id"] not in ("doc-3", "doc-9")]
    found = refusal(answer, without)
    assert found.startswith(f"{tmp_path / 'out.jsonl'} has no output for 2 of 12 examples of 'test'")
    assert "the first is example 3, 'doc-3'. The file has ids such as 'doc-" in found


def test_a_missing_number_is_named(answer):
    found = refusal(answer, [{"id": number, "output": ""} for number in range(1, NUMBER)], UNNAMED)
    assert "has no output for 1 of 12 examples" in found
    assert "the first is example 0" in found


def test_a_duplicated_id_is_named_with_both_lines(answer, tmp_path):
    found = refusal(answer, [*lines(), {"id": "doc-4", "output": "again"}])
    assert found.startswith(f"{tmp_path / 'out.jsonl'}:13 has the same id 'doc-4' as line 5.")


def test_a_line_without_an_id_among_others_is_named(answer, tmp_path):
    found = refusal(answer, [*lines(range(11)), {"output": "x"}])
    assert found.startswith(f"{tmp_path / 'out.jsonl'}:12 has no id. Add one")


@pytest.mark.parametrize("wrong", [12, -1, "doc-1", "²", "1.0"])
def test_a_number_that_no_example_has_is_named(answer, tmp_path, wrong):
    content = [*({"id": number, "output": ""} for number in range(1, NUMBER)), {"id": wrong, "output": ""}]
    found = refusal(answer, content, UNNAMED)
    assert found.startswith(f"{tmp_path / 'out.jsonl'}:12 has id {str(wrong)!r}, but the 12 examples of 'test' are")
    assert (
        "numbered from 0 to 11. Set `fields: {id: ...}` of the task if its data have ids, or count from 0." in found
    )


def test_numbers_for_examples_with_names_are_told_of_match(answer):
    found = refusal(answer, [{"id": number, "output": ""} for number in range(NUMBER)])
    assert "If these are numbers of examples, set `match: number`." in found


def test_ids_for_examples_without_names_are_told_of_match(answer):
    assert "example 0 of 'test' has no name to match. Set `match: number`" in refusal(
        answer, lines(), UNNAMED, match="id"
    )


def test_prompts_are_compared_up_to_white_space(answer):
    same = [{**one, "prompt": f" source\t{number}\n"} for number, one in enumerate(lines())]
    assert answer(same, check="prompt") == (EXPECTED, [])
    assert answer([{**one, "prompt": "other"} for one in same])[0] == EXPECTED, "not unless it is asked for"


def test_the_first_output_of_another_prompt_is_shown(answer, tmp_path):
    content = [
        {"output": f"o{number}", "prompt": f"source {number if number < 5 else 16 - number}"} for number in range(12)
    ]
    found = refusal(answer, content, check="prompt")
    assert found.startswith(f"{tmp_path / 'out.jsonl'}:6 has a different prompt than example 5 of 'test': ")
    assert "'source 11' instead of 'source 5'" in found
    missing = [*content[:2], {"output": "x"}, *content[3:]]
    assert f"{tmp_path / 'out.jsonl'}:3 has no prompt to check" in refusal(answer, missing, check="prompt")


def test_where_lines_are_missing_the_first_that_is_of_another_prompt_is_shown(answer):
    content = [{"output": "o", "prompt": f"source {number}"} for number in range(NUMBER) if number != 6]
    found = refusal(answer, content, check="prompt")
    assert "has 11 outputs" in found
    assert "out.jsonl:7 has a different prompt than example 6 of 'test': 'source 7' instead of 'source 6'" in found


def test_what_is_odd_is_warned_of(answer, tmp_path):
    with_empty = PLAIN.replace("out 3\n", "\n").replace("out 8\n", " \n")
    assert answer(with_empty)[1] == [f"{tmp_path / 'out.txt'}: 2 outputs are empty, the first at line 4."]
    (more,) = answer([*lines(), {"id": "doc-12", "output": "x"}])[1]
    assert more.endswith("1 more output than 'test' has examples; the rest is ignored.")
    rising = "".join(f"{number} ||| a ||| f ||| -2\n{number} ||| b ||| f ||| -1\n" for number in range(NUMBER))
    (warned,) = answer(rising)[1]
    assert ":1: an output has a higher score than the one before it" in warned


def test_a_file_is_read_and_warned_of_once(tmp_path):
    path, warnings = tmp_path / "a.txt", []
    path.write_text("a\n\nb\n")
    model = RecordedOutputs(RecordedConfig(outputs=path), TaskInfo(()))
    generation = Generation(AsRecordedConfig(), "test", 0, Rng(0), tmp_path, warnings.append, 3)
    for number in range(3):
        model.generate([Prompt(number, "")], generation)
    assert len(warnings) == 1


def test_files_are_by_split_and_seed(tmp_path):
    named = {name: tmp_path / f"{name}.txt" for name in ("v0", "v1", "t0", "t1")}
    for name, path in named.items():
        path.write_text(f"{name}\n")
    outputs = {"valid": {0: named["v0"], 1: named["v1"]}, "test": {0: named["t0"], 1: named["t1"]}}
    model = RecordedOutputs(RecordedConfig(outputs=outputs), TaskInfo(()))
    for split, seed in (("valid", 0), ("test", 1), ("valid", 1), ("test", 0)):
        generation = Generation(AsRecordedConfig(), split, seed, Rng(0), tmp_path, examples=1)
        assert model.generate([Prompt(0, "")], generation)[0][0].text == f"{split[0]}{seed}"
    with pytest.raises(DataError, match="no outputs are recorded for seed 2, only for 0, 1"):
        model.config.file("test", 2)
    with pytest.raises(DataError, match="no outputs are recorded for the split 'train', only for 'valid', 'test'"):
        model.config.file("train", 0)


def test_the_seeds_of_a_system_are_those_that_have_files():
    assert RecordedConfig(outputs="a").seeds([3, 4]) == [3]
    assert RecordedConfig(outputs={0: "a", 2: "b"}).seeds([0, 1, 2]) == [0, 2]
    assert RecordedConfig(outputs={"test": {1: "a"}}).seeds([0, 1]) == [1]
    assert RecordedConfig(outputs={"test": "a", "valid": "b"}).seeds([0, 1]) == [0]


def test_only_a_system_without_seeds_is_one_system():
    assert RecordedConfig(outputs="a").is_one_system()
    assert RecordedConfig(outputs={"test": "a"}).is_one_system()
    assert not RecordedConfig(outputs={0: "a"}).is_one_system()
    assert not RecordedConfig(outputs={0: "a", 1: "b"}).is_one_system()


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({}, "must map either seeds or splits to files, at least one"),
        ({0: "a", "test": "b"}, "must map either seeds or splits to files"),
        ({0: {"test": "a"}}, "must be nested"),
        ({"test": {}}, "at least one"),
        ({"test": {0: "a"}, "valid": {1: "b"}}, "the splits of `outputs` have different seeds"),
        ({"test": {0: "a"}, "valid": "b"}, "the splits of `outputs` have different seeds"),
    ],
)
def test_outputs_that_are_neither_by_split_nor_by_seed_are_refused(outputs, words):
    with pytest.raises(ValueError, match=words):
        RecordedConfig(outputs=outputs)


def cases(folder):
    prompts = [Prompt(number, f"source {number}", f"doc-{number}") for number in (4, 0, 3, 1, 2)]
    (folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(5)))
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines(shuffled(), log_prob=-1.5)))
    for name in ("a.txt", "a.jsonl"):
        yield TextCase.of(RecordedConfig(outputs=folder / name), AsRecordedConfig(), folder, prompts)


def test_recorded_outputs_keep_the_contracts_of_text_generators(tmp_path):
    for case in cases(tmp_path):
        assert len(check_text_generator(case)) == len(TEXT_CONTRACTS)
