"""The task: bags and their sentences."""

from __future__ import annotations

from collections import Counter

import pytest
from pydantic import ValidationError

from bench_authors.testing import TaskCase, check_task
from bench_core import DataError, Purpose, Rng, Size
from bench_word_order.plugin import WordOrderConfig

LINES = {
    "train": [
        "the cat sees the dog and the dog sees the cat . it runs away . run !",
        "= a heading =",
        "the dog runs away from the cat .",
        "",
        "a cat is a cat is a cat .",
        "the cat sees a bird . the dog sees it too .",
    ],
    "valid": ["the dog sees a cat .", "the cat runs .", "it is a dog ."],
    "test": ["the zebra sees the cat .", "a dog runs and runs and runs .", "Oh !"],
}


@pytest.fixture
def files(tmp_path):
    for split, lines in LINES.items():
        (tmp_path / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return {split: tmp_path / f"{split}.txt" for split in LINES}


def prepared(folder, corpus, **settings):
    config = WordOrderConfig.model_validate({"corpus": corpus, **settings})
    task = config.load()(config, folder)
    return task, task.prepare(folder)


def rows(task, split="train", size=100, rng=None):
    """Return bag and target of each example, without what pads them and stop."""
    found = {}
    for batch in task.batches(split, Purpose.TRAIN, Size(size), rng):
        for number, bag, held, gold, length in zip(
            batch.ids.tolist(), batch.source.tolist(), batch.source_length.tolist(), batch.gold.tolist(),
            batch.length.tolist(), strict=True,
        ):  # fmt: skip
            found[number] = bag[:held], gold[: length - 1]
    return found


BYTE_PAIRS = {"kind": "bpe", "vocab_size": 280}
SETTINGS = [
    {},
    {"bag": "shuffled", "seed": 3},
    {"tokenizer": BYTE_PAIRS, "bag": "shuffled"},
    {"tokenizer": {"min_count": 2}, "sentences": "lines", "longest": 12, "examples": 2},
    {"corpus": {"name": "english", "sentences": 40}},
]


@pytest.mark.quick(2, 1)
@pytest.mark.parametrize("settings", SETTINGS)
def test_the_task_keeps_all_contracts(files, tmp_path, settings):
    config = WordOrderConfig.model_validate({"corpus": files, **settings})
    (tmp_path / "prepared").mkdir()
    assert check_task(TaskCase.of(config, tmp_path, tmp_path / "prepared"))


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_bag_holds_each_token_of_its_sentence_as_often(files, tmp_path, settings):
    task, info = prepared(tmp_path, **{"corpus": files, **settings})
    assert info.source_vocabulary == info.vocabulary
    repeats = 0
    for split in LINES:
        for bag, target in rows(task, split).values():
            assert Counter(bag) == Counter(target)
            repeats += len(set(bag)) < len(bag)
    assert repeats


def test_a_sorted_bag_is_a_function_of_its_tokens_alone(files, tmp_path):
    task, _ = prepared(tmp_path, files)
    assert all(bag == sorted(target) for bag, target in rows(task).values())


def test_a_shuffled_bag_depends_on_seed_and_place_but_never_on_the_order_of_the_sentence(tmp_path):
    def bags(lines, folder, **settings):
        (tmp_path / folder).mkdir()
        for split in LINES:
            (tmp_path / folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
        corpus = {split: tmp_path / folder / f"{split}.txt" for split in LINES}
        task, info = prepared(tmp_path / folder, corpus, bag="shuffled", **settings)
        said = {number: [info.vocabulary[token] for token in bag] for number, (bag, _) in rows(task, size=7).items()}
        assert {
            number: [info.vocabulary[token] for token in bag] for number, (bag, _) in rows(task, size=1).items()
        } == said
        return said

    words = [f"w{place}" for place in range(9)]
    lines = [" ".join(words)] * 60
    bags_of_alike = bags(lines, "one")
    assert len({tuple(bag) for bag in bags_of_alike.values()}) > 50
    assert bags(lines, "again") == bags_of_alike
    assert bags(lines, "other", seed=1) != bags_of_alike
    # the first word of the sentence stands at every place of the bag, none of them far too often
    places = Counter(bag.index("w0") for bag in bags_of_alike.values())
    assert max(places.values()) < 20
    assert len(places) == 9


def test_each_bag_stays_with_its_sentence_in_every_order(files, tmp_path):
    task, _ = prepared(tmp_path, files, bag="shuffled")
    plain = rows(task)
    for size in (1, 2, 5):
        assert rows(task, size=size, rng=Rng(size)) == plain


def test_paragraphs_are_cut_at_their_ends_and_headings_left_out(files, tmp_path):
    task, info = prepared(tmp_path, files)
    assert list(task.references("train").values()) == [
        ["the cat sees the dog and the dog sees the cat ."],
        ["it runs away ."],
        ["run !"],
        ["the dog runs away from the cat ."],
        ["a cat is a cat is a cat ."],
        ["the cat sees a bird ."],
        ["the dog sees it too ."],
    ]
    lines, _ = prepared(tmp_path, files, sentences="lines")
    assert lines.references("train")[0] == [LINES["train"][0]]
    assert "heading" not in info.vocabulary


def test_references_are_as_the_corpus_has_them_and_sources_say_the_bag(files, tmp_path):
    task, info = prepared(tmp_path, files)
    assert "zebra" not in info.vocabulary
    assert task.references("test")[0] == ["the zebra sees the cat ."]
    assert Counter(task.sources("test")[0].split()) == Counter(["the", "<unk>", "sees", "the", "cat", "."])
    assert task.sources("test")[0].split() == [info.vocabulary[token] for token in rows(task, "test")[0][0]]


def test_byte_pairs_read_as_the_sentence_does(files, tmp_path):
    task, _ = prepared(tmp_path, files, tokenizer=BYTE_PAIRS)
    for split in LINES:
        for number, (_, target) in rows(task, split).items():
            assert [task.text(target)] == task.references(split)[number]
    assert "z" in task.sources("test")[0].split()


def test_sentences_beyond_the_limits_are_left_out_and_counted(files, tmp_path):
    task, info = prepared(tmp_path, files, shortest=3, longest=8)
    lengths = [len(target) for _, target in rows(task).values()]
    assert (min(lengths), max(lengths)) == (4, 8)
    told = info.extras["statistics"]["train"]
    assert (told["sentences"], told["left_out_short"], told["left_out_long"]) == (4, 1, 2)
    assert info.counts[0] == 4
    assert sum(info.counts) == sum(lengths) + 4


def test_examples_caps_training_alone_and_spreads_over_the_corpus(files, tmp_path):
    every, _ = prepared(tmp_path, files)
    kept = [text for (text,) in every.references("train").values()]
    task, info = prepared(tmp_path, files, examples=3)
    assert [text for (text,) in task.references("train").values()] == [kept[0], kept[2], kept[4]]
    assert info.extras["statistics"]["train"]["left_out_examples"] == 4
    assert len(task.references("test")) == 3


def test_too_little_text_is_an_error_that_says_what_to_change(files, tmp_path):
    with pytest.raises(
        DataError, match=r"the test split of train\.txt .* has 1 sentences with at least 7 tokens .*`shortest`"
    ):
        prepared(tmp_path, {**files, "valid": files["train"]}, shortest=7, sentences="lines")


def test_undecodable_files_are_told_with_their_line(files, tmp_path):
    files["valid"].write_bytes(b"good line .\nbad \xff line .\n")
    with pytest.raises(DataError, match=r"valid\.txt is not UTF-8: byte 0xff .* in line 2"):
        prepared(tmp_path, files)


def test_limits_that_no_sentence_meets_are_refused_at_once():
    with pytest.raises(ValidationError, match=r"`shortest` \(9\) must be at most `longest` \(8\)"):
        WordOrderConfig(shortest=9, longest=8)
    with pytest.raises(ValidationError):
        WordOrderConfig(tokenizer="char")


def test_the_default_corpus_is_embedded_and_known_by_its_digest(tmp_path):
    (name,) = WordOrderConfig().reads(tmp_path)
    assert name.startswith("cpython-docs ")
