"""The text that was scored: tokens that do not spell a target give no number by byte, whatever the tokenizer."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from tiny_tokenizers import KINDS, LOSSLESS, tokenizer

from bench_huggingface.joint_text import TextReader

SIGNS = ("a", "b", " ", "A", "\n")
TEXTS = ["".join(one) for length in range(5) for one in product(SIGNS, repeat=length)]
PROMPTS = ("", "ab", "a ", "qa", "A b\n")
ODD = (
    "a",
    "b",
    "A",
    " ",
    "  ",
    "\n",
    "\t",
    "é",
    "e\u0301",
    "ﬁ",
    "日本",
    "<unk>",
    "</s>",
    "q",
    "\u2581",
    "\ufffd",
    "😀",
    ".",
)


def joints(kind, prompt, texts, begins=False):
    reader = TextReader(tokenizer(kind, begins), control=False)
    before, _ = reader.around(prompt)
    return [reader.joint(before, [(prompt, False)], [(text, False)]) for text in texts]


@pytest.mark.quick(2, 6)
@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_two_texts_with_a_size_never_share_their_tokens_so_that_no_model_gives_them_more_than_one(kind, begins):
    for prompt in PROMPTS:
        found = [one for one in joints(kind, prompt, TEXTS, begins) if one.spelled]
        assert len({tuple(one.prompt) for one in found}) <= 1, "they go on from the same tokens"
        assert len({tuple(one.target) for one in found}) == len(found)


@pytest.mark.parametrize("kind", LOSSLESS)
def test_a_tokenizer_that_loses_nothing_spells_all_texts_but_those_whose_tokens_span_the_border(kind):
    spelled = [one.spelled for one in joints(kind, "", TEXTS)]
    assert all(spelled)
    reader = TextReader(tokenizer(kind), control=False)
    for prompt in PROMPTS:
        alone = reader.tokens([(prompt, False)]).ids
        for text, one in zip(TEXTS, joints(kind, prompt, TEXTS), strict=True):
            whole = reader.tokens([(prompt + text, False)]).ids
            assert one.spelled == (whole[: len(alone)] == alone)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_read_as_another_one_have_no_size(kind):
    reader = TextReader(tokenizer(kind), control=False)
    lost = {
        text
        for text in TEXTS
        for tokens in [reader.tokens([(text, False)]).ids]
        if reader.tokenizer.decode(tokens, clean_up_tokenization_spaces=False) != text
    }
    found = {text for text, one in zip(TEXTS, joints(kind, "", TEXTS), strict=True) if not one.spelled}
    assert found == lost


def test_a_thousand_random_texts_of_random_tokenizers_are_read_back_or_have_no_size():
    chance, readers, sizes = Random(0), {kind: TextReader(tokenizer(kind), control=False) for kind in KINDS}, 0
    for _ in range(1000):
        kind = chance.choice([*KINDS])
        prompt, text = ("".join(chance.choices(ODD, k=chance.randrange(6))) for _ in range(2))
        one = readers[kind].joint([], [(prompt, False)], [(text, False)])
        alone = readers[kind].tokens([(prompt, False)]).ids
        if not one.spelled:
            continue
        sizes += 1
        assert one.prompt == alone
        unknown = readers[kind].tokenizer.unk_token_id
        read = readers[kind].tokenizer.decode([token for token in alone if token != unknown] + one.target)
        assert read.endswith(text) or unknown in one.target
        assert unknown not in one.target or text == "<unk>" or "<unk>" in text
    assert sizes > 200


def dropped(ids, chance):
    place = chance.randrange(len(ids))
    return [*ids[:place], *ids[place + 1 :]]


def doubled(ids, chance):
    place = chance.randrange(len(ids))
    return [*ids[:place], ids[place], *ids[place:]]


def unknown(ids, chance):
    place = chance.randrange(len(ids))
    return [*ids[:place], 0, *ids[place + 1 :]]


@pytest.mark.parametrize("spoil", [dropped, doubled, unknown])
@pytest.mark.parametrize("kind", [kind for kind in LOSSLESS if kind != "byte fallback"])  # it may drop a first space
def test_a_reader_that_drops_doubles_or_loses_a_token_gives_no_size(kind, spoil):
    chance = Random(1)
    reader = TextReader(tokenizer(kind), control=False)
    for text in TEXTS[1::7]:
        ids = reader.tokens([(text, False)]).ids
        assert reader.spells([], ids, [(text, False)])
        assert not reader.spells([], spoil(ids, chance), [(text, False)])


@pytest.mark.parametrize("change", [str.lower, str.strip, lambda text: " ".join(text.split())])
def test_a_reader_that_changes_a_text_gives_no_size(change, monkeypatch):
    read = TextReader._read
    monkeypatch.setattr(TextReader, "_read", lambda reader, text, **more: read(reader, change(text), **more))
    for text, one in zip(TEXTS, joints("bytes", "", TEXTS), strict=True):
        assert one.spelled == (change(text) == text)


@pytest.mark.parametrize("kind", ["bytes", "pairs", "byte fallback", "unigram", "metaspace first"])
def test_control_tokens_in_data_are_text_and_those_of_templates_are_not(kind):
    own = tokenizer(kind)
    reader, end = TextReader(own, control=False), own.eos_token_id
    assert end not in reader.tokens([("a</s>b", False)]).ids
    assert reader.tokens([("a</s>", True), ("b", False)]).ids == own("a</s>b", add_special_tokens=False).input_ids
    mixed = reader.tokens([("</s>", True), ("a</s>b", False), ("</s>", True)]).ids
    assert [place for place, token in enumerate(mixed) if token == end] == [0, len(mixed) - 1]
    assert reader.tokens([("</", False), ("s>", False)]).ids.count(end) == 0
    allowed = TextReader(own, control=True)
    assert end in allowed.tokens([("a</s>b", False)]).ids


def test_places_of_tokens_count_from_the_beginning_where_a_template_has_control_tokens():
    reader = TextReader(tokenizer("bytes"), control=False)
    found = reader.tokens([("b</s>", True), ("a</s>", False)])
    assert found.ends is not None
    assert found.ends == sorted(found.ends)
    assert (found.ends[0], found.ends[1], found.ends[-1]) == (1, 5, 10)
