"""A text that a task cuts is the one that its pieces give together, whatever white space is in it."""

from __future__ import annotations

from random import Random

import pytest

from bench_core import Source
from bench_text.api import Example, SequenceTask, SequenceTaskConfig
from bench_text.cut_text import after_words, are_spaced, cut

SIGNS = ("a", "b", "é", "日", " ", " ", "\t", "\n", "\u00a0", "\u2003", "\u2028", "<unk>", "  ", "x.")
KINDS = ("word", "char", {"kind": "bpe", "vocab_size": 280})


def random_texts(number, seed=0):
    chance = Random(seed)
    return ["".join(chance.choices(SIGNS, k=chance.randrange(12))) for _ in range(number)]


class CutConfig(SequenceTaskConfig):
    name, target = "cut", "test_cut_text:Cut"


class Cut(SequenceTask):
    texts: tuple[Example, ...] = ()

    def examples(self, split, data):
        return iter(self.texts)


def prepared(folder, texts, source=Source.NONE, **settings):
    kind = type("Kind", (CutConfig,), {"source": source, "name": "cut", "target": CutConfig.target})
    task = Cut(kind(**settings), folder)
    task.texts = texts
    return task, task.prepare(folder)


@pytest.mark.parametrize("prefix", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_prompt_separator_and_reference_are_together_the_text_of_the_corpus(tmp_path, kind, prefix):
    texts = [*random_texts(300), "the cat\t sat", "", " a", "a "]
    task, info = prepared(tmp_path, [Example(None, text) for text in texts], tokenizer=kind, prefix=prefix)
    prompts, between, targets = task.sources("test"), task.separators("test"), task.references("test")
    assert info.extras["between"] == "cut"
    whole = 0
    for number, text in enumerate(texts):
        if number in prompts:
            assert prompts[number] + between[number] + targets[number][0] == text
            whole += 1
        else:
            assert "\ufffd" in targets[number][0], "the border is within a character"
    assert whole > 200


@pytest.mark.parametrize("number", range(6))
def test_the_rest_after_some_words_has_its_white_space(number):
    for text in random_texts(300):
        rest = after_words(text, number)
        assert text.endswith(rest)
        assert rest.split() == text.split()[number:]
        assert number == 0 or not rest[:1].isspace()


def test_white_space_between_the_halves_is_apart_but_for_characters():
    assert cut("the cat \n sat", "sat", "word") == ("the cat", " \n ")
    assert cut("the cat \n sat", "sat", "char") == ("the cat \n ", "")
    assert cut("the cat", "", "word") == ("the cat", "")
    assert cut("The cat", "CAT", "word") == (None, None)


@pytest.mark.parametrize(
    ("pairs", "spaced", "between"),
    [
        ([("a", "b"), ("c", "d")], False, "space"),
        ([("a", " b"), ("c ", "d")], True, "none"),
        ([("a", " b"), ("c", "d")], False, "space"),
        ([("", "b"), ("c", " d")], True, "none"),
    ],
)
@pytest.mark.parametrize("source", [Source.NONE, Source.TOKENS])
def test_a_space_stands_between_prompts_and_targets_unless_all_of_them_have_white_space(
    tmp_path, pairs, spaced, between, source
):
    assert are_spaced(pairs) == spaced
    given = source is Source.TOKENS
    texts = [Example(one if given else None, target, prompt="" if given else one) for one, target in pairs]
    task, info = prepared(tmp_path, texts, source)
    assert info.extras["between"] == between
    assert task.separators("test") == (dict.fromkeys(range(len(pairs)), "") if spaced else {})


def test_a_digest_of_what_is_asked_changes_with_each_prompt_separator_and_target(tmp_path):
    found = set()
    for place, texts in enumerate(
        ([("a", "b")], [("a", "c")], [("b", "b")], [("a ", "b")], [("a", " b")], [("a", "b"), ("a", "b")])
    ):
        (tmp_path / str(place)).mkdir()
        examples = [Example(None, target, prompt=prompt) for prompt, target in texts]
        found.add(prepared(tmp_path / str(place), examples)[1].extras["texts"]["test"]["asked"])
    assert len(found) == 6
