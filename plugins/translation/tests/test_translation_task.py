from __future__ import annotations

import json
from collections import Counter

import pytest
import torch

from bench_authors.testing import TaskCase, check_task
from bench_core import DataError, Purpose, Rng, Size
from bench_translation.plugin import TranslationConfig

PAIRS = {
    "train": [
        ("a b c", "x y"),
        ("a", "x"),
        ("b", "y x y x"),
        ("a b c d e f", "x y"),
        ("c c", "x z y"),
        ("a b", "y z"),
    ],
    "valid": [("a v", "x w"), ("b b b", "y")],
    "test": [("a t b", "x u"), ("b a c b a", "y x  x"), ("c", "Z")],
}


def sizes_of(task, split="test"):
    """Return the sizes of the targets that their tokens spell."""
    return {number: size for number, size in task.target_sizes(split).items() if size is not None}


@pytest.fixture
def files(tmp_path):
    corpus = {}
    for split, pairs in PAIRS.items():
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            (tmp_path / f"{split}.{side}").write_text("\n".join(lines) + "\n")
        corpus[split] = {side: f"{split}.{side}" for side in ("source", "target")}
    return {"corpus": corpus, "pair": "xx-yy", "moses": False}


def prepared(tmp_path, **settings):
    config = TranslationConfig.model_validate(settings)
    task = config.load()(config, tmp_path)
    return task, task.prepare(tmp_path)


@pytest.fixture(scope="module")
def invented(tmp_path_factory):
    """A task of 500 generated pairs."""
    return prepared(tmp_path_factory.mktemp("invented"), corpus={"name": "invented", "sentences": 500})[0]


BYTE_PAIRS = {"kind": "bpe", "vocab_size": 280}


@pytest.mark.quick(1, 2)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"shared": True},
        {"tokenizer": "char", "pair": "art-en"},
        {"tokenizer": BYTE_PAIRS, "moses": True},
        {"tokenizer": BYTE_PAIRS, "shared": True, "lowercase": True},
        {"tokenizer": {"source": "char", "target": BYTE_PAIRS}},
        {"tokenizer": {"kind": "word", "min_count": 3}},
        {"longest": 10, "ratio": 1.3, "source_limit": 8, "over_limit": "truncate"},
    ],
)
def test_the_task_keeps_all_contracts(tmp_path, settings):
    corpus = {"name": "invented", "sentences": 60}
    config = TranslationConfig.model_validate({"corpus": corpus, **settings})
    assert check_task(TaskCase.of(config, tmp_path, tmp_path))


def test_rows_are_their_lines_ended_by_stop_and_padded_with_it(files, tmp_path):
    task, info = prepared(tmp_path, **files)
    (batch,) = task.batches("train", Purpose.SCORE, Size(100))
    assert batch.prompt.tolist() == [[0]] * 6
    for vocabulary, rows, lengths, side in (
        (info.source_vocabulary, batch.source, batch.source_length, 0),
        (info.vocabulary, batch.gold, batch.length, 1),
    ):
        assert rows.shape[1] == lengths.max()
        for pair, row, length in zip(PAIRS["train"], rows.tolist(), lengths.tolist(), strict=True):
            assert [vocabulary[token] for token in row[:length]] == [*pair[side].split(), "<stop>"]
            assert set(row[length:]) <= {0}


def test_vocabularies_and_counts_come_from_what_is_trained_on_alone(files, tmp_path):
    task, info = prepared(tmp_path, **files)
    assert set(info.source_vocabulary) == {"<stop>", "<unk>", *"abcdef"}
    assert set(info.vocabulary) == {"<stop>", "<unk>", *"xyz"}
    counts = Counter(word for _, target in PAIRS["train"] for word in target.split())
    assert dict(zip(info.vocabulary, info.counts, strict=True)) == {**counts, "<stop>": 6, "<unk>": 0}
    (batch,) = task.batches("test", Purpose.DECODE, Size(10))
    assert info.extras["statistics"]["test"]["source_unknown"] == 1
    assert batch.source[0].tolist()[:4] == [
        info.source_vocabulary.index(word) for word in ("a", "<unk>", "b", "<stop>")
    ]
    assert info.vocabulary[:2] == info.source_vocabulary[:2] == ["<stop>", "<unk>"]


def test_references_are_raw_whatever_becomes_of_the_tokens(files, tmp_path):
    task, info = prepared(tmp_path, **{**files, "moses": True}, tokenizer={"min_count": 2})
    assert task.references("test") == {number: [target] for number, (_, target) in enumerate(PAIRS["test"])}
    assert "references" not in info.extras


def test_an_output_s_unknown_word_is_none_of_its_reference_s(files, tmp_path):
    task, _ = prepared(tmp_path, **files)
    assert "<unk>" not in task.text([1, 2, 1])
    assert not set(task.text([1]).split()) & {"<unk>", "<", "unk", ">"}


def test_lowercase_is_of_references_too_and_the_facts_say_so(files, tmp_path):
    task, info = prepared(tmp_path, **files, lowercase=True)
    assert task.references("test") == {number: [target.lower()] for number, (_, target) in enumerate(PAIRS["test"])}
    assert task.references("test")[2] == ["z"]
    assert info.extras["references"] == "lowercase"
    assert task.sources("test") == {number: source for number, (source, _) in enumerate(PAIRS["test"])}


@pytest.mark.parametrize("tokenizer", ["word", "char", BYTE_PAIRS])
def test_a_shared_vocabulary_is_one_list_of_both_languages(files, tmp_path, tokenizer):
    task, info = prepared(tmp_path, **files, tokenizer=tokenizer, shared=True)
    assert info.vocabulary == info.source_vocabulary
    assert info.extras["shared"]
    (batch,) = task.batches("train", Purpose.SCORE, Size(10))
    assert task.text(batch.source[0, : batch.source_length[0] - 1].tolist()) == "a b c"
    assert task.text(batch.gold[0, : batch.length[0] - 1].tolist()) == "x y"


def test_each_side_may_have_tokens_of_its_own(files, tmp_path):
    _, info = prepared(tmp_path, **files, tokenizer={"source": "char", "target": {"most_words": 1}})
    assert " " in info.source_vocabulary
    assert len(info.vocabulary) == 3
    assert not info.extras["shared"]


@pytest.mark.parametrize(
    ("settings", "kept", "long", "uneven"),
    [
        ({"longest": 3}, [0, 1, 4, 5], 2, 0),
        ({"longest": 6}, [0, 1, 2, 3, 4, 5], 0, 0),
        ({"ratio": 2}, [0, 1, 4, 5], 0, 2),
        ({"ratio": 3}, [0, 1, 3, 4, 5], 0, 1),
        ({"ratio": 1}, [1, 5], 0, 4),
        ({"longest": 3, "ratio": 1}, [1, 5], 2, 2),
        ({"source_limit": 2, "over_limit": "truncate"}, [1, 2, 4, 5], 2, 0),
    ],
)
def test_pairs_to_train_on_are_chosen_by_length(files, tmp_path, settings, kept, long, uneven):
    task, info = prepared(tmp_path, **files, **settings)
    assert list(task.sources("train")) == list(task.references("train")) == kept
    (batch,) = task.batches("train", Purpose.TRAIN, Size(10))
    assert batch.ids.tolist() == kept
    assert batch.length.tolist() == [len(PAIRS["train"][number][1].split()) + 1 for number in kept]
    assert info.counts[0] == len(kept)
    train = info.extras["statistics"]["train"]
    assert (train["left_out_long"], train["left_out_uneven"], train["left_out_empty"]) == (long, uneven, 0)
    assert list(task.sources("valid")) == [0, 1]
    assert list(task.sources("test")) == [0, 1, 2]


def test_pairs_to_train_on_are_spaced_evenly_over_those_that_fit(files, tmp_path):
    task, info = prepared(tmp_path, **files, longest=3, examples=2)
    assert list(task.sources("train")) == [0, 4]
    assert info.extras["statistics"]["train"]["left_out_examples"] == 2
    assert set("xyz") < set(info.vocabulary)
    assert list(task.sources("test")) == [0, 1, 2]


def test_what_leaves_too_little_to_train_on_is_refused(files, tmp_path):
    with pytest.raises(DataError, match=r"1 of 6 nonempty training pairs of own files .*; 5 are too long and 0"):
        prepared(tmp_path, **files, longest=1)


def test_a_source_over_the_limit_is_refused_by_file_and_line(files, tmp_path):
    with pytest.raises(
        DataError, match=r"line 2 of .*test\.source has 5 tokens, more than the `source_limit` of 4\. "
    ):
        prepared(tmp_path, **files, source_limit=4)
    prepared(tmp_path, **files, source_limit=5)


def test_a_source_over_the_limit_can_be_cut_off_and_is_never_dropped(files, tmp_path):
    task, info = prepared(tmp_path, **files, source_limit=2, over_limit="truncate")
    (batch,) = task.batches("test", Purpose.DECODE, Size(10))
    names = [[info.source_vocabulary[token] for token in row] for row in batch.source.tolist()]
    assert names == [["a", "<unk>", "<stop>"], ["b", "a", "<stop>"], ["c", "<stop>", "<stop>"]]
    assert batch.source_length.tolist() == [3, 3, 2]
    assert info.extras["statistics"]["test"]["truncated"] == 2
    assert task.sources("test")[1] == PAIRS["test"][1][0]  # reports show all of it


def test_facts_can_be_written_down_and_say_what_the_corpus_is(invented, tmp_path):
    _, info = prepared(tmp_path, corpus={"name": "invented", "sentences": 50, "seed": 3})
    json.dumps(info.extras)
    assert info.extras["corpus"] == "invented (sentences 50, seed 3)"
    assert info.extras["embedded"]
    assert info.extras["entropy"] == 0
    assert info.extras["languages"] == {"source": "en", "target": "art"}
    train = info.extras["statistics"]["train"]
    assert train["target_tokens"] + train["pairs"] == sum(info.counts)


@pytest.mark.parametrize(("tokenizer", "split"), [("word", "train"), ("char", "test"), (BYTE_PAIRS, "test")])
def test_a_perfect_system_reads_as_the_references(tmp_path, tokenizer, split):
    task, _ = prepared(tmp_path, corpus={"name": "invented", "sentences": 300}, tokenizer=tokenizer)
    references = task.references(split)
    for batch in task.batches(split, Purpose.DECODE, Size(7)):
        for number, row, length in zip(batch.ids.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True):
            assert [task.text(row[: length - 1])] == references[number]


def test_training_batches_hold_rows_of_like_length_on_both_sides(invented):
    def waste(batches, side, length):
        return sum(getattr(batch, side).numel() - int(getattr(batch, length).sum()) for batch in batches)

    alike, plain = (list(invented.batches("train", Purpose.TRAIN, Size(10), rng)) for rng in (Rng(1), None))
    for side, length in (("gold", "length"), ("source", "source_length")):
        assert waste(alike, side, length) < 0.35 * waste(plain, side, length)


def test_a_size_in_tokens_counts_the_longer_side_with_its_padding(invented):
    for rng in (None, Rng(1)):
        for batch in invented.batches("train", Purpose.TRAIN, Size(100, "tokens"), rng):
            assert len(batch) == 1 or max(batch.gold.numel(), batch.source.numel()) <= 100


def test_each_source_stays_with_its_target_in_every_order(invented):
    def rows(batches):
        found = {}
        for batch in batches:
            for number, *row in zip(
                batch.ids.tolist(), batch.source.tolist(), batch.source_length.tolist(), batch.gold.tolist(),
                batch.length.tolist(), strict=True,
            ):  # fmt: skip
                source, size, target, length = row
                found[number] = source[:size], target[:length]
        return found

    plain = rows(invented.batches("train", Purpose.SCORE, Size(500)))
    assert len(plain) == 500
    for size in (Size(7), Size(64, "tokens")):
        assert rows(invented.batches("train", Purpose.TRAIN, size, Rng(2))) == plain
        assert rows(invented.batches("train", Purpose.DECODE, size, Rng(2))) == plain


def test_batches_are_of_whole_numbers_that_models_expect(invented):
    batch = next(invented.batches("train", Purpose.TRAIN, Size(4), Rng(1)))
    for tensor in (batch.ids, batch.prompt, batch.gold, batch.length, batch.source, batch.source_length):
        assert tensor.dtype == torch.long


def further(tmp_path, split, *files):
    for place, lines in enumerate(files):
        (tmp_path / f"{split}.{place}").write_text("\n".join(lines) + "\n")
    return [f"{split}.{place}" for place in range(len(files))]


def test_files_of_further_translations_are_references_too(files, tmp_path):
    names = further(tmp_path, "test", ["X U", "", "z"], ["one", "two", " "])
    files["corpus"]["test"]["references"] = names
    task, _ = prepared(tmp_path, **files)
    assert task.references("test") == {0: ["x u", "X U", "one"], 1: ["y x  x", "two"], 2: ["Z", "z"]}
    assert task.references("valid") == {0: ["x w"], 1: ["y"]}
    assert set(names) < set(task.config.reads(tmp_path))
    lowered, _ = prepared(tmp_path, **files, lowercase=True)
    assert lowered.references("test")[0] == ["x u", "x u", "one"]


def test_further_translations_of_pairs_that_are_not_trained_on_are_left_out_with_them(files, tmp_path):
    names = further(tmp_path, "train", [f"further {number}" for number in range(6)])
    files["corpus"]["train"]["references"] = names
    task, _ = prepared(tmp_path, **files, longest=3)
    assert {number: lines[1:] for number, lines in task.references("train").items()} == {
        number: [f"further {number}"] for number in (0, 1, 4, 5)
    }


def test_further_translations_that_do_not_fit_are_refused_by_file(files, tmp_path):
    files["corpus"]["test"]["references"] = further(tmp_path, "test", ["one", "two"])
    with pytest.raises(DataError, match=r"test\.0 has 2 lines, but the source of test has 3"):
        prepared(tmp_path, **files)
    files["corpus"]["test"]["references"] = ["nowhere.txt"]
    with pytest.raises(DataError, match=r"nowhere\.txt. Correct `references:` under `test:`"):
        prepared(tmp_path, **files)
    with pytest.raises(DataError, match=r"nowhere\.txt"):
        TranslationConfig.model_validate(files).reads(tmp_path)


@pytest.mark.parametrize(
    ("settings", "language", "tokenized"),
    [
        ({}, "art", True),
        ({"corpus": "multi30k", "pair": "en-de"}, "de", False),
        ({"corpus": "small_parallel_enja", "pair": "en-ja"}, "ja", True),
        ({"corpus": "kftt", "pair": "en-ja", "tokenizer": {"source": "word", "target": "char"}}, "ja", False),
    ],
)
def test_a_config_knows_the_language_of_targets(settings, language, tokenized):
    config = TranslationConfig.model_validate(settings)
    assert (config.language, config.tokenized) == (language, tokenized)


@pytest.mark.parametrize("kind", ["word", "char", {"kind": "bpe", "vocab_size": 280}])
def test_bytes_are_those_of_the_target_line_whatever_cuts_it(files, tmp_path, kind):
    (tmp_path / "test.target").write_text("x y\nné y  x \n\u65e5 x\n", encoding="utf-8")
    (tmp_path / "valid.target").write_text("né \u65e5\nx\n", encoding="utf-8")
    (tmp_path / "train.target").write_text("né\nx\ny\n\u65e5 x\nx\ny\n", encoding="utf-8")
    task, _ = prepared(tmp_path, **files, tokenizer=kind)
    found = sizes_of(task)
    assert [(found[n].bytes, found[n].characters) for n in range(3)] == [(4, 4), (8, 7), (6, 4)]


def test_lower_case_and_unknown_words_are_not_the_text_of_the_line(files, tmp_path):
    sizes = {}
    for name, settings in {"word": {}, "char": {"tokenizer": "char"}, "bpe": {"tokenizer": BYTE_PAIRS}}.items():
        (tmp_path / name).mkdir()
        config = TranslationConfig.model_validate({**files, **settings, "lowercase": name == "bpe"})
        task = config.load()(config, tmp_path / name)
        task.prepare(tmp_path)
        sizes[name] = {number: size.bytes for number, size in sizes_of(task).items()}
    assert sizes == {"word": {1: 6}, "char": {1: 6}, "bpe": {0: 4, 1: 6}}, "u and Z are unknown; z is not Z"


def test_moses_spells_a_line_if_its_tokens_put_together_are_the_line(files, tmp_path):
    for split in PAIRS:
        lines = ["x, y.", "x ,y", "it's x"] * 2
        (tmp_path / f"{split}.target").write_text("\n".join(lines[: len(PAIRS[split])]) + "\n")
    task, _ = prepared(tmp_path, **{**files, "moses": True, "pair": "xx-en"})
    assert sorted(sizes_of(task)) == [0, 2]
