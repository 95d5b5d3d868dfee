from __future__ import annotations

import pytest
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from bench_text.api import learn
from bench_translation.language_side import LanguageSide
from bench_translation.plugin import TranslationConfig

HOSTILE = [
    "one\x85two",
    "one\u2028two\u2029three",
    "\x1cone\x1d two",
    "one\u00a0two",
    "\tone\t\ttwo ",
    "\u3000one two",
]
LINES = {
    "en": [
        "She said, \"I don't know; it's 3.5% (at most).\"",
        "Mr. Smith's dog can't, won't and wouldn't.",
        "A man in the U.S. pays $5,000.50 to St. Mary's.",
        "Wait... what?! No - yes.",
        "rock 'n' roll & <b>tags</b> [1] a|b",
        "e-mail me at 10:30, please.",
    ],
    "de": ["Ein „Zitat“ z.B. kostet 3,50 Euro, d.h. wenig.", "Zwei Männer - einer mit Hut - stehen am 1. Mai da."],
    "fr": ["L'homme qu'elle aime n'est pas là.", "C'est aujourd'hui, d'accord ?"],
    "tr": ["Ali'nin evi İstanbul'da, Işık'ın değil."],
    "ro": ["Într-un oraș, „da” e da."],
}


def side(language="en", kind="word", **settings):
    return LanguageSide(language, kind, **{"moses": True, "normalize": True, "lowercase": False} | settings)


def configured(**settings):
    return LanguageSide.of(TranslationConfig.model_validate(settings))


ROUND = [(language, line) for language, lines in LINES.items() for line in lines]


@pytest.mark.parametrize(("language", "line"), ROUND)
def test_what_was_set_apart_is_joined_again(language, line):
    cut = side(language, normalize=False)
    (tokenized,) = cut.tokenize([line])
    assert len(tokenized.split()) > len(line.split())
    expected = {  # what Moses cannot join
        "rock 'n' roll & <b>tags</b> [1] a|b": "rock 'n' roll & < b > tags < / b > [1] a | b",
        "e-mail me at 10:30, please.": "e-mail me at 10: 30, please.",
        "Într-un oraș, „da” e da.": "Într-un oraș, „da ” e da.",
    }.get(line, line)
    assert cut.text(tokenized.split()) == expected


@pytest.mark.parametrize("kind", ["word", "char", "bpe"])
@pytest.mark.parametrize("moses", [True, False])
def test_text_survives_the_whole_way_through_tokens(kind, moses):
    settings = {"kind": kind} | ({"vocab_size": 300} if kind == "bpe" else {})
    sides = configured(corpus="multi30k", pair="de-en", tokenizer=settings, moses=moses)
    lines = ["A man's dog, wearing a hat, can't run.", "Two (young) men don't sleep."]
    cut = sides[1].tokenize(lines)
    encoder = learn(TranslationConfig(tokenizer=settings).tokenizer.target, cut, [])
    for line, tokens in zip(lines, encoder.encode(cut), strict=True):
        assert sides[1].text([encoder.vocabulary[token] for token in tokens]) == line


@pytest.mark.parametrize("moses", [True, False])
@pytest.mark.parametrize("line", HOSTILE)
def test_white_space_of_all_sorts_is_a_space(line, moses):
    (found,) = side(moses=moses, normalize=moses).tokenize([line])
    assert found.split(" ")[:2] == ["one", "two"]
    assert "\n" not in found
    assert found == " ".join(found.split())


def test_other_control_signs_neither_end_a_line_nor_join_two():
    lines = ["a\x00b", "\x07", "", "c\x1b"]
    assert side().tokenize(lines) == ["ab", "", "", "c"]
    assert len(side(moses=False).tokenize(lines)) == 4


def test_simple_lines_are_cut_as_moses_cuts_them():
    lines = [
        "Two men, one old, sit.", "A man at the corner of St.", "no stop", "Er kauft Äpfel usw.", "Wait.", "x", "Dr.",
        "a, b, c", "Él niño.", "ß.", "Two  spaces.", "comma,no space", "end,", "e.g.", ", x", "abc..",
    ]  # fmt: skip
    for language in ("en", "de", "fr", "ro"):
        moses, normalizer = MosesTokenizer(language), MosesPunctNormalizer(language)
        expected = [
            " ".join(moses.tokenize(normalizer.normalize(" ".join(line.split())), escape=False)) for line in lines
        ]
        assert side(language).tokenize(lines) == expected


def test_signs_of_markup_stay_as_they_are():
    assert side().tokenize(['R & D [1] "x"', "don't"]) == ['R & D [ 1 ] " x "', "don 't"]
    assert side().text(["&lt;", "b"]) == "&lt; b"


@pytest.mark.parametrize("language", LINES)
def test_no_two_spaces_follow_each_other_whatever_was_normalised(language):
    lines = ["a — b", "a(b)c", "''a '' b", "« a » !", "… : x", "5 % ( x ) .", '"a". ".', "a,  b"]
    for line in side(language, moses=False).tokenize(lines):
        assert line == " ".join(line.split())


def test_punctuation_is_made_uniform_only_if_asked():
    line = "„Ja“ … ‘so’"
    assert side("de", moses=False).tokenize([line]) == ["\"Ja\" ... 'so'"]
    assert side("de", moses=False, normalize=False).tokenize([line]) == [line]


def test_lower_case_knows_the_turkish_i():
    assert side("tr", moses=False, lowercase=True).tokenize(["IŞIK İzmir"]) == ["ışık izmir"]
    assert side("en", moses=False, lowercase=True).tokenize(["It IS"]) == ["it is"]


def test_moses_is_used_where_text_has_spaces_and_is_not_cut_yet():
    def moses(**settings):
        return [(each.moses, each.normalize) for each in configured(**settings)]

    yes, no = (True, True), (False, False)
    assert moses(corpus="multi30k") == [yes, yes]
    assert moses(corpus="multi30k", tokenizer="char") == [no, no]
    assert moses(corpus="multi30k", moses=False, normalize=True) == [(False, True)] * 2
    assert moses(corpus="kftt", tokenizer={"source": "char", "target": "word"}) == [no, yes]
    assert moses(corpus="kftt", tokenizer={"kind": "bpe"}, moses=True) == [no, yes]
    assert moses(corpus="small_parallel_enja") == moses() == [no, no]


def test_what_a_model_makes_of_bytes_is_one_line():
    side_of_bytes = side("en", "bpe", moses=False)
    assert side_of_bytes.text(["Ġone", "Ċ", "ĉtwo", "Â", "ł"]) == "one two"
