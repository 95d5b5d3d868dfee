from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import exp
from random import Random

import pytest

from bench_translation.corpus import INVENTED, parallel
from bench_translation.settings import Invented
from bench_translation.synthetic import CASES, NUMERALS, WORDS, Phrase, SentenceGenerator, classes, lexicon, pairs


@pytest.fixture(scope="module")
def said():
    """Many sentences."""
    speaker = SentenceGenerator(Random("test"))
    return [speaker.sentence() for _ in range(20_000)]


def test_a_source_has_one_translation_and_a_translation_one_source(said):
    forth, back = {}, {}
    for one in said:
        assert forth.setdefault(one.source, one.target) == one.target
        assert back.setdefault(one.target, one.source) == one.source
    assert len(forth) > 19_000


def test_the_nats_of_sentences_say_how_often_two_are_the_same(said):
    number, counts = len(said), Counter(one.source for one in said)
    found = sum(count * (count - 1) / 2 for count in counts.values())
    expected = sum(exp(-one.nats) for one in said) / number * number * (number - 1) / 2
    assert found == pytest.approx(expected, rel=0.15)
    assert sum(one.nats for one in said) / number == pytest.approx(26.3, abs=0.3)


def test_the_training_split_holds_every_word_of_the_language():
    settings = Invented(name="invented", sentences=5000)
    for side, number in (("source", 175), ("target", 377)):
        words = {
            split: {word for one in pairs(settings, split) for word in getattr(one, side).split()}
            for split in ("train", "valid", "test")
        }
        assert len(words["train"]) == number
        assert words["valid"] | words["test"] <= words["train"]


def test_no_sentence_of_valid_or_test_stands_in_a_split_before():
    settings = Invented(name="invented", sentences=3000)
    train, valid, test = ({one.source for one in pairs(settings, split)} for split in ("train", "valid", "test"))
    assert not (valid | test) & train
    assert not valid & test
    assert [len(pairs(settings, split)) for split in ("train", "valid", "test")] == [3000, 300, 300]
    drawn = SentenceGenerator(Random("0/valid"))
    assert {drawn.sentence().source for _ in range(320)} & train  # which had to be left out


def test_a_seed_decides_the_sentences_and_not_the_language():
    one, other = (pairs(Invented(name="invented", sentences=50, seed=seed), "train") for seed in (1, 2))
    assert one != other
    assert pairs.__wrapped__(Invented(name="invented", sentences=50, seed=1), "train") == one
    assert len(set(lexicon().values())) == len(lexicon())


def test_verbs_come_last_and_say_tense_and_number(said):
    plain = [
        one for one in said if len(one.source.split()) == 4 and one.source.split()[2] in {"sleeps", "sleep", "slept"}
    ]
    found = {one.source: one.target.split() for one in plain}
    stem = lexicon()["sleep"]
    endings = {}
    for source, (*_, verb, _) in found.items():
        number = "plural" if source.split()[0] in ("some", "two", "three") else "singular"
        endings.setdefault((source.split()[2], number), set()).add(verb)
    assert endings["sleeps", "singular"] == {stem + "se"}
    assert endings["sleep", "plural"] == {stem + "sen"}
    assert endings["slept", "singular"] >= {stem + "te"}
    assert stem + "ten" in endings["slept", "plural"]


def test_the_past_tells_the_number_that_english_hides(said):
    stem, ends = lexicon()["work"], {}
    for one in said:
        words = one.source.split()
        if words[2:] == ["worked", "."]:
            ends.setdefault(words[1].endswith("s"), set()).add(one.target.split()[-2])
    assert ends == {True: {stem + "ten"}, False: {stem + "te"}}


def test_nouns_have_cases_and_adjectives_agree():
    stems, kinds = lexicon(), classes()
    for noun in WORDS["persons"]:
        one, vowel = stems[noun], kinds[noun]
        many = {"a": "i", "o": "u"}[vowel]
        assert Phrase("the", None, noun, False).translate("subject") == [one + vowel]
        for role, case in CASES.items():
            assert Phrase("the", "old", noun, True).translate(role) == [stems["old"] + many, one + many + case]
        for numeral in NUMERALS:  # after which nothing is plural
            assert Phrase(numeral, None, noun, True).translate("subject") == [stems[numeral], one + vowel]
    assert set(kinds.values()) == {"a", "o"}


def test_words_are_read_in_their_context(said):
    stems = lexicon()
    for base, past in (("know", "knew"), ("draw", "drew"), ("leave", "left")):
        meanings = {stems[f"{base} {kind}"] for kind in ("persons", "things")}
        assert len(meanings) == 2
        found = {stem for one in said if past in one.source.split() for stem in meanings if stem in one.target}
        assert found == meanings
    for one in said:
        words = one.source.split()
        if words.count("with") == 1 and "that" not in words and words.count(".") == 1:
            noun = next(word for word in words[words.index("with") + 2 :] if word.rstrip("s") in classes())
            person = noun.rstrip("s") in WORDS["persons"]
            assert any(word.endswith("kun" if person else "mi") for word in one.target.split())


def test_an_article_fits_the_next_word(said):
    for one in said:
        words = one.source.split()
        for article, following in pairwise(words):
            if article in ("a", "an"):
                assert (article == "an") == (following[0] in "aeiou")


def test_the_pair_can_be_read_in_both_directions(tmp_path):
    settings = Invented(name="invented", sentences=20)
    source, target = parallel(settings, INVENTED, tmp_path).read("train")
    turned = parallel(settings, INVENTED[::-1], tmp_path).read("train")
    assert (turned[1].texts, turned[0].texts) == (source.texts, target.texts)
