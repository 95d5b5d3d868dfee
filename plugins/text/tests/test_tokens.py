from __future__ import annotations

from random import Random

import pytest
from pydantic import TypeAdapter

from bench_text.api import UNREADABLE, Tokenizer, join, learn

TRAIN = ["the cat sat on the mat .", "", "the naïve 日本 cat <unk> sat", "x<unk>y ' s \ufeff!"]
VALID = ["a dog sat ."]
UNSEEN = ["the 象 jumped – over €5 .", "<stop> and <cpad> are words , <unk> is not"]


def learned(tokenizer, pad=False):
    return learn(TypeAdapter(Tokenizer).validate_python(tokenizer), TRAIN, VALID, pad)


def reread(encoder, kind, lines):
    rows = encoder.encode(lines)
    return [join(kind, [encoder.vocabulary[token] for token in tokens], "<unk>") for tokens in rows]


@pytest.mark.parametrize("tokenizer", ["word", "char", {"kind": "bpe", "vocab_size": 280}])
def test_what_was_encoded_reads_as_before(tokenizer):
    kind = tokenizer if isinstance(tokenizer, str) else "bpe"
    assert reread(learned(tokenizer), kind, TRAIN + VALID) == TRAIN + VALID


def test_byte_pairs_can_say_everything():
    assert reread(learned({"kind": "bpe", "vocab_size": 259}, pad=True), "bpe", UNSEEN) == UNSEEN


@pytest.mark.parametrize("kind", ["word", "char", "bpe"])
@pytest.mark.parametrize("special", ["<unk>", "<cpad>"])
def test_a_token_that_is_no_text_reads_as_what_no_line_has(kind, special):
    text = join(kind, ["a", special, "b"])
    assert text.replace(" ", "") == f"a{UNREADABLE}b"
    assert len(UNREADABLE) == 1


@pytest.mark.parametrize("first", range(8))
def test_what_follows_the_first_words_is_the_rest_of_the_line_rare_words_too(first):
    encoder, lines = learned({"kind": "word", "min_count": 2}), [*TRAIN, *UNSEEN]
    found = [*encoder.rest(lines, encoder.encode(lines), first)]
    assert found == [" ".join(line.split(" ")[first:]) for line in lines]


@pytest.mark.parametrize("first", range(8))
def test_what_follows_the_first_characters_is_the_rest_of_the_line_unknown_ones_too(first):
    encoder = learned("char")
    lines = ["the 象 jumped", "€5", ""]
    assert [*encoder.rest(lines, encoder.encode(lines), first)] == [line[first:] for line in lines]
    assert [*encoder.rest(["a<unk>b"], [], 2)] == ["b"]  # `<unk>` is one of them


@pytest.mark.parametrize("first", range(25))
def test_what_follows_the_first_byte_pairs_is_the_rest_of_the_line_be_it_within_a_character(first):
    encoder, lines = learned({"kind": "bpe", "vocab_size": 265}), [*TRAIN, *UNSEEN]
    rows = list(encoder.encode(lines))
    for line, row, rest in zip(lines, rows, encoder.rest(lines, rows, first), strict=True):
        whole = rest.lstrip("\N{REPLACEMENT CHARACTER}")  # of which some bytes belong to the first pieces
        assert line.endswith(whole)
        assert rest == join("bpe", [encoder.vocabulary[token] for token in row[first:]], "<unk>")


@pytest.mark.parametrize("tokenizer", ["word", "char", {"kind": "bpe", "vocab_size": 280}])
def test_special_tokens_have_their_places_and_never_come_out_of_text(tokenizer):
    encoder = learned(tokenizer, pad=True)
    size = len(encoder.vocabulary)
    assert encoder.vocabulary[:2] == ["<stop>", "<unk>"]
    assert encoder.vocabulary[-1] == "<cpad>"
    assert len(set(encoder.vocabulary)) == size
    tokens = {token for row in encoder.encode([*TRAIN, *UNSEEN]) for token in row}
    assert not tokens & {0, size - 1}
    assert next(encoder.encode(["<unk>"])) == [1]


def test_words_are_sorted_by_how_often_they_occur_and_ties_by_name():
    assert learned("word").vocabulary[2:8] == ["sat", "the", ".", "cat", "'", "a"]


def test_rare_words_become_unknown():
    kept = learned({"kind": "word", "min_count": 2}).vocabulary
    assert kept == ["<stop>", "<unk>", "sat", "the", ".", "cat"]
    most = learned({"kind": "word", "most_words": 3})
    assert most.vocabulary == kept[:5]
    assert list(most.encode(["the cat sat"])) == [[3, 1, 2]]


def test_byte_pairs_are_learnt_from_train_alone():
    assert not any("dog" in piece for piece in learned({"kind": "bpe", "vocab_size": 2000}).vocabulary)


def test_no_byte_pair_is_spent_on_the_word_for_unknown_words():
    settings = TypeAdapter(Tokenizer).validate_python({"kind": "bpe", "vocab_size": 400})
    vocabulary = learn(settings, ["<unk> of the <unk>"] * 9, []).vocabulary
    assert not any("un" in piece for piece in vocabulary[2:])


def test_frequent_words_are_one_byte_pair_and_no_piece_spans_two():
    vocabulary = learned({"kind": "bpe", "vocab_size": 2000}).vocabulary
    assert {"Ġthe", "Ġcat", "Ġsat"} <= set(vocabulary)
    assert not any("Ġ" in piece[1:] for piece in vocabulary)


SIGNS = (
    "a",
    "b",
    "é",
    "日",
    "😀",
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\x1c",
    "\x85",
    "\u00a0",
    "\u2003",
    "\u2028",
    "<unk>",
    "<stop>",
)


def random_lines(number, seed=0):
    chance = Random(seed)
    return ["".join(chance.choices(SIGNS, k=chance.randrange(10))) for _ in range(number)]


@pytest.mark.parametrize("lines", [TRAIN, random_lines(40, 5)])
def test_byte_pairs_keep_all_white_space(lines):
    encoder = learn(TypeAdapter(Tokenizer).validate_python({"kind": "bpe", "vocab_size": 290}), lines, VALID)
    texts = [*random_lines(1000), "def f():\n    return 1\n", " ", "", "\n"]
    rows = [*encoder.encode(texts)]
    for text, row, pieces in zip(texts, rows, encoder.pieces(texts, rows), strict=True):
        assert join("bpe", [encoder.vocabulary[token] for token in row], "<unk>") == text
        assert b"".join(pieces) == text.encode()
    assert len({*map(tuple, rows)}) == len({*texts})


def test_byte_pairs_learn_indentation():
    lines = ["if a:\n        b\n        c", "for a in b:\n        c"] * 5
    encoder = learn(TypeAdapter(Tokenizer).validate_python({"kind": "bpe", "vocab_size": 300}), lines, [])
    (row,) = encoder.encode(["a:\n        b"])
    assert len(row) <= 5


@pytest.mark.parametrize("kind", ["word", "char", "bpe"])
def test_two_texts_that_their_tokens_spell_have_different_tokens(kind):
    settings = {"kind": kind, **({"vocab_size": 280} if kind == "bpe" else {})}
    encoder, seen = learned(settings), {}
    texts = [*random_lines(2000, 1), "⍰", "<unk>", "the cat", "the  cat", "象", "é"]
    rows = [*encoder.encode(texts)]
    for text, row, pieces in zip(texts, rows, encoder.pieces(texts, rows), strict=True):
        if b"".join(pieces) == text.encode():
            assert seen.setdefault(tuple(row), text) == text
    assert len(seen) > 3
