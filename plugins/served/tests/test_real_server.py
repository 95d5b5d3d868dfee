"""A served model writes and scores what the same model does in this process."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parent))

import bench_small.plugin
import torch
from servers import serving
from tiny_server import TEMPLATE, Tiny

import bench_core
from bench_core import Generation, Prompt, Rng, registry
from bench_core.storage.predictions import read_predictions
from bench_served.model import ServedModel
from bench_served.plugin import RequestConfig, ServedConfig
from bench_served.replies import ServerError

PROMPTS = [
    Prompt(number, text) for number, text in enumerate(["the cat", "où est", "“yes” 😀", "dog on", "l", "😀:"])
]
TARGETS = [" sat on the mat", " le café?", " said the cat", "", "og on the log", " là-bas 😀"]


@pytest.fixture(scope="module")
def tiny():
    return Tiny()


@pytest.fixture(scope="module")
def url(tiny):
    with serving(tiny) as server:
        yield server.url


def served(url, **settings):
    return ServedModel(ServedConfig(url=url, model="tiny", revision="1", retries=0, **settings), None)


def generation(folder, seed=0, **settings):
    decoder = RequestConfig(**settings) if settings else None
    return Generation(decoder, "test", seed, Rng(seed), folder)


def greedy(tiny, text, most):
    """What `generate` of transformers writes, and whether it stopped."""
    ids = tiny.tokenizer(text, return_tensors="pt")["input_ids"]
    found = tiny.model.generate(ids, do_sample=False, max_new_tokens=most, pad_token_id=0)[0, ids.shape[1] :].tolist()
    return tiny.tokenizer.decode(found, skip_special_tokens=True), found[-1] == 0, len(found)


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_greedy_texts_are_those_of_the_model(tiny, url, tmp_path, api):
    found = served(url, api=api).generate(PROMPTS, generation(tmp_path, max_tokens=12))
    texts = [one.text if api == "completions" else f"<user>{one.text}<assistant>" for one in PROMPTS]
    assert "<assistant>" in TEMPLATE
    wanted = [greedy(tiny, text, 12) for text in texts]
    assert [(one.text, one.finished, one.length) for (one,) in found] == wanted
    assert len({text for text, _, _ in wanted}) > 3


def test_a_stop_text_cuts_where_it_first_stands(tiny, url, tmp_path):
    whole = [greedy(tiny, one.text, 12)[0] for one in PROMPTS]
    stop = whole[0][3:5]
    found = served(url).generate(PROMPTS, generation(tmp_path, max_tokens=12, stop=[stop]))
    assert [one.text for (one,) in found] == [text.partition(stop)[0] for text in whole]
    assert found[0][0].finished


def test_draws_follow_the_seed(url, tmp_path):
    def drawn(folder, seed):
        rows = served(url).generate(PROMPTS, generation(tmp_path / folder, seed, temperature=1.0, n=3, max_tokens=9))
        return [[one.text for one in row] for row in rows]

    first = drawn("a", 0)
    assert drawn("b", 0) == first
    assert drawn("c", 1) != first
    assert all(len(set(row)) > 1 for row in first)


def known(tiny, prompt, target):
    """log p(target | prompt) and its number of tokens; None where a token covers the end of the prompt."""
    before, ids = (tiny.tokenizer(text)["input_ids"] for text in (prompt, prompt + target))
    if ids[: len(before)] != before:
        return None
    found = tiny.log_probs(ids)
    return sum(float(found[place - 1, ids[place]]) for place in range(len(before), len(ids))), len(ids) - len(before)


@pytest.mark.parametrize("place", range(len(PROMPTS)))
def test_scores_are_those_of_the_model_or_refused(tiny, url, tmp_path, place):
    wanted = known(tiny, PROMPTS[place].text, TARGETS[place])
    model = served(url, scores=True)
    (one,) = model.score_texts(PROMPTS[place : place + 1], TARGETS[place : place + 1], generation(tmp_path))
    assert wanted is not None
    assert (one.log_prob, one.tokens) == (pytest.approx(wanted[0], abs=1e-9), wanted[1])


@pytest.mark.parametrize(
    ("prompt", "target"), [("th", "e cat"), ("the ", "cat"), ("the c", "at sat"), ("yes ", "“x”")]
)
def test_a_target_inside_a_token_is_refused_or_exact(tiny, url, tmp_path, prompt, target):
    wanted, model = known(tiny, prompt, target), served(url, scores=True)
    if wanted is None:
        with pytest.raises(ServerError, match="no server token begins at the start of the target"):
            model.score_texts([Prompt(0, prompt)], [target], generation(tmp_path))
    else:
        (one,) = model.score_texts([Prompt(0, prompt)], [target], generation(tmp_path))
        assert (one.log_prob, one.tokens) == (pytest.approx(wanted[0], abs=1e-9), wanted[1])


def test_where_a_prompt_ends_in_parts_of_a_character_nothing_is_guessed(url, tmp_path):
    with pytest.raises(ServerError, match="no server token begins at the start of the target"):
        served(url, scores=True).score_texts([Prompt(0, "😀")], [" là"], generation(tmp_path))


def test_some_targets_begin_inside_a_token(tiny):
    assert known(tiny, "th", "e cat") is None
    assert known(tiny, "the ", "cat") is None


def test_stop_is_scored_where_the_server_reads_it_as_a_token(tiny, url, tmp_path):
    (one,) = served(url, scores=True, end="</s>").score_texts(PROMPTS[:1], TARGETS[:1], generation(tmp_path))
    log_prob, tokens = known(tiny, PROMPTS[0].text, TARGETS[0])
    ids = tiny.tokenizer(PROMPTS[0].text + TARGETS[0])["input_ids"]
    log_prob += float(tiny.log_probs(ids)[-1, 0])
    assert (one.log_prob, one.tokens, one.stop) == (pytest.approx(log_prob, abs=1e-9), tokens + 1, True)


def test_nothing_before_a_target_is_no_probability(url, tmp_path):
    with pytest.raises(ServerError, match=r"no log-probability of 't.*', because nothing precedes it"):
        served(url, scores=True).score_texts([Prompt(0, "")], ["the cat"], generation(tmp_path))
    (one,) = served(url, scores=True, prompt="</s>{prompt}").score_texts(
        [Prompt(0, "")], ["the cat"], generation(tmp_path)
    )
    assert one.log_prob < 0


SUITE = """
    suite: tests/real
    tasks: {words: {name: letters, prefix: 0}}
    models:
      bigram: {name: bigram, training: {epochs: 1}}
      tiny: {name: served, url: URL, model: tiny, revision: "1", scores: true, prompt: "</s>{prompt}"}
    decoders: {greedy: {name: greedy}, asked: {name: request}}
    metrics:
      letters: {name: text-length}
      nats: {name: nats}
      bits: {name: bits-per-byte}
    limits: {max_tokens: 5, examples: 9, scored: 9}
    skip: [{model: bigram, metric: bits}]
    splits: [test]
"""


def test_a_suite_is_decoded_and_scored(tmp_path):
    import bench_writers.plugin

    letters = Tiny(merges=0)
    with registry.extra(bench_small.plugin), registry.extra(bench_writers.plugin), serving(letters) as server:
        path = tmp_path / "suite.yaml"
        path.write_text(dedent(SUITE).replace("URL", server.url))
        run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
        assert {(one.status, one.reason) for one in run.cells} == {("done", "")}
        (cell,) = (one for one in run.cells if one.cell["model"] == "tiny")
        decoded = read_predictions(tmp_path / "store/decode" / cell.artifacts["decode"] / "predictions.jsonl.gz")
        assert [one.texts[0] for one in decoded] == [greedy(letters, f"</s>{one.prompt}", 5)[0] for one in decoded]
        wanted = [known(letters, f"</s>{one.prompt}", one.references[0]) for one in decoded]
        nats, tokens = -sum(one for one, _ in wanted), sum(one for _, one in wanted)
        assert cell.numbers["nats"].value == pytest.approx(nats / tokens)
        size = sum(len(one.references[0].encode()) for one in decoded)
        assert cell.numbers["bits"].value == pytest.approx(nats / size / torch.tensor(2.0).log().item())
