"""Outputs in pieces are joined as a setting says, or refused by name; they are never scored as words in silence."""

from __future__ import annotations

import random
import re

import pytest

from bench_core import DataError
from bench_recorded.plugin import RecordedConfig
from bench_recorded.reading.pieces import PIECE_FORMATS, join_pieces
from bench_recorded.reading.recording import read_recording
from bench_recorded.system import RecordedOutputs

WORDS = [
    "the",
    "mat",
    "don't",
    "sat",
    ",",
    ".",
    "3.5",
    "naïve",
    "straße",
    "猫が",
    "(ja)",
    "e-mail",
    "AT&T",
    "x@y.org",
]


def parted(word, chance):
    """Cut a word in up to three parts."""
    places = sorted(chance.sample(range(1, len(word)), min(len(word) - 1, chance.randint(0, 2))))
    return [word[a:b] for a, b in zip([0, *places], [*places, len(word)], strict=True)]


def as_bytes(text):
    """Write each byte as a letter, as the tokenizer of GPT-2 does, by the definition of its authors."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    signs, more = {byte: chr(byte) for byte in visible}, 0
    for byte in range(256):
        if byte not in signs:
            signs[byte] = chr(256 + more)
            more += 1
    return "".join(signs[byte] for byte in text.encode())


def in_bytes(words, chance):
    tokens = [as_bytes(f" {word}" if place else word) for place, word in enumerate(words)]
    return " ".join(part for token in tokens for part in parted(token, chance))


CUTTERS = {
    "subword-nmt": lambda words, chance: " ".join("@@ ".join(parted(word, chance)) for word in words),
    "sentencepiece": lambda words, chance: " ".join(" ".join(["▁" + (p := parted(w, chance))[0], *p[1:]]) for w in words),
    "wordpiece": lambda words, chance: " ".join(" ##".join(parted(word, chance)) for word in words),
    "joiner": lambda words, chance: " ".join(" ￭".join(parted(word, chance)) for word in words),
    "end-of-word": lambda words, chance: " ".join(" ".join(parted(f"{word}", chance)) + "</w>" for word in words),
    "byte-level": in_bytes,
}  # fmt: skip


def sentences(number, seed):
    chance = random.Random(seed)
    return [chance.choices(WORDS, k=chance.randint(2, 9)) for _ in range(number)], chance


@pytest.fixture
def read(tmp_path):
    def reading(lines, name="out.txt", **settings):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        found = read_recording(path, RecordedConfig(outputs=path, **settings))
        return [one.text for record in found.records for one in record.outputs]

    return reading


def refusal(read, *arguments, **settings):
    with pytest.raises(DataError) as found:
        read(*arguments, **settings)
    return str(found.value)


@pytest.mark.parametrize("way", CUTTERS)
def test_joining_undoes_cutting(read, way):
    texts, chance = sentences(200, way)
    cut = [CUTTERS[way](words, chance) for words in texts]
    assert read(cut, pieces=way) == [" ".join(words) for words in texts]
    assert read(cut, pieces="none") == cut


@pytest.mark.parametrize("way", CUTTERS)
def test_outputs_that_look_cut_are_refused_with_the_setting_that_joins_them(read, way):
    texts, chance = sentences(30, way)
    found = refusal(read, [CUTTERS[way](words, chance) for words in texts])
    assert re.search(r"out\.txt:\d+ has .*of 30 texts\. Set `pieces: ", found)
    assert f"Set `pieces: {way}`" in found
    assert "`pieces: none`" in found


@pytest.mark.parametrize("way", CUTTERS)
@pytest.mark.parametrize("other", CUTTERS)
def test_pieces_of_another_sort_are_never_joined(read, way, other):
    texts, chance = sentences(30, way)
    cut = [CUTTERS[way](words, chance) for words in texts]
    if other == way:
        assert read(cut, pieces=other) == [" ".join(words) for words in texts]
        return
    assert f"into {way} pieces, not into {other} pieces as set by `pieces`" in refusal(read, cut, pieces=other)


@pytest.mark.parametrize("way", CUTTERS)
def test_words_are_no_pieces(read, way):
    texts, _ = sentences(30, 3)
    plain = [" ".join(words) for words in texts]
    assert read(plain) == plain
    assert f"contain no marks of {way} pieces" in refusal(read, plain, pieces=way)


TEXTS = [
    "Ġorġ ħareġ minn Għawdex u mar Malta .", "@@ -1,4 +1,4 @@", "SELECT @@ROWCOUNT", "## A heading", "a ## b", "#hash ##",
    "▁▂▃▅▇", "snake_case __init__", "été à l'œuvre", "Grüße, ĀČĒ", "<w NN1>word </w> of a corpus", "a@b.org", "日本語です", "",
    "C# and F##", "x\ty", "1 @-@ 2",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_texts_with_signs_like_those_of_pieces_are_texts(text):
    assert [*join_pieces([("a:1", text), ("a:2", "a"), ("a:3", "b")], None)] == [text, "a", "b"]


def test_one_output_of_many_in_pieces_is_enough(read):
    found = refusal(read, [*["the cat sat"] * 500, "on the m@@ at"])
    assert "out.txt:501 has 'on the m@@ at'" in found
    assert "as do 1 of 501 texts" in found


def test_a_word_that_a_limit_cut_loses_its_mark(read):
    assert read(["a c@@ at s@@", "b"], pieces="subword-nmt") == ["a cat s", "b"]


def test_bytes_among_pieces_of_sentencepiece_are_characters(read):
    assert read(["▁the <0xE7> <0x8C> <0xAB> ▁s at", "<0xF0><0x9F><0x90><0x88>"], pieces="sentencepiece") == [
        "the猫 sat", "\U0001f408"
    ]  # fmt: skip


def test_letters_that_are_no_bytes_are_named_with_their_line(read):
    assert "out.txt:2 has '猫', which represents no byte" in refusal(read, ["a Ġb", "猫"], pieces="byte-level")


def test_prompts_in_the_same_pieces_are_joined_for_their_check(tmp_path):
    path = tmp_path / "log"
    path.write_text("S-0\tein H@@ und\nH-0\t-1\ta d@@ og\nS-1\tnein\nH-1\t-1\tno\n")
    found = read_recording(path, RecordedConfig(outputs=path, pieces="subword-nmt"))
    assert [(one.prompt, one.outputs[0].text) for one in found.records] == [("ein Hund", "a dog"), ("nein", "no")]


def test_reports_say_that_outputs_were_joined(tmp_path):
    def notes(**settings):
        return RecordedOutputs(RecordedConfig(outputs=tmp_path / "a.txt", **settings), None).notes()

    assert notes() == {}
    assert notes(pieces="subword-nmt") == {"pieces of outputs": "subword-nmt, joined"}
    assert notes(pieces="none", thinking="drop") == {
        "pieces of outputs": "not joined", "thinking in outputs": "drop"
    }  # fmt: skip


def test_there_is_a_cutter_for_every_way():
    assert {*CUTTERS} == {*PIECE_FORMATS}
