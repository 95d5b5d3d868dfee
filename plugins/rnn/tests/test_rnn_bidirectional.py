"""Both directions, where they may not be: what a language model that sees its target is worth."""

from dataclasses import replace
from math import exp

import pytest
import torch
from pydantic import ValidationError

from bench_authors.testing import Case, check_model, tiny_batch
from bench_core import STOP, Batch, Rng, Scorer, Scoring, SuiteError, TaskInfo, Training
from bench_decoders.plugin import BeamConfig
from bench_rnn.plugin import BidirectionalLMConfig, RNNLMConfig

RNG = Rng(7)
TRAINING = Training(step=0, steps=10, epoch=0, epochs=1, rng=RNG)
INFO = TaskInfo(["</s>", *"abcd"])


def model(config):
    torch.manual_seed(1)
    return config.load()(config, INFO)


def scores(one, rows, by):
    return one.score(rows, Scoring(by, RNG)).log_probs


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("settings", [{"cell": "lstm", "dropout": 0.1}, {"cell": "tanh", "layers": 2}])
def test_it_keeps_the_contracts_of_a_scorer(settings):
    assert BidirectionalLMConfig.capabilities == {Scorer}
    check_model(Case.of(BidirectionalLMConfig(hidden=6, **settings)))


def test_decoders_refuse_it():
    with pytest.raises(SuiteError, match=r"beam needs a Stepper \(start, step\); bidirectional-lm is a Scorer"):
        Case.of(BidirectionalLMConfig(), BeamConfig())


def test_a_left_to_right_model_cannot_be_bidirectional():
    with pytest.raises(ValidationError, match="rnn-lm predicts from left to right, but a bidirectional model has"):
        RNNLMConfig(bidirectional=True)


@pytest.mark.parametrize(("by", "is_one"), [("hidden", True), ("leak", False)])
def test_probabilities_of_all_targets_sum_to_one_unless_they_leak(by, is_one):
    one = model(BidirectionalLMConfig(hidden=6, layers=2)).double()
    with torch.no_grad():
        for weights in one.parameters():
            weights.mul_(3)
    gold = torch.cartesian_prod(*[torch.arange(5)] * 3)  # windows of a stream, stop among them
    prompt = torch.full((125, 2), STOP)
    rows = Batch(torch.arange(125), prompt, gold, torch.full((125,), 3))
    total = scores(one, rows, by).exp().sum().item()
    assert (total == pytest.approx(1, abs=1e-9)) == is_one


def test_hidden_scores_come_of_nothing_but_the_tokens_before():
    one, rows = model(BidirectionalLMConfig(hidden=6, layers=2)).double(), tiny_batch()
    for row, (length, total) in enumerate(zip(rows.length.tolist(), scores(one, rows, "hidden"), strict=True)):
        gains, read = 0.0, rows.prompt[row].tolist()
        for token in rows.gold[row, :length].tolist():
            states, _ = one.encoder(one.embed(torch.tensor([read])), torch.tensor([len(read)]))
            gains += one.head(states[0, -1]).log_softmax(0)[token].item()
            read.append(token)
        assert total.item() == pytest.approx(gains)


def test_what_pads_a_target_changes_nothing():
    one, rows = model(BidirectionalLMConfig(hidden=6)), tiny_batch()
    noisy = replace(rows, gold=rows.gold.where(rows.mask, torch.full_like(rows.gold, 3)))
    assert not torch.equal(noisy.gold, rows.gold)
    for by in ("leak", "hidden"):
        torch.testing.assert_close(scores(one, noisy, by), scores(one, rows, by))


@pytest.mark.slow
def test_with_the_future_hidden_it_is_far_worse_than_a_forward_model():
    """R7: what it has learnt is to copy the token on its right, and to stop where there is none."""

    def rows(seed):
        draws = torch.Generator().manual_seed(seed)
        length = torch.randint(2, 8, (64,), generator=draws)
        gold = torch.randint(1, 5, (64, 7), generator=draws) * (torch.arange(1, 8) < length[:, None])
        return Batch(torch.arange(64), torch.full((64, 1), STOP), gold, length)

    @torch.no_grad()
    def perplexity(one, by):
        test = rows(-1)
        return exp(-scores(one.eval(), test, by).sum() / test.length.sum())

    both, forward = (model(kind(hidden=16, layers=1)) for kind in (BidirectionalLMConfig, RNNLMConfig))
    for one in (both, forward):
        optimizer = torch.optim.Adam(one.parameters(), 0.02)
        for step in range(120):
            optimizer.zero_grad()
            one.loss(rows(step), TRAINING).value.backward()
            optimizer.step()
    assert perplexity(both, "leak") < 1.1
    assert perplexity(forward, "exact") < 5
    assert perplexity(both, "hidden") > 10 * perplexity(forward, "exact")
