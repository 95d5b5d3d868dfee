"""How large numbers become: never larger than proven, and no overflow where the proof says so."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from bench_authors.testing import Case, tiny_batch
from bench_core import STOP, Rng, TaskInfo
from bench_rnn.plugin import RNNLMConfig
from bench_strlm.magnitudes import logits_of, magnitudes, min_log_stop

CELLS = ["tanh", "gru", "lstm", "relu", "identity"]
STEPS = 30


def model_of(cell, scale=3.0, dtype=torch.float32, seed=0, **settings):
    config = RNNLMConfig(**{"cell": cell, "hidden": 5, "layers": 2} | settings)
    return Case.of(config, seed=seed, scale=scale).model.to(dtype)


def proven(model, tokens=STEPS + 2):
    with torch.no_grad():
        return magnitudes(model, logits_of(model), tokens)


def seen(model):
    """Return the largest hidden units [H] and logits of random sequences, and the least log p(stop) of them."""
    tops, logits, stops = [], [], []
    for module, found in ((model.rnn, tops), (logits_of(model), logits)):
        module.register_forward_hook(partial(lambda found, module, given, out: found.append(out), found))
    batch = tiny_batch(prefix=1)
    with torch.no_grad():
        log_probs, state = model.start(batch)
        for step in range(STEPS):
            stops.append(log_probs[:, STOP])
            words = 1 + (Rng(3).uniform(batch.ids, step) * (log_probs.shape[1] - 1)).long()
            log_probs, state = model.step(state, words)
    units = torch.cat([out[0].flatten(0, 1) for out in tops]).abs().amax(0)
    return units.double(), float(torch.cat(logits).abs().max()), float(torch.cat(stops).min())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("embedding", [None, "one-hot"])
@pytest.mark.parametrize("cell", CELLS)
def test_no_number_is_larger_than_proven(cell, embedding, dtype):
    for scale in (0.5, 3.0, 300.0):
        model = model_of(cell, scale, dtype, embedding=embedding)
        bound = proven(model)
        if bound.fits(dtype):
            units, logit, _ = seen(model)
            assert (units <= bound.units).all()
            assert logit <= bound.largest
        else:
            assert (cell, scale) in {("relu", 300.0), ("identity", 300.0)}


@pytest.mark.parametrize("cell", CELLS)
def test_what_is_proven_is_met_by_weights_without_a_sign(cell):
    """All weights and inputs positive: sums of absolute values are the sums, and gates open."""
    model = model_of(cell, 1.0, layers=1)
    with torch.no_grad():
        for weights in model.parameters():
            weights.fill_(0.5 if cell in ("relu", "identity") else 9.0)
        logits_of(model).bias.fill_(1.0)
        if cell == "gru":
            model.rnn.layers.weight_ih_l0[5:10] = -9.0  # keep nothing of the units before
            model.rnn.layers.bias_ih_l0[5:10] = -500.0
    bound = proven(model)
    units, logit, _ = seen(model)
    torch.testing.assert_close(units, bound.units, rtol=0.15, atol=0)
    weight = logits_of(model).weight.detach().double()
    assert logit == pytest.approx(float((weight.abs() @ bound.units).max()) + 1, rel=0.15)


@pytest.mark.parametrize("part", ["embed.weight", "rnn.layers.weight_ih_l1", "rnn.layers.bias_hh_l0", "head.bias"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 3e38])
@pytest.mark.parametrize("cell", ["gru", "relu"])
def test_one_weight_that_is_no_number_or_too_large_is_seen_wherever_it_is(cell, value, part):
    model = model_of(cell)
    assert proven(model).fits(torch.float32)
    with torch.no_grad():
        model.get_parameter(part).view(-1)[3] = value
    assert not proven(model).fits(torch.float32)


@pytest.mark.parametrize("cell", CELLS)
def test_numbers_that_fit_never_overflow_and_the_largest_scales_do(cell):
    """Every power of ten: as long as the proof holds, all probabilities are numbers."""
    fits = []
    for power in range(0, 39, 2):
        model = model_of(cell, 10.0**power)
        fits.append(proven(model).fits(torch.float32))
        if fits[-1]:
            _, logit, stop = seen(model)
            assert torch.tensor(logit).isfinite()
            assert not torch.tensor(stop).isnan()
    assert fits[0]
    assert not fits[-1]


def test_units_without_a_bound_grow_with_the_tokens_that_are_read():
    model = model_of("relu", 1.0, layers=1)
    with torch.no_grad():
        model.rnn.layers.weight_hh_l0.copy_(2 * torch.eye(5))
    short, long = (proven(model, tokens) for tokens in (20, 200))
    assert short.fits(torch.float32)
    assert not long.fits(torch.float32), "2^200 is too large"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cell", ["tanh", "gru", "lstm"])
def test_p_stop_never_lies_below_the_lemma_whatever_the_biases(cell, dtype):
    """In float32 the logits of large biases are rounded by more than they differ."""
    for shift in (0.0, 1e4, 1e7):
        for seed in range(3):
            model = model_of(cell, 3.0, dtype, seed=seed)
            with torch.no_grad():
                logits_of(model).bias += shift
                least = min_log_stop(logits_of(model), proven(model).units)
            assert seen(model)[2] > least


def test_every_word_counts_by_its_own_distance_to_stop():
    """The lemma's norms take the worst of all words for each of them."""
    info = TaskInfo(["</s>", *map(str, range(50))])
    config = RNNLMConfig(cell="tanh", hidden=2, layers=1)
    model = Case.of(config, info=info).model
    with torch.no_grad():
        logits_of(model).weight.zero_()
        logits_of(model).bias.zero_()
        logits_of(model).weight[1] = 2.0
        least = min_log_stop(logits_of(model), proven(model).units)
    assert least == pytest.approx(-float(torch.tensor([4.0] + [0.0] * 50).logsumexp(0)), abs=1e-6)
