"""Orders of the tokens, and the vectors that some are made of."""

from __future__ import annotations

import gzip
import struct
from itertools import pairwise

import pytest
import torch
from torch.nn.functional import cosine_similarity

from bench_core import DataError, Rng
from bench_output_layers import orders, vectors
from bench_output_layers.orders import at_random, by_count, by_similarity, by_tour
from bench_output_layers.vectors import learn, read

RNG = Rng(2)
COUNTS = torch.tensor([3, 9, 9, 1, 12, 5, 0, 12])
KNOWN = torch.tensor([True, True, True, True, False, True, True, False])
VOCABULARY = ["</s>", "the", "cat", "naïve", "unk"]
ROWS = {"the": [0.5, -1.25, 2.0], "cat": [0.0, 3.5, -0.125], "dog": [1.0, 1.0, 1.0], "naïve": [-2.0, 0.25, 8.0]}


def values(tokens=8, size=3):
    return torch.randn(tokens, size, generator=torch.Generator().manual_seed(4))


def test_counts_fall_and_ties_go_by_id():
    assert by_count(COUNTS).tolist() == [4, 7, 1, 2, 5, 0, 3, 6]


def test_a_random_order_is_a_permutation_that_the_seed_decides():
    order = at_random(500, RNG)
    assert order.sort().values.tolist() == list(range(500))
    assert order.equal(at_random(500, RNG))
    assert not order.equal(at_random(500, RNG.fork("other")))


def test_similarity_begins_with_the_most_frequent_known_token_and_falls():
    order = by_similarity(values(), KNOWN, COUNTS)
    assert order[0] == 1  # 4 and 7 are more frequent and have no vector; 2 is as frequent
    similar = cosine_similarity(values()[order[:6]], values()[1][None])
    assert (similar.diff() <= 0).all()
    assert order[6:].tolist() == [4, 7]
    assert order.sort().values.tolist() == list(range(8))


def test_the_length_of_a_vector_does_not_matter_and_ties_go_by_id():
    directions = torch.tensor([[1.0, 0], [0, 1], [3, 0], [0, 0], [2, 2]])
    order = by_similarity(directions, torch.ones(5, dtype=torch.bool), torch.tensor([1, 2, 9, 1, 1]))
    assert order.tolist() == [2, 0, 4, 1, 3]


@pytest.mark.parametrize("neighbours", [1, 4, 64])
def test_a_tour_always_goes_on_to_the_most_similar_token_left(monkeypatch, neighbours):
    monkeypatch.setattr(orders, "NEIGHBOURS", neighbours)
    monkeypatch.setattr(orders, "SIMILARITIES", 100)
    many, counts = values(60, 5), torch.arange(60) % 50
    known = torch.arange(60) % 7 != 0
    tour = by_tour(many, known, counts).tolist()
    assert tour[0] == 48  # 49 has no vector
    left = {token for token in range(60) if known[token]} - {tour[0]}
    for here, after in pairwise(tour[: int(known.sum())]):
        assert after == max(left, key=lambda token: float(cosine_similarity(many[here], many[token], 0)))
        left.remove(after)
    assert not left
    assert tour[int(known.sum()) :] == [49, 42, 35, 28, 21, 14, 7, 56, 0]


def text(header):
    lines = [f"{word} " + " ".join(map(str, row)) for word, row in ROWS.items()]
    return "\n".join([f"{len(ROWS)} 3", *lines] if header else lines).encode() + b"\n"


def binary(end):
    rows = [word.encode() + b" " + struct.pack("<3f", *row) + end for word, row in ROWS.items()]
    return b"".join([b"4 3\n", *rows])


FORMATS = {"word2vec": text(True), "glove": text(False), "binary": binary(b"\n"), "binary-in-a-row": binary(b"")}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("packed", [False, True])
def test_vectors_are_read_from_every_format(tmp_path, form, packed):
    path = tmp_path / "some.vectors"
    path.write_bytes(gzip.compress(FORMATS[form]) if packed else FORMATS[form])
    found = read(path, VOCABULARY)
    assert found.known.tolist() == [False, True, True, True, False]
    assert found.values.tolist() == [[0] * 3, ROWS["the"], ROWS["cat"], ROWS["naïve"], [0] * 3]


def test_the_first_vector_of_a_word_counts_and_words_may_have_spaces(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text(". . . 1 2\r\nthe 3 4\r\n\r\nthe 5 6\r\n")
    assert read(path, ["</s>", "the", ". . ."]).values.tolist() == [[0, 0], [3, 4], [1, 2]]


@pytest.mark.parametrize("form", FORMATS)
def test_a_byte_order_mark_is_no_part_of_the_first_word_or_number(tmp_path, form):
    path = tmp_path / "some.vectors"
    path.write_bytes(b"\xef\xbb\xbf" + FORMATS[form])
    assert read(path, VOCABULARY).known.tolist() == [False, True, True, True, False]


def test_what_was_read_is_described(tmp_path):
    path = tmp_path / "some.txt"
    path.write_bytes(FORMATS["glove"])
    description = read(path, VOCABULARY).description(torch.tensor([10, 20, 5, 5, 60]))
    assert description == "some.txt, 3 dimensions; covers 3 of 5 tokens (60.0%) and 30.0% of the training text"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the 1 2\rcat 3 4\r", r"bad.txt:1: a carriage return"),
        (b"the 1 2\r\ncat 3 4\rnaive 5 6\r\n", r"bad.txt:2: a carriage return"),
        (b"the 1 2 3\ncat 1 2\n", r"bad.txt:2: a vector of 2 numbers among vectors of 3"),
        (b"the 1 2 3\ncat 1 2 3 4\n", r"bad.txt:2: a vector of 4 numbers among vectors of 3"),
        (b"2 3\nthe 1 2 3\ncat 1 2\n", r"bad.txt:3: a vector of 2 numbers among vectors of 3"),
        (b"2 3\nthe 1 2\ncat 1 2\n", r"bad.txt:2: a vector of 2 numbers among vectors of 3"),
        (b"dog 1 2\nthe 1 x\n", r"bad.txt:2: a vector contains a value that is not a number"),
        (b"dog 1 2\nthe 1 nan\n", r"bad.txt:2: a vector contains a value that is not a number"),
        (b"dog 1 2\nemu 3 4\n", r"any of the 5 tokens \('the', 'cat'.*same language and case"),
        (b"3 2\nthe 1 2\ncat 3 4\n", r"ends 1 vectors earlier than its header announces"),
        (b"3 0\nthe\n", r"bad.txt:1: the header announces 3 vectors of 0 numbers"),
        (b"", r"bad.txt:1: expected a word and its numbers"),
        (b"<html>\n<body>\n", r"bad.txt:1: expected a word and its numbers.*'<html>'"),
        (binary(b"")[:-3], r"ends within vector 4 of 4"),
        (binary(b"")[:38], r"ends before, or within, word 3"),
        (gzip.compress(text(True), mtime=0)[:-12], r"cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, content, message):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(path, VOCABULARY)


def test_a_file_that_is_missing_or_endless_is_said(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "none.txt", VOCABULARY)
    monkeypatch.setattr(vectors, "MAX_LINE_BYTES", 50)
    (tmp_path / "long.txt").write_text("the 1 2\ncat " + "1 " * 100)
    with pytest.raises(DataError, match=r"long.txt:2: a line of more than 50 bytes"):
        read(tmp_path / "long.txt", VOCABULARY)


def test_learning_can_be_repeated_and_leaves_out_no_word_of_a_long_sentence():
    sentences = [[1, 2, 1, 3], [1, 2, 2], [1, 3] * 5000 + [4]]  # gensim reads 10,000 words of each
    first, again = (learn(sentences, VOCABULARY, 8, RNG) for _ in range(2))
    assert first.values.equal(again.values)
    assert first.known.tolist() == [False, True, True, True, True]
    assert not first.values[0].any()
    assert not first.values.equal(learn(sentences, VOCABULARY, 8, RNG.fork("other")).values)
    assert "skip-gram learned from the training split (gensim" in first.description(COUNTS[:5])


def test_there_must_be_something_to_learn_from():
    with pytest.raises(DataError, match="no sentence"):
        learn([], VOCABULARY, 8, RNG)
