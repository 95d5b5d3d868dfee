"""Laws of the deep state space model, and the mistakes that each is seen to catch."""

from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import product
from math import log, pi

import pytest
import torch
from torch.autograd.functional import jacobian

from bench_authors.testing.contracts import catches, patched
from bench_core import Batch, Rng, TaskInfo
from bench_ssm import flows
from bench_ssm.maps import Map, Scale
from bench_ssm.plugin import DeepSSMConfig

A, B = 1, 2


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def deep(info=None, scale=2.5, **settings):
    """Return a small model with weights far from those at first."""
    torch.manual_seed(2)
    config = DeepSSMConfig(**{"state": 3, "reader": 5, "posterior": 6, "steps": 8, "trajectories": 50} | settings)
    model = config.load()(config, info or TaskInfo(["</s>", *"abcd"])).eval()
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


# mistakes: each is given what is right, and changes it


@dataclass(frozen=True)
class Turned(Map):
    """A map that has the logarithm of its determinant with the wrong sign."""

    map: Map

    def forward(self, points):
        moved, log_det = self.map.forward(points)
        return moved, -log_det

    def inverse(self, points):
        moved, log_det = self.map.inverse(points)
        return moved, -log_det


class OtherSign(flows.Flow):
    def __init__(self, flow):
        super().__init__()
        self.flow = flow

    def at(self, state):
        return Turned(self.flow.at(state))


def has_the_jacobian_with_the_other_sign(flow):
    return OtherSign(flow)


def generates_with_the_other_sign(model):
    other = deepcopy(model)
    other.generative = OtherSign(other.generative)
    return other


def infers_with_the_other_sign(model):
    other = deepcopy(model)
    other.inference = OtherSign(other.inference)
    return other


def does_not_clip(keep):
    return lambda diagonal, delta: diagonal


def has_a_sign_of_zero_that_is_zero(keep):
    return lambda diagonal, delta: diagonal.sign() * diagonal.abs().clamp(min=delta)


def stops_the_gradient_where_it_clips(keep):
    def clipped(diagonal, delta):
        return torch.where(diagonal < 0, diagonal.clamp(max=-delta), diagonal.clamp(min=delta))

    return clipped


def sums_weights_without_dividing_by_their_number(model):
    def advance(intact, step):
        state, total, *told = intact._advance(step)
        return state, total + log(step.eps.shape[1]), *told

    return patched(model, _advance=advance)


def lets_any_proposal_go_on(model):
    """Whatever it weighs: survivors are chosen as if all weights were equal, and their bound is that of all."""

    def advance(intact, step):
        _, total, *told = intact._advance(step)
        first = replace(step, eps=step.eps[:, :1], peek=step.peek[:, :1])
        return intact._advance(first)[0], total, *told

    return patched(model, _advance=advance)


def counts_padding(model):
    def bound(intact, batch, rng, samples):
        return intact.bound(replace(batch, length=torch.full_like(batch.length, batch.gold.shape[1])), rng, samples)

    return patched(model, bound=bound)


def reads_what_pads_a_target(model):
    other = deepcopy(model)
    read = other.posterior.read
    other.posterior.read = lambda gold, length: read(gold, torch.full_like(length, gold.shape[1]))
    return other


def intact(part):
    return part


# laws


@catches(has_the_jacobian_with_the_other_sign)
def log_determinants_are_those_of_the_jacobian(change):
    for name, inverse in product(("diag", "tril", "2xtril", "real-nvp"), (False, True)):
        flow = flows.generative(DeepSSMConfig(state=4, generative=name, inverse=inverse))
        with torch.no_grad():
            for weights in flow.parameters():
                weights.add_(0.3 * torch.randn_like(weights))
        flow, state, point = change(flow), torch.randn(1, 4), torch.randn(4)
        at = flow.at(state)
        matrix = jacobian(lambda x, at=at: at.forward(x[None, None])[0][0, 0], point)
        found = at.forward(point[None, None])[1].reshape(())
        assert abs(found - torch.linalg.slogdet(matrix).logabsdet) < 1e-9


@catches(does_not_clip, has_a_sign_of_zero_that_is_zero, stops_the_gradient_where_it_clips)
def diagonals_keep_their_distance_from_zero_and_their_gradient(change):
    diagonal = torch.tensor([0.02, -0.02, 0.0, 0.7, -0.3], requires_grad=True)
    kept = change(flows.clip_away)(diagonal, 0.1)
    assert kept.tolist() == [0.1, -0.1, 0.1, 0.7, -0.3]
    (gradient,) = torch.autograd.grad(kept.sum(), diagonal)
    assert gradient.tolist() == [1.0] * 5


@catches(generates_with_the_other_sign, infers_with_the_other_sign)
def affine_flows_cost_the_divergence_of_two_gaussians(change):
    """The bound less the fit, where nothing is emitted, is minus the divergence on average."""
    plain = deep(generative="tril", inference="tril", steps=1)
    torch.nn.init.zeros_(plain.emission.weight)
    torch.nn.init.zeros_(plain.emission.bias)
    number = 20_000
    with torch.no_grad():
        costs = -log(5) - change(plain).bound(many((1,), number), Rng(2), 1).total
        origin, context = plain.origin[None], plain.posterior.read(torch.tensor([[1]]), torch.tensor([1]))
        mean, log_std = plain.posterior(context[:, 0], origin, None)
        q, learnt = plain.inference.at(origin), plain.generative.at(origin).map
        root, other_root = q.matrix[0] * log_std.exp()[0, 0], torch.linalg.inv(learnt.matrix[0])
        one = torch.distributions.MultivariateNormal(q.forward(mean)[0][0, 0], root @ root.T)
        center = -(other_root @ learnt.shift[0])
        other = torch.distributions.MultivariateNormal(center, other_root @ other_root.T)
        wanted = torch.distributions.kl_divergence(one, other).item()
    assert abs(costs.mean().item() - wanted) < 4 * costs.std().item() / number**0.5


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


class Wide(torch.nn.Module):
    """Proposes what the chain does, but a little further apart."""

    def read(self, gold, length):
        return torch.zeros(*gold.shape, 1)

    def forward(self, context, state, peek):
        std = torch.where(state == 0, 1.0, 0.8)
        return 0.6 * state[:, None], (1.1 * std).log()[:, None]


def probability(word, points=401):
    """Return P(w) of the logistic chain by integrals over a grid, forward in time."""
    grid = torch.linspace(-8, 8, points)
    density = torch.exp(-(grid**2) / 2) / (2 * pi) ** 0.5
    kernel = torch.exp(-((grid[:, None] - 0.6 * grid) ** 2) / 1.28) / (1.28 * pi) ** 0.5 * (grid[1] - grid[0])
    for turn, token in enumerate(word):
        density = density if turn == 0 else kernel @ density
        density = density * torch.sigmoid(2 * grid * (1 if token == A else -1))
    return float(density.sum() * (grid[1] - grid[0]))


@catches(sums_weights_without_dividing_by_their_number, lets_any_proposal_go_on)
def the_product_of_mean_weights_is_the_probability_on_average(change):
    model, number = deep(TaskInfo(["</s>", "a", "b"]), state=1, steps=3, samples=5), 20_000
    model.generative, model.inference, model.emission, model.posterior = Chain(), Noisy(), Logits(), Wide()
    for word in ((A, A, A), (A, A, B)):
        with torch.no_grad():
            weights = change(model).bound(many(word, number), Rng(3), 5).total.exp()
        error = weights.std().item() / number**0.5
        assert abs(weights.mean().item() - probability(word)) < 4 * error


@catches(counts_padding, reads_what_pads_a_target)
def the_bound_of_a_word_is_the_same_beside_longer_ones(change):
    for settings in ({"samples": 1}, {"samples": 3, "generative": "2xtril"}, {"bidirectional": True}):
        model, words = change(deep(**settings)), [(1, 2, 0), (4, 0), (3, 3, 1, 2, 2, 4, 0)]
        with torch.no_grad():
            together = model.bound(rows(words), Rng(4), model.config.samples).total
            for place, word in enumerate(words):
                one = replace(rows([word]), ids=torch.tensor([place]))
                alone = model.bound(one, Rng(4), model.config.samples).total
                assert abs(alone - together[place]).item() < 1e-9


LAWS = (
    log_determinants_are_those_of_the_jacobian,
    diagonals_keep_their_distance_from_zero_and_their_gradient,
    affine_flows_cost_the_divergence_of_two_gaussians,
    the_product_of_mean_weights_is_the_probability_on_average,
    the_bound_of_a_word_is_the_same_beside_longer_ones,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_model_keeps_its_laws(law):
    law.check(intact)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law.check(mutant)
