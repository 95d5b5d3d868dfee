"""Answers of models that think first: taken off, kept or refused, as the request says, and unfinished if cut."""

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

PROMPTS = [Prompt(4, "one"), Prompt(7, "two", "second")]


@pytest.fixture
def asked(tmp_path):
    """Ask a server that answers with a text and a reason; return what comes of the first prompts."""

    def asking(server, number=1, api="completions", **settings):
        model = ServedModel(ServedConfig(url=server.url, model="tiny", revision="1", api=api, parallel=1), None)
        request = Generation(RequestConfig(**settings), "test", 0, Rng(0), tmp_path)
        return [(one.text, one.finished) for (one,) in model.generate(PROMPTS[:number], request)]

    return asking


def answering(text, reason="stop"):
    def answer(handler, path, body):
        found = completion(body, text)
        found["choices"][0]["finish_reason"] = reason
        send(handler, content=found)

    return serving(answer)


@pytest.mark.parametrize("api", ["completions", "chat"])
@pytest.mark.parametrize(
    ("text", "reason", "stops", "wanted"),
    [
        ("<think>\nIt is Paris.\n</think>\n\nParis", "stop", [], ("Paris", True)),
        ("It is Paris.\n</think>\n\nParis", "stop", [], ("Paris", True)),  # the template of the prompt began it
        ("<think>It is", "length", [], ("", False)),
        ("<think>It is", "stop", [], ("", False)),  # a stop text of the server was in it
        ("<think>\n\n</think>\n\nParis, of", "length", [], ("Paris, of", False)),
        ("<think>a\nb</think>Paris\nis", "length", ["\n"], ("Paris", True)),  # a line break ends answers alone
        ("[THINK]It is Paris.[/THINK]Paris", "stop", [], ("Paris", True)),
        ("Paris", "stop", [], ("Paris", True)),
    ],
)
def test_thinking_is_taken_off_and_what_has_not_ended_is_unfinished(asked, api, text, reason, stops, wanted):
    with answering(text, reason) as server:
        assert asked(server, api=api, stop=stops, thinking="drop") == [wanted]


def test_thinking_is_refused_by_name_and_no_answer_is_paid_for_twice(asked):
    with answering("<think>It is Paris.</think>Paris") as server:
        with pytest.raises(ServerError, match=r"example 4 of 'test': the response contains <think>.*`.*drop`"):
            asked(server, 2)
        assert len(server.asked) == 1, "the first refusal ends the stage"
        with pytest.raises(ServerError, match=r"example 4 of 'test', cached in .*<think>"):
            asked(server)
        assert asked(server, 2, thinking="drop") == [("Paris", True), ("Paris", True)]
        assert asked(server, thinking="keep") == [("<think>It is Paris.</think>Paris", True)]
        assert server.prompts == {"one": 1, "two": 1}


def test_an_answer_that_speaks_of_tags_is_an_answer(asked):
    with answering("Write <think> first.") as server:
        assert asked(server) == asked(server, thinking="drop") == [("Write <think> first.", True)]


def test_what_becomes_of_thinking_is_part_of_the_settings_of_the_decoder():
    found = [RequestConfig(thinking=one).model_dump() for one in ("refuse", "drop", "keep")]
    assert len({one["thinking"] for one in found}) == 3
    assert all("thinking" not in RequestConfig(thinking=one["thinking"]).fields() for one in found)
