"""A task in one method: what follows from its examples, and what is said of those that are wrong."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from bench_texts.plugin import CountingConfig, JsonPairsConfig
from bench_texts.task import Counting, JsonPairs, counted
from tokenizers import Tokenizer, models, pre_tokenizers

from bench_authors.testing import TASK_CONTRACTS, TaskCase, check_task
from bench_core import DataError, PluginError, Purpose, Rng, Size, Source
from bench_text.api import SPLITS, UNREADABLE, Example, SequenceTaskConfig

ALL = Size(1000)
RECORDS = {
    "train": [
        {"source": "a b c", "target": "c b a", "references": ["c b a", "C  B"]},
        {"source": "b", "target": "b"},
        {"source": "a a b", "target": "b a a", "more": 3},
        {"source": "c b c b c", "target": "c b c b c"},
    ],
    "valid": [{"source": "b a", "target": "a b"}],
    "test": [{"source": "a zebra", "target": "zebra  a"}, {"source": "c", "target": ""}],
}


def sizes_of(task, split="test"):
    """Return the sizes of the targets that their tokens spell."""
    return {number: size for number, size in task.target_sizes(split).items() if size is not None}


@pytest.fixture
def pairs(tmp_path):
    """The files of `JsonPairs`, as its settings."""
    files = {split: tmp_path / f"{split}.jsonl" for split in SPLITS}
    for split, path in files.items():
        path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS[split]))
    return files


def prepared(config, folder, data=Path()):
    task = config.load()(config, folder)
    return task, config.complete(task.prepare(data))


def one(task, split="train", purpose=Purpose.SCORE):
    """Return all rows of a split, in order, as one batch."""
    (batch,) = task.batches(split, purpose, ALL)
    return batch


def words(vocabulary, rows, lengths):
    """Return rows as words, without what pads them."""
    return [
        [vocabulary[token] for token in row[:length]]
        for row, length in zip(rows.tolist(), lengths.tolist(), strict=True)
    ]


TOKENIZERS = ["word", "char", {"kind": "bpe", "vocab_size": 270}]


@pytest.mark.quick(2, 4)
@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=["word", "char", "bpe"])
@pytest.mark.parametrize("kind", [*Source])
def test_a_task_in_one_method_keeps_the_contracts(kind, tokenizer, tmp_path):
    config = CountingConfig(kind=kind, tokenizer=tokenizer)
    assert len(check_task(TaskCase.of(config, tmp_path, tmp_path))) == len(TASK_CONTRACTS)


@pytest.mark.quick(2, 1)
@pytest.mark.parametrize("settings", [{"shared": True}, {"longest": 3}, {"prefix": 2}, {"prefix": 3, "shared": True}])
def test_it_keeps_them_with_every_setting(settings, pairs, tmp_path):
    (tmp_path / "folder").mkdir()
    config = JsonPairsConfig(**pairs, **settings)
    assert len(check_task(TaskCase.of(config, tmp_path, tmp_path / "folder"))) == len(TASK_CONTRACTS)


def body(part):
    """Return the lines of a class, without its docstring and empty lines."""
    lines = textwrap.dedent(inspect.getsource(part)).splitlines()
    (found,) = ast.parse("\n".join(lines)).body
    doc = found.body[0]
    return [line for line in [*lines[1 : doc.lineno - 1], *lines[doc.end_lineno :]] if line.strip()]


def test_a_task_on_json_lines_is_as_short_as_the_readme_says():
    assert len(body(JsonPairs)) <= 10
    assert len(body(JsonPairsConfig)) <= 4


def test_the_name_and_class_of_a_config_follow_from_its_own_name():
    assert (JsonPairsConfig.name, JsonPairsConfig.target) == ("json-pairs", "bench_texts.task:JsonPairs")
    assert JsonPairsConfig.load() is JsonPairs

    class Poems(SequenceTaskConfig):
        name, target = "verse", "elsewhere:Verse"

    assert (Poems.name, Poems.target) == ("verse", "elsewhere:Verse")


def test_sources_and_targets_end_with_stop_and_their_vocabularies_are_of_the_training_split(pairs, tmp_path):
    task, info = prepared(JsonPairsConfig(**pairs), tmp_path)
    assert info.vocabulary == ["<stop>", "<unk>", "b", "c", "a"]
    assert info.source_vocabulary == ["<stop>", "<unk>", "b", "c", "a"]
    for split in SPLITS:
        batch = one(task, split)
        for vocabulary, rows, lengths, side in (
            (info.source_vocabulary, batch.source, batch.source_length, "source"),
            (info.vocabulary, batch.gold, batch.length, "target"),
        ):
            texts = [record[side].replace("zebra", "<unk>").split() for record in RECORDS[split]]
            assert words(vocabulary, rows, lengths) == [[*text, "<stop>"] for text in texts]
        assert batch.prompt.tolist() == [[0]] * len(batch)
        assert batch.extras == {}


def test_counts_are_those_of_training_targets_with_stop(pairs, tmp_path):
    _, info = prepared(JsonPairsConfig(**pairs), tmp_path)
    assert dict(zip(info.vocabulary, info.counts, strict=True)) == {"<stop>": 4, "<unk>": 0, "b": 5, "c": 4, "a": 3}


def test_a_shared_vocabulary_is_learned_from_both_sides(pairs, tmp_path):
    _, info = prepared(JsonPairsConfig(**pairs, shared=True), tmp_path)
    assert info.vocabulary == info.source_vocabulary == ["<stop>", "<unk>", "b", "c", "a"]


def test_a_bag_is_sorted_and_has_no_stop(tmp_path):
    task, info = prepared(CountingConfig(kind="bag"), tmp_path)
    batch = one(task)
    found = words(info.source_vocabulary, batch.source, batch.source_length)
    assert [sorted(bag) for bag in found] == [sorted(counted(number * 7).split()) for number in range(3, 15)]
    rows = zip(batch.source.tolist(), batch.source_length.tolist(), strict=True)
    assert all(row[:length] == sorted(row[:length]) and 0 not in row[:length] for row, length in rows)


@pytest.mark.parametrize(("kind", "shape"), [("vector", (2,)), ("grid", (3, 2))])
def test_sources_of_numbers_reach_their_rows_in_every_order(kind, shape, tmp_path):
    task, info = prepared(CountingConfig(kind=kind), tmp_path)
    assert info.source_shape == shape
    assert info.source_vocabulary == ()
    for batch in task.batches("train", Purpose.TRAIN, Size(5), Rng(1)):
        assert batch.source.dtype == torch.float32
        assert batch.source_length is None
        first = batch.source.flatten(1)[:, 0] * (2 if kind == "vector" else 1)
        assert first.tolist() == [number + 3 for number in batch.ids.tolist()]


def test_weights_are_in_extras_with_every_row_that_has_one(tmp_path):
    task, _ = prepared(CountingConfig(), tmp_path)
    for rng in (None, Rng(2)):
        for batch in task.batches("train", Purpose.TRAIN, Size(4), rng):
            assert batch.extras["weight"].dtype == torch.float64
            assert batch.extras["weight"].tolist() == [1 + (number % 3 == 0) for number in batch.ids.tolist()]


def test_references_and_sources_are_raw_and_a_target_is_its_own_reference(pairs, tmp_path):
    task, _ = prepared(JsonPairsConfig(**pairs), tmp_path)
    assert task.references("train") == {0: ["c b a", "C  B"], 1: ["b"], 2: ["b a a"], 3: ["c b c b c"]}
    assert task.references("test") == {0: ["zebra  a"], 1: [""]}
    assert task.sources("test") == {0: "a zebra", 1: "c"}
    assert task.text(one(task, "test").gold[0].tolist()[:2]) == f"{UNREADABLE} a"


def test_long_examples_are_left_out_of_training_alone_and_others_keep_their_ids(pairs, tmp_path):
    task, info = prepared(JsonPairsConfig(**pairs, longest=1), tmp_path)
    assert one(task).ids.tolist() == list(task.references("train")) == [1]
    assert one(task, "valid").length.tolist() == [3]
    statistics = info.extras["statistics"]
    assert (statistics["train"]["examples"], statistics["train"]["left_out_long"]) == (1, 3)
    assert "left_out_long" not in statistics["valid"]
    assert sum(info.counts) == 2
    assert info.vocabulary == ["<stop>", "<unk>", "b", "c", "a"]


def test_nothing_left_to_train_on_is_an_error(tmp_path):
    with pytest.raises(DataError, match="all 12 training examples of counting have more than 1 tokens"):
        prepared(CountingConfig(kind="tokens", longest=1, tokenizer="char"), tmp_path)


def test_statistics_are_of_tokens_without_stop(pairs, tmp_path):
    _, info = prepared(JsonPairsConfig(**pairs), tmp_path)
    assert info.extras["statistics"]["train"] == {
        "examples": 4,
        "source_tokens": 12, "source_types": 3, "source_unknown": 0, "source_mean_length": 3.0, "source_max_length": 5,
        "target_tokens": 12, "target_types": 3, "target_unknown": 0, "target_mean_length": 3.0, "target_max_length": 5,
    }  # fmt: skip
    test = info.extras["statistics"]["test"]
    assert (test["source_unknown"], test["target_unknown"], test["target_mean_length"]) == (1, 1, 1.0)
    _, info = prepared(CountingConfig(), tmp_path)
    assert info.extras["statistics"]["test"] == {
        "examples": 4, "tokens": 7, "types": 6, "unknown": 0, "mean_length": 1.75, "max_length": 2,
    }  # fmt: skip


def test_reports_know_the_files_and_show_only_texts_that_come_with_the_task(pairs, tmp_path):
    _, info = prepared(JsonPairsConfig(**pairs), tmp_path)
    assert info.extras["corpus"].startswith("train.jsonl (")
    assert not info.extras["embedded"]
    _, info = prepared(CountingConfig(), tmp_path)
    assert (info.extras["corpus"], info.extras["embedded"]) == ("counting", True)


def test_a_prefix_is_in_the_opening_and_the_reference_is_the_text_after_it(pairs, tmp_path):
    task, info = prepared(JsonPairsConfig(**pairs, prefix=2), tmp_path)
    batch = one(task)
    assert words(info.vocabulary, batch.prompt, torch.full((4,), 3)) == [
        ["<stop>", "c", "b"], ["<stop>", "<cpad>", "b"], ["<stop>", "b", "a"], ["<stop>", "c", "b"],
    ]  # fmt: skip
    assert words(info.vocabulary, batch.gold, batch.length) == [
        ["a", "<stop>"], ["<stop>"], ["a", "<stop>"], ["c", "b", "c", "<stop>"],
    ]  # fmt: skip
    assert task.references("train") == {0: ["c b a", "C  B"], 1: [""], 2: ["a"], 3: ["c b c"]}
    assert task.prompt(batch.prompt[1, 1:].tolist()) == "b"
    assert info.extras["statistics"]["train"]["target_tokens"] == 12


def test_training_batches_hold_rows_of_like_length(tmp_path):
    task, _ = prepared(CountingConfig(tokenizer="char"), tmp_path)
    spreads = [
        int(batch.length.max() - batch.length.min())
        for batch in task.batches("train", Purpose.TRAIN, Size(3), Rng(0))
    ]
    in_order = [
        int(batch.length.max() - batch.length.min())
        for batch in task.batches("train", Purpose.SCORE, Size(3), Rng(0))
    ]
    assert sum(spreads) < sum(in_order)


def yields(monkeypatch, *found):
    """Let `Counting` yield these examples for every split."""
    monkeypatch.setattr(Counting, "examples", lambda self, split, data: iter(found))


def test_further_targets_of_a_source_are_trained_on_and_scored_and_not_decoded(monkeypatch, tmp_path):
    further = {Purpose.TRAIN, Purpose.SCORE}
    yields(
        monkeypatch,
        Example([1, 2], "a", ["a", "b"], id=10, source_text="left.jpg"),
        Example([1, 2], "b", id=11, purposes=further),
        Example([3, 4], "c", id=20, purposes={Purpose.SCORE}),
        Example([3, 4], "d e", id=21),
    )
    task, info = prepared(CountingConfig(kind="vector"), tmp_path)
    assert {purpose: one(task, "train", purpose).ids.tolist() for purpose in Purpose} == {
        "train": [10, 11, 21], "score": [10, 11, 20, 21], "decode": [10, 21],
    }  # fmt: skip
    assert task.references("train") == {10: ["a", "b"], 21: ["d e"]}
    assert task.sources("train") == {10: "left.jpg"}
    assert info.vocabulary == ["<stop>", "<unk>", "a", "b", "d", "e"]
    assert info.counts == [3, 0, 1, 1, 1, 1]


def test_extras_reach_batches_padded_with_minus_1(monkeypatch, tmp_path):
    orders = [[2, 0, 1], [0], []]
    yields(monkeypatch, *(Example(None, "a b c", extras={"order": order}) for order in orders))
    task, _ = prepared(CountingConfig(longest=3), tmp_path)
    assert one(task).extras["order"].tolist() == [[2, 0, 1], [0, -1, -1], [-1, -1, -1]]


@pytest.mark.parametrize(
    ("kind", "example", "message"),
    [
        (
            "none",
            "a text",
            r"Counting\.examples yielded 'a text' as example 1 of train\. It must yield \(source, target\)",
        ),
        ("none", ("only",), r"yielded \('only',\) as example 1 of train\. It must yield"),
        ("none", (None, 3), "Its target must be a text, not 3"),
        ("tokens", (None, "a"), "Its source must be a text, not None"),
        ("none", ("a", "b"), r"Its source must be None .* declare `source = Source\.TOKENS`"),
        ("none", (None, "b", "b"), "Its references must be a list of texts, not 'b'"),
        ("none", (None, "b", [1]), r"Its references must be a list of texts, not \[1\]"),
        ("none", (None, "b", [], -1), "Its weight must be a number of at least 0, not -1"),
        ("none", (None, "b", [], float("nan")), "Its weight must be a number of at least 0, not nan"),
        ("none", Example(None, "b", id=0), "The id 0 is used twice. Give each example its own id"),
    ],
)
def test_an_example_that_is_wrong_is_named(kind, example, message, monkeypatch, tmp_path):
    yields(monkeypatch, ({"none": None, "tokens": "x"}[kind], "fine"), example)
    with pytest.raises(PluginError, match=message):
        prepared(CountingConfig(kind=kind), tmp_path)


@pytest.mark.parametrize(
    ("kind", "sources", "message"),
    [
        ("vector", [[1, 2], [1]], "sources are not numbers of the same shape"),
        ("vector", ["a", "b"], "sources are not numbers"),
        ("vector", [[[1]], [[2]]], r"sources have shape \(1, 1\); VECTOR needs the shape \(D,\)"),
        ("grid", [[1], [2]], r"sources have shape \(1,\); GRID needs the shape \(S, D\)"),
        ("image", [[[1]], [[2]]], r"sources have shape \(1, 1\); IMAGE needs the shape \(3, H, W\)"),
        ("vector", [[1.0], [np.inf]], "sources contain NaN or infinity"),
    ],
)
def test_sources_of_numbers_that_are_wrong_are_told(kind, sources, message, monkeypatch, tmp_path):
    yields(monkeypatch, *((source, "a") for source in sources))
    with pytest.raises(PluginError, match=message):
        prepared(CountingConfig(kind=kind), tmp_path)


def test_sources_must_have_one_shape_in_all_splits(monkeypatch, tmp_path):
    monkeypatch.setattr(Counting, "examples", lambda self, split, data: [([1] * len(split), "a")])
    with pytest.raises(
        PluginError, match=r"Counting\.examples yielded sources of different shapes: .*'test': \(4,\)"
    ):
        prepared(CountingConfig(kind="vector"), tmp_path)


def test_a_split_without_examples_is_an_error(pairs, tmp_path):
    pairs["valid"].write_text("\n")
    with pytest.raises(
        DataError, match=r"json-pairs has no examples in valid\. Each of train, valid, test needs at least one"
    ):
        prepared(JsonPairsConfig(**pairs), tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"test\.jsonl:2 is not JSON: .*Each line must be a JSON object"),
        ('["a"]', r"test\.jsonl:2 is \[\"a\"\]\. Each line must be a JSON object"),
        ('{"source": "a"}', r"test\.jsonl:2 has no 'target'; it has 'source'\. Correct the line"),
        ("{}", r"test\.jsonl:2 has no 'source' and no 'target'; it has no field"),
    ],
)
def test_a_line_that_is_no_record_is_named_with_its_file(line, message, pairs, tmp_path):
    pairs["test"].write_text(f'{{"source": "a", "target": "b"}}\n{line}\n')
    with pytest.raises(DataError, match=message):
        prepared(JsonPairsConfig(**pairs), tmp_path)


def test_a_pretrained_tokenizer_gives_both_sides_its_tokens_and_is_digested(pairs, tmp_path):
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2, "<end>": 3, "[UNK]": 4}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    (tmp_path / "model").mkdir()
    tokenizer.save(str(tmp_path / "model" / "tokenizer.json"))
    settings = {"kind": "pretrained", "path": "model", "stop": "<end>"}
    config = JsonPairsConfig(**pairs, tokenizer=settings)
    (tmp_path / "folder").mkdir()
    task, info = prepared(config, tmp_path / "folder", tmp_path)
    assert info.vocabulary == info.source_vocabulary == ["<end>", "b", "c", "a", "[UNK]"]
    assert (info.extras["stop"], {*config.reads(tmp_path)}) == (3, {"model/tokenizer.json"})
    assert task.text(one(task).gold[0, :3].tolist()) == "c b a"
    assert info.extras["statistics"]["test"]["target_unknown"] == 1
    with pytest.raises(DataError, match=r"is missing\. Put the tokenizer\.json"):
        config.reads(tmp_path / "nowhere")


def test_a_config_imports_neither_torch_nor_numpy():
    code = (
        "import sys, bench_text.api as api\n"
        "class Poems(api.SequenceTaskConfig): pass\n"
        "assert Poems().tokenizer == api.Words()\n"
        "assert not {'torch', 'numpy', 'tokenizers'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("tokenizer", ["word", "char", {"kind": "bpe", "vocab_size": 280}])
def test_sizes_of_targets_are_those_that_their_tokens_spell(pairs, tmp_path, tokenizer):
    """Double spaces are lost by words, unseen letters by words and characters."""
    pairs["test"].write_text(
        "".join(f'{{"source": "a", "target": "{text}"}}\n' for text in ("b a", "", "b  c", "\u00e9"))
    )
    task, _ = prepared(JsonPairsConfig(**pairs, tokenizer=tokenizer), tmp_path)
    found = {number: (size.bytes, size.characters) for number, size in sizes_of(task).items()}
    lossless = {"word": {}, "char": {2: (5, 5)}}.get(
        tokenizer if isinstance(tokenizer, str) else "", {2: (5, 5), 3: (3, 2)}
    )
    assert found == {0: (4, 4), 1: (1, 1)} | lossless


def test_a_target_that_is_not_what_the_corpus_has_is_measured_by_what_that_has(tmp_path):
    class Shouted(Counting):
        def examples(self, split, data):
            yield Example(None, "a b", raw="a b")
            yield Example(None, "a b", raw="A b")
            yield Example(None, "a b")

    task = Shouted(CountingConfig(), tmp_path)
    task.prepare(tmp_path)
    assert sorted(sizes_of(task, "valid")) == [0, 2]
