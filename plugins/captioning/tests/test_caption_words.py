from __future__ import annotations

import pytest

from bench_captioning.ptb import tokenize
from bench_captioning.words import words

CAPTIONS = [
    "A man's dog, wearing a hat, can't run.",
    "Two women don't sit; they're standing - one isn't!",
    'The sign says "STOP" (in red) ...',
    "A 10-year-old in a t-shirt at 10:30",
    "3.5 ft. of snow in the U.S. today",
    "He'll go, I'd stay & we've $5 left.",
    "They cannot see: gonna try, wanna wait?",
    "A black and/or white cat's toys' box",
    "Men’s bikes",
    "  Two   spaces .",
    "#1 fan @ the game",
    "éclairs naïvely",
]


def test_captions_are_learnt_as_the_evaluation_cuts_them():
    theirs = [[word for word in line.split() if word not in ("-lrb-", "-rrb-")] for line in tokenize(CAPTIONS, 60)]
    assert [words(caption) for caption in CAPTIONS] == theirs


def test_words_cut_once_are_cut_alike_again():
    learnt = [" ".join(words(caption)) for caption in CAPTIONS]
    assert [" ".join(words(line)) for line in learnt] == learnt
    assert tokenize(learnt, 60) == learnt


@pytest.mark.parametrize("nothing", ["", "...", " \u2028 ", "-- !?", "|||", "\x00"])
def test_what_holds_no_word_is_empty(nothing):
    assert words(nothing) == []
