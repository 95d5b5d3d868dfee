"""What a model thinks is told from what it answers, wherever a template begins the thinking."""

from __future__ import annotations

import random

import pytest

from bench_core import thinking_in, without_thinking
from bench_core.thinking import TAGS

THOUGHTS = ["", "\n", "2 + 2 is 4", "<b>so</b> it\nis [1] ◁ a < b >", "</thin", "think>"]


@pytest.mark.parametrize("begin", TAGS)
@pytest.mark.parametrize("thought", THOUGHTS)
def test_an_answer_is_what_follows_the_thinking(begin, thought):
    end = TAGS[begin]
    for text in (f"{begin}{thought}{end}\n\n42", f"\n {begin}{thought}{end}42", f"{thought}{end} 42"):
        assert thinking_in(text) in (begin, end)
        assert without_thinking(text) == ("42", True)


@pytest.mark.parametrize("begin", TAGS)
def test_tags_are_the_same_in_upper_and_lower_case(begin):
    end = TAGS[begin]
    for write in (str.upper, str.lower, str.title):
        for text in (f"{write(begin)}so{end}42", f"{begin}so{write(end)}42", f"so{write(end)}42"):
            assert thinking_in(text) in (write(begin), begin, write(end))
            assert without_thinking(text) == ("42", True)
        assert without_thinking(f"İ {write(begin)}") == (f"İ {write(begin)}", True)


@pytest.mark.parametrize("begin", TAGS)
def test_nothing_follows_thinking_that_has_not_ended(begin):
    end = TAGS[begin]
    for text in (begin, f" {begin}2 + 2", f"{begin}a{end}\n{begin}b", f"{begin}a{end[:-1]}"):
        assert without_thinking(text) == ("", False)


@pytest.mark.parametrize("text", ["", "42", "a < b", "It is written as <think>.", "I think so", "x </b> y", " kept "])
def test_a_text_without_thinking_stays_as_it_is(text):
    assert (thinking_in(text), without_thinking(text)) == ("", (text, True))


def test_parts_in_any_order_leave_an_answer_without_any():
    """Built from parts whose answer is known: ended parts, one inside of another, and ends without a beginning."""
    chance = random.Random(4)
    for _ in range(500):
        begin, end = chance.choice([*TAGS.items()])
        inner = f"{begin}b{end}" if chance.random() < 0.3 else "b"
        parts = [f"{begin}{inner}{end}\n" for _ in range(chance.randint(0, 3))]
        orphan = f"a{end} " if chance.random() < 0.3 else ""
        assert without_thinking("".join([orphan, *parts, "The answer is b."])) == ("The answer is b.", True)


def test_no_text_of_tags_runs_for_ever_or_keeps_an_end():
    chance = random.Random(5)
    signs = [*TAGS, *TAGS.values(), " ", "a"]
    for _ in range(2000):
        found, whole = without_thinking("".join(chance.choices(signs, k=chance.randint(0, 8))))
        assert not thinking_in(found)
        assert whole or not found
