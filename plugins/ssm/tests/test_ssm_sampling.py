"""Samples along trajectories of the prior, and what they tell of these."""

from math import log

import pytest
import torch

from bench_authors.testing import Case, check_decoder, tiny_batch
from bench_authors.testing.toys import LatentConfig, ToyAncestralConfig, ToyGreedyConfig, ToyRecurrentConfig
from bench_core import Rng, SuiteError, TaskInfo
from bench_core.suites.check import misfit
from bench_ssm.plugin import DeepSSMConfig, TrajectoryArgmaxConfig

SMALL = {"state": 3, "reader": 4, "posterior": 5, "trajectories": 50, "steps": 6, "positions": 4}


def case(decoder=None, **settings):
    return Case.of(DeepSSMConfig(**SMALL | settings), decoder)


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("decoder", [ToyAncestralConfig(max_tokens=4), TrajectoryArgmaxConfig(max_tokens=4)])
def test_decoders_that_sample_keep_the_contracts(decoder):
    check_decoder(case(decoder))


def test_decoders_are_told_apart_by_what_they_need():
    assert misfit(TrajectoryArgmaxConfig(), ToyRecurrentConfig())
    assert misfit(ToyGreedyConfig(), DeepSSMConfig())
    assert misfit(TrajectoryArgmaxConfig(), LatentConfig())
    with pytest.raises(SuiteError, match="trajectory-argmax"):
        Case.of(ToyRecurrentConfig(), TrajectoryArgmaxConfig())


def test_tokens_are_the_most_probable_ones_along_the_trajectory_of_the_sample():
    model, batch = case().model, tiny_batch()
    states = model.prior(batch.ids, Rng(3).fork("state"))
    wanted = model.emission(states[1:]).argmax(2).T.tolist()
    for one, row in zip(model.sample_likeliest(batch, 6, Rng(3)), wanted, strict=True):
        assert one.tokens == (row[: row.index(0)] if 0 in row else row)
        assert one.finished == (0 in row)


def test_no_sample_is_longer_than_the_steps_of_the_model_or_the_limit():
    model, batch = case().model, tiny_batch()
    model.emission.bias.data[0] = -100.0
    assert [len(one.tokens) for one in model.sample(batch, 100, Rng(1))] == [6] * 5
    cut = model.sample(batch, 2, Rng(1))
    assert [(len(one.tokens), one.finished) for one in cut] == [(2, False)] * 5
    for one, whole in zip(cut, model.sample(batch, 100, Rng(1)), strict=True):
        assert one.tokens == whole.tokens[:2]
        assert one.values["information"] == whole.values["information"]


def test_the_states_of_a_trajectory_follow_from_each_other_by_the_generative_flow():
    model, ids = case(generative="2xtril").model, torch.tensor([4, 9])
    states = model.prior(ids, Rng(3))
    torch.testing.assert_close(states[0], model.origin.expand(2, 3))
    for t in range(6):
        moved, _ = model.generative.at(states[t]).forward(Rng(3).normal(ids, 0, 18).view(2, 6, 3)[:, t : t + 1])
        torch.testing.assert_close(states[t + 1], moved[:, 0])
    torch.testing.assert_close(model.prior(ids, Rng(3), 4), states[:5])


def test_a_sample_tells_the_mutual_information_at_the_states_that_it_went_through():
    model, batch = case(information_draws=7).model, tiny_batch()
    states, most = model.prior(batch.ids, Rng(3).fork("state")), log(5) / log(2)
    for row, one in enumerate(model.sample(batch, 6, Rng(3))):
        values = one.values
        for t in range(4):
            drawn = Rng(3).fork("information").normal(batch.ids[row : row + 1], t, 21).view(7, 3)
            moved, _ = model.generative.at(states[t, row]).forward(drawn)
            probs = model.emission(moved).exp()
            mean = torch.special.entr(probs.mean(0)).sum() - torch.special.entr(probs).sum(1).mean()
            assert values[f"information_{t + 1}"] == pytest.approx(mean.item() / log(2))
            unsure = torch.special.entr(model.emission(states[t + 1, row]).exp()).sum().item() / log(2)
            assert values[f"entropy_{t + 1}"] == pytest.approx(unsure)
            assert 0 <= values[f"information_{t + 1}"] <= most
        told = [values[f"information_{t}"] for t in range(1, 5)]
        assert values["information"] == pytest.approx(sum(told) / 4)
        alive = min(4, len(one.tokens) + one.finished)
        assert values["information_until_stop"] == pytest.approx(sum(told[:alive]))
        assert values["steps_until_stop"] == alive


def test_a_random_walk_that_is_ignored_by_the_emission_has_no_information():
    model = case(generative="id").model
    model.emission.weight.data.zero_()
    for one in model.sample(tiny_batch(), 6, Rng(2)):
        assert one.values["information"] == pytest.approx(0, abs=1e-12)


def test_without_draws_samples_are_the_same_and_tell_nothing():
    loud, silent = (case(information_draws=draws).model.sample(tiny_batch(), 6, Rng(2)) for draws in (3, 0))
    assert [one.tokens for one in loud] == [one.tokens for one in silent]
    assert not any(one.values for one in silent)


def test_a_model_in_float32_draws_in_float32():
    torch.set_default_dtype(torch.float32)
    config = DeepSSMConfig(**SMALL)
    model = config.load()(config, TaskInfo(["</s>", *"abcd"]))
    assert model.prior(torch.arange(3), Rng(1)).dtype == torch.float32
    assert len(model.sample(tiny_batch(), 6, Rng(1))) == 5
