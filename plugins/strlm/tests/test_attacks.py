"""Certificates under attack: each of these models once had, or could have, a promise that it broke."""

from __future__ import annotations

import pytest
import torch

from bench_authors.testing import Case, tiny_batch
from bench_authors.testing.contracts import posing
from bench_core import STOP, Batch, Rng, Statement, TaskInfo
from bench_decoders.plugin import (
    AncestralConfig,
    BeamConfig,
    ConsistentTopKConfig,
    GreedyConfig,
    NucleusConfig,
    TopKConfig,
)
from bench_rnn.api import RecurrentLM
from bench_rnn.plugin import RNNLMConfig
from bench_strlm.consistency import METRIC, Consistency
from bench_strlm.magnitudes import logits_of
from bench_strlm.plugin import ConsistencyConfig, SelfTerminatingCausalLMConfig, SelfTerminatingRNNLMConfig
from bench_strlm.rnn import SelfTerminatingRNNLM

INFO = TaskInfo(["</s>", *"abcdef"])
DECODERS = [
    GreedyConfig(max_tokens=1500),
    BeamConfig(width=2, max_tokens=1500),
    AncestralConfig(max_tokens=1500),
    TopKConfig(k=2, max_tokens=1500),
    ConsistentTopKConfig(k=2, max_tokens=1500),
]


def contexts(prefix, rows=4):
    """Return openings of stop and `prefix` tokens."""
    return tiny_batch([(1,)] * rows, prefix=prefix)


def certified(model, decoder, *batches, limit=1500):
    with torch.no_grad():
        return Consistency(ConsistencyConfig(limit=limit)).statement(model, decoder, batches or [contexts(10)])


def finished(model, decoder, batch):
    with torch.no_grad():
        return [found[0].finished for found in decoder.load()(decoder).decode(model, batch, Rng(0))]


def says_nothing(found):
    return not found.bound and found.promises is None


def recurrent(cell="tanh", epsilon=0.01, **settings):
    """Return a self-terminating model in float32."""
    config = SelfTerminatingRNNLMConfig(**{"cell": cell, "hidden": 4, "layers": 1, "epsilon": epsilon} | settings)
    return Case.of(config, info=INFO).model.float()


def late(model, words=(1,)):
    """Let stop be as improbable as it can be, and some words equally probable."""
    with torch.no_grad():
        logits_of(model).weight.zero_()
        logits_of(model).bias.zero_()
        logits_of(model).bias[STOP] = 100.0
        logits_of(model).bias[list(words)] = 60.0
    return model


def gpt2(positions, epsilon=0.01, **settings):
    """Return a self-terminating GPT-2 that goes on with one word for as long as it may."""
    architecture = {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": positions}
    config = SelfTerminatingCausalLMConfig(architecture=architecture, epsilon=epsilon, **settings)
    model = Case.of(config, info=INFO).model
    with torch.no_grad():  # the final norm passes on its bias alone; stop's logit is far above 0: sigmoid(a) is 1
        network = model.network
        network.transformer.ln_f.weight.zero_()
        network.transformer.ln_f.bias.fill_(1.0)
        network.lm_head.weight.copy_(torch.tensor([5.0, 9.0, *[0.0] * 5])[:, None].expand(-1, 8))
    return model


# 1: the room is that of the openings that are decoded


@pytest.mark.parametrize(("positions", "prefix"), [(74, 10), (75, 10), (78, 10), (69, 1), (30, 10), (13, 12)])
def test_no_end_is_promised_beyond_the_positions_that_the_openings_leave(positions, prefix):
    model, decoder, batch = gpt2(positions), GreedyConfig(max_tokens=1500), contexts(prefix)
    found = certified(model, decoder, batch)
    room = positions - prefix  # opening stop and prefix are read, the last token is not
    assert found.says == f"nothing is proven within {room} tokens (the model's limit), only by step 69"
    assert says_nothing(found)
    assert finished(model, decoder, batch) == [False] * 4, "the promise would have been broken"


@pytest.mark.parametrize(("positions", "prefix"), [(79, 10), (70, 1), (69, 0)])
def test_an_end_is_promised_where_the_last_position_suffices(positions, prefix):
    model, decoder, batch = gpt2(positions), GreedyConfig(max_tokens=1500), contexts(prefix)
    found = certified(model, decoder, batch)
    assert (found.says, found.bound, found.promises) == ("every output ends", "by step 69", (0.0, 0.0))
    assert all(finished(model, decoder, batch))


def test_one_long_opening_among_short_ones_takes_the_promise_back():
    model, decoder = gpt2(79), GreedyConfig(max_tokens=1500)
    short, long = contexts(10), contexts(11, rows=1)
    assert certified(model, decoder, short, short).promises == (0.0, 0.0)
    for batches in ((short, long), (long, short), (short, long, short)):
        assert says_nothing(certified(model, decoder, *batches))


def test_positions_bound_samples_too():
    found = certified(gpt2(40), AncestralConfig(max_tokens=1500), contexts(10))
    assert found.bound.startswith("P(no EOS in 30) < ")


# 2: no bound that says nothing


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("decoder", [TopKConfig(k=2, max_tokens=1500), NucleusConfig(mass=0.2, max_tokens=1500)])
def test_a_decoder_that_may_leave_stop_out_for_the_whole_limit_is_promised_nothing(decoder):
    """Two equally likely words hide stop until p(stop) exceeds a third: here, beyond the limit of 1,500."""
    model = late(recurrent(epsilon=1e-4), words=(1, 2))
    found = certified(model, decoder)
    assert found.says == "nothing is proven within 1,500 tokens"
    assert says_nothing(found)
    assert not any(finished(model, decoder, contexts(10, rows=2)))


def test_a_bound_that_rounds_to_1_is_none():
    for epsilon, limit in ((1e-6, 10), (1e-4, 10), (1e-4, 13)):
        assert says_nothing(certified(late(recurrent(epsilon=epsilon)), AncestralConfig(), limit=limit))
    assert certified(late(recurrent(epsilon=1e-4)), AncestralConfig(), limit=30).bound == "P(no EOS in 30) < 0.96"


def test_a_stop_that_no_draw_hits_makes_no_sample_end():
    """p(stop) > 0 at every step, and yet below what 52 bits can tell: Lemma 3.2 holds of numbers, not of draws."""
    model = Case.of(RNNLMConfig(cell="tanh", hidden=4, layers=1), info=INFO).model
    with torch.no_grad():
        logits_of(model).weight.zero_()
        logits_of(model).bias.zero_()
        logits_of(model).bias[STOP] = -40.0
    decoder = AncestralConfig(max_tokens=10**18)
    found = certified(model, decoder, limit=10**18)
    assert found.source.startswith("Lemma 3.2")
    assert found.says == "nothing is proven within 1,000,000,000,000,000,000 tokens"
    assert not any(finished(model, AncestralConfig(max_tokens=300), contexts(1)))


# 3 and 4: numbers that are none


@pytest.mark.quick(10, 10)
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
@pytest.mark.parametrize("value", [1e38, 3e38, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("cell", ["tanh", "lstm", "relu"])
def test_nothing_is_promised_of_weights_whose_sums_overflow_or_are_no_numbers(cell, value, decoder):
    """Of the words: the logit of stop stays what it was, and with it all that p(stop) shows."""
    model = late(recurrent(cell))
    with torch.no_grad():
        logits_of(model).weight[2] = value
        logits_of(model).weight[3] = -value
    found = certified(model, decoder)
    assert not found.premises[0].holds
    assert says_nothing(found)


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
def test_nothing_is_promised_of_a_transformer_whose_logits_overflow(decoder):
    model = gpt2(100).float()
    with torch.no_grad():
        model.network.lm_head.weight[2] = 1e38
    found = certified(model, decoder)
    assert not found.holds
    assert says_nothing(found)


def test_one_word_in_many_that_overflows_is_found_without_being_met():
    """Random sequences of 8 x 64 among 50,000 words would hardly show it."""
    config = SelfTerminatingRNNLMConfig(cell="relu", hidden=2, layers=1, epsilon=0.1)
    model = Case.of(config, info=TaskInfo(["</s>", *map(str, range(50_000))]), scale=0.1).model.float()
    decoder = GreedyConfig(max_tokens=50)
    assert certified(model, decoder, contexts(2)).promises == (0.0, 0.0)
    with torch.no_grad():
        model.embed.weight[44_321] = 3e38
    found = certified(model, decoder, contexts(2))
    assert [premise.holds for premise in found.premises] == [False, True]
    assert says_nothing(found)


def test_units_that_overflow_after_more_steps_than_are_watched_are_seen_to():
    """A relu that doubles at every token: finite for 64 tokens, not for 300."""
    model = late(recurrent("relu", epsilon=1e-3))
    with torch.no_grad():
        model.rnn.layers.weight_hh_l0.copy_(2 * torch.eye(4))
        model.rnn.layers.bias_ih_l0.fill_(1.0)
        logits_of(model).weight[2], logits_of(model).weight[3] = 1.0, -1.0
    found = certified(model, GreedyConfig(max_tokens=1500))
    assert [premise.holds for premise in found.premises] == [False, True]


# parts that are not what theorems are about


class DrawsItself:
    """Samples that leave stop out, as those of a trajectory may."""

    def sample(self, batch: Batch, max_tokens: int, rng: Rng):
        raise NotImplementedError


class DrawingRNNLM(DrawsItself, RecurrentLM): ...


class DrawingSelfTerminatingRNNLM(DrawsItself, SelfTerminatingRNNLM): ...


def test_nothing_is_said_of_a_recurrent_model_that_may_draw_or_step_otherwise():
    model = DrawingRNNLM(RNNLMConfig(cell="gru", hidden=4), INFO)
    for decoder in DECODERS:
        assert certified(model, decoder) == Statement("", "no theorem covers this kind of model", metric=METRIC)


def test_nothing_is_said_of_samples_that_a_self_terminating_model_draws_itself():
    config = SelfTerminatingRNNLMConfig(cell="gru", hidden=4, epsilon=0.01)
    for kind, holds in ((DrawingSelfTerminatingRNNLM, False), (SelfTerminatingRNNLM, True)):
        assert certified(kind(config, INFO), AncestralConfig()).holds is holds
    assert certified(DrawingSelfTerminatingRNNLM(config, INFO), GreedyConfig()).holds


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
def test_nothing_is_said_of_a_decoder_that_builds_on_a_known_one(decoder):
    other = posing(decoder, name="other")
    plain = Case.of(RNNLMConfig(cell="gru", hidden=4), info=INFO).model
    for model in (recurrent(), plain):
        assert certified(model, other) == Statement("", "no theorem covers this decoder", metric=METRIC)
