"""What stands between prompt and target is taken off answers where the server writes it; longer texts are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench_core import Generation, Prompt, Rng
from bench_served.model import ServedModel
from bench_served.plugin import RequestConfig, ServedConfig
from bench_served.replies import ServerError

sys.path.insert(0, str(Path(__file__).parent))
from servers import completion, send, serving


@pytest.fixture
def said(tmp_path):
    """Return the answer to a prompt, with what the server writes."""

    def asking(text, between=" ", request=None, status=200, **settings):
        def answer(handler, path, body):
            send(handler, status, content=completion(body, text) if status == 200 else text)

        with serving(answer) as server:
            model = ServedModel(ServedConfig(url=server.url, model="tiny", revision="1", **settings), None)
            asked = Generation(RequestConfig(**(request or {})), "test", 0, Rng(0), tmp_path)
            try:
                ((found,),) = model.generate([Prompt(4, "the cat", "", between)], asked)
            finally:
                assert len(server.asked) == 1, "no try is made again"
        return found.text

    return asking


@pytest.mark.parametrize(
    ("text", "between", "wanted"),
    [
        (" sat", " ", "sat"),
        ("sat", " ", "sat"),
        ("  sat", " ", " sat"),
        (" sat", "", " sat"),
        ("\n sat", "\n", " sat"),
        (" sat", "\n", " sat"),
        (" ", " ", ""),
        ("", " ", ""),
    ],
)
def test_the_separator_is_taken_off_answers_once_and_nothing_else(said, text, between, wanted):
    assert said(text, between) == wanted


@pytest.mark.parametrize(
    "settings",
    [{"prompt": "{prompt}:"}, {"scored": " {target}", "scores": True}, {"api": "chat"}],
)
def test_templates_and_messages_have_no_separator(said, settings):
    assert said(" sat", **settings) == " sat"


def test_thinking_and_stop_texts_are_looked_for_behind_the_separator(said):
    assert said(" <think>a</think>sat\nb", request={"thinking": "drop", "stop": ["\n"]}) == "sat"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens"),
        (
            400,
            "the request exceeds the available context size. try increasing the context size or enable context shift",
        ),
        (413, "Input validation error: `inputs` must have less than 1024 tokens. Given: 3000: too many tokens"),
        (500, "Prompt is too long: exceeds n_ctx"),
        (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096"),
    ],
)
def test_a_text_that_is_longer_than_the_context_is_named_and_not_sent_again(said, status, message):
    with pytest.raises(ServerError, match=r"example 4 of 'test': the text exceeds the context length.*Exclude such"):
        said({"error": {"message": message}}, status=status)
