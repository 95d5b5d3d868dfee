"""Sampling decoders: the sets that they leave open, what they draw from them, and how fast that ends."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

from bench_authors.testing import catches, patched
from bench_core import STOP, Rng, invert, topk_stable
from bench_decoders.greedy_sampling import argmax
from bench_decoders.plugin import (
    AncestralConfig,
    ConsistentNucleusConfig,
    ConsistentTopKConfig,
    GreedyConfig,
    NucleusConfig,
    TemperatureConfig,
    TopKConfig,
)

P = (0.05, 0.5, 0.3, 0.15)  # the first is stop


class Even(Rng):
    """The middles of `count` equal intervals, one for each id, so that shares of draws are exact to 1 / count."""

    count = 4_000

    def uniform(self, ids, step=0, size=None):
        return (ids.double() + 0.5) / self.count


def loaded(config):
    return config.load()(config)


def decode(config, model, rows, rng=Even(0), load=loaded):  # noqa: B008
    return [found for (found,) in load(config).decode(model, rows, rng)]


def shares(config, model, batch, load=loaded):
    """Return how often each action is the first, over all the unit interval."""
    firsts = [(found.actions or [0])[0] for found in decode(config, model, batch(Even.count), load=load)]
    return [count / Even.count for count in torch.tensor(firsts).bincount(minlength=4).tolist()]


# mistakes


def with_settings(trial, change):
    """Let decoders have other settings than those they are given."""
    return replace(trial, load=lambda config: trial.load(change(config)))


def with_draw(trial, draw):
    """Let decoders draw otherwise from what is open; `draw` is handed the intact decoder before its arguments."""
    return replace(trial, load=lambda config: patched(trial.load(config), sample=draw))


CONSISTENT = {TopKConfig: ConsistentTopKConfig, NucleusConfig: ConsistentNucleusConfig}


def leaves_stop_out(trial):
    """Consistent sampling is the plain one."""
    plain = {consistent: kind for kind, consistent in CONSISTENT.items()}
    return with_settings(trial, lambda config: plain.get(type(config), type(config))(**config.model_dump()))


def opens_stop_to_all(trial):
    """Plain sampling is the consistent one."""
    return with_settings(trial, lambda config: CONSISTENT.get(type(config), type(config))(**config.model_dump()))


def gives_stop_the_last_place(trial):
    """Stop is one of the k, not one more."""

    def change(config):
        of_k = type(config) is ConsistentTopKConfig
        return config.model_copy(update={"k": config.k - 1}) if of_k else config

    return with_settings(trial, change)


def is_content_with_just_the_mass(trial):
    """A nucleus need hold no more than its mass: >= for >."""

    def change(config):
        return config.model_copy(update={"mass": config.mass * (1 - 1e-9)}) if hasattr(config, "mass") else config

    return with_settings(trial, change)


def stays_below_the_mass(trial):
    """The nucleus lacks the token with which it would hold more than its mass, unless that is the first."""

    def draw(decoder, log_probs, values, actions, uniform):
        if hasattr(decoder.config, "mass"):
            last = values.isfinite().sum(1, keepdim=True) - 1
            values = values.scatter(1, last, torch.where(last > 0, -torch.inf, values[:, :1]))
        return decoder.sample(log_probs, values, actions, uniform)

    return with_draw(trial, draw)


def gives_what_is_shut_to_the_likeliest(trial):
    """The open actions keep their probabilities, but for the first, which gets the rest."""

    def draw(decoder, log_probs, values, actions, uniform):
        drawn = invert(log_probs, uniform)
        is_open = ((actions == drawn[:, None]) & values.isfinite()).any(1)
        is_open |= (drawn == STOP) & decoder.config.consistent
        return torch.where(is_open, drawn, actions[:, 0])

    return with_draw(trial, draw)


# laws


@catches(
    leaves_stop_out,
    opens_stop_to_all,
    gives_stop_the_last_place,
    is_content_with_just_the_mass,
    stays_below_the_mass,
    gives_what_is_shut_to_the_likeliest,
)
def the_open_sets_are_those_of_the_definitions(trial):
    for config, wanted in (
        (TopKConfig(max_tokens=1, k=2), (0, 0.625, 0.375, 0)),
        (TopKConfig(max_tokens=1, k=4), P),
        (TopKConfig(max_tokens=1, k=99), P),
        (ConsistentTopKConfig(max_tokens=1, k=2), (0.0588235, 0.588235, 0.352941, 0)),
        (NucleusConfig(max_tokens=1, mass=0), (0, 1, 0, 0)),
        (NucleusConfig(max_tokens=1, mass=0.2), (0, 1, 0, 0)),
        (NucleusConfig(max_tokens=1, mass=0.4), (0, 1, 0, 0)),
        (NucleusConfig(max_tokens=1, mass=0.5), (0, 0.625, 0.375, 0)),
        (NucleusConfig(max_tokens=1, mass=0.8), (0, 0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95)),
        (NucleusConfig(max_tokens=1, mass=1), P),
        (ConsistentNucleusConfig(max_tokens=1, mass=0.2), (0.090909, 0.909091, 0, 0)),
        (ConsistentNucleusConfig(max_tokens=1, mass=0), (0.090909, 0.909091, 0, 0)),
        (ConsistentNucleusConfig(max_tokens=1, mass=1), P),
    ):
        found = shares(config, trial.table(lambda prefix: P), trial.batch, trial.load)
        assert found == pytest.approx(wanted, abs=2 / Even.count), config


@catches(leaves_stop_out, gives_what_is_shut_to_the_likeliest)
def consistent_sampling_never_makes_stop_less_probable(trial):
    """On random p, k and mass: as probable as in p just where nothing is shut, and words keep their ratios."""
    draw = torch.Generator().manual_seed(0)
    for _ in range(4):
        p = torch.rand(4, generator=draw, dtype=torch.float64).pow(2)
        p = (p / p.sum()).tolist()
        model = trial.table(lambda prefix, p=p: p)
        for config in (
            *(ConsistentTopKConfig(max_tokens=1, k=k) for k in (1, 2, 3, 4)),
            *(ConsistentNucleusConfig(max_tokens=1, mass=mass) for mass in (0, 0.2, 0.6, 0.95, 1)),
        ):
            q = shares(config, model, trial.batch, trial.load)
            shut = sum(p[action] for action in (1, 2, 3) if q[action] == 0)
            assert q[0] == pytest.approx(p[0] / (1 - shut), abs=2 / Even.count)
            assert q[0] >= p[0] - 1 / Even.count
            for one, other in itertools.combinations([a for a in (1, 2, 3) if q[a]], 2):
                assert q[one] * p[other] == pytest.approx(q[other] * p[one], abs=2 / Even.count)


@catches(leaves_stop_out, opens_stop_to_all, gives_what_is_shut_to_the_likeliest)
def top_k_never_ends_and_its_consistent_form_ends_geometrically(trial):
    """Of two words that hold .65, and stop with .2 outside of them."""
    model, number = trial.table(lambda prefix: (0.2, 0.4, 0.25, 0.15)), 2000
    plain = decode(TopKConfig(max_tokens=40, k=2), model, trial.batch(number), Rng(5), trial.load)
    assert not any(found.finished for found in plain)
    consistent = decode(ConsistentTopKConfig(max_tokens=40, k=2), model, trial.batch(number), Rng(5), trial.load)
    lengths = torch.tensor([len(found.tokens) + found.finished for found in consistent])
    stop = 0.2 / (0.2 + 0.65)
    for n in (1, 2, 5, 10, 20):
        share = (1 - stop) ** n
        assert abs((lengths > n).double().mean() - share) <= 4 * math.sqrt(share * (1 - share) / number)


LAWS = (
    the_open_sets_are_those_of_the_definitions,
    consistent_sampling_never_makes_stop_less_probable,
    top_k_never_ends_and_its_consistent_form_ends_geometrically,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize(
    "law",
    [
        pytest.param(law, marks=pytest.mark.slow)
        if law is consistent_sampling_never_makes_stop_less_probable
        else law
        for law in LAWS
    ],
    ids=str,
)
def test_sampling_keeps_its_laws(trial, law):
    law(trial)


@pytest.mark.quick(2, 3)
@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(trial, law, mutant):
    with pytest.raises(AssertionError):
        law(mutant(trial))


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (AncestralConfig(max_tokens=1), P),
        (TemperatureConfig(max_tokens=1, temperature=1), P),
        (TemperatureConfig(max_tokens=1, temperature=0.5), [p**2 / 0.365 for p in P]),
        (TemperatureConfig(max_tokens=1, temperature=1e-3), (0, 1, 0, 0)),
        (TopKConfig(max_tokens=1, k=2, temperature=0.5), (0, 0.25 / 0.34, 0.09 / 0.34, 0)),
        # squared and normalised, the first alone holds .685: temperature comes before the choice of the set
        (NucleusConfig(max_tokens=1, mass=0.6, temperature=0.5), (0, 1, 0, 0)),
    ],
)
def test_shares_of_the_first_action_follow_the_definition(table, batch, config, wanted):
    assert shares(config, table(lambda prefix: P), batch) == pytest.approx(wanted, abs=2 / Even.count)


@pytest.mark.slow
def test_of_equal_actions_the_lower_is_open(table, batch):
    even, late = table(lambda prefix: (0.25,) * 4), table(lambda prefix: (0, 0.25, 0.375, 0.375))
    for config in (TopKConfig(max_tokens=1, k=2), NucleusConfig(max_tokens=1, mass=0.4)):
        assert shares(config, even, batch) == [0.5, 0.5, 0, 0]
        assert shares(config, late, batch) == [0, 0, 0.5, 0.5]
    assert shares(TopKConfig(max_tokens=1, k=1), late, batch) == [0, 0, 1, 0]


@pytest.mark.parametrize("mass", [0, 0.3, 1 - 1e-16, 1])
def test_rounding_never_empties_the_nucleus_and_shut_actions_stay_shut(mass):
    log_probs = torch.tensor([[-torch.inf, 0.0, -torch.inf], [-math.log(2) - 1e-9, -torch.inf, -math.log(2) - 1e-9]])
    for config in (NucleusConfig(mass=mass), ConsistentNucleusConfig(mass=mass)):
        for uniform in (2.0**-53, 0.5, 1 - 2.0**-53):
            actions = config.load()(config).choose(log_probs, torch.full((2,), uniform, dtype=torch.float64))
            assert actions[0] == 1
            assert actions[1] != 1


def test_a_mass_of_one_leaves_all_open_though_rounding_makes_the_sum_larger():
    log_probs = torch.tensor([[math.log(0.5) + 1e-7, math.log(0.5) + 1e-7, -20.0]])
    last = torch.tensor([1 - 2.0**-53], dtype=torch.float64)
    assert NucleusConfig.load()(NucleusConfig(mass=1)).choose(log_probs, last) == 2
    assert NucleusConfig.load()(NucleusConfig(mass=1 - 1e-12)).choose(log_probs, last) == 1


def test_consistent_sampling_leaves_stop_impossible_where_it_is(table, batch):
    for config in (ConsistentTopKConfig(k=2, max_tokens=5), ConsistentNucleusConfig(mass=0.3, max_tokens=5)):
        found = decode(config, table(lambda prefix: (0, 0.5, 0.3, 0.2)), batch(200), Rng(0))
        assert not any(hypothesis.finished for hypothesis in found)
        assert all(math.isfinite(hypothesis.log_prob) for hypothesis in found)


def test_samples_follow_the_open_distribution_within_four_standard_errors(table, batch):
    number = 10_000
    for config, q in (
        (TopKConfig(max_tokens=1, k=2), (0, 0.625, 0.375, 0)),
        (NucleusConfig(max_tokens=1, mass=0.8), (0, 0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95)),
        (ConsistentTopKConfig(max_tokens=1, k=2), (0.05 / 0.85, 0.5 / 0.85, 0.3 / 0.85, 0)),
        (TemperatureConfig(max_tokens=1, temperature=2), [p**0.5 / sum(x**0.5 for x in P) for p in P]),
    ):
        drawn = decode(config, table(lambda prefix: P), batch(number), Rng(11))
        counts = torch.tensor([(found.actions or [0])[0] for found in drawn]).bincount(minlength=4).tolist()
        for count, share in zip(counts, q, strict=True):
            assert abs(count / number - share) <= 4 * math.sqrt(share * (1 - share) / number), (config, counts)


def test_the_same_noise_draws_the_same_from_the_same_distribution(recurrent, batch):
    model = recurrent(vocabulary=7, seed=2)
    configs = [
        AncestralConfig(max_tokens=9),
        TopKConfig(max_tokens=9, k=7),
        TopKConfig(max_tokens=9, k=6, temperature=1.0),  # seldom leaves out what is drawn
        NucleusConfig(max_tokens=9, mass=1),
        TemperatureConfig(max_tokens=9, temperature=1),
    ]
    drawn = [[found.actions for found in decode(config, model, batch(100), Rng(3))] for config in configs]
    assert drawn[0] == drawn[1] == drawn[3] == drawn[4]
    assert 0 < sum(a != b for a, b in zip(drawn[0], drawn[2], strict=True)) < 50


@pytest.mark.parametrize("config", [TopKConfig(max_tokens=9, k=1), NucleusConfig(max_tokens=9, mass=0)])
def test_a_set_of_one_is_greedy_choice(recurrent, insertion, batch, config):
    for model in (recurrent(seed=1), insertion(seed=1)):
        greedy = decode(GreedyConfig(max_tokens=9), model, batch(50))
        assert [found.actions for found in decode(config, model, batch(50), Rng(1))] == [h.actions for h in greedy]


# partial sorts against full ones

SPREADS = {
    "flat": lambda x: x * 0.1,
    "peaked": lambda x: x * 4,
    "tied": lambda x: (x * 2).round(),
    "all tied": lambda x: x * 0,
    "in pairs": lambda x: torch.cat([x[:, ::2], x[:, ::2].flip(1)], 1),
    "mostly shut": lambda x: x.masked_fill(x < 1.5, -torch.inf),
}


def scores(spread, size, number=6):
    draw = torch.Generator().manual_seed(4)
    return SPREADS[spread](torch.randn(number, size, generator=draw)).log_softmax(1)


@pytest.mark.quick(6, 6)
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("mass", [0, 0.4, 0.999])
def test_a_nucleus_from_a_partial_sort_is_that_of_the_full_sort(spread, mass):
    log_probs = scores(spread, size=20_000)
    order = log_probs.sort(dim=1, stable=True, descending=True).indices
    probs = log_probs.double().exp().gather(1, order)
    before = torch.cat([torch.zeros(len(probs), 1), probs.cumsum(1)[:, :-1]], 1)
    shut = torch.zeros_like(probs, dtype=torch.bool).scatter(1, order, before > mass)
    for config in (NucleusConfig(mass=mass), ConsistentNucleusConfig(mass=mass)):
        shut[:, 0] &= not config.consistent
        wanted = log_probs.masked_fill(shut, -torch.inf)
        uniform = torch.rand(len(log_probs), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        assert torch.equal(config.load()(config).choose(log_probs, uniform), invert(wanted, uniform))


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("size", [1, 300, 511, 512, 513, 1024, 5000])
def test_the_highest_action_is_that_of_a_full_sort_the_lower_of_equal_ones(spread, size):
    log_probs = scores(spread, size, number=50)
    order = log_probs.sort(dim=1, stable=True, descending=True).indices
    assert torch.equal(argmax(log_probs), order[:, 0])
    shut = torch.full((2, size), -torch.inf)
    shut[1, -1] = -9  # right at the end
    assert argmax(shut).tolist() == [0, size - 1]


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("k", [1, 3, 256, 5000, 6000])
def test_the_likeliest_actions_are_those_of_a_full_sort_ties_to_the_lower(spread, k):
    log_probs = scores(spread, size=5000)
    values, order = log_probs.sort(dim=1, stable=True, descending=True)
    found, actions = topk_stable(log_probs, k)
    assert torch.equal(found, values[:, :k])
    assert torch.equal(actions, order[:, :k])
