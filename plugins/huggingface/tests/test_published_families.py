"""Published families: they write what `generate` writes, score by their logits, and see no neighbours."""

from __future__ import annotations

import pytest
import torch
from published import CAUSAL, SEQ2SEQ, prompts, publish

from bench_authors.testing import DECODER_CONTRACTS, MODEL_CONTRACTS, Case
from bench_authors.testing.contracts import try_contracts
from bench_core import Rng, Scoring, SuiteError
from bench_decoders.plugin import BeamConfig, GreedyConfig
from bench_huggingface import pretrained, pretrained_lm
from bench_huggingface.pretrained_lm import ALONE, JOINED, PADDED

FAMILIES = [*CAUSAL, *SEQ2SEQ]
QUICK = ["gpt2", "t5", "mamba"]
UNLIKE = {"t5", "gemma2", "mamba"}  # in what they remember, and in their prompts
SCORING = Scoring("exact", Rng(0))
TOKENS = 8
#: Those that transformers computes in part in float32, whatever the type of weights; and contracts of float64.
IN_FLOAT32 = {"mamba", "mamba2", "rwkv", "xlstm", "jamba"}
IN_EXACT_NUMBERS = {"the_score_is_the_sum_of_its_steps", "a_row_scores_alike_alone_and_in_a_batch"}
ANSWERS = ["abba", "", "c a b", "bee", "face"]


def slow_but(quick, slow=UNLIKE):
    """Return the families, all but some of them slow, or nightly if they are in neither list."""
    marks = {name: pytest.mark.slow if name in slow else pytest.mark.nightly for name in FAMILIES}
    return [name if name in quick else pytest.param(name, marks=mark) for name, mark in marks.items()]


def greedy(model, asked, tokens=TOKENS, batch=100):
    """Return what greedy decoding writes for prompts, in the numbers of the checkpoint."""
    config = GreedyConfig(max_tokens=tokens)
    found = []
    with torch.no_grad():
        for first in range(0, len(asked), batch):
            rows = config.load()(config).decode(model, model.encode(asked[first : first + batch]), Rng(0))
            found += [model.numbering.swap(row[0].tokens) for row in rows]
    return found


def generated(saved, model, asked, tokens=TOKENS, **more):
    """Return what `generate` of transformers writes for each prompt alone, before the token that ends it."""
    found = []
    for one in asked:
        forget(saved.network)
        source = torch.tensor([model.tokens_of(one.text)])
        given = {"attention_mask": torch.ones_like(source), "max_new_tokens": tokens, "do_sample": False, **more}
        row = saved.network.generate(source, **given)[0].tolist()
        row = row[source.shape[1] :] if saved.is_causal else row[len(model.prefix) :]
        found.append(row[: row.index(2)] if 2 in row else row)
    return found


def searched(model, asked, width, tokens=TOKENS):
    """Return what beam search writes for prompts, in the numbers of the checkpoint."""
    config = BeamConfig(
        width=width, refill=True, finish="exhausted", candidates="finished_and_alive", max_tokens=tokens
    )
    with torch.no_grad():
        rows = config.load()(config).decode(model, model.encode(asked), Rng(0))
    return [model.numbering.swap(row[0].tokens) for row in rows]


def forget(network):
    """Let RecurrentGemma begin anew: a prompt of one token would go on from what it read before."""
    for block in network.modules():
        if hasattr(block, "conv1d_state"):
            block.conv1d_state = block.rg_lru.recurrent_states = None


def equals_generate(tmp_path, name, rows):
    saved = publish(tmp_path, name)
    model, asked = saved.model(), prompts(rows)
    found = greedy(model, asked)
    given = 0 if saved.is_causal else len(model.prefix) - 1  # a token of a language counts as new for `generate`
    assert found == generated(saved, model, asked, TOKENS + given)
    assert len({tuple(row) for row in found}) > 3  # else it would not matter what it has read


@pytest.mark.parametrize("name", slow_but(QUICK))
def test_greedy_choice_of_20_prompts_of_several_lengths_is_that_of_generate(tmp_path, name):
    equals_generate(tmp_path, name, 20)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FAMILIES)
def test_greedy_choice_of_100_prompts_of_several_lengths_is_that_of_generate(tmp_path, name):
    equals_generate(tmp_path, name, 100)


#: `generate` cannot reorder what these remember, and searches by reading everything again at every step.
READ_AGAIN = {"rwkv", "recurrent_gemma", "xlstm"}


def beam_equals_generate(tmp_path, name, rows):
    saved = publish(tmp_path, name)
    model, asked = saved.model(), prompts(rows)
    given = 0 if saved.is_causal else len(model.prefix) - 1
    for width in (2, 4):
        again = {"use_cache": False} if name in READ_AGAIN else {}
        wanted = generated(saved, model, asked, TOKENS + given, num_beams=width, length_penalty=0.0, **again)
        assert searched(model, asked, width) == wanted
    assert len({tuple(row) for row in wanted}) > 3
    assert wanted != greedy(model, asked), "a beam finds something else"


@pytest.mark.parametrize("name", slow_but(QUICK))
def test_beam_search_of_10_prompts_of_several_lengths_is_that_of_generate(tmp_path, name):
    beam_equals_generate(tmp_path, name, 10)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FAMILIES)
def test_beam_search_of_100_prompts_of_several_lengths_is_that_of_generate(tmp_path, name):
    beam_equals_generate(tmp_path, name, 100)


def directly(saved, model, prompt, answer):
    """Return log p of an answer and the end after a prompt, by the network and the tokenizer alone."""
    source = model.tokens_of(prompt)
    target = [*saved.tokenizer(answer, add_special_tokens=False).input_ids, 2]
    forget(saved.network)
    with torch.no_grad():
        if saved.is_causal:
            read = torch.tensor([[*source, *target[:-1]]])
            logits = saved.network(read).logits
        else:
            read = torch.tensor([[*model.prefix, *target[:-1]]])
            logits = saved.network(input_ids=torch.tensor([source]), decoder_input_ids=read).logits
    logits = logits[0, -len(target) :, : len(saved.tokenizer)].clone()
    for token in model.words.never:
        logits[:, token] = -torch.inf
    return logits.log_softmax(1).gather(1, torch.tensor(target)[:, None]).sum().item()


@pytest.mark.parametrize("name", slow_but([*QUICK, "marian"]))
def test_scores_are_those_of_the_logits_of_each_row_alone(tmp_path, name):
    saved = publish(tmp_path, name)
    model, asked = saved.model(), prompts(5)
    found = model.score(model.encode(asked, ANSWERS), SCORING).log_probs
    wanted = [directly(saved, model, one.text, answer) for one, answer in zip(asked, ANSWERS, strict=True)]
    assert found.tolist() == pytest.approx(wanted, rel=1e-6)


def test_rows_that_are_scored_a_few_at_a_time_score_alike(tmp_path, monkeypatch):
    model = publish(tmp_path, "gpt2").model()
    batch = model.encode(prompts(5), ANSWERS)
    found = model.score(batch, SCORING).log_probs
    monkeypatch.setattr(pretrained, "MAX_LOGITS", 1)
    torch.testing.assert_close(model.score(batch, SCORING).log_probs, found)


@pytest.mark.parametrize("name", slow_but(QUICK))
def test_a_row_is_written_and_scored_alone_as_in_a_batch(tmp_path, name):
    model, asked = publish(tmp_path, name).model(), prompts(9)
    assert greedy(model, asked) == greedy(model, asked, batch=1) == greedy(model, asked[::-1], batch=4)[::-1]
    answers = [*ANSWERS, *ANSWERS][: len(asked)]
    together = model.score(model.encode(asked, answers), SCORING).log_probs
    alone = [
        model.score(model.encode([one], [answer]), SCORING).log_probs
        for one, answer in zip(asked, answers, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-5 if name in IN_FLOAT32 else 1e-9, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["gpt2"]))
def test_they_keep_the_contracts(tmp_path, name):
    saved = publish(tmp_path, name)
    settled = saved.config()
    info = saved.info(settled)
    tried, broken = try_contracts(MODEL_CONTRACTS, Case.of(settled, info=info, scale=1.0))
    assert {*broken} <= (IN_EXACT_NUMBERS if name in IN_FLOAT32 else set()), broken
    assert {*tried} >= IN_EXACT_NUMBERS
    for decoder in (GreedyConfig(max_tokens=4), BeamConfig(width=2, max_tokens=4)):
        tried, broken = try_contracts(DECODER_CONTRACTS, Case.of(settled, decoder, info=info, scale=1.0))
        assert not broken, broken
        assert tried


WAYS = {"gpt2": PADDED, "llama": PADDED, "bloom": JOINED, "mamba": JOINED, "rwkv": JOINED}


@pytest.mark.parametrize("name", WAYS)
def test_setup_finds_out_how_prompts_of_several_lengths_can_be_read(tmp_path, name):
    assert publish(tmp_path, name).model().together == WAYS[name]


def nan(logits):
    return logits * torch.nan


def other(logits):
    return logits.flip(1)


@pytest.mark.parametrize("wrong", [nan, other])
def test_a_padded_batch_that_predicts_otherwise_than_its_rows_alone_is_not_read_so(tmp_path, monkeypatch, wrong):
    saved, padded = publish(tmp_path, "gpt2"), pretrained_lm.PretrainedLM._read_padded

    def spoilt(self, *given):
        logits, reading = padded(self, *given)
        return wrong(logits), reading

    monkeypatch.setattr(pretrained_lm.PretrainedLM, "_read_padded", spoilt)
    model, asked = saved.model(), prompts(6)
    assert model.together == JOINED
    assert greedy(model, asked) == generated(saved, model, asked)


def test_where_neither_way_is_right_rows_are_read_alone_and_others_refused(tmp_path, monkeypatch):
    saved = publish(tmp_path, "gpt2")
    padded = pretrained_lm.PretrainedLM._read_padded

    def spoilt(self, *given):
        logits, reading = padded(self, *given)
        return nan(logits), reading

    for name in ("_read_padded", "_read_joined"):
        monkeypatch.setattr(pretrained_lm.PretrainedLM, name, spoilt)
    model, asked = saved.model(), prompts(6)
    assert model.together == ALONE
    assert greedy(model, asked, batch=1) == generated(saved, model, asked)
    with pytest.raises(SuiteError, match=r"GPT2LMHeadModel does not support prompts of several lengths in a batch"):
        greedy(model, asked)


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_a_network_that_forgets_what_it_has_read_is_refused(tmp_path, monkeypatch, name):
    saved = publish(tmp_path, name)
    kind = type(saved.model())
    advance = kind.advance

    def forgetful(self, reading, tokens):
        logits, after = advance(self, reading, tokens)
        return nan(logits), after

    monkeypatch.setattr(kind, "advance", forgetful)
    with pytest.raises(SuiteError, match=r"incremental and full-sequence predictions of .* differ"):
        saved.model()
