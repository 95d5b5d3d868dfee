"""The bound: closed forms, quadrature, Kalman filters, and what importance weights do to it."""

from dataclasses import replace
from itertools import product
from math import log, pi

import pytest
import torch

from bench_authors.testing import tiny_batch
from bench_core import AGAIN, Batch, Rng, Scoring, TaskInfo, Training
from bench_ssm.maps import Scale, Triangle
from bench_ssm.model import Step
from bench_ssm.plugin import DeepSSMConfig

INFO = TaskInfo(["</s>", *"abcd"])
A, B = 1, 2
LN_AAB = -2.222307  # of the logistic chain, by quadrature


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def deep(info=INFO, scale=2.5, **settings):
    config = DeepSSMConfig(**{"state": 3, "reader": 5, "posterior": 6, "steps": 8, "trajectories": 200} | settings)
    model = config.load()(config, info).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(scale)
    return model


def rows(targets):
    length = torch.tensor([len(target) for target in targets])
    gold = torch.tensor([[*target, *[0] * (int(length.max()) - len(target))] for target in targets])
    return Batch(torch.arange(len(targets)), gold[:, :1] * 0, gold, length)


def many(target, number):
    return replace(rows([target] * number), ids=torch.arange(number))


class StackedRngs:
    """The numbers that step `t` of each row draws."""

    def __init__(self, rng, ids, t, steps=8):
        self.rng, self.ids = rng, ids * steps + t

    def normal(self, use, draws, size):
        return self.rng.fork(use).normal(self.ids, 0, draws * size).view(-1, draws, size)


class Chain(torch.nn.Module):
    """h_t = 0.6 h_{t-1} + 0.8 x_t, but h_1 = x_1, which is told by h_0 being exactly 0."""

    def at(self, state):
        return Scale(0.6 * state, torch.where(state == 0, 1.0, 0.8))


class Noisy(torch.nn.Module):
    """F(h, x) = x: the noise of inference is the next state itself."""

    def at(self, state):
        return Scale(torch.zeros_like(state), torch.ones_like(state))


class Logits(torch.nn.Module):
    """Of stop, a and b: P(a | h) = 1 / (1 + exp(-2 h)), and stop never."""

    def forward(self, states):
        logits = torch.cat([states, -states], -1)
        return torch.cat([torch.full_like(states, -1e9), logits.log_softmax(-1)], -1)


class Shifted(torch.nn.Module):
    """The proposal N(m_t + 0.3 s, (0.9 sd)^2) around the prior N(m_t, sd^2), s = 1 for a and -1 for b."""

    def read(self, gold, length):
        return torch.where(gold == A, 1.0, -1.0)[:, :, None]

    def forward(self, context, state, peek):
        std = torch.where(state == 0, 1.0, 0.8)
        return (0.6 * state + 0.3 * context)[:, None], (0.9 * std).log()[:, None]


def logistic():
    model = deep(TaskInfo(["</s>", "a", "b"]), state=1, steps=3)
    model.generative, model.inference, model.emission, model.posterior = Chain(), Noisy(), Logits(), Shifted()
    return model


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize(("samples", "wanted"), [(1, -2.553), (2, -2.407), (5, -2.337), (10, -2.316)])
def test_bounds_of_a_logistic_chain_are_what_they_were_computed_to_be_and_their_weights_unbiased(samples, wanted):
    number = 60_000
    found = logistic().bound(many((A, A, B), number), Rng(3), samples).total
    error = found.std().item() / number**0.5
    assert found.mean().item() == pytest.approx(wanted, abs=0.002 + 4 * error)
    assert found.mean().item() + 4 * error < LN_AAB
    weights = found.exp()
    assert weights.mean().item() == pytest.approx(0.108359, abs=4 * weights.std().item() / number**0.5)


@pytest.mark.slow
def test_a_bound_of_one_step_rises_with_the_number_of_samples_to_the_log_probability():
    number, found, errors = 40_000, [], []
    for samples in (1, 2, 5, 10, 50):
        totals = logistic().bound(many((A,), number // samples * 2), Rng(4), samples).total
        found.append(totals.mean().item())
        errors.append(totals.std().item() / len(totals) ** 0.5)
    for turn in range(4):
        assert found[turn] < found[turn + 1] + 3 * (errors[turn] + errors[turn + 1])
    assert found[0] < found[-1] - 0.02
    assert log(0.5) - 0.002 < found[-1] < log(0.5) + 4 * errors[-1]


def test_the_sum_of_all_bounds_in_one_dimension_is_below_that_of_the_probabilities():
    targets = list(product((A, B), repeat=3))
    wanted = torch.tensor([quadrature(word) for word in targets])
    crowd = replace(rows(targets * 2000), ids=torch.arange(8 * 2000))
    totals = logistic().bound(crowd, Rng(6), 1).total.view(2000, 8)
    margin = 4 * totals.std(0) / 2000**0.5
    assert (totals.mean(0) + margin < wanted.log()).all()
    assert (totals.mean(0) > wanted.log() - 1).all()


def quadrature(word, points=801):
    """Return P(w) of the logistic chain by integrals over a grid, forward in time."""
    grid = torch.linspace(-8, 8, points)
    step = grid[1] - grid[0]
    density = torch.exp(-(grid**2) / 2) / (2 * pi) ** 0.5
    kernel = torch.exp(-((grid[:, None] - 0.6 * grid) ** 2) / (2 * 0.64)) / (2 * pi * 0.64) ** 0.5
    for turn, token in enumerate(word):
        density = density if turn == 0 else kernel @ density * step
        density = density * torch.sigmoid(2 * grid * (1 if token == A else -1))
    return float(density.sum() * step)


class Prior(torch.nn.Module):
    """Proposes what the prior does: mu = 0 and sigma = 1."""

    def read(self, gold, length):
        return torch.zeros(*gold.shape, 1)

    def forward(self, context, state, peek):
        return torch.zeros(len(state), 1, state.shape[1]), torch.zeros(len(state), 1, state.shape[1])


@pytest.mark.parametrize(
    "settings", [{"generative": "2xtril"}, {"generative": "real-nvp", "state": 4}, {"generative": "id"}]
)
def test_with_one_flow_and_the_prior_as_a_proposal_only_the_fit_is_left(settings):
    model, batch = deep(shared=True, **settings), tiny_batch()
    model.posterior = Prior()
    bound = model.bound(batch, Rng(1), 1)
    torch.testing.assert_close(bound.total, bound.fit)
    states = torch.stack([model.origin.expand(5, -1), *walk(model, batch)])
    lp = model.emission(states[1:])  # [T, N, V]
    wanted = (lp.permute(1, 0, 2).gather(2, batch.gold[:, :, None])[:, :, 0] * batch.mask).sum(1)
    torch.testing.assert_close(bound.fit, wanted)


def walk(model, batch):
    state = model.origin.expand(len(batch), -1)
    for t in range(batch.gold.shape[1]):
        drawn = StackedRngs(Rng(1), batch.ids, t).normal("proposal", 1, state.shape[1])
        state = model.generative.at(state).forward(drawn)[0][:, 0]
        yield state


@pytest.mark.slow
def test_affine_flows_cost_the_divergence_of_two_gaussians():
    model = deep(generative="2xtril", inference="tril", steps=1)
    model.emission.weight.data.zero_()
    model.emission.bias.data.zero_()
    number = 100_000
    totals = model.bound(many((1,), number), Rng(2), 1).total
    costs = -log(5) - totals  # ln q(h) - ln p(h)
    with torch.no_grad():
        origin = model.origin[None]
        mean, log_std = model.posterior(
            model.posterior.read(torch.tensor([[1]]), torch.tensor([1]))[:, 0], origin, None
        )
        q, inverse = model.inference.at(origin), model.generative.at(origin).map
        center = q.forward(mean)[0][0, 0]
        root = q.matrix[0] * log_std.exp()[0, 0]
        p_root = torch.linalg.inv(inverse.matrix[0])
        p_center = -(p_root @ inverse.shift[0])
        one = torch.distributions.MultivariateNormal(center, root @ root.T)
        other = torch.distributions.MultivariateNormal(p_center, p_root @ p_root.T)
        wanted = torch.distributions.kl_divergence(one, other)
    assert costs.mean().item() == pytest.approx(wanted.item(), abs=4 * costs.std().item() / number**0.5)


C, R, RHO, Q = 1.3, 0.5, 0.7, 0.6  # of a Kalman filter: w = C h + N(0, R), h = RHO h + N(0, Q)
VALUES = torch.tensor([0.0, -1.1, 0.4, 1.7])  # what the tokens are observations of


class Transition(torch.nn.Module):
    """h_t = RHO h_{t-1} + sqrt(Q) x_t as a triangular flow."""

    def at(self, state):
        root = torch.full((*state.shape, 1), Q**0.5)
        return Triangle(RHO * state, root, root[..., 0].log())


class Density(torch.nn.Module):
    """ln N(w; C h, R) in place of the emission."""

    def forward(self, states):
        return -0.5 * ((VALUES.to(states) - C * states).square() / R + log(2 * pi * R))


class Smoother(torch.nn.Module):
    """q(h_t | h_{t-1}, w_t, ..., w_T), exactly, by a filter that runs backwards; or a little off."""

    def __init__(self, off=0.0):
        super().__init__()
        self.off = off

    def read(self, gold, length):
        found = torch.zeros(*gold.shape, 2)
        precision, weighted = torch.zeros(len(gold)), torch.zeros(len(gold))  # of exp(-p h^2 / 2 + m h)
        for t in range(gold.shape[1] - 1, -1, -1):
            real = t < length
            p = precision + C**2 / R
            m = weighted + C / R * VALUES.to(precision)[gold[:, t]]
            found[:, t] = torch.stack([p, m], 1)
            shrink = 1 / (1 + Q * p)
            precision = torch.where(real, RHO**2 * p * shrink, 0)
            weighted = torch.where(real, RHO * m * shrink, 0)
        return found

    def forward(self, context, state, peek):
        precision, weighted = context.unsqueeze(1).unbind(2)
        variance = 1 / (1 / Q + precision)
        mean = variance * (RHO * state / Q + weighted)
        return (mean + self.off)[:, None], 0.5 * variance.log()[:, None]


def kalman(off=0.0):
    model = deep(state=1)
    model.generative, model.inference, model.emission, model.posterior = (
        Transition(),
        Noisy(),
        Density(),
        Smoother(off),
    )
    model.origin.data.fill_(0.3)
    return model


def filtered(word):
    """Return the log-likelihood of the values of a word, by the ordinary Kalman filter."""
    mean, variance, total = torch.tensor(0.3), torch.tensor(0.0), 0.0
    for token in word:
        mean, variance = RHO * mean, RHO**2 * variance + Q
        spread = C**2 * variance + R
        error = VALUES.double()[token] - C * mean
        total = total - 0.5 * (error**2 / spread + (2 * pi * spread).log())
        gain = variance * C / spread
        mean, variance = mean + gain * error, (1 - gain * C) * variance
    return total


def test_with_the_exact_smoother_the_bound_is_the_likelihood_of_the_kalman_filter_for_all_noise():
    targets = [(1, 3, 2, 0), (2, 0), (3, 3, 3, 1, 0), (0,)]
    wanted = torch.stack([filtered(word) for word in targets])
    for seed in range(3):
        found = kalman().bound(rows(targets), Rng(seed), 1).total
        torch.testing.assert_close(found, wanted)
    off = kalman(off=0.3).bound(many(targets[0], 2000), Rng(1), 1).total
    assert off.std() > 0.01
    assert off.mean() < wanted[0] - 0.05


@pytest.mark.slow
def test_with_the_exact_smoother_several_samples_lose_what_one_has():
    """By E[ln K - H(softmax of the first weights)] for two steps, as the survivor is chosen by what it is worth now."""
    target, number, samples = (3, 0), 20_000, 5
    found = kalman().bound(many(target, number), Rng(5), samples).total
    exact = filtered(target).item()
    error = found.std().item() / number**0.5
    assert found.mean().item() < exact - 5 * error
    rng = StackedRngs(Rng(5), torch.arange(number), 0)
    model = kalman()
    origin, context = model.origin.expand(number, -1), model.posterior.read(torch.tensor([target]), torch.tensor([2]))
    mean, log_std = model.posterior(context[:, 0].expand(number, -1), origin, None)
    drawn = rng.normal("proposal", samples, 1)
    states = mean + log_std.exp() * drawn
    q = -0.5 * drawn[..., 0].square() - log_std[..., 0]
    p = -0.5 * (states[..., 0] - RHO * 0.3).square() / Q - 0.5 * log(Q)
    shares = (Density()(states)[..., 3] + p - q).softmax(1)
    gap = log(samples) - torch.special.entr(shares).sum(1)
    spread = 4 * (gap.std().item() / number**0.5 + error)
    assert exact - found.mean().item() == pytest.approx(gap.mean().item(), abs=spread)


def test_one_sample_is_the_plain_bound_whatever_others_are_drawn_besides():
    model = deep(generative="2xtril", samples=1)
    one = StackedRngs(Rng(1), torch.arange(4), 2)
    torch.testing.assert_close(one.normal("proposal", 7, 3)[:, :1], one.normal("proposal", 1, 3))
    batch = tiny_batch()
    gold, length = batch.gold, batch.length
    contexts, state, total = model.posterior.read(gold, length), model.origin.expand(5, -1), torch.zeros(5)
    for t in range(gold.shape[1]):
        mean, log_std = (each[:, 0] for each in model.posterior(contexts[:, t], state, None))
        eps = StackedRngs(Rng(3), batch.ids, t).normal("proposal", 1, 3)[:, 0]
        xi = mean + log_std.exp() * eps
        q = model.inference.at(state)
        moved = q.shift + q.diagonal * xi
        g = model.generative.at(state).map
        zeta = g.shift + (g.matrix @ moved[:, :, None])[:, :, 0]
        log_q = -0.5 * (eps**2 + 2 * log_std + log(2 * pi)).sum(1)
        log_r = -0.5 * (zeta**2 + log(2 * pi)).sum(1)
        jacobian = q.diagonal.abs().log().sum(1) + g.matrix.diagonal(dim1=1, dim2=2).abs().log().sum(1)
        gain = model.emission(moved).gather(1, gold[:, t : t + 1])[:, 0]
        total = total + (gain + log_r - log_q + jacobian) * (t < length)
        state = moved
    torch.testing.assert_close(model.bound(batch, Rng(3), 1).total, total)


def test_gradients_are_those_of_the_weights_in_proportion_to_themselves():
    model, samples = deep(generative="tril", samples=4), 4
    state, batch = model.origin.expand(6, -1), many((2,), 6)
    context = model.posterior.read(batch.gold, batch.length)[:, 0]
    at = StackedRngs(Rng(1), batch.ids, 0)
    weights = torch.stack(
        [each_weight(model, state, context, batch.gold[:, 0], at, k, samples) for k in range(samples)], 1
    )
    wanted = torch.autograd.grad(
        (weights.softmax(1).detach() * weights).sum(), list(model.parameters()), allow_unused=True
    )
    found = torch.autograd.grad(
        model.bound(batch, Rng(1), samples).total.sum(), list(model.parameters()), allow_unused=True
    )
    assert sum(each is not None and each.abs().max() > 1e-6 for each in found) > 10
    for one, other in zip(found, wanted, strict=True):
        if one is not None or other is not None:
            torch.testing.assert_close(one, other)


def each_weight(model, state, context, tokens, rng, k, samples):
    """Return ln omega^k [N] of the k-th proposal alone, as Algorithm 1 writes it."""
    to, q = model.generative.at(state), model.inference.at(state)
    peek = to.forward(rng.normal("peek", samples, 3)[:, k : k + 1])[0]
    mean, log_std = model.posterior(context, state, peek)
    eps = rng.normal("proposal", samples, 3)[:, k : k + 1]
    moved, log_det_q = q.forward(mean + log_std.exp() * eps)
    zeta, log_det_g = to.inverse(moved)
    gain = model.emission(moved)[:, 0].gather(1, tokens[:, None])[:, 0]
    ratio = (-0.5 * zeta**2 + 0.5 * eps**2 + log_std).sum((1, 2))
    return gain + ratio + (log_det_q - log_det_g)[:, 0]


def test_survivors_are_chosen_in_proportion_to_their_weights():
    model, number, samples = deep(generative="tril", samples=3), 20_000, 3
    state, tokens = model.origin.expand(number, -1), torch.full((number,), 2)
    context = model.posterior.read(torch.tensor([[2, 0]]), torch.tensor([2]))[:, 0].expand(number, -1)
    at = StackedRngs(Rng(1), torch.arange(number), 0)
    with torch.no_grad():
        weights = torch.stack([each_weight(model, state, context, tokens, at, k, samples) for k in range(samples)], 1)
        drawn, peeks = at.normal("proposal", samples, 3), at.normal("peek", samples, 3)
        survivors = model._advance(Step(state, context, tokens, drawn, peeks, Rng(8).uniform(torch.arange(number))))[
            0
        ]
        peek = model.generative.at(state).forward(at.normal("peek", samples, 3))[0]
        mean, log_std = model.posterior(context, state, peek)
        moved = model.inference.at(state).forward(mean + log_std.exp() * at.normal("proposal", samples, 3))[0]
    chosen = (moved == survivors[:, None]).all(2)  # [N, K]
    assert (chosen.sum(1) == 1).all()
    shares = weights.softmax(1)
    surprise = chosen.double() - shares  # with mean 0, whatever the shares are
    assert (surprise.mean(0).abs() < 4 * surprise.std(0) / number**0.5).all()
    told = (surprise * shares).mean(0)
    assert (told.abs() < 4 * (surprise * shares).std(0) / number**0.5).all()


@pytest.mark.parametrize("bidirectional", [False, True])
def test_inference_reads_from_a_step_to_the_end_or_everything(bidirectional):
    model, batch = deep(bidirectional=bidirectional), rows([(1, 2, 3, 4, 0), (3, 1, 0)])
    embedded = []
    model.posterior.embed.register_forward_hook(lambda _, __, out: embedded.append(out) or out.retain_grad())
    model.posterior.read(batch.gold, batch.length)[0, 2].sum().backward()
    seen = embedded[0].grad.abs().sum(2)  # [N, T]
    assert (seen[0, 2:] > 0).all()
    assert ((seen[0, :2] > 0) if bidirectional else (seen[0, :2] == 0)).all()
    assert (seen[1] == 0).all()
    short = model.posterior.read(batch.gold[1:, :3], batch.length[1:])
    torch.testing.assert_close(model.posterior.read(batch.gold, batch.length)[1:, :3], short)


@pytest.mark.parametrize("seen", ["q_sees_state", "samples"])
def test_a_proposal_depends_on_the_states_that_it_is_told(seen):
    model = deep(**{seen: 2}) if seen == "samples" else deep(**{seen: True})
    state = torch.randn(4, 3, requires_grad=True)
    peek = torch.randn(4, 2, 3, requires_grad=True)
    mean, _ = model.posterior(torch.randn(4, 6), state, peek)
    by_state, by_peek = torch.autograd.grad(mean.sum(), (state, peek), allow_unused=True)
    assert (by_state is not None) == (seen == "q_sees_state")
    assert (by_peek is not None) == (seen == "samples")
    assert mean.shape == (4, 2 if seen == "samples" else 1, 3)


def test_log_sigma_stays_within_its_limits():
    model = deep(scale=100)
    _, log_std = model.posterior(torch.randn(50, 6), torch.zeros(50, 3), None)
    assert (log_std.min(), log_std.max()) == (-6, 2)


@pytest.mark.parametrize("settings", [{"samples": 3, "generative": "2xtril"}, {"generative": "real-nvp", "state": 4}])
def test_all_that_is_trained_has_a_finite_gradient(settings):
    model = deep(**settings)
    model.loss(tiny_batch(), Training(0, 1, 0, 1, Rng(1))).value.backward()
    for name, weights in model.named_parameters():
        assert weights.grad is not None, name
        assert weights.grad.isfinite().all(), name
        assert weights.grad.any(), name


def test_what_a_score_by_the_bound_reports_adds_up():
    model, batch = deep(samples=3), tiny_batch()
    scores = model.score(batch, Scoring("elbo", Rng(2)))
    torch.testing.assert_close(scores.values["fit"] - scores.values["kl"], scores.log_probs)
    assert (scores.values["entropy"] > 0).all()
    assert (scores.values["entropy"] <= log(5) / log(2)).all()


def test_the_log_of_training_tells_information_and_entropy_in_bits():
    model, batch = deep(logged=4), tiny_batch()
    parts = model.loss(batch, Training(0, 1, 0, 1, Rng(2))).parts
    assert 0 < parts["information"] <= parts["entropy"] + log(5) / log(2)
    assert 0 < parts["entropy"] <= log(5) / log(2)
    silent = deep(logged=0).loss(batch, Training(0, 1, 0, 1, Rng(2))).parts
    assert set(silent) == {"fit"}


def test_the_log_of_training_is_made_of_some_updates():
    model, batch = deep(logged=4, log_every=3), tiny_batch()
    told = [len(model.loss(batch, Training(step, 5, 0, 1, Rng(2))).parts) for step in range(5)]
    assert told == [3, 1, 1, 3, 1]
    with torch.no_grad():
        assert set(model.loss(batch, Training(0, 5, 0, 1, Rng(2))).parts) == {"fit"}, "an evaluation has no log"


def test_the_bound_once_more_is_by_other_draws_of_the_same_distribution():
    """Over many numbers of a word, both have one mean and no correlation."""
    found = deep().score(many((A, B, 0), 4000), Scoring("elbo", Rng(3)))
    one, other = found.log_probs.double(), found.values[AGAIN].double()
    apart = one - other
    assert abs(apart.mean()) < 4 * apart.std() / 4000**0.5
    assert abs(torch.corrcoef(torch.stack([one, other]))[0, 1]) < 4 / 4000**0.5
    assert one.std() > 1e-3
