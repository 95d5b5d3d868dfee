from __future__ import annotations

import subprocess
import sys
from math import isnan

import pytest
from pydantic import ValidationError

from bench_authors.testing import MetricCase
from bench_core import Hypothesis, Prediction, SuiteError, TaskInfo
from bench_indigo.parts_of_speech import generation_groups, group_tokens, part
from bench_indigo.plugin import FirstPartsConfig

KNOWN = {"the": "DET", "dog": "NOUN", "barks": "VERB", "may": "AUX", "May": "PROPN", ".": "PUNCT", "cannot": "AUX"}


def info(vocabulary, kind="word"):
    return TaskInfo(
        ["<stop>", "<unk>", *vocabulary], extras={"tags": {"name": "bank 1a2b", "kind": kind, "words": KNOWN}}
    )


def output(known, words, order, number=0):
    """Return an output whose tokens, given as text, are generated in an order of their places."""
    tokens = [known.vocabulary.index(word) for word in words]
    slots = [sum(earlier < place for earlier in order[:turn]) for turn, place in enumerate(order)]
    actions = [action for place, slot in zip(order, slots, strict=True) for action in (tokens[place], slot + 1)]
    return Prediction(number, hypotheses=[Hypothesis(tokens, True, -1.0, actions)], texts=["x"])


def score(known, predictions, **settings):
    metric = MetricCase.of(FirstPartsConfig(**settings), predictions, info=known).metric
    return metric.combine([*metric.measure(predictions)])


WORDS = info(["the", "dog", "barks", "."])
SENTENCE = ["the", "dog", "barks", "."]


def test_first_parts_are_those_of_the_words_generated_first_wherever_they_stand():
    cell = [output(WORDS, SENTENCE, [2, 1, 3, 0])]  # barks dog . the
    for name, first, wanted in [
        ("VERB", 1, 100), ("NOUN", 1, 0), ("NOUN", 2, 50), ("PUNCT", 3, 100 / 3), ("DET", 3, 0), ("DET", 4, 25),
        ("DET", None, 25), ("DET", 99, 25),
    ]:  # fmt: skip
        assert score(WORDS, cell, part=name, first=first) == pytest.approx(wanted), (name, first)


def test_outputs_are_pooled_and_shorter_ones_have_fewer_first_words():
    cell = [output(WORDS, SENTENCE, [1, 0, 2, 3]), output(WORDS, ["dog"], [0]), output(WORDS, [], [])]
    assert score(WORDS, cell, part="NOUN", first=3) == pytest.approx(50)
    assert isnan(score(WORDS, cell[2:], part="NOUN"))


PIECES = info(["Ġthe", "Ġdo", "g", "Ġb", "ark", "s", "Ġ.", "Ġ"], "bpe")
CUT = ["Ġthe", "Ġdo", "g", "Ġb", "ark", "s", "Ġ."]


def takes_pieces_for_words(kind, tokens, order):
    return [[place] for place in order]


def times_words_by_their_last_piece(kind, tokens, order):
    return sorted(group_tokens(kind, tokens), key=lambda places: max(map(order.index, places)))


def times_words_by_the_piece_that_begins_them(kind, tokens, order):
    return sorted(group_tokens(kind, tokens), key=lambda places: order.index(places[0]))


def reads_words_from_left_to_right(kind, tokens, order):
    return group_tokens(kind, tokens)


def takes_the_order_for_turns(kind, tokens, order):
    return sorted(group_tokens(kind, tokens), key=lambda places: min(order[place] for place in places))


MUTANTS = [
    takes_pieces_for_words, times_words_by_their_last_piece, times_words_by_the_piece_that_begins_them,
    reads_words_from_left_to_right, takes_the_order_for_turns,
]  # fmt: skip


def check_words_come_with_the_first_of_their_pieces(generation_groups):
    """g of dog, ark of barks, the, the full stop; then what is left of these."""
    assert generation_groups("bpe", CUT, [2, 4, 0, 6, 5, 3, 1]) == [[1, 2], [3, 4, 5], [0], [6]]


def test_words_come_with_the_first_of_their_pieces():
    check_words_come_with_the_first_of_their_pieces(generation_groups)
    cell = [output(PIECES, CUT, [2, 4, 0, 6, 5, 3, 1])]
    for name, first, wanted in [("NOUN", 1, 100), ("VERB", 2, 50), ("DET", 3, 100 / 3), ("PUNCT", 3, 0)]:
        assert score(PIECES, cell, part=name, first=first) == pytest.approx(wanted), (name, first)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_another_reading_of_pieces_is_told_from_it(mutant):
    with pytest.raises(AssertionError):
        check_words_come_with_the_first_of_their_pieces(mutant)


@pytest.mark.parametrize(
    ("kind", "tokens", "words"),
    [
        ("bpe", ["a", "b", "Ġc", "d", "<unk>", "Ġe", "<unk>", "<unk>"], [[0, 1], [2, 3], [4], [5], [6], [7]]),
        ("char", [" ", "a", "b", " ", " ", "c", " "], [[1, 2], [5]]),
        ("word", ["a", "<unk>"], [[0], [1]]),
        ("bpe", [], []),
        ("char", [], []),
    ],
)
def test_tokens_are_grouped_to_words(kind, tokens, words):
    assert group_tokens(kind, tokens) == words


def test_pieces_of_letters_with_accents_are_one_word():
    known = info(["ĠÃ", "ī", "t", "Ã", "©"], "bpe")
    cell = [output(known, ["ĠÃ", "ī", "t", "Ã", "©"], [0, 1, 2, 3, 4])]
    assert score(known, cell, part="PROPN") == 100, "Été begins with a capital, though its bytes do not"


@pytest.mark.parametrize(
    ("word", "tag"),
    [
        ("dog", "NOUN"), ("Dog", "NOUN"), ("DOG", "NOUN"), ("may", "AUX"), ("May", "PROPN"), ("MAY", "AUX"),
        ("Ankara", "PROPN"), ("İzmir", "PROPN"), ("zzz", "X"), ("1,000", "NUM"), ("½", "NUM"), ("12", "NUM"), ("a1", "X"),
        ("…", "PUNCT"), ("?!", "PUNCT"), ("€", "SYM"), ("+-", "SYM"), ("<unk>", "X"), ("", "X"), ("犬", "X"),
    ],
)  # fmt: skip
def test_words_that_no_treebank_knows_are_told_by_how_they_are_written(word, tag):
    assert part(word, KNOWN) == tag


def test_a_task_without_parts_of_speech_is_refused_with_what_to_do():
    for known in (TaskInfo(["<stop>", "a"], [2, 1]), TaskInfo(["<stop>", "a"], extras={"tags": {}})):
        with pytest.raises(SuiteError, match=r"parts of speech.*`tags: ud-english-ewt`.*leave this metric out"):
            MetricCase.of(FirstPartsConfig(), info=known)


def test_signatures_tell_settings_and_treebanks_apart():
    told = {
        MetricCase.of(FirstPartsConfig(**settings), info=WORDS).metric.signature
        for settings in ({}, {"part": "VERB"}, {"first": 4}, {"first": None})
    }
    assert len(told) == 4
    assert all("bank 1a2b" in signature for signature in told)


@pytest.mark.parametrize("settings", [{"part": "noun"}, {"part": "NN"}, {"first": 0}, {"last": 3}])
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValidationError):
        FirstPartsConfig(**settings)


def test_it_imports_no_torch():
    code = "import sys, bench_indigo.parts_of_speech; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
