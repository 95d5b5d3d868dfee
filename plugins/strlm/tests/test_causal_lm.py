"""Self-terminating GPT-2: contracts, laws, scores, the prompt in the product, certificates."""

from __future__ import annotations

from math import exp, log1p
from pathlib import Path

import pytest
import torch

from bench_authors.testing import Case, check_model
from bench_core import STOP, Batch, Rng, Scoring, TaskInfo, Training
from bench_core.suites.load import load
from bench_decoders.plugin import BeamConfig, GreedyConfig
from bench_strlm.bounds import greedy_steps
from bench_strlm.causal_lm import SelfTerminatingCausalLM
from bench_strlm.consistency import Consistency
from bench_strlm.plugin import ConsistencyConfig, SelfTerminatingCausalLMConfig

GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 64}
INFO = TaskInfo(vocabulary=["</s>", *"abcdef"], counts=[7, 6, 5, 4, 3, 2, 1])
SCORING, TRAINING = Scoring("exact", Rng(5)), Training(0, 10, 0, 1, Rng(5))


def config(**settings):
    return SelfTerminatingCausalLMConfig.model_validate({"architecture": GPT2, "epsilon": 0.05} | settings)


def model(**settings):
    torch.manual_seed(3)
    built = SelfTerminatingCausalLM(config(**settings), INFO)
    for weight in built.parameters():  # far from the initial, almost equal, logits
        torch.nn.init.normal_(weight, std=0.5)
    return built.eval().double()


def rows(prefix, number=3):
    ids = torch.arange(number)
    prompt = torch.cat([ids.new_zeros(number, 1), 1 + (ids[:, None] + torch.arange(prefix)) % 6], 1)
    gold = torch.tensor([[1, 2, 0, 0], [4, 3, 2, 0], [0, 0, 0, 0]])[:number]
    return Batch(ids, prompt, gold, torch.tensor([3, 4, 1])[:number])


@pytest.mark.quick(1)
@pytest.mark.parametrize("context", [False, True])
def test_it_keeps_the_contracts(context):
    assert check_model(Case.of(config(st_context=context)))


@pytest.mark.parametrize("context", [False, True])
def test_a_score_is_the_product_of_the_steps_and_the_loss_its_mean(context):
    lm, batch = model(st_context=context), rows(prefix=2)
    log_probs, state = lm.start(batch)
    total, open_rows = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.bool)
    for step in range(4):
        token = batch.gold[:, step]
        total += torch.where(open_rows, log_probs.gather(1, token[:, None])[:, 0], 0.0)
        open_rows &= token != STOP
        log_probs, state = lm.step(state, token.clamp(min=1))
    scores = lm.score(batch, SCORING).log_probs
    assert torch.allclose(scores, total, atol=1e-10)
    assert lm.loss(batch, TRAINING).value.item() == pytest.approx(float(-total.sum() / 8), abs=1e-10)


def test_every_weight_learns():
    lm, batch = model(), rows(prefix=2)
    lm.loss(batch, TRAINING).value.backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in lm.parameters())


def test_the_product_may_run_over_the_prompt():
    """As in the authors' code: where p tokens are read before the first is generated, n begins there."""
    batch, epsilon = rows(prefix=10), 0.05
    for context, steps in ((True, 11), (False, 1)):
        log_probs, _ = model(st_context=context).start(batch)
        stop = log_probs[:, STOP].exp()
        assert (stop > 1 - exp(steps * log1p(-epsilon))).all()
    without = model(st_context=True, bos=False).start(batch)[0][:, STOP].exp()
    assert (without > 1 - exp(10 * log1p(-epsilon))).all()
    plain, over = (model(st_context=context).start(batch)[0][:, STOP] for context in (False, True))
    assert (over > plain).all()


def test_stop_grows_with_every_step_and_moves_with_its_row():
    lm, batch = model(), rows(prefix=2)
    log_probs, state = lm.start(batch)
    for step in range(1, 8):
        before = log_probs[:, STOP]
        log_probs, state = lm.step(state, torch.tensor([1, 2, 3]))
        assert (log_probs[:, STOP] > before).all()
        assert (log_probs[:, STOP].exp() > 1 - exp((step + 1) * log1p(-0.05))).all()
        assert torch.allclose(log_probs.logsumexp(1), torch.zeros(3, dtype=torch.float64), atol=1e-12)
    turned = torch.tensor([2, 0, 0])
    there, _ = lm.step(state.select(turned), torch.tensor([1, 1, 1]))
    here, _ = lm.step(state, torch.tensor([1, 1, 1]))
    assert torch.allclose(there, here[turned], atol=1e-12)


@pytest.mark.parametrize("decoder", [GreedyConfig(), BeamConfig(width=3, finish="first"), BeamConfig(width=3)])
def test_what_is_certified_comes_true_however_hard_the_weights_try(decoder):
    lm = model()
    with torch.no_grad():  # the final norm passes on its bias alone, so that every state predicts the same: a word
        lm.network.transformer.ln_f.weight.zero_()
        lm.network.transformer.ln_f.bias.copy_(lm.network.lm_head.weight[STOP] * 50)
    found = Consistency(ConsistencyConfig(limit=40)).statement(lm, decoder, [rows(prefix=2)])
    last = greedy_steps(0.05)
    if isinstance(decoder, BeamConfig) and decoder.finish == "k":
        last += decoder.width - 1
    assert found.bound == f"by step {last}"
    assert found.holds
    assert found.promises == (0, 0)
    made = decoder.load()(decoder).decode(lm, rows(prefix=2), Rng(0))
    lengths = [len(hypotheses[0].tokens) + 1 for hypotheses in made]
    assert all(hypotheses[0].finished for hypotheses in made)
    assert max(lengths) <= last
    if isinstance(decoder, GreedyConfig):
        assert min(lengths) == last  # nothing but the growth of p(stop) makes such a model stop


def test_table_4_tunes_its_published_models():
    """What has weights is evaluated as it is, unless its own training says otherwise."""
    suite = load(Path(__file__).parents[3] / "suites" / "strlm" / "table-4.yaml")
    assert all(model.config.is_pretrained() and model.training.trains for model in suite.models.values())
