"""Requests, answers that are kept, and what a faulty server does to them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from textwrap import dedent

import bench_small.plugin
import pytest
from pydantic import ValidationError

import bench_core
import bench_notebook
from bench_authors.testing import TEXT_CONTRACTS, TextCase, check_text_generator
from bench_core import BenchError, DataError, Generation, Inspection, Prompt, Rng, registry
from bench_core.storage.store import Store
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_served import client, replies
from bench_served.answers import Answers, answers_in, folder_of
from bench_served.client import RateLimiter, retry_after
from bench_served.echo import score_of
from bench_served.inspecting import inspect
from bench_served.model import ServedModel
from bench_served.plugin import RequestConfig, ServedConfig
from bench_served.requests import Request, to_generate, to_score
from bench_served.secret import Secret

sys.path.insert(0, str(Path(__file__).parent))
from servers import completion, prompt_of, send, serving, truthful

PROMPTS = [Prompt(4, "one"), Prompt(7, "two", "second"), Prompt(9, "three")]
SECRET = "sk-canary-0123456789abcdef"


class FakeClock:
    """Time passes only by waiting."""

    def __init__(self):
        self.time, self.slept = 0.0, []

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    fake = FakeClock()
    monkeypatch.setattr(client.Clock, "now", lambda self: fake.time)
    monkeypatch.setattr(client.Clock, "sleep", lambda self, seconds: fake.sleep(seconds))
    client.rate_limiter.cache_clear()
    return fake


def config(server, **settings):
    return ServedConfig(**{"url": server.url, "model": "tiny", "revision": "1", "timeout": 20, **settings})


def generation(folder, warn=lambda text: None, seed=0, **settings):
    return Generation(RequestConfig(**settings), "test", seed, Rng(seed).fork("decode"), folder, warn)


def asked(server, folder, prompts=PROMPTS, seed=0, request=None, **settings):
    model = ServedModel(config(server, **settings), None)
    return model.generate(prompts, generation(folder, seed=seed, **(request or {})))


def texts(rows):
    return [[one.text for one in row] for row in rows]


def test_each_prompt_is_asked_once_and_never_again(tmp_path):
    with serving(truthful) as server:
        first = asked(server, tmp_path, [*PROMPTS, Prompt(11, "one")])
        assert texts(first) == [["ONE"], ["TWO"], ["THREE"], ["ONE"]]
        assert server.prompts == {"one": 1, "two": 1, "three": 1}
        answers_in.cache_clear()  # as another process
        assert asked(server, tmp_path) == first[:3]
        assert asked(server, tmp_path, seed=5) == first[:3]  # nothing is drawn at temperature 0
        assert len(server.asked) == 3
        assert {path for path, _ in server.asked} == {"/v1/completions"}
        assert all(
            body["temperature"] == 0 and "seed" not in body and "stream" not in body for _, body in server.asked
        )


@pytest.mark.parametrize(
    "other",
    [{"model": "other"}, {"revision": "2"}, {"api": "chat"}, {"prompt": "{prompt}!"}, {"request": {"top_p": 0.5}},
     {"request": {"max_tokens": 3}}, {"request": {"stop": ["x"]}}, {"request": {"more": {"min_p": 0.1}}}],
)  # fmt: skip
def test_another_model_revision_or_setting_is_another_request(tmp_path, other):
    with serving(truthful) as server:
        asked(server, tmp_path)
        asked(server, tmp_path, **other)
        assert len(server.asked) == 6


def test_another_address_or_pace_is_the_same_request(tmp_path):
    with serving(truthful) as server, serving(truthful) as elsewhere:
        asked(server, tmp_path)
        asked(elsewhere, tmp_path, parallel=1, rate=60, timeout=5, retries=0, key_env="NOT_SET_ANYWHERE")
        assert (len(server.asked), elsewhere.asked) == (3, [])


def test_draws_differ_by_example_number_and_seed_and_begin_with_the_same(tmp_path):
    with serving(truthful) as server:
        asked(server, tmp_path, request={"temperature": 1, "n": 2})
        seeds = {(prompt_of(body), body["seed"]) for _, body in server.asked}
        assert len(seeds) == len({seed for _, seed in seeds}) == 6
        assert all(0 <= seed < 2**31 for _, seed in seeds)
        asked(server, tmp_path, request={"temperature": 1, "n": 3})
        assert len(server.asked) == 9  # the third of each
        asked(server, tmp_path, seed=1, request={"temperature": 1, "n": 2})
        assert len({body["seed"] for _, body in server.asked}) == 15


def test_draws_are_several_also_where_the_body_has_no_seed(tmp_path):
    with serving(truthful) as server:
        asked(server, tmp_path, request={"temperature": 1, "n": 2, "more": {"seed": None}})
        assert server.prompts == {"one": 2, "two": 2, "three": 2}
        assert not any("seed" in body for _, body in server.asked)


def test_chats_have_a_system_message_and_a_template_whose_other_braces_stay(tmp_path):
    with serving(truthful) as server:
        found = asked(
            server, tmp_path, PROMPTS[:1], api="chat", system="Be {brief}.", prompt="{0} {prompt} {prompt.id}"
        )
        ((path, body),) = server.asked
        assert path == "/v1/chat/completions"
        assert body["messages"] == [
            {"role": "system", "content": "Be {brief}."}, {"role": "user", "content": "{0} one {prompt.id}"},
        ]  # fmt: skip
        assert texts(found) == [["{0} ONE {PROMPT.ID}"]]


@pytest.mark.parametrize(
    ("reason", "text", "stops", "wanted"),
    [("stop", "ab", [], ("ab", True)), ("length", "ab", [], ("ab", False)), ("length", "", [], ("", False)),
     ("length", "abcd", ["d", "bc"], ("a", True)), ("stop", "abcd", ["x"], ("abcd", True)),
     ("content_filter", "ab", [], ("ab", False)), ("eos_token", "ab", ["ab"], ("", True))],
)  # fmt: skip
def test_texts_end_before_stop_texts_and_are_finished_if_the_model_stopped(tmp_path, reason, text, stops, wanted):
    def answer(handler, path, body):
        assert body.get("stop") == (stops or None)
        found = completion(body, text)
        found["choices"][0]["finish_reason"] = reason
        send(handler, content=found)

    with serving(answer) as server:
        (((one,),)) = (asked(server, tmp_path, PROMPTS[:1], request={"stop": stops}),)[0]
        assert (one.text, one.finished) == wanted
        assert (one.length, one.tokens) == (2, [])


def test_without_usage_nobody_knows_how_many_tokens_there_are(tmp_path):
    with serving(lambda handler, path, body: send(handler, content=completion(body, usage=None))) as server:
        assert asked(server, tmp_path)[0][0].length is None


def test_a_chat_that_was_cut_before_it_said_anything_said_nothing(tmp_path):
    def answer(handler, path, body):
        message = {"content": None, "reasoning_content": "let me think"}
        send(handler, content=completion(body, choices=[{"index": 0, "finish_reason": "length", "message": message}]))

    with serving(answer) as server:
        assert texts(asked(server, tmp_path, api="chat")) == [[""], [""], [""]]


FAULTS = {
    "429": lambda handler, body: send(
        handler, 429, {"error": {"message": "slow down"}}, headers=[("Retry-After", "7")]
    ),
    "500": lambda handler, body: send(handler, 500, b"<h1>oops</h1>", "text/html"),
    "503": lambda handler, body: send(handler, 503, {"message": "loading"}),
    "truncated": lambda handler, body: send(handler, 200, json.dumps(completion(body)).encode()[:-9]),
    "page": lambda handler, body: send(handler, 200, b"<html>gateway</html>", "text/html"),
    "empty": lambda handler, body: send(handler, 200, b""),
    "closed": lambda handler, body: close(handler),
    "reset": lambda handler, body: reset(handler),
    "short": lambda handler, body: short(handler, body),
}


def close(handler):
    handler.close_connection = True


def reset(handler):
    handler.connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    raise ConnectionResetError


def short(handler, body):
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b'{"model": ')
    handler.close_connection = True


def failing(fault, times):
    """Fail so often for each prompt, then answer truthfully."""
    seen = Counter()

    def answer(handler, path, body):
        seen[prompt_of(body)] += 1
        if seen[prompt_of(body)] <= times:
            FAULTS[fault](handler, body)
        else:
            truthful(handler, path, body)

    return answer


@pytest.mark.parametrize("fault", FAULTS)
def test_what_may_be_better_later_is_tried_again(tmp_path, clock, fault):
    with serving(failing(fault, 2)) as server:
        assert texts(asked(server, tmp_path, retries=2)) == [["ONE"], ["TWO"], ["THREE"]]
        assert server.prompts == {"one": 3, "two": 3, "three": 3}
    pauses = sorted(one for one in clock.slept if one)
    assert len(pauses) == 6
    if fault == "429":
        assert pauses == [7.0] * 6
    else:
        assert all(0.5 <= one <= 1 for one in pauses[:3])
        assert all(1 <= one <= 2 for one in pauses[3:])
        assert len(set(pauses)) == 6  # not all at once


@pytest.mark.parametrize("fault", FAULTS)
def test_after_the_last_try_the_error_names_the_request_and_answers_are_kept(tmp_path, fault):
    def answer(handler, path, body):
        (truthful if prompt_of(body) != "two" else failing(fault, 99))(handler, path, body)

    with serving(answer) as server:
        with pytest.raises(replies.ServerError) as error:
            asked(server, tmp_path, retries=1, parallel=1)
        assert "example 7 ('second') of 'test': http://127.0.0.1" in str(error.value)
        assert "failed after 2 attempts" in str(error.value)
        assert server.prompts == {"one": 1, "two": 2}
        server.answer = truthful
        asked(server, tmp_path)
        assert server.prompts == {"one": 1, "two": 3, "three": 1}


def test_one_failure_sends_nothing_more_but_keeps_what_is_under_way(tmp_path):
    arrived, failed = threading.Barrier(3), threading.Event()

    def answer(handler, path, body):
        arrived.wait(300)
        if prompt_of(body) == "two":
            send(handler, 400, {"error": "no"})
            failed.set()
        else:
            failed.wait(300)
            truthful(handler, path, body)

    prompts = [*PROMPTS, *(Prompt(20 + number, f"later {number}") for number in range(9))]
    with serving(answer) as server:
        with pytest.raises(replies.ServerError, match="status 400: no"):
            asked(server, tmp_path, prompts, parallel=3)
        assert server.prompts == {"one": 1, "two": 1, "three": 1}
        server.answer = truthful
        asked(server, tmp_path)
        assert server.prompts == {"one": 1, "two": 2, "three": 1}


def test_who_waits_is_told_of_a_failure_at_once(tmp_path, monkeypatch):
    async def sleep(self, seconds):
        await asyncio.sleep(600 if seconds else 0)

    def answer(handler, path, body):
        if prompt_of(body) == "one":
            send(handler, 503, b"")
            waits.set()
        else:
            waits.wait(300)
            send(handler, 400, b"")

    waits = threading.Event()
    monkeypatch.setattr(client.Clock, "sleep", sleep)
    with serving(answer) as server, pytest.raises(replies.ServerError, match="status 400"):
        asked(server, tmp_path, PROMPTS[:2])


@pytest.mark.parametrize(
    ("status", "advice"),
    [(400, "Correct the settings"), (401, "key_env"), (403, "permission"), (404, "ends in /v1"), (418, "log")],
)
def test_a_refusal_is_not_tried_again_and_says_what_to_do(tmp_path, status, advice):
    refusal = {"error": {"message": "unknown stop string <|end|>" + "!" * 999}}
    with serving(lambda handler, path, body: send(handler, status, refusal)) as server:
        with pytest.raises(replies.ServerError) as error:
            asked(server, tmp_path, PROMPTS[1:2])
        assert len(server.asked) == 1
    text = str(error.value)
    assert text.startswith("example 7 ('second') of 'test': status ")
    assert f"status {status}: unknown stop string <|end|>!!" in text
    assert advice in text
    assert len(text) < 600


def test_no_redirect_is_followed(tmp_path):
    with serving(truthful) as other:
        there = [("Location", other.url + "/completions")]
        away = serving(lambda handler, path, body: send(handler, 307, b"", headers=there))
        with away as server, pytest.raises(replies.ServerError, match=r"redirects to http://127\..*not followed"):
            asked(server, tmp_path)
        assert other.asked == []


def lie(**changes):
    return lambda body: completion(body, **changes)


def choices(*several):
    return lambda body: completion(body, choices=[{**completion(body)["choices"][0], **one} for one in several])


LIES = {
    "another model": (lie(model="huge"), "from the model 'huge', not 'tiny'"),
    "no choices": (lambda body: {"model": "tiny", "error": "out of memory"}, "no list of `choices`.*out of memory"),
    "none": (choices(), "0 choices"),
    "two": (choices({}, {"index": 1}), "2 choices"),
    "the same twice": (choices({}, {}), "2 choices"),
    "index": (choices({"index": 3}), "index 3"),
    "number": (choices({"text": 5}), "no string `text`"),
    "null": (choices({"text": None}), "no string `text`"),
    "no reason": (choices({"finish_reason": None}), "finish reason None"),
    "strange reason": (choices({"finish_reason": "bored"}), "finish reason 'bored'"),
    "negative usage": (lie(usage={"completion_tokens": -4}), "counts -4 tokens"),
    "too much": (lie(usage={"completion_tokens": 12}), "counts 12 tokens, but at most 10 were allowed"),
    "words": (lie(usage={"completion_tokens": "many"}), "counts 'many' tokens"),
    "list": (lambda body: [completion(body)], "not a JSON object"),
    "choices are texts": (lambda body: completion(body, choices=["yes"]), "1 choices"),
}


@pytest.mark.parametrize("way", LIES)
def test_a_lie_is_named_with_its_request_and_not_kept(tmp_path, way):
    answer, words = LIES[way]
    with serving(lambda handler, path, body: send(handler, content=answer(body))) as server:
        with pytest.raises(replies.ServerError, match=rf"example 7 \('second'\) of 'test': .*{words}"):
            asked(server, tmp_path, PROMPTS[1:2], request={"max_tokens": 10})
        assert len(server.asked) == 1
        server.answer = truthful
        assert texts(asked(server, tmp_path, PROMPTS[1:2], request={"max_tokens": 10})) == [["TWO"]]


def test_a_server_may_call_its_model_otherwise_if_one_says_so(tmp_path):
    with serving(lambda handler, path, body: send(handler, content=completion(body, model="tiny-0613"))) as server:
        assert texts(asked(server, tmp_path, reported="tiny-0613")) == [["ONE"], ["TWO"], ["THREE"]]
        with pytest.raises(replies.ServerError, match=r"example 4.*, cached in .*'tiny-0613', not 'tiny'"):
            asked(server, tmp_path)


@pytest.mark.parametrize("trickle", [False, True])
def test_a_hang_ends_at_the_timeout(tmp_path, trickle):
    def answer(handler, path, body):
        if trickle:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000000")
            handler.end_headers()
        while not server.over.wait(0.02):
            if trickle:
                handler.wfile.write(b" ")

    with serving(answer) as server:
        with pytest.raises(replies.ServerError, match=r"after 2 attempts.*no complete response within 0\.5 s"):
            asked(server, tmp_path, PROMPTS[:1], timeout=0.5, retries=1)
        assert len(server.asked) == 2


def test_an_endless_answer_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "MAX_RESPONSE_BYTES", 1000)
    endless = serving(lambda handler, path, body: send(handler, content=completion(body, "x" * 2000)))
    with endless as server, pytest.raises(replies.ServerError, match="more than 1,000 bytes"):
        asked(server, tmp_path)


def test_nobody_at_the_address(tmp_path):
    with serving(truthful) as server:
        pass
    with pytest.raises(replies.ServerError, match=r"after 3 attempts.*the connection failed \(ConnectError"):
        asked(server, tmp_path, retries=2)


def test_a_server_that_asks_for_hours_is_not_waited_for(tmp_path):
    hours = [("Retry-After", "7200")]
    busy = serving(lambda handler, path, body: send(handler, 429, b"", headers=hours))
    with busy as server, pytest.raises(replies.ServerError, match="asks to wait for 7,200 s"):
        asked(server, tmp_path)


def test_headers_of_waiting():
    from datetime import UTC, datetime, timedelta
    from email.utils import format_datetime

    assert [retry_after(one) for one in ("7", "0.5", "", "soon", "-3", "Wed, 21 Oct 2015 07:28:00 GMT")] == [
        7,
        0.5,
        0,
        0,
        0,
        0,
    ]
    assert 90 < retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)) <= 100


@pytest.mark.parametrize("most", [1, 3])
def test_as_many_requests_as_allowed_are_under_way(tmp_path, most):
    full = threading.Barrier(most)

    def answer(handler, path, body):
        full.wait(300)  # so many at once, in fact
        truthful(handler, path, body)

    with serving(answer) as server:
        asked(server, tmp_path, [Prompt(number, f"p{number}") for number in range(12)], parallel=most)
        assert server.most == most


def test_requests_begin_at_the_pace_allowed_also_across_batches(tmp_path, clock):
    begun = []

    def answer(handler, path, body):
        begun.append(clock.time)
        truthful(handler, path, body)

    with serving(answer) as server:
        for first in (0, 4):
            asked(
                server,
                tmp_path,
                [Prompt(first + number, f"p{first + number}") for number in range(4)],
                rate=30,
                parallel=1,
            )
    assert begun == pytest.approx([2.0 * number for number in range(8)])


def test_a_pace_is_kept_by_all_that_wait():
    pace = RateLimiter(60.0)
    assert [pace.wait(0.0) for _ in range(3)] == [0, 1, 2]
    assert pace.wait(10.0) == 0
    assert [RateLimiter(None).wait(5.0) for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7, "n": 2}])
def test_it_keeps_the_contracts_of_text_generators(tmp_path, settings):
    def answer(handler, path, body):
        send(handler, content=completion(body, f"{prompt_of(body)}{body.get('seed')}"))

    with serving(answer) as server:
        case = TextCase.of(config(server), RequestConfig(**settings), tmp_path)
        assert len(check_text_generator(case)) == len(TEXT_CONTRACTS)


# Answers on disk


def request(text="one"):
    return Request("/completions", {"model": "tiny", "prompt": text}, f"example of {text}", "1")


def test_what_a_killed_process_left_unfinished_is_removed(tmp_path):
    answers = Answers(tmp_path)
    answers.add(request("one"), {"n": 1}, {})
    whole = answers.path.read_bytes()
    answers.add(request("two"), {"n": 2}, {})
    both = answers.path.read_bytes()
    for end in range(len(whole), len(both)):
        answers.path.write_bytes(both[:end])
        after = Answers(tmp_path)
        assert after.find(request("one")) == {"n": 1}
        assert after.find(request("two")) is None
        after.add(request("three"), {"n": 3}, {})
        assert [json.loads(line)["answer"] for line in answers.path.read_bytes().splitlines()] == [{"n": 1}, {"n": 3}]


def test_of_two_answers_the_first_counts_for_everybody(tmp_path):
    one, other = Answers(tmp_path), Answers(tmp_path)
    assert one.add(request(), {"n": 1}, {}) == {"n": 1}
    assert other.add(request(), {"n": 2}, {}) == {"n": 1}
    assert one.find(request()) == other.find(request()) == Answers(tmp_path).find(request()) == {"n": 1}


def test_a_changed_answer_is_refused_and_one_that_is_gone_is_asked_again(tmp_path):
    answers = Answers(tmp_path)
    answers.add(request(), {"n": 1}, {})
    text = answers.path.read_text()
    answers.path.write_text(text.replace('"prompt": "one"', '"prompt": "two"'))
    with pytest.raises(DataError, match=r"answers.jsonl: the response for example of one at byte 0 is damaged"):
        Answers(tmp_path).find(request())
    answers.path.unlink()
    assert answers.find(request()) is None
    answers.add(request("two"), {"n": 2}, {})
    assert (answers.find(request("two")), answers.find(request())) == ({"n": 2}, None)


ADDING = """
import sys
from pathlib import Path
from bench_served.answers import Answers
from bench_served.requests import Request

answers = Answers(Path(sys.argv[1]))
for number in range(60):
    one = Request("/completions", {"prompt": str(number)}, "an example", "1")
    answers.add(one, {"by": sys.argv[2], "text": "x" * 5000}, {})
"""


def test_processes_that_add_at_once_damage_nothing(tmp_path):
    running = [subprocess.Popen([sys.executable, "-c", ADDING, str(tmp_path), name]) for name in "abc"]
    assert [one.wait(300) for one in running] == [0, 0, 0]
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_bytes().splitlines()]
    assert len(lines) == len({line["key"] for line in lines}) == 60


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "served").write_text("a file")
    with serving(truthful) as server, pytest.raises(DataError, match="cannot cache responses here"):
        asked(server, tmp_path)
    (tmp_path / "served").unlink()
    folder_of(config(server), tmp_path).mkdir(parents=True)
    (folder_of(config(server), tmp_path) / "answers.jsonl").mkdir()
    with serving(truthful) as server, pytest.raises(DataError, match="cannot cache responses here"):
        asked(server, tmp_path)
    assert server.asked == []
    (folder_of(config(server), tmp_path) / "answers.jsonl").rmdir()
    (folder_of(config(server), tmp_path) / "answers.jsonl").symlink_to(tmp_path / "gone" / "answers.jsonl")
    with serving(truthful) as server, pytest.raises(DataError, match="cannot cache responses here"):
        asked(server, tmp_path)
    assert server.asked == []  # nothing that would be lost


def test_where_two_answers_stand_the_first_counts(tmp_path):
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        Answers(tmp_path / str(number)).add(request(), {"n": number}, {})
    both = b"".join((tmp_path / name / "answers.jsonl").read_bytes() for name in "12")
    (tmp_path / "answers.jsonl").write_bytes(both)  # as without locks
    assert Answers(tmp_path).find(request()) == {"n": 1}


def test_names_of_models_are_no_paths(tmp_path):
    folder = folder_of(ServedConfig(model="../../etc/x", revision="1"), tmp_path)
    assert folder.parent == tmp_path / "served"
    other = folder_of(ServedConfig(model="../../etc/x", revision="2"), tmp_path)
    assert other != folder


# Settings


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (ServedConfig, {"url": "localhost:8000"}, "an address such as"),
        (ServedConfig, {"url": "http://me:secret@host/v1"}, "no user, password or query"),
        (ServedConfig, {"url": "http://host/v1?key=x"}, "no user, password or query"),
        (ServedConfig, {"url": "http://host/v1/chat/completions"}, "without /completions"),
        (ServedConfig, {"prompt": "Translate."}, "needs {prompt}"),
        (ServedConfig, {"scored": "target"}, "needs {target}"),
        (ServedConfig, {"system": "Be brief."}, "no system message"),
        (ServedConfig, {"api": "chat", "scores": True}, "no log-probabilities of prompts"),
        (RequestConfig, {"n": 2}, "at temperature 0 all samples are equal"),
        (RequestConfig, {"stop": [""]}, "at least one character"),
        (RequestConfig, {"more": {"temperature": 1}}, "cannot set temperature"),
        (RequestConfig, {"more": {"stream": None}}, "cannot set stream"),
        (RequestConfig, {"more": {"bias": {1, 2}}}, "must be JSON"),
        (RequestConfig, {"more": {"bias": float("nan")}}, "must be JSON"),
    ],
)
def test_settings_that_cannot_work_are_refused(kind, settings, words):
    base = {"model": "m", "revision": "1"} if kind is ServedConfig else {}
    with pytest.raises(ValidationError, match=words) as error:
        kind(**base, **settings)
    assert "me:secret" not in str(error.value).replace("input_value='http://me:secret@host/v1'", "")


def test_fields_of_a_request_are_those_of_the_settings():
    found = RequestConfig(temperature=0.5, top_k=4, stop=["\n"], max_tokens=9, more={"min_p": 0.1}).fields()
    assert found == {"temperature": 0.5, "top_k": 4, "stop": ["\n"], "max_tokens": 9, "min_p": 0.1}
    left_out = RequestConfig(more={"max_tokens": None, "max_completion_tokens": 5}).fields()
    assert left_out == {"temperature": 0.0, "max_completion_tokens": 5}


def test_every_setting_of_access_has_a_default_and_no_key():
    assert all(not ServedConfig.model_fields[name].is_required() for name in ServedConfig.access)
    assert {*ServedConfig.model_fields} - ServedConfig.access == {
        "model", "revision", "reported", "api", "system", "prompt", "scores", "scored", "end",
    }  # fmt: skip


# Scores


def echoed(tokens, log_probs=None, text=None, **more):
    log_probs = [None, *[-1.0] * (len(tokens) - 1)] if log_probs is None else log_probs
    text = "".join(tokens) if text is None else text
    return {"text": text, "logprobs": {"tokens": tokens, "token_logprobs": log_probs, **more}}


@pytest.mark.parametrize(
    ("choice", "prompt", "target", "wanted"),
    [
        (echoed(["a", " b", " c", "d"], [None, -1, -2, -4]), "a b", " cd", (-6, 2)),
        (echoed(["<s>", "a", " b"], [None, -1, -2], "a b"), "a", " b", (-2, 1)),
        (echoed(["<s>", "a", "b"], [None, -1, -2], "ab"), "", "ab", (-3, 2)),
        (echoed(["<s>", " a", " b"], [None, -1, -2], "a b"), "a", " b", (-2, 1)),
        (echoed(["a", "\ufffd", "\ufffd"], [None, -1, -2], "aé"), "a", "é", (-3, 2)),
        (echoed(["a", "", "é"], [None, -1, -2], "aé"), "a", "é", (-3, 2)),
        (echoed(["a", " \ufffd", "\ufffd\ufffd", "b"], [None, -1, -2, -4], "a 日本b"), "a", " 日本b", (-7, 3)),
        (echoed(["a", "bytes: \\xe6\\x97", "bytes:\\xa5"], [None, -1, -2], "a 日"), "a", " 日", (-3, 2)),
        (echoed(["a", "bytes:", "\\xe6"], [None, -1, -2]), "a", "bytes:\\xe6", (-3, 2)),
        (echoed(["a", "bytes:\\xe6"], [None, -1]), "a", "bytes:\\xe6", (-1, 1)),
        (echoed(["a", "\ufffd", "b"], [None, -1, -2]), "a", "\ufffdb", (-3, 2)),
        (echoed(["\ufffd", "\ufffd", ":", " b"], [None, -1, -2, -3], "é: b", text_offset=[0, 1, 1, 2]), "é:", " b", (-3, 1)),
        (echoed(["a", " b"], [None, -9999.0]), "a", " b", (-9999, 1)),
        (echoed(["a"], [None]), "a", "", (0, 0)),
    ],
)  # fmt: skip
def test_a_target_is_scored_by_its_own_tokens(choice, prompt, target, wanted):
    found = score_of(choice, prompt, target)
    assert (found.log_prob, found.tokens, found.stop) == (*wanted, False)


@pytest.mark.parametrize(
    "tokens",
    [
        ["the", " cat", " x", "\ufffd"],
        ["hello", " ", "\ufffd"],
        ["HELLO", " ", "\ufffd", "\ufffd", "\ufffd"],
        ["HELLO", " "],
        ["HELLO", "\ufffd", "é"],
        ["HELLO", " ", "bytes:\\xc3\\xa8"],
        ["HELLO", " ", "bytes:\\xc3"],
        ["\ufffd"],
        ["bytes: x"],
    ],
)
def test_lost_parts_of_characters_excuse_no_other_tokens(tokens):
    with pytest.raises(replies.ServerError, match="no server token begins at the start of the target"):
        score_of(echoed(["<s>", *tokens], text="HELLO é"), "", "HELLO é")


@pytest.mark.slow
def test_lost_parts_of_many_characters_are_followed_without_trying_all_ways():
    text = "日本" * 500
    lost = ["\ufffd"] * 1500
    assert score_of(echoed(["a", *lost], text=f"a{text}é"), "a", f"{text}é").tokens == 1500
    with pytest.raises(replies.ServerError, match="no server token begins"):
        score_of(echoed(["a", *lost], text=f"a{text}b"), "a", f"{text}b")


def test_an_end_is_scored_where_it_is_one_token():
    for end in ("</s>", ""):
        choice = echoed(["a", " b", end], [None, -1, -2], "a b</s>")
        found = score_of(choice, "a", " b", "</s>")
        assert (found.log_prob, found.tokens, found.stop) == (-3, 2, True)
    with pytest.raises(replies.ServerError, match=r"`end` \(.*is not a single token of the server"):
        score_of(echoed(["a", " b", "</", "s>"]), "a", " b", "</s>")


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (echoed(["ab", "c"]), "no server token begins at the start of the target"),
        (echoed(["abc"], [-1]), "no server token begins"),
        (echoed(["a", " bc"], text="abc"), "no server token begins"),
        (echoed(["\ufffd", "\ufffd"], text="abc"), "no server token begins"),
        (echoed(["a", "bc", "d"]), "echoed 'abcd' instead of the text"),
        (echoed(["a", "x", "c"]), "instead of the text sent"),
        (echoed(["a", "b"], text="abc"), "no server token begins"),
        ({"text": "abc"}, "no log-probabilities"),
        ({"text": "abc", "logprobs": None}, "no log-probabilities"),
        (echoed(["a", "b", "c"], [None, -1]), "lacks matching lists"),
        (echoed(["a", 5, "c"], text="abc"), "lacks matching lists"),
        (echoed(["a", "b", "c"], [None, 0.5, -1]), "'b' has the invalid log-probability 0.5"),
        (echoed(["a", "b", "c"], [None, "no", -1]), "has the invalid log-probability 'no'"),
        (echoed(["a", "b", "c"], [None, float("nan"), -1]), "has the invalid log-probability nan"),
        (echoed(["a", "b", "c"], [None, None, -1]), "no log-probability of 'b', because nothing precedes it"),
        (echoed(["a", "b", "c"], [None, -1, None]), "omits the log-probability of 'c' but not others"),
        (echoed(["b", "c"], text="bc"), "echoes 2 of the 3 characters .* exceeds the context length"),
        (echoed(["a", "b"], text="ab"), "echoes 2 of the 3 characters"),
    ],
)
def test_scores_that_are_not_exact_are_refused(choice, words):
    with pytest.raises(replies.ServerError, match=words):
        score_of(choice, "a", "bc")


@pytest.mark.parametrize(
    ("last", "offsets"),
    [(":", [0, 0, 0, 2]), (";", [0, 1, 1, 2]), ("", [0, 1, 2, 2]), (":", [0, 1, 1, 3]), (":", [])],
)
def test_offsets_are_believed_only_where_the_token_before_fits(last, offsets):
    choice = echoed(["\ufffd", "\ufffd", last, " b"], text="é: b", text_offset=offsets)
    with pytest.raises(replies.ServerError, match="no server token begins"):
        score_of(choice, "é:", " b")


def test_a_token_across_the_boundary_is_found_by_offsets_too():
    choice = echoed(["\ufffd", "\ufffd: ", "b"], text="é: b", text_offset=[0, 1, 3])
    with pytest.raises(replies.ServerError, match="no server token begins"):
        score_of(choice, "é:", " b")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "a b"),
        ({"scored": "|{target}"}, "a|b"),
        ({"prompt": "{prompt}:"}, "a:b"),
        ({"prompt": "Q {prompt}"}, "Q a b"),
    ],
)
def test_what_a_task_puts_between_is_sent_unless_templates_say_it(tmp_path, settings, text):
    served = ServedConfig(model="m", revision="1", scores=True, **settings)
    asked = to_score(served, Prompt(0, "a", "", " "), "b", generation(tmp_path))
    assert asked.body["prompt"] == text


def test_scores_are_asked_once_with_prompt_and_target(tmp_path):
    def answer(handler, path, body):
        text = body["prompt"]
        tokens = [text[:5], *text[5:]]
        choice = {"index": 0, "finish_reason": "length", **echoed(tokens, [None, *[-0.5] * len(text[5:])])}
        send(handler, content=completion(body, choices=[choice], usage={"completion_tokens": 0}))

    with serving(answer) as server:
        model = ServedModel(config(server, scores=True, prompt="Say:{prompt}", scored=" {target}"), None)
        for _ in range(2):
            found = model.score_texts(
                [Prompt(0, "x"), Prompt(1, "y")], ["ab", "cde"], Generation(None, "test", 0, Rng(0), tmp_path)
            )
            assert [(one.log_prob, one.tokens) for one in found] == [(-1.5, 3), (-2.0, 4)]
        assert server.prompts == {"Say:x ab": 1, "Say:y cde": 1}
        assert all((body["max_tokens"], body["echo"], body["logprobs"]) == (0, True, 1) for _, body in server.asked)


def test_generated_and_scored_texts_have_keys_of_their_own(tmp_path):
    served = ServedConfig(model="m", revision="1", scores=True)
    requests = [
        to_generate(served, Prompt(0, "ab"), generation(tmp_path), 0),
        to_score(served, Prompt(0, "a"), "b", generation(tmp_path)),
    ]
    assert len({one.key for one in requests}) == 2


# Secrets


def test_the_key_is_sent_and_stands_nowhere_else(tmp_path, monkeypatch):
    def answer(handler, path, body):
        key = handler.headers["Authorization"].removeprefix("Bearer ")
        send(handler, content=completion(body, f"your key is {key}", fingerprint={key: [key]}))

    monkeypatch.setenv("CANARY_KEY", f" {SECRET}\n")
    with serving(answer) as server:
        found = asked(server, tmp_path, key_env="CANARY_KEY")
        assert {one["Authorization"] for one in server.headers} == {f"Bearer {SECRET}"}
    assert texts(found)[0] == ["your key is [secret]"]
    assert not holding(SECRET, tmp_path)


def holding(text, folder):
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("status", [200, 302, 400, 401, 500])
def test_no_error_shows_the_key(tmp_path, monkeypatch, status):
    def answer(handler, path, body):
        key = handler.headers["Authorization"]
        send(
            handler,
            status,
            {"error": {"message": f"bad {key}"}, "model": key},
            headers=[("Location", f"http://x/{key}")],
        )

    monkeypatch.setenv("CANARY_KEY", SECRET)
    with serving(answer) as server, pytest.raises(BenchError) as error:
        asked(server, tmp_path, key_env="CANARY_KEY", retries=0)
    assert "[secret]" in str(error.value)
    assert SECRET not in str(error.value)
    assert error.value.__cause__ is None


def test_a_key_that_is_missing_or_no_key_is_named_by_its_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("CANARY_KEY", raising=False)
    with pytest.raises(DataError, match=r"CANARY_KEY .* is not set"):
        Secret.of_environment("CANARY_KEY")
    monkeypatch.setenv("CANARY_KEY", "näh-secret")
    with pytest.raises(DataError, match="CANARY_KEY has characters") as error:
        Secret.of_environment("CANARY_KEY")
    assert "näh" not in str(error.value)
    assert SECRET not in repr(Secret(SECRET))
    assert Secret("EMPTY").hide("EMPTY words stay") == "EMPTY words stay"


def test_without_a_named_key_none_is_sent_whatever_the_environment_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with serving(truthful) as server:
        asked(server, tmp_path)
        assert not any("Authorization" in one for one in server.headers)


def test_proxies_of_the_environment_do_not_see_this_machine(tmp_path, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(truthful) as server:
        asked(server, tmp_path, retries=0)
    assert not client.is_local("https://api.example.org/v1")
    assert client.is_local("http://[::1]:8000/v1")


def test_a_key_that_travels_in_the_clear_is_warned_of():
    unprotected = {"model": "m", "revision": "1", "key_env": "K"}
    assert client.is_unprotected(ServedConfig(url="http://host/v1", **unprotected))
    assert not client.is_unprotected(ServedConfig(url="https://host/v1", **unprotected))
    assert not client.is_unprotected(ServedConfig(url="http://127.0.0.1:8000", **unprotected))
    assert not client.is_unprotected(ServedConfig(url="http://host/v1", model="m", revision="1"))


# Runs

SUITE = """
    suite: tests/served
    tasks: {words: {name: letters, prefix: 2}}
    models:
      bigram: {name: bigram, training: {epochs: 1}}
      tiny: {name: served, url: URL, model: tiny, revision: "1", parallel: 2, retries: 0, key_env: CANARY_KEY}
    decoders:
      greedy: {name: greedy}
      drawn: {name: request, temperature: 1}
      best: {name: request}
    metrics: {letters: {name: text-length}}
    limits: {max_tokens: 12, examples: 9}
    seeds: [3, 5]
    splits: [test]
"""


@pytest.fixture
def go(tmp_path, monkeypatch):
    import bench_writers.plugin

    monkeypatch.setenv("CANARY_KEY", SECRET)
    with registry.extra(bench_small.plugin), registry.extra(bench_writers.plugin):

        def going(server, text=SUITE, workers=0):
            (tmp_path / "suite.yaml").write_text(dedent(text).replace("URL", server.url))
            path = tmp_path / "suite.yaml"
            return bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=workers)

        yield going


def test_a_served_model_stands_beside_trained_ones(go, tmp_path):
    with serving(truthful) as server:
        run = go(server)
        assert {(one.status, one.reason) for one in run.cells} == {("done", "")}
        pairs = {(one.cell["model"], one.cell["decoder"], one.cell["seed"]) for one in run.cells}
        assert pairs == {
            *(("bigram", "greedy", seed) for seed in (3, 5)), *(("tiny", "drawn", seed) for seed in (3, 5)),
            ("tiny", "best", 3),
        }  # fmt: skip
        drawn = [body["seed"] for _, body in server.asked if body["temperature"]]
        assert len(set(drawn)) == 18
        assert {body["max_tokens"] for _, body in server.asked} == {12}
        before = len(server.asked)
    with serving(truthful) as elsewhere:
        again = go(elsewhere)
        assert {one.status for one in again.cells} == {"done"}
        assert (before, elsewhere.asked) == (len(server.asked), [])
    assert [one.artifacts for one in again.cells] == [one.artifacts for one in run.cells]


def test_a_run_is_verified_with_all_cells_that_it_should_have(go, tmp_path):
    verifying = pytest.importorskip("bench_exchange.verifying")

    def wrong():
        remarks = verifying.Verifier(Store(tmp_path / "store")).verify(run.folder)
        return [one.text for one in remarks if one.wrong]

    with serving(truthful) as server:
        run = go(server)
    assert wrong() == []
    lines = (run.folder / "cells.jsonl").read_text().splitlines(keepends=True)
    drawn = [line for line in lines if '"drawn"' not in line or '"seed": 5' not in line]
    assert len(drawn) == len(lines) - 1
    (run.folder / "cells.jsonl").write_text("".join(drawn))
    assert any("tiny/drawn/test, seed 5: the cell is missing" in one for one in wrong())


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("fails", [False, True])
def test_a_run_leaves_the_key_nowhere(go, tmp_path, capfd, caplog, fails):
    caplog.set_level("DEBUG")

    def answer(handler, path, body):
        key = handler.headers["Authorization"]
        send(handler, 403 if fails else 200, completion(body, f"{key}!", error=f"{key} may not"))

    with serving(answer) as server:
        run = go(server)
    statuses = {one.status for one in run.cells if one.cell["model"] == "tiny"}
    assert statuses == {"failed" if fails else "done"}
    assert {one["Authorization"] for one in server.headers} == {f"Bearer {SECRET}"}
    said = "".join(capfd.readouterr()) + caplog.text + repr([one.reason for one in run.cells])
    assert SECRET not in said
    assert not holding(SECRET, tmp_path)
    assert holding("[secret]", tmp_path)


@pytest.mark.slow
def test_new_prompts_are_sent_where_the_suite_says_and_those_of_the_run_are_answered_already(go, tmp_path):
    with serving(truthful) as server:
        loaded = bench_notebook.load(go(server).folder, store=tmp_path / "store")
        sent = len(server.asked)
        best = loaded.model("tiny", decoder="best")
        due = [*loaded.outputs(model="tiny", decoder="best")]
        found = best.decode([one.prompt for one in due], "best")
        assert [one.texts for one in found] == [one.texts for one in due]
        assert len(server.asked) == sent
        assert not best.sampled
        assert best.decode(["a prompt of no split"], "best")[0].texts[0]
        assert len(server.asked) == sent + 1
        drawn = loaded.model("tiny", seed=5)
        drawn.decode(["ab", "ab"], "drawn")
        assert drawn.sampled
        with pytest.raises(BenchError, match=r"several times. Choose by seed \(3, 5\)"):
            loaded.model("tiny")


def test_a_metric_of_likelihood_needs_a_server_that_gives_it(go, tmp_path):
    text = SUITE.replace("{name: text-length}", "{name: nats}")
    with serving(truthful) as server:
        path = tmp_path / "suite.yaml"
        path.write_text(dedent(text).replace("URL", server.url))
        with pytest.raises(BenchError, match="only with `scores: true`"):
            check_fit(load(path), cells_of(load(path)))


KILLED = """
import sys
from pathlib import Path
import bench_small.plugin, bench_writers.plugin
import bench_core
from bench_core import registry

folder = Path(sys.argv[1])
with registry.extra(bench_small.plugin), registry.extra(bench_writers.plugin):
    run = bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", workers=0)
sys.exit({one.status for one in run.cells} != {"done"})
"""


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_goes_on_and_repeats_no_answered_request(go, tmp_path, how):
    answered, enough, lock, done = 6, threading.Event(), threading.Lock(), []

    def answer(handler, path, body):
        with lock:
            late = len(done) == answered
            done.extend([] if late else [json.dumps(body, sort_keys=True)])
        if not late:
            truthful(handler, path, body)
            return
        if len(server.asked) == answered + 2:  # both that wait were sent after the six answers were kept
            enough.set()
        server.over.wait(300)

    small = str(Path(bench_small.plugin.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": small, "CANARY_KEY": SECRET}
    with serving(answer) as server:
        (tmp_path / "suite.yaml").write_text(dedent(SUITE).replace("URL", server.url))
        command = [sys.executable, "-c", KILLED, str(tmp_path)]
        running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert enough.wait(300)
        running.send_signal(how)
        assert running.wait(300) != 0
        asked_before = [json.dumps(body, sort_keys=True) for _, body in server.asked]
        kept = [json.loads(line) for path in tmp_path.rglob("answers.jsonl") for line in path.open()]
        assert len(kept) == answered
    with serving(truthful) as server:
        (tmp_path / "suite.yaml").write_text(dedent(SUITE).replace("URL", server.url))
        assert subprocess.run(command, env=environment, timeout=300, capture_output=True, check=False).returncode == 0
        after = Counter(json.dumps(body, sort_keys=True) for _, body in server.asked)
    assert not after.keys() & {*done}
    assert {*asked_before} - {*done} <= after.keys()
    assert set(after.values()) == {1}
    assert len([body for body in {*done, *after} if '"seed"' in body]) == 18


def test_a_retry_is_reported_before_the_request_is_sent_again(tmp_path, clock):
    seen = []

    def failing(handler, path, body):
        seen.append("request")
        send(handler, 503, {"error": "busy"})

    with serving(failing) as server:
        model = ServedModel(ServedConfig(url=server.url, model="m", revision="1", parallel=1, retries=3), None)
        with pytest.raises(BenchError):
            model.generate(PROMPTS[:1], generation(tmp_path, seen.append))
    assert seen[0] == seen[2] == "request"
    assert len(seen) == 5
    assert "status 503: busy. Retrying up to 3 times" in seen[1]
    assert server.url in seen[1]


@pytest.mark.parametrize("listed", ["m", "m:latest", "models/m"])
def test_a_server_has_a_model_by_each_of_its_names(tmp_path, listed):
    assert not inspected(tmp_path, {"data": [{"id": "other"}, {"id": listed}]}).problems


@pytest.mark.parametrize("answer", [{"data": [{"id": "mm"}]}, {"data": "m"}, {"data": [{}]}, {}, {"data": []}])
def test_a_server_without_the_model_is_a_problem_that_says_what_it_has(tmp_path, answer):
    (text,) = inspected(tmp_path, answer).problems
    assert "/v1/models" in text
    assert "no model 'm'" in text or "not a list of models" in text


def test_where_a_server_has_answered_before_its_absence_is_a_warning(tmp_path):
    config = ServedConfig(url="http://127.0.0.1:9/v1", model="m", revision="1")
    folder_of(config, tmp_path).mkdir(parents=True)
    found = Inspection(tmp_path, answers=tmp_path)
    inspect(config, found)
    assert not found.problems
    assert "Cached responses in" in found.warnings[0]


def test_what_a_server_says_of_a_key_does_not_show_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", SECRET)
    found = inspected(tmp_path, {"error": f"key {SECRET} is wrong"}, 401, key_env="CANARY_KEY")
    assert SECRET not in found.problems[0]
    assert "[secret]" in found.problems[0]


def inspected(folder, answer, status=200, **settings):
    """Inspect a server that gives this answer to the question which models it has."""
    with serving(lambda handler, path, body: send(handler, status, answer)) as server:
        found = Inspection(folder, answers=folder)
        inspect(ServedConfig(url=server.url, model="m", revision="1", **settings), found)
    return found
