"""Outputs of published models that think first: refused by name, taken off or kept, as those of servers are."""

from __future__ import annotations

import pytest
from published import publish
from pydantic import ValidationError

from bench_core import Prompt, SuiteError
from bench_huggingface.plugin import PretrainedLMConfig

TAGS = ("[THINK]", "[/THINK]", "<think>", "</think>")
CHAT = "{% for one in messages %}<turn>{{ one.content }}{% endfor %}<turn>"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return publish(tmp_path_factory.mktemp("gpt2"), "gpt2", chat=CHAT, codes=TAGS)


def said(saved, text, prompt="bad", **settings):
    """Return the output of a model that writes a text, in which tags that are control tokens are these."""
    model = saved.model(**settings)
    ids = saved.tokenizer(text, add_special_tokens=False).input_ids
    return model.output(model.numbering.swap(ids), Prompt(3, prompt, "", " "))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (" cab", "cab"),
        ("[THINK]a face[/THINK] cab", "cab"),
        ("a face[/THINK]  cab", "cab"),
        ("[THINK]a face", ""),
        ("<think>a</think>cab fade", "cab fade"),
        ("a</think> cab</s> bad", "cab"),
        (" a face[THINK] bad", "a face bad"),  # it speaks of thinking, in a control token
    ],
)
def test_thinking_is_taken_off_also_where_its_tags_are_control_tokens(saved, text, wanted):
    assert said(saved, text, thinking="drop") == wanted


@pytest.mark.parametrize("text", ["[THINK]a face[/THINK] cab", "a</think>cab", "<think>a"])
def test_thinking_is_refused_by_name_unless_a_setting_says_what_becomes_of_it(saved, text):
    with pytest.raises(SuiteError, match=r"output of example 3 contains .*Set `thinking: drop` in the model"):
        said(saved, text)
    assert "a" in said(saved, text, thinking="keep")


@pytest.mark.parametrize(("text", "wanted"), [("a face", ""), ("a</think>cab", "cab")])
def test_thinking_that_the_template_begins_has_begun(saved, text, wanted):
    model = saved.model(chat=True, thinking="drop")
    model.words.tokenizer.chat_template = f"{CHAT}<think>\n"
    ids = saved.tokenizer(text, add_special_tokens=False).input_ids
    assert model.output(model.numbering.swap(ids), Prompt(3, "bad")) == wanted
    model.words.tokenizer.chat_template = f"{CHAT}<think>\n\n</think>\n\n"  # which is asked not to think
    assert model.output(model.numbering.swap(saved.tokenizer("cab").input_ids), Prompt(3, "bad")) == "cab"


def test_data_that_end_with_a_tag_begin_no_thinking(saved):
    assert said(saved, " cab", prompt="what is <think>", thinking="drop") == "cab"


def test_it_is_a_setting_of_evaluation():
    assert "thinking" in PretrainedLMConfig.evaluation
    with pytest.raises(ValidationError, match="thinking"):
        PretrainedLMConfig(path="x", thinking="maybe")
