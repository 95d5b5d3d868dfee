from __future__ import annotations

import gzip
import json

import pytest

from bench_authors.testing import TaskCase, check_task
from bench_core import Purpose, Size
from bench_data.plugin import CompletionConfig, TextToTextConfig

SPLITS = ("train", "valid", "test")
ROWS = {
    split: [
        {"id": f"{split}-{number}", "question": f"what is {number} and {split}", "answer": f"it is {number % 3}"}
        for number in range(7)
    ]
    for split in SPLITS
}
QUESTION = "Q: {question}"
FORMATS = ("jsonl", "json", "csv", "tsv", pytest.param("parquet", marks=pytest.mark.extra("bench-data", "parquet")))


def words(task, row, length):
    return task.text(row[: length - 1].tolist())


def targets(task, split, purpose=Purpose.SCORE):
    """Return the texts of the targets of a split."""
    return [
        words(task, row, length)
        for batch in task.batches(split, purpose, Size(100))
        for row, length in zip(batch.gold, batch.length.tolist(), strict=True)
    ]


def prompts(task, split):
    """Return the texts before targets by id."""
    return {
        number: task.prompt(row[1:].tolist())
        for batch in task.batches(split, Purpose.DECODE, Size(100))
        for number, row in zip(batch.ids.tolist(), batch.prompt, strict=True)
    }


def files(write, suffix):
    return {split: str(write(f"{split}.{suffix}", ROWS[split])) for split in SPLITS}


@pytest.mark.quick(1, 2)
@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("kind", ["text-to-text", "completion"])
def test_tasks_of_records_keep_all_contracts_and_have_what_the_files_have(write, tmp_path, suffix, kind):
    fields = {"source" if kind == "text-to-text" else "prompt": QUESTION, "target": "answer", "id": "id"}
    config = (TextToTextConfig if kind == "text-to-text" else CompletionConfig).model_validate(
        {"data": files(write, suffix), "fields": fields}
    )
    (tmp_path / "folder").mkdir()
    case = TaskCase.of(config, tmp_path, tmp_path / "folder")
    assert check_task(case)
    for split in SPLITS:
        assert case.task.sources(split) == {number: f"Q: {row['question']}" for number, row in enumerate(ROWS[split])}
        assert case.task.references(split) == {number: [row["answer"]] for number, row in enumerate(ROWS[split])}
        assert case.task.example_names(split) == {number: row["id"] for number, row in enumerate(ROWS[split])}
        assert targets(case.task, split) == [row["answer"] for row in ROWS[split]]
    if kind == "completion":
        assert prompts(case.task, "train") == case.task.sources("train")


@pytest.mark.parametrize("tokenizer", ["char", {"kind": "bpe", "vocab_size": 270, "dropout": 0.2}])
@pytest.mark.parametrize("empty", ["keep", "drop"])
def test_tasks_with_blank_texts_keep_all_contracts(write, tmp_path, tokenizer, empty):
    rows = [{"p": "a b", "text": "c"}, {"p": "", "text": "de"}, {"p": "x", "text": " "}, {"p": "y", "text": "zz"}]
    used = {"keep": rows, "drop": [rows[0], rows[3]]}[empty]
    data = {"train": str(write("a.jsonl", rows)), "test": str(write("b.jsonl", used))}
    config = CompletionConfig.model_validate(
        {"data": data, "fields": {"prompt": "p"}, "tokenizer": tokenizer, "empty": empty}
    )
    (tmp_path / "folder").mkdir()
    assert check_task(TaskCase.of(config, tmp_path, tmp_path / "folder"))


@pytest.mark.parametrize("kind", ["text-to-text", "completion"])
def test_tasks_of_plain_files_keep_all_contracts_and_have_what_the_files_have(tmp_path, kind):
    for split, rows in ROWS.items():
        for field in ("question", "answer"):
            (tmp_path / f"{split}.{field}").write_text("".join(f"{row[field]}\n" for row in rows))
    side = "source" if kind == "text-to-text" else "prompt"
    data = {
        split: {side: str(tmp_path / f"{split}.question"), "target": [str(tmp_path / f"{split}.answer")]}
        for split in SPLITS
    }
    config = (TextToTextConfig if kind == "text-to-text" else CompletionConfig).model_validate({"data": data})
    (tmp_path / "folder").mkdir()
    case = TaskCase.of(config, tmp_path, tmp_path / "folder")
    assert check_task(case)
    assert list(case.task.sources("test").values()) == [row["question"] for row in ROWS["test"]]
    assert targets(case.task, "test") == [row["answer"] for row in ROWS["test"]]
    assert case.task.example_names("test") == {}


def test_lines_of_a_plain_file_are_texts_with_a_prefix_that_is_given(tmp_path, prepared):
    (tmp_path / "texts.txt").write_text("a b c d\n\u2028e f\u0085 g h\n")
    task, _ = prepared(CompletionConfig, data={"train": str(tmp_path / "texts.txt")}, prefix=2)
    assert targets(task, "train") == ["c d", "g h"]
    assert prompts(task, "train") == {0: "a b", 1: "e f"}


def test_several_files_and_packed_ones_are_read_one_after_the_other(write, tmp_path, prepared):
    first = write("a.jsonl", ROWS["train"][:2])
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps(ROWS["train"][2]).encode()))
    paths = [str(first), str(tmp_path / "b.jsonl.gz")]
    task, _ = prepared(CompletionConfig, data={"train": paths}, fields={"target": "question", "id": "id"})
    assert task.example_names("train") == {0: "train-0", 1: "train-1", 2: "train-2"}


def test_a_split_may_have_fields_of_its_own_and_the_records_that_a_field_marks(write, prepared):
    rows = [{"q": f"q{number}", "a": f"a{number}", "b": "b", "part": "xyx"[number % 3]} for number in range(6)]
    path = str(write("all.jsonl", rows))
    data = {
        "train": {"files": path, "where": {"part": "x"}},
        "test": {"files": path, "where": {"part": ["y", "z"]}, "fields": {"target": "b"}},
    }
    task, _ = prepared(TextToTextConfig, data=data, fields={"source": "q", "target": "a"})
    assert targets(task, "train") == ["a0", "a2", "a3", "a5"]
    assert task.references("test") == {0: ["b"], 1: ["b"]}
    assert task.sources("test") == {0: "q1", 1: "q4"}


@pytest.mark.parametrize("group", [None, "doc"])
def test_shares_are_parts_without_records_or_groups_in_common(write, prepared, group):
    rows = [{"text": f"{number}", "doc": f"doc {number // 3}"} for number in range(600)]
    path = str(write("all.jsonl", rows))
    shares = {"train": [0, 80], "valid": [80, 90], "test": [90, 100]}
    data = {split: {"files": path, "share": share} for split, share in shares.items()}
    task, _ = prepared(CompletionConfig, data=data, fields={"group": group, "id": "text"}, tokenizer="char")
    found = {split: {int(name) for name in task.example_names(split).values()} for split in SPLITS}
    assert set().union(*found.values()) == {*range(600)}
    assert sum(map(len, found.values())) == 600
    assert [len(found[split]) for split in SPLITS] == [480, 60, 60]
    if group:
        documents = [{number // 3 for number in numbers} for numbers in found.values()]
        assert sum(map(len, documents)) == 200
        assert len(set(task.groups("test").values())) == 20


def test_weights_and_groups_are_those_of_the_records(write, prepared):
    rows = [{"text": f"t{number}", "doc": number // 2, "w": ["0.5", 2, 0, 1.5][number]} for number in range(4)]
    fields = {"weight": "w", "group": "doc"}
    task, _ = prepared(CompletionConfig, data={"train": str(write("a.jsonl", rows))}, fields=fields)
    (batch,) = task.batches("train", Purpose.SCORE, Size(10))
    assert batch.extras["weight"].tolist() == [0.5, 2, 0, 1.5]
    assert task.groups("train") == {0: 0, 1: 0, 2: 1, 3: 1}


def test_references_are_lists_templates_or_files(write, tmp_path, prepared):
    rows = [{"q": "q", "a": "a", "all": ["b", "a"], "c": "c"}, {"q": "q", "a": "x", "all": ["y"], "c": "z"}]
    fields = {"source": "q", "target": "a", "references": ["all", "{c}!"]}
    task, _ = prepared(TextToTextConfig, data={"test": str(write("a.jsonl", rows))}, fields=fields)
    assert task.references("test") == {0: ["a", "b", "c!"], 1: ["y", "z!"]}
    for name, text in {"s": "s\ns\n", "t": "t1\nt2\n", "r": "r1\n\n", "o": "o1\no2\n"}.items():
        (tmp_path / name).write_text(text)
    lines = {"source": "s", "target": "t", "references": ["r", "o"]}
    lines = {key: [str(tmp_path / one) for one in value] for key, value in lines.items()}
    task, _ = prepared(TextToTextConfig, data={"test": lines})
    assert task.references("test") == {0: ["t1", "r1", "o1"], 1: ["t2", "o2"]}


def test_a_split_without_targets_can_only_be_decoded_and_may_have_references(write, tmp_path, prepared):
    path = str(write("a.jsonl", [{"source": "a b", "r": ["x"]}, {"source": "c", "r": ["y", "z"]}]))
    data = {"test": {"files": path, "targets": False}}
    task, _ = prepared(TextToTextConfig, data=data, fields={"references": "r"})
    assert task.config.purposes("test") == {Purpose.DECODE}
    assert task.config.purposes("train") == set()
    assert task.references("test") == {0: ["x"], 1: ["y", "z"]}
    assert sum(len(batch.ids) for batch in task.batches("test", Purpose.DECODE, Size(10))) == 2
    (tmp_path / "s").write_text("a b\nc\n")
    task, _ = prepared(TextToTextConfig, data={"valid": {"source": str(tmp_path / "s")}})
    assert task.config.purposes("valid") == {Purpose.DECODE}
    assert task.references("valid") == {0: [], 1: []}


def test_languages_are_known_to_metrics_and_reports(write, prepared):
    path = str(write("a.jsonl", [{"source": "a", "target": "b"}]))
    _, info = prepared(TextToTextConfig, data={"test": path}, source_language="de", target_language="en")
    assert info.language == "en"
    assert info.extras["languages"] == {"source": "de", "target": "en"}


def test_vocabularies_come_from_training_examples_alone_if_there_are_any(write, prepared):
    train = str(write("a.jsonl", [{"source": "a", "target": "b"}]))
    test = str(write("b.jsonl", [{"source": "c", "target": "d"}]))
    _, info = prepared(TextToTextConfig, data={"train": train, "test": test})
    assert (info.source_vocabulary[2:], info.vocabulary[2:]) == (["a"], ["b"])
    _, info = prepared(TextToTextConfig, data={"test": test})
    assert (info.source_vocabulary[2:], info.vocabulary[2:]) == (["c"], ["d"])


def test_blank_texts_are_kept_or_left_out_of_training_as_the_settings_say(write, prepared):
    rows = [{"source": "a", "target": "b"}, {"source": " ", "target": "c"}, {"source": "d", "target": ""}]
    path = str(write("a.jsonl", rows))
    task, info = prepared(TextToTextConfig, data={"train": path}, empty="drop")
    assert targets(task, "train") == ["b"]
    assert info.extras["statistics"]["train"]["left_out_empty"] == 2
    task, _ = prepared(TextToTextConfig, data={"train": path}, empty="keep")
    assert targets(task, "train") == ["b", "c", ""]


def test_quoted_cells_hold_line_breaks_commas_and_quotes(tmp_path, prepared):
    text = '\ufefftext,id\r\n"one,\r\ntwo ""2""",a\r\nthree,b\r\n'
    (tmp_path / "a.csv").write_bytes(text.encode())
    task, _ = prepared(CompletionConfig, data={"train": str(tmp_path / "a.csv")}, fields={"id": "id"})
    assert task.references("train") == {0: ['one,\ntwo "2"'], 1: ["three"]}
    assert task.example_names("train") == {0: "a", 1: "b"}


def test_quotes_are_plain_signs_between_tabs(tmp_path, prepared):
    (tmp_path / "a.tsv").write_text('text\tid\n"a\tb\n')
    task, _ = prepared(CompletionConfig, data={"train": str(tmp_path / "a.tsv")})
    assert task.references("train") == {0: ['"a']}


def test_marks_of_bytes_line_feeds_and_separators_inside_of_strings_change_no_record(tmp_path, prepared):
    rows = [{"text": "a\u2028b\nc", "id": 1}, {"text": "d", "id": 2}]
    content = "\ufeff" + "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\r\n\r\n"
    (tmp_path / "a.jsonl").write_bytes(content.encode())
    task, _ = prepared(CompletionConfig, data={"train": str(tmp_path / "a.jsonl")}, fields={"id": "id"})
    assert task.references("train") == {0: ["a\u2028b\nc"], 1: ["d"]}
    assert task.example_names("train") == {0: "1", 1: "2"}


def test_fields_of_objects_are_named_by_dots_and_braces_are_written_twice(write, prepared):
    row = {"answers": {"text": ["a", "b"], "best": "b"}, "x.y": "dotted", "n": 3}
    fields = {"source": "{{{x.y}}} {n}", "target": "answers.best", "references": "answers.text"}
    task, _ = prepared(TextToTextConfig, data={"test": str(write("a.jsonl", [row]))}, fields=fields)
    assert task.sources("test") == {0: "{dotted} 3"}
    assert task.references("test") == {0: ["b", "a"]}


def test_settings_say_which_libraries_they_need():
    def needs(kind, data, **settings):
        return kind.model_validate({"data": {"test": data}, **settings}).extras()

    piece = {"kind": "sentencepiece", "model": "a.model"}
    assert needs(TextToTextConfig, "a.jsonl") == set()
    assert needs(TextToTextConfig, ["a.jsonl", "b.parquet"]) == {"parquet"}
    assert needs(TextToTextConfig, "a.csv", tokenizer={"source": "char", "target": piece}) == {"sentencepiece"}
    assert needs(CompletionConfig, {"saved": "a"}, tokenizer=piece) == {"datasets", "sentencepiece"}
    assert CompletionConfig.model_construct().extras() == set()


@pytest.mark.parametrize(
    ("number", "text"), [(3.5, "3.5"), (-2, "-2"), (True, "true"), (False, "false"), (1e-7, "1e-07")]
)
@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_numbers_and_truth_values_are_answers_as_json_writes_them(write, prepared, suffix, number, text):
    rows = [{"question": "how many?", "answer": number, "others": [number, "none"]}]
    fields = {"source": "question", "target": "is {answer}", "references": ["answer", "others"]}
    task, _ = prepared(TextToTextConfig, data={"test": str(write(f"a.{suffix}", rows))}, fields=fields)
    assert task.references("test")[0] == [text, text, "none"]
    assert targets(task, "test") == [f"is {text}"]
