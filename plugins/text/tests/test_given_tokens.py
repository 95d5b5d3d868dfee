"""Codes of subword-nmt and models of SentencePiece cut and join texts as those programs do."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from bench_core import DataError
from bench_text.api import UNREADABLE, Tokenizer, join, learn
from bench_text.merges import Merges, merge, read_codes, read_vocabulary

TRAIN = ["the cat sat on the mat .", "the  naïve 日本 cat", "aaa aaaa a bab abba", "the thatch hath a hat @@ x@@ y"]
UNSEEN = ["a thesis that bathes", " zzz  the\u00a0cat ", "", "@@@ @ the"]
CODES = "#version: 0.2\nt h\nth e</w>\na t</w>\nc at</w>\na a\nb a\nh at</w>\na a</w>\nth at</w>\nt h\n"
OLD = "t h\nth e\nthe </w>\na t\nat </w>\nc at</w>\na a\naa </w>\n"
KNOWN = "the 9\nth@@ 2\ncat 1\nh@@ 5\nat 4\ne 1\n"


def files(folder, codes=CODES, known=None, **settings):
    (folder / "codes").write_text(codes, encoding="utf-8")
    given = {"kind": "codes", "codes": folder / "codes", **settings}
    if known:
        (folder / "known").write_text(known, encoding="utf-8")
        given["vocabulary"] = folder / "known"
    return TypeAdapter(Tokenizer).validate_python(given)


def cut(settings, lines):
    pairs, apart = read_codes(settings.codes)
    known = read_vocabulary(settings.vocabulary, settings.threshold) if settings.vocabulary else None
    merges = Merges("codes", pairs, settings.dropout, apart, known)
    return [merges.cut(line) for line in lines]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("the", "the"),  # t h, then th e</w>
        ("then", "th@@ e@@ n"),  # `e` does not end the word
        ("cat", "cat"),  # a t</w> comes before c at</w>
        ("aaa", "aa@@ a"),  # of three the first two; `a a</w>` has a higher rank
        ("aaaa", "aa@@ aa"),
        ("aa", "aa"),
        ("hat that", "hat that"),
        ("x", "x"),
        ("  the \t", "the \t"),  # words are what stands between spaces
        ("", ""),
    ],
)
def test_codes_are_applied_in_their_order(tmp_path, text, pieces):
    assert cut(files(tmp_path), [text]) == [pieces.split(" ") if pieces else []]


def test_a_word_that_codes_do_not_reach_is_cut_down_to_what_the_vocabulary_has(tmp_path):
    settings = files(tmp_path, known=KNOWN)
    assert cut(settings, ["the that cat hat chat"]) == [["the", "th@@", "at", "cat", "h@@", "at", "c@@", "h@@", "at"]]
    settings = files(tmp_path, known=KNOWN, threshold=2)
    assert cut(settings, ["the cat"]) == [["the", "c@@", "at"]]


@pytest.mark.parametrize("codes", [CODES, OLD])
def test_pieces_are_those_of_subword_nmt(tmp_path, codes):
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    settings = files(tmp_path, codes)
    theirs = apply_bpe.BPE(io.StringIO(codes))
    lines = [*TRAIN, *UNSEEN]
    assert cut(settings, lines) == [theirs.segment(line).split(" ") if line.strip(" ") else [] for line in lines]
    generator = random.Random(7)
    words = ["".join(generator.choices("abcht e", k=generator.randint(1, 12))).strip() or "a" for _ in range(500)]
    assert cut(settings, words) == [theirs.segment(word).split(" ") for word in words]


def test_pieces_with_a_vocabulary_are_those_of_subword_nmt(tmp_path):
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    generator = random.Random(8)
    words = ["".join(generator.choices("abcht e", k=generator.randint(1, 12))).strip() or "a" for _ in range(300)]
    for threshold in (1, 2, 5):
        known = apply_bpe.read_vocabulary(io.StringIO(KNOWN), threshold)
        theirs = apply_bpe.BPE(io.StringIO(CODES), vocab=known)
        settings = files(tmp_path, known=KNOWN, threshold=threshold)
        assert cut(settings, words) == [theirs.segment(word).split(" ") for word in words]


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_merges_are_left_out_as_in_subword_nmt(tmp_path, dropout):
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    pairs, apart = read_codes(files(tmp_path).codes)
    theirs, ours = apply_bpe.BPE(io.StringIO(CODES)), Merges("codes", pairs, dropout, apart)
    state = random.getstate()
    try:
        for seed, line in enumerate([*TRAIN, *UNSEEN] * 5):
            random.seed(seed)
            expected = theirs.segment(line, dropout).split(" ") if line.strip(" ") else []
            assert ours.cut(line, random.Random(seed)) == expected
    finally:
        random.setstate(state)


def test_codes_learnt_by_subword_nmt_cut_a_text_as_its_command_does(tmp_path):
    pytest.importorskip("subword_nmt")
    text = "\n".join([*TRAIN * 3, *UNSEEN[:1]]) + "\n"
    command = [Path(sys.executable).with_name("subword-nmt")]
    learnt = subprocess.run(
        [*command, "learn-bpe", "-s", "30"], input=text, capture_output=True, encoding="utf-8", check=True
    )
    settings = files(tmp_path, learnt.stdout)
    applied = subprocess.run(
        [*command, "apply-bpe", "-c", settings.codes], input=text, capture_output=True, encoding="utf-8", check=True
    )
    assert [" ".join(pieces) for pieces in cut(settings, text.splitlines())] == applied.stdout.splitlines()


def test_pieces_read_as_the_text_that_was_cut(tmp_path):
    lines = [" ".join(filter(None, line.split(" "))) for line in [*TRAIN, "a b"]]
    assert [join("codes", pieces) for pieces in cut(files(tmp_path), lines)] == lines
    assert join("codes", ["th@@", "<unk>", "a"]) == f"th{UNREADABLE} a"


def test_the_vocabulary_of_codes_is_of_the_pieces_to_train_on(tmp_path):
    encoder = learn(files(tmp_path), ["the the then", "cat"], [], pad=True)
    assert encoder.vocabulary == ["<stop>", "<unk>", "the", "cat", "e@@", "n", "th@@", "<cpad>"]
    assert [*encoder.encode(["then dog <unk>"])] == [[6, 4, 5, 1, 1, 1, 1]]
    assert [*encoder.rest(["then the dog"], [], 1)] == ["en the dog"]
    assert [b"".join(pieces) for pieces in encoder.pieces([], [[6, 4, 5, 2]])] == [b"then the"]


def test_with_dropout_the_vocabulary_has_every_piece_that_may_come(tmp_path):
    settings = files(tmp_path, dropout=0.5)
    encoder = learn(settings, TRAIN, [])
    known = {*encoder.vocabulary}
    for seed in range(50):
        for line in TRAIN:
            assert {*encoder.merges.cut(line, random.Random(seed))} <= known


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        ("#version: 0.2\nt h\nthe\n", r"codes:3: 'the' is not a merge"),
        ("#version: 0.2\nt h e\n", r"codes:2: 't h e' is not a merge"),
        ("t h\n\nth e\n", r"codes:2: '' is not a merge"),
        ("", r"codes:1: '' is not a merge"),
        ("#version: 0.3\nt h\n", r"codes:1: unknown version '#version: 0.3'"),
    ],
)
def test_a_wrong_line_of_codes_is_named(tmp_path, codes, says):
    with pytest.raises(DataError, match=says):
        learn(files(tmp_path, codes), TRAIN, [])


@pytest.mark.parametrize(
    ("known", "says"), [("the 9\nth@@\n", "known:2: 'th@@' is not a piece"), ("a b c 3\n", "known:1"), ("a x\n", "known:1"), ("a 3\n", "no piece occurs 5 times")]
)  # fmt: skip
def test_a_wrong_line_of_a_vocabulary_is_named(tmp_path, known, says):
    with pytest.raises(DataError, match=says):
        learn(files(tmp_path, known=known, threshold=5), TRAIN, [])


def test_byte_pairs_with_no_merge_left_out_are_those_of_the_library():
    settings = TypeAdapter(Tokenizer).validate_python({"kind": "bpe", "vocab_size": 300, "dropout": 0.1})
    encoder = learn(settings, TRAIN, [])
    lines = [*TRAIN, *UNSEEN, "<unk> the"]
    assert [[encoder.vocabulary.index(piece) for piece in encoder.merges.cut(line)] for line in lines] == [
        *encoder.encode(lines)
    ]
    again = Merges.of(json.loads(json.dumps(encoder.merges.plain)))
    assert again == encoder.merges
    assert {len(piece) for piece in merge([*"abc"], again.ranks, random.Random(0), 1.0)} == {1}


@pytest.fixture(scope="module", params=["unigram", "bpe", "bytes", "suffix"])
def model(tmp_path_factory, request):
    """A model of SentencePiece of each kind, and its library."""
    library = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("model")
    (folder / "text").write_text("\n".join(TRAIN * 5), encoding="utf-8")
    kinds = {
        "unigram": {"vocab_size": 32},
        "bpe": {"model_type": "bpe", "vocab_size": 45},
        "bytes": {"model_type": "bpe", "vocab_size": 300, "byte_fallback": True},
        "suffix": {"vocab_size": 33, "treat_whitespace_as_suffix": True},
    }
    library.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "m"),
        minloglevel=2,
        user_defined_symbols=["<sep>"],
        **kinds[request.param],
    )
    return library.SentencePieceProcessor(model_file=str(folder / "m.model")), folder / "m.model", request.param


def test_pieces_of_sentencepiece_are_its_own_in_our_numbers(model):
    theirs, path, _ = model
    encoder = learn(
        TypeAdapter(Tokenizer).validate_python({"kind": "sentencepiece", "model": path}), [], [], pad=True
    )
    lines = [*TRAIN, *UNSEEN, "ﬁ ½", "a<sep>b", "<s> </s>"]
    numbered = [[encoder.vocabulary[token] for token in row] for row in encoder.encode(lines)]
    assert numbered == [[theirs.id_to_piece(number) for number in row] for row in theirs.encode(lines, out_type=int)]
    assert encoder.vocabulary[:2] + encoder.vocabulary[-1:] == ["<stop>", "<unk>", "<cpad>"]
    assert not {"<s>", "</s>"} & {*encoder.vocabulary}


def test_pieces_of_sentencepiece_read_as_it_reads_them(model):
    theirs, path, kind = model
    encoder = learn(TypeAdapter(Tokenizer).validate_python({"kind": "sentencepiece", "model": path}), [], [])
    generator = random.Random(3)
    usual = [name for name in encoder.vocabulary[2:] if kind != "suffix" or name != "▁"]
    for _ in range(300):
        names = generator.choices(usual, k=generator.randint(1, 8))
        text = join("sentencepiece", names)
        expected = theirs.decode_pieces(names)
        assert (text.rstrip(" ") == expected.rstrip(" ")) if kind == "suffix" else (text == expected)
    assert join("sentencepiece", ["▁a", "<unk>", "▁b"]) == f"a{UNREADABLE} b"


def test_what_follows_the_first_pieces_keeps_unknown_signs(model):
    _, path, kind = model
    encoder = learn(TypeAdapter(Tokenizer).validate_python({"kind": "sentencepiece", "model": path}), [], [])
    (row,) = encoder.encode(["the cat 象"])
    rests = [next(encoder.rest(["the cat 象"], [row], first)) for first in range(len(row) + 1)]
    assert rests[0].strip() == "the cat 象"
    assert rests[-1] == ""
    assert kind == "bytes" or "象" in [rest.strip() for rest in rests]


def test_a_file_that_is_no_model_is_named(tmp_path):
    pytest.importorskip("sentencepiece")
    (tmp_path / "m.model").write_text("no model")
    with pytest.raises(DataError, match=r"m\.model is not a SentencePiece model"):
        learn(
            TypeAdapter(Tokenizer).validate_python({"kind": "sentencepiece", "model": tmp_path / "m.model"}), [], []
        )
