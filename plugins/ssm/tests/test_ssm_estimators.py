"""Estimators of P(w) against quadrature and Kalman filters, and the mistakes that this catches."""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import product
from math import log, pi

import pytest
import torch
from pydantic import ValidationError

from bench_authors.testing.contracts import catches
from bench_core import QUARTERS, Batch, Rng, Scoring, SuiteError, TaskInfo, Training, sampling_error
from bench_ssm import line, model, particles, proposals
from bench_ssm.estimators import sampled_words
from bench_ssm.maps import Scale, Triangle
from bench_ssm.plugin import DeepSSMConfig, EstimatorsConfig, LineSSMConfig

INFO = TaskInfo(["</s>", *"abc"])


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def known(info=INFO, **settings):
    """Return a model with d = 1 and set weights."""
    config = LineSSMConfig(**{"steps": 8, "trajectories": 4000, "particles": 16, "shared": True} | settings)
    found = config.load()(config, info).eval()
    found.setup(info, Rng(0))
    return found


def rows(targets):
    length = torch.tensor([len(target) for target in targets])
    gold = torch.tensor([[*target, *[0] * (int(length.max()) - len(target))] for target in targets])
    return Batch(torch.arange(len(targets)), gold[:, :1] * 0, gold, length)


def many(targets, number):
    """Return each target `number` times, with ids of their own."""
    return rows([target for target in targets for _ in range(number)])


def some_words(number, letters=3, longest=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    length = torch.randint(0, longest, (number,), generator=generator).tolist()
    return [(*torch.randint(1, letters + 1, (size,), generator=generator).tolist(), 0) for size in length]


def exact(model, targets):
    return model.score(rows(targets), Scoring("exact", Rng(0))).log_probs


def probabilities(model, by, targets, repeats, rng):
    """Return independent estimates of P(w) [repeats, W]: all are unbiased."""
    with torch.no_grad():
        if by == "trajectories":  # the same for all rows of a batch
            states = model.prior(torch.arange(repeats), rng)[1:]
            log_probs = model.emission(states)
            return torch.stack([sum(log_probs[t, :, a] for t, a in enumerate(word)).exp() for word in targets], 1)
        batch = many(targets, repeats)
        log_probs = model.filtered(batch, rng).log_probs if by == "smc" else model.bound(batch, rng, by).total
        return log_probs.exp().view(len(targets), repeats).T


def deviations(model, by, targets, truth, repeats, rng=None):
    """Return by how many standard errors the means of estimates differ from the truth [W]."""
    found = probabilities(model, by, targets, repeats, rng or Rng(5))
    return (found.mean(0) - truth.exp()) / (found.std(0) / repeats**0.5)


# mistakes: contexts within which a part is wrong


@contextmanager
def replaced(owner, name, make):
    intact = getattr(owner, name)
    setattr(owner, name, make(intact))
    try:
        yield
    finally:
        setattr(owner, name, intact)


def resamples_without_making_weights_equal():
    def make(intact):
        return lambda states, weights, sizes, uniform: (intact(states, weights, sizes, uniform)[0], weights)

    return replaced(particles, "resample", make)


def forgets_weights_without_resampling():
    def make(intact):
        def resample(states, weights, sizes, uniform):
            return states, torch.full_like(weights, -log(weights.shape[2]))

        return resample

    return replaced(particles, "resample", make)


def copies_the_wrong_ancestors():
    """Copies follow the weights of the particles before them."""

    def make(intact):
        def resample(states, weights, sizes, uniform):
            due = (sizes < particles.MIN_EFFECTIVE * weights.shape[2])[:, :, None]
            rolled = torch.where(due, weights.roll(1, 2), weights)
            return intact(states, rolled, sizes, uniform)

        return resample

    return replaced(particles, "resample", make)


def lets_the_best_particle_replace_all():
    def make(intact):
        def resample(states, weights, sizes, uniform):
            best = weights == weights.amax(2, keepdim=True)
            return intact(states, torch.where(best, 0.0, -torch.inf), sizes * 0, uniform)

        return resample

    return replaced(particles, "resample", make)


def copies_at_random():
    """Whatever particles weigh."""

    def make(intact):
        return lambda states, weights, sizes, uniform: intact(
            states, weights * 0 - log(weights.shape[2]), sizes, uniform
        )

    return replaced(particles, "resample", make)


def does_not_count_eos():
    def make(intact):
        return lambda self, batch, rng: intact(self, replace(batch, length=(batch.length - 1).clamp(min=1)), rng)

    return replaced(particles.ParticleScorer, "filtered", make)


def adds_filters_without_dividing():
    def make(intact):
        def filtered(self, batch, rng):
            scores = intact(self, batch, rng)
            return replace(scores, log_probs=scores.log_probs + log(particles.FILTERS))

        return filtered

    return replaced(particles.ParticleScorer, "filtered", make)


def averages_logarithms_of_filters():
    def make(intact):
        def filtered(self, batch, rng):
            scores = intact(self, batch, rng)
            return replace(scores, log_probs=torch.stack([scores.values[name] for name in QUARTERS]).mean(0))

        return filtered

    return replaced(particles.ParticleScorer, "filtered", make)


def weighs_by_q_alone():
    """Particles from the prior are weighed as if they were from q."""

    def make(intact):
        def sample_mixed(self, eps, from_prior, share):
            states, _ = intact(self, eps, from_prior, share)
            xi, log_det_q = self.inferred.inverse(states)
            return states, self._log_ratio(states, (xi - self.mean) * (-self.log_std).exp(), log_det_q)

        return sample_mixed

    return replaced(proposals.Proposal, "sample_mixed", make)


def samples_the_prior_in_place_of_q():
    def make(intact):
        return lambda self, eps, from_prior, share: intact(self, eps, torch.ones_like(from_prior), share)

    return replaced(proposals.Proposal, "sample_mixed", make)


def forgets_the_width_of_q():
    def make(intact):
        return lambda self, states, eps, log_det: intact(self, states, eps, log_det) - self.log_std.sum(-1)

    return replaced(proposals.Proposal, "_log_ratio", make)


def turns_the_determinant_of_q():
    def make(intact):
        return lambda self, states, eps, log_det: intact(self, states, eps, -log_det)

    return replaced(proposals.Proposal, "_log_ratio", make)


def forgets_the_prior():
    def make(intact):
        def log_ratio(self, states, eps, log_det_q):
            zeta, log_det_g = self.prior.inverse(states)
            return intact(self, states, eps, log_det_q) + 0.5 * zeta.square().sum(-1) + log_det_g

        return log_ratio

    return replaced(proposals.Proposal, "_log_ratio", make)


def forgets_the_logarithm_of_k():
    def make(intact):
        def advance(self, step):
            state, total, *more = intact(self, step)
            return state, total + log(step.eps.shape[1]), *more

        return advance

    return replaced(model.DeepSSM, "_advance", make)


def integrates_backwards():
    def make(intact):
        def on_grid(*args):
            first, kernel, emitted = intact(*args)
            return first, kernel.T, emitted

        return on_grid

    return replaced(line, "_on_grid", make)


def uses_the_same_noise_at_every_step():
    def make(intact):
        return lambda rng, numbers, samples, like: intact(rng, numbers // 8, samples, like)

    return replaced(particles, "normal", make)


def gives_all_filters_the_same_noise():
    def make(intact):
        def normal(rng, numbers, samples, like):
            one = intact(rng, numbers, samples // particles.FILTERS, like)
            return one.repeat(1, particles.FILTERS, 1)

        return normal

    return replaced(particles, "normal", make)


def forgets_to_square():
    return replaced(proposals, "effective_number", lambda intact: lambda weights: weights.softmax(-1).amax(-1) ** -2)


def trains_the_survivor_alone():
    def make(intact):
        def advance(self, step):
            state, total, *more = intact(self, step)
            moved, ratios = self.proposal(step).sample(step.eps)
            survives = (moved == state[:, None]).all(2)
            weight = ((self.emitted(moved, step.tokens) + ratios) * survives).sum(1)
            return state, total.detach() + weight - weight.detach(), *more

        return advance

    return replaced(model.DeepSSM, "_advance", make)


# laws: each is checked within a context


RESAMPLING_MISTAKES = (
    resamples_without_making_weights_equal, forgets_weights_without_resampling, copies_the_wrong_ancestors,
    lets_the_best_particle_replace_all, copies_at_random,
)  # fmt: skip
FILTER_MISTAKES = (
    does_not_count_eos, adds_filters_without_dividing, averages_logarithms_of_filters, weighs_by_q_alone,
    samples_the_prior_in_place_of_q, forgets_the_width_of_q, turns_the_determinant_of_q, forgets_the_prior,
    integrates_backwards, uses_the_same_noise_at_every_step, copies_the_wrong_ancestors,
    forgets_weights_without_resampling,
)  # fmt: skip


@catches(*RESAMPLING_MISTAKES)
def resampling_keeps_weighted_means(change):
    """On average over its random numbers, in filters of which some resample; weights still sum to 1."""
    number, size, few = 4000, 6, 2
    log_weights = (2 * torch.randn(2, few, size)).log_softmax(2)
    log_weights[1, 0] = -log(size) + 0.1 * torch.randn(size)
    log_weights = log_weights.log_softmax(2)
    states = torch.randn(2, few * size, 1)
    wanted = (log_weights.exp() * states.view(2, few, size)).sum(2)
    repeated = log_weights.repeat(number, 1, 1)
    sizes, uniform = proposals.effective_number(repeated), torch.rand(2 * number, few)
    with change():
        moved, weights = particles.resample(states.repeat(number, 1, 1), repeated, sizes, uniform)
    torch.testing.assert_close(weights.exp().sum(2), torch.ones(2 * number, few))
    means = (weights.exp() * moved.view(2 * number, few, size)).sum(2).view(number, 2, few)
    errors = means.std(0) / number**0.5
    assert ((means.mean(0) - wanted).abs() < 4 * errors + 1e-9).all()
    assert (sizes >= 3).any()
    assert (means.std(0)[sizes[:2] < 3] < 0.8 * states.std()).all()


@catches(*FILTER_MISTAKES)
def particle_filters_agree_with_quadrature(change):
    targets = [(1, 0), (2, 2, 0), (1, 2, 3, 3, 0)]
    for settings in ({"shared": False}, {"sharpness": 3.0, "particles": 32}):
        found = known(**settings, prior_share=0.25)
        with change():
            assert deviations(found, "smc", targets, exact(found, targets), 500).abs().max() < 4


@catches(forgets_the_logarithm_of_k, forgets_the_width_of_q)
def means_of_exponentiated_bounds_agree_with_quadrature(change):
    targets = [(1, 0), (3, 2, 2, 1, 0)]
    for settings in ({}, {"samples": 3, "sharpness": 2.0}):
        found = known(**settings)
        truth = exact(found, targets)
        with change():
            estimates = probabilities(found, found.config.samples, targets, 1500, Rng(6))
        errors = estimates.std(0) / 1500**0.5
        assert ((estimates.mean(0) - truth.exp()).abs() < 4 * errors).all()
        assert (estimates.log().mean(0) < truth).all()


@catches(gives_all_filters_the_same_noise)
def filters_of_a_target_are_independent(change):
    """The variance of their mean is a quarter of the variance of one."""
    with change():
        values = known().filtered(many([(1, 2, 0)], 800), Rng(3)).values
    each = torch.stack([values[name] for name in QUARTERS]).exp()
    assert 0.18 < each.mean(0).var() / each.var(1).mean() < 0.34


@catches(forgets_to_square)
def effective_numbers_are_between_one_and_all(change):
    with change():
        counted = proposals.effective_number(torch.tensor([0.5, 0.25, 0.25]).log())
        even = proposals.effective_number(torch.tensor([[2.0, 2.0, 2.0, 2.0], [1.0, -700.0, -700.0, -700.0]]))
    assert counted.item() == pytest.approx(1 / (0.25 + 2 / 16))
    assert even.tolist() == pytest.approx([4, 1])


@catches(trains_the_survivor_alone)
def gradients_are_those_of_the_bound(change):
    """By differences, for words of one token, whose bound does not depend on which proposal survives."""
    found, batch = known(samples=4, shared=False), many([(0,)], 3)
    weights = found.posterior.proposal.bias
    with change():
        (gradient,) = torch.autograd.grad(found.bound(batch, Rng(2), 4).total.sum(), weights)
        with torch.no_grad():
            sides = []
            for change_of_weight in (1e-5, -2e-5):
                weights[0] += change_of_weight
                sides.append(found.bound(batch, Rng(2), 4).total.sum().item())
    assert gradient[0].item() == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-4)


LAWS = (
    gradients_are_those_of_the_bound,
    resampling_keeps_weighted_means,
    effective_numbers_are_between_one_and_all,
    particle_filters_agree_with_quadrature,
    means_of_exponentiated_bounds_agree_with_quadrature,
    filters_of_a_target_are_independent,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_estimators_keep_their_laws(law):
    law.check(nullcontext)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law.check(mutant)


def share_within(values, limit):
    return (values.abs() < limit).double().mean().item()


@pytest.mark.parametrize("by", ["trajectories", "smc", 1, 3])
def test_estimates_for_words_agree_with_quadrature(by):
    """Within 3 standard errors for all but one of 20 words."""
    found, targets = known(samples=by if isinstance(by, int) else 1), some_words(20)
    apart = deviations(found, by, targets, exact(found, targets), 20_000 if by == "trajectories" else 150)
    assert share_within(apart, 3) >= 19 / 20


@pytest.mark.nightly
@pytest.mark.parametrize("by", ["trajectories", "smc", 1, 2, 5, 10])
def test_estimates_for_300_words_agree_with_quadrature(by):
    """Bounds have a q that is nearer to the prior, as the means of exponentiated bounds are skewed."""
    found, targets = known(samples=by if isinstance(by, int) else 1), some_words(300, longest=7)
    truth = exact(found, targets)
    if isinstance(by, int):
        for weights in found.posterior.proposal.parameters():
            weights.data.mul_(0.3)
    repeats = {"trajectories": 50_000, "smc": 600}.get(by, 3000)
    parts = [
        deviations(found, by, targets[first : first + 20], truth[first : first + 20], repeats, Rng(first))
        for first in range(0, 300, 20)
    ]
    assert share_within(torch.cat(parts), 3) >= 0.99


def test_quadrature_sums_to_one_over_all_words_and_unfinished_ones():
    found = known(steps=4)
    finished = [word for size in range(4) for word in product((1, 2, 3), repeat=size)]
    total = exact(found, [(*word, 0) for word in finished]).exp().sum()
    assert (total + exact(found, list(product((1, 2, 3), repeat=4))).exp().sum()).item() == pytest.approx(1)


def test_quadrature_is_the_same_alone_and_with_twice_the_points(monkeypatch):
    targets = some_words(8)
    wanted = exact(known(), targets)
    torch.testing.assert_close(exact(known(), targets[:1]), wanted[:1])
    grid = line._grid
    monkeypatch.setattr(
        line, "_grid", lambda model: torch.linspace(*grid(model)[[0, -1]].tolist(), 2 * len(grid(model)))
    )
    torch.testing.assert_close(exact(known(), targets), wanted, rtol=1e-9, atol=1e-9)


def test_weights_that_are_set_are_the_same_for_all_seeds_and_quadrature_refuses_jumps():
    other = known()
    for weights in other.parameters():
        torch.nn.init.normal_(weights)
    other.setup(INFO, Rng(7))
    assert all(torch.equal(one, two) for one, two in zip(known().parameters(), other.parameters(), strict=True))
    with torch.no_grad():
        for layers in (each for each in other.generative.modules() if isinstance(each, torch.nn.Sequential)):
            layers[-1].weight[1] *= 40
    with pytest.raises(SuiteError, match=r"cannot be computed by quadrature.*Score by `smc` or `trajectories`"):
        exact(other, [(1, 2, 3, 0)])


# a linear-Gaussian chain: w = C h + N(0, R) and h = RHO h + N(0, Q), whose likelihood a Kalman filter computes

C, R, RHO, Q = 1.3, 0.5, 0.7, 0.6
VALUES = torch.tensor([0.0, -1.1, 0.4, 1.7])  # observed instead of the tokens


class Transition(torch.nn.Module):
    def at(self, state):
        root = torch.full((*state.shape, 1), Q**0.5)
        return Triangle(RHO * state, root, root[..., 0].log())


class Identity(torch.nn.Module):
    def at(self, state):
        return Scale(torch.zeros_like(state), torch.ones_like(state))


class Density(torch.nn.Module):
    def forward(self, states):
        return -0.5 * ((VALUES.to(states) - C * states).square() / R + log(2 * pi * R))


class Observation(torch.nn.Module):
    """Proposes h_t given h_{t-1} and w_t, but not the tokens after it; wider than it should be by `wide`."""

    def __init__(self, wide):
        super().__init__()
        self.wide = wide

    def read(self, gold, length):
        return VALUES[gold][:, :, None]

    def forward(self, context, state, peek):
        variance = 1 / (1 / Q + C**2 / R)
        mean = variance * (RHO * state / Q + C / R * context)
        return mean[..., None, :], torch.full_like(mean, log(self.wide * variance**0.5))[..., None, :]


def linear(wide=1.2, **settings):
    config = DeepSSMConfig(state=1, steps=8, **{"particles": 32, "prior_share": 0.0} | settings)
    found = config.load()(config, TaskInfo(["</s>", *"abc"])).eval()
    found.generative, found.inference, found.emission = Transition(), Identity(), Density()
    found.posterior = Observation(wide)
    found.origin.data.fill_(0.3)
    return found


def kalman(word):
    mean, variance, total = 0.3, 0.0, 0.0
    for token in word:
        mean, variance = RHO * mean, RHO**2 * variance + Q
        spread = C**2 * variance + R
        error = VALUES[token].item() - C * mean
        total -= 0.5 * (error**2 / spread + log(2 * pi * spread))
        gain = variance * C / spread
        mean, variance = mean + gain * error, (1 - gain * C) * variance
    return total


def agreeing(by, number, repeats):
    """Return the share of sequences whose mean estimate is within 3 standard errors of their likelihood."""
    apart = []
    for first in range(0, number, 20):
        targets = some_words(min(20, number - first), longest=7, seed=first)
        truth = torch.tensor([kalman(word) for word in targets])
        apart.append(deviations(linear(), by, targets, truth, repeats, Rng(first)))
    return share_within(torch.cat(apart), 3)


@pytest.mark.parametrize("by", ["trajectories", "smc", 1, 4])
def test_estimates_for_a_linear_chain_agree_with_the_kalman_filter(by):
    assert agreeing(by, 20, 20_000 if by == "trajectories" else 200) >= 19 / 20


@pytest.mark.nightly
@pytest.mark.parametrize("by", ["trajectories", "smc", 1, 2, 5, 10])
def test_estimates_for_300_sequences_agree_with_the_kalman_filter(by):
    assert agreeing(by, 300, 50_000 if by == "trajectories" else 600) >= 0.99


def test_a_filter_with_the_optimal_proposal_is_nearly_exact_and_better_than_one_with_the_prior():
    targets = [(1, 3, 2, 0), (3, 3, 3, 1, 2, 0)]
    truth = torch.tensor([kalman(word) for word in targets]).repeat_interleave(200)
    spread = {
        share: (linear(1.0, prior_share=share).filtered(many(targets, 200), Rng(2)).log_probs - truth).std()
        for share in (0.0, 1.0)
    }
    assert spread[0.0] < 0.2
    assert spread[0.0] < 0.7 * spread[1.0]


# intervals


def covered(by, repetitions, settings, targets):
    """Return in how many repetitions the 95 % interval of the mean of -ln P(w) holds the truth.

    Also for the difference between two models that are estimated with the same random numbers.
    """
    pair = [known(**settings, sharpness=sharpness) for sharpness in (3.0, 2.5)]
    truths = [-exact(each, targets).mean().item() for each in pair]
    inside, together = 0, 0
    for repetition in range(repetitions):
        means, parts = [], []
        for each in pair:
            scores = each.score(rows(targets), Scoring(by, Rng(repetition)))
            quarters = torch.stack([scores.values[name] for name in QUARTERS])
            pairs = [torch.logaddexp(quarters[i], quarters[j]) - log(2) for i in range(4) for j in range(i)]
            means.append(-scores.log_probs.mean().item())
            parts.append([*(-quarters.mean(1)).tolist(), -torch.stack(pairs).mean().item()])
        inside += abs(means[0] - truths[0]) <= 1.959964 * sampling_error(means[0], parts[0])
        gaps = [one - other for one, other in zip(*parts, strict=True)]
        error = sampling_error(means[0] - means[1], gaps)
        together += abs(means[0] - means[1] - truths[0] + truths[1]) <= 1.959964 * error
    return inside / repetitions, together / repetitions


@pytest.mark.parametrize("by", ["trajectories", "smc"])
def test_intervals_of_a_sharpened_model_hold_the_truth(by):
    shares = covered(by, 20, {"trajectories": 200, "particles": 16, "steps": 6}, some_words(10))
    assert min(shares) >= 0.8  # 0.95 less three standard errors of 20 repetitions


@pytest.mark.nightly
@pytest.mark.parametrize("by", ["trajectories", "smc"])
def test_intervals_of_a_sharpened_model_hold_the_truth_in_200_repetitions(by):
    shares = covered(by, 200, {"trajectories": 1000, "particles": 64}, some_words(100, longest=7))
    assert all(0.92 <= share <= 1 for share in shares)


# bad input


class Narrow(torch.nn.Module):
    """Proposes states far from where the letters are."""

    def read(self, gold, length):
        return torch.zeros(*gold.shape, 1)

    def forward(self, context, state, peek):
        mean = torch.full_like(state + context, 60.0)[..., None, :]
        return mean, torch.full_like(mean, -6.0)


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_a_proposal_without_mass_where_the_letters_are_gives_a_tiny_probability(share):
    found, targets = linear(prior_share=share, particles=256), [(1, 2, 0), (0,)]
    found.posterior = Narrow()
    log_probs = found.filtered(rows(targets), Rng(1)).log_probs
    assert log_probs.isfinite().all()
    if share:
        torch.testing.assert_close(log_probs, torch.tensor([kalman(word) for word in targets]), rtol=0, atol=1.0)
    else:
        assert (log_probs < -1000).all()
    for samples in (1, 3):
        assert found.bound(rows(targets), Rng(1), samples).total.isfinite().all()


class Never(torch.nn.Module):
    """Emits neither b nor numbers for c."""

    def forward(self, states):
        return torch.cat([states * 0, states * 0, states * 0 - torch.inf, states * torch.nan], -1)


@pytest.mark.parametrize(
    ("target", "printed"), [((1, 2, 0), "'ab' .example 1.: .* is -inf"), ((3, 0), "'c' .* is nan")]
)
def test_a_word_that_no_particle_emits_is_named(target, printed):
    found = linear()
    found.emission = Never()
    assert found.filtered(rows([(1, 0)]), Rng(1)).log_probs.isfinite().all()
    with pytest.raises(SuiteError, match=f"cannot score the word {printed}"):
        found.filtered(rows([(1, 0), target]), Rng(1))


@pytest.mark.parametrize("samples", [1, 2])
def test_one_particle_per_filter_and_words_of_one_token_are_enough(samples):
    found = known(particles=4, samples=samples, prior_share=0.25)
    scores = found.score(rows([(0,), (1, 0), (1, 2, 3, 0)]), Scoring("smc", Rng(1)))
    assert scores.log_probs.isfinite().all()
    torch.testing.assert_close(scores.values["effective_particles"], torch.ones(3))
    torch.testing.assert_close(scores.log_probs - scores.values["gap"], scores.values["bound"])


def test_one_particle_per_filter_without_the_prior_is_four_samples_of_the_bound_with_one_proposal():
    """In distribution: their means agree."""
    found, targets = known(particles=4, prior_share=0.0), [(1, 2, 0)]
    by_filters = torch.stack(
        [found.filtered(many(targets, 2000), Rng(1)).values[name] for name in QUARTERS]
    ).flatten()
    by_bound = found.bound(many(targets, 8000), Rng(2), 1).total
    spread = (by_filters.var() / len(by_filters) + by_bound.var() / len(by_bound)).sqrt()
    assert (by_filters.mean() - by_bound.mean()).abs() < 4 * spread
    assert by_filters.std().item() == pytest.approx(by_bound.std().item(), rel=0.1)


@pytest.mark.parametrize(("particles", "printed"), [(1, "multiple of 4"), (66, "multiple of 4"), (0, "greater")])
def test_numbers_of_particles_that_four_filters_cannot_share_are_refused(particles, printed):
    with pytest.raises(ValidationError, match=printed):
        DeepSSMConfig(particles=particles)


def test_a_word_is_scored_alike_alone_and_in_a_batch(monkeypatch):
    found, targets = known(particles=16), some_words(20)
    together = found.filtered(rows(targets), Rng(4))
    monkeypatch.setattr(particles, "CPU_PARTICLES", 40)
    alone = found.filtered(rows(targets).select(torch.tensor([7])), Rng(4))
    torch.testing.assert_close(alone.log_probs[0], together.log_probs[7])
    torch.testing.assert_close(found.filtered(rows(targets), Rng(4)).log_probs, together.log_probs)


# values


def test_divergences_by_step_sum_to_that_of_a_word_and_padding_has_none():
    found, batch = known(samples=3), rows([(1, 2, 3, 0), (0,)])
    batch = replace(batch, gold=torch.cat([batch.gold, batch.gold[:, :1] * 0], 1))
    scores = found.score(batch, Scoring("elbo", Rng(2)))
    assert scores.by_token["kl"].shape == batch.gold.shape
    torch.testing.assert_close(scores.by_token["kl"].sum(1), scores.values["kl"])
    assert (scores.by_token["kl"][~batch.mask] == 0).all()
    assert (scores.by_token["kl"][batch.mask] != 0).all()


def test_a_model_that_does_not_read_its_state_has_independent_letters_and_no_information():
    found = known(reads_state=False, shared=True)
    targets = [(1, 2, 0), (2, 1, 0), (3, 0)]
    letters = found.emission.bias.log_softmax(0)
    wanted = torch.stack([letters[list(word)].sum() for word in targets])
    torch.testing.assert_close(exact(found, targets), wanted)
    torch.testing.assert_close(found.score(rows(targets), Scoring("trajectories", Rng(1))).log_probs, wanted)
    sample = found.sample(rows([(0,)] * 3), 8, Rng(1))[0]
    assert sample.values["information"] == pytest.approx(0, abs=1e-9)


def test_the_effective_number_of_proposals_is_logged_if_there_are_several():
    batch = rows([(1, 2, 0), (3, 0)])
    parts = known(samples=5).loss(batch, Training(1, 9, 0, 1, Rng(0))).parts
    assert 1 < parts["effective_proposals"] < 5
    assert "effective_proposals" not in known().loss(batch, Training(1, 9, 0, 1, Rng(0))).parts
    values = known(samples=5).score(batch, Scoring("elbo", Rng(1))).values
    assert ((values["effective_proposals"] > 1) & (values["effective_proposals"] < 5)).all()


def test_the_probe_of_estimators_finds_what_quadrature_says_and_where_trajectories_do_not_suffice():
    config = EstimatorsConfig(words=60, trajectories=(40, 4000), particles=(16, 512))
    found = known(trajectories=100)
    finding = config.load()(config).ask(found, None, [])
    truth = -found.score(sampled_words(found, 60), Scoring("exact", Rng(0))).log_probs.mean().item()
    for label in ("4,000 trajectories", "512 particles"):
        error = finding.numbers[f"{label}: error"]
        assert abs(finding.numbers[f"{label}: nats"] - truth) < 3 * error < 1
    assert finding.statements[0].holds, finding
    assert found.config.trajectories == 100
    few = EstimatorsConfig(words=60, trajectories=(4,), particles=(256,))
    assert few.load()(few).ask(found, None, []).numbers["difference"] > 0


def test_the_probe_says_nothing_about_other_models():
    config = EstimatorsConfig()
    (statement,) = config.load()(config).ask(torch.nn.Linear(1, 1), None, []).statements
    assert not statement.holds


@pytest.mark.parametrize("sizes", [(), (16, 16), (64, 16), (6,)])
def test_sizes_of_the_probe_that_cannot_be_are_refused(sizes):
    with pytest.raises(ValidationError, match="increasing multiples of 4"):
        EstimatorsConfig(particles=sizes)


def test_numbers_of_particles_do_not_decide_what_is_trained():
    assert {"particles", "prior_share"} <= DeepSSMConfig.evaluation
