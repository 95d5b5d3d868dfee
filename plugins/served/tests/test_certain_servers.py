"""A server that fills in log-probabilities is refused; one that is certain of a token is not."""

from __future__ import annotations

import sys
from math import exp
from pathlib import Path

import bench_small.plugin
import pytest

import bench_core
from bench_core import registry

sys.path.insert(0, str(Path(__file__).parent))
from servers import completion, send, serving

REFERENCES = ["abcd"[: 1 + number % 4] * (1 + number % 2) for number in range(40)][2::3]  # of the split test

SUITE = """
suite: tests/certain
tasks: {words: {name: letters, prefix: 0}}
models: {tiny: {name: served, url: URL, model: tiny, revision: "1", retries: 0, scores: true, prompt: "<s>{prompt}"}}
decoders: {best: {name: request}}
metrics: {perplexity: {name: perplexity}}
limits: {LIMIT}
splits: [test]
"""


def scoring(values, whole=False):
    """A server that gives each token the value of a function; its tokens are characters, or whole targets."""

    def answer(handler, path, body):
        text = body["prompt"]
        tokens = [text[:3], *([text[3:]] if whole else text[3:])] if body.get("echo") else []
        log_probs = [None, *(values(text[3:], one) for one in range(len(tokens) - 1))]
        choice = {"index": 0, "finish_reason": "length", "text": text}
        choice["logprobs"] = {"tokens": tokens, "token_logprobs": log_probs[: len(tokens)]}
        send(handler, content=completion(body, choices=[choice], usage={"completion_tokens": 0}))

    return serving(answer)


@pytest.fixture
def cell(tmp_path):
    """Score a served model on all examples, or on some; return its only cell."""

    def going(server, limit=""):
        path = tmp_path / "suite.yaml"
        path.write_text(SUITE.replace("URL", server.url).replace("LIMIT", limit))
        run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
        (found,) = run.cells
        return found

    with registry.extra(bench_small.plugin):
        yield going


FILLED = {
    "zeros": lambda target, token: 0.0,
    "whole zeros": lambda target, token: 0,
    "negative zeros": lambda target, token: -0.0,
    "what rounding leaves of 1": lambda target, token: -1.2e-7 if token % 2 else 0.0,
    "rounding above 1": lambda target, token: 1e-5,
}


@pytest.mark.quick(2, 1)
@pytest.mark.parametrize("way", FILLED)
def test_a_stage_in_which_every_token_has_probability_one_is_refused(cell, way):
    with scoring(FILLED[way]) as server:
        found = cell(server)
    assert found.status == "failed"
    assert "ServedModel.score_texts gave all" in found.reason
    assert "the probability 1" in found.reason
    assert "`revision`" in found.reason


POSSIBLE = {
    "one token of all is uncertain": lambda target, token: -0.5 if (target, token) == ("abc", 2) else 0.0,
    "one token of each is certain": lambda target, token: 0.0 if token == 0 else -0.25,
    "all are nearly certain": lambda target, token: -1e-4,
}


@pytest.mark.parametrize("way", POSSIBLE)
def test_a_server_that_is_certain_of_some_tokens_has_the_perplexity_of_all(cell, way):
    with scoring(POSSIBLE[way]) as server:
        found = cell(server)
    assert found.status == "done", found.reason
    each = [POSSIBLE[way](target, token) for target in REFERENCES for token in range(len(target))]
    assert found.numbers["perplexity"].value == pytest.approx(exp(-sum(each) / len(each)), rel=1e-12)


def test_a_single_token_may_be_certain(cell):
    with scoring(FILLED["zeros"], whole=True) as server:
        found = cell(server, "examples: 1, scored: 1")
    assert (found.status, found.numbers["perplexity"].value) == ("done", 1.0)


@pytest.mark.parametrize("target", sorted({one for one in REFERENCES if len(one) > 1}))
def test_targets_that_are_certain_among_others_are_warned_of(tmp_path, cell, target):
    number = sum(one == target for one in REFERENCES)
    with scoring(lambda text, token: 0.0 if text == target else -0.5) as server:
        found = cell(server)
    assert found.status == "done", found.reason
    (log,) = (tmp_path / "runs").glob("*/log")
    assert f"{number} of {len(REFERENCES)} targets of 'test' have probability 1" in log.read_text()
