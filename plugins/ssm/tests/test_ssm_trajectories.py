"""P(w) by trajectories: the trie against the naive loop, matrix products and quadrature."""

from itertools import product
from math import asin, log, pi

import pytest
import torch
from torch.nn.functional import one_hot

from bench_core import QUARTERS, Batch, Prediction, Rng, Scoring, TaskInfo, estimates_of, sampling_error
from bench_ssm import trajectories
from bench_ssm.plugin import DeepSSMConfig
from bench_ssm.trajectories import log_means


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def words(number, tokens=5, most=7):
    """Return random targets with all sorts of lengths, stop among them too; some are alike but for their length."""
    length = torch.randint(1, most + 1, (number,))
    gold = torch.randint(0, tokens, (number, most)) * (torch.arange(most) < length[:, None] - 1)
    return gold, length


def table(tokens=5, steps=7, number=90, scale=2.0):
    return (torch.randn(steps, tokens, number) * scale).log_softmax(1)


def naively(table, gold, length):
    found = []
    for word, size in zip(gold.tolist(), length.tolist(), strict=True):
        total = sum(table[t, token].double() for t, token in enumerate(word[:size]))
        found.append(total.logsumexp(0) - log(table.shape[2]))
    return torch.stack(found)


def by_all(table, gold, length):
    return log_means(table, gold, length, [(0, table.shape[2])])[0]


@pytest.mark.parametrize(("block", "products", "cross"), [(4096, 2**20, 8), (7, 100, 1000), (50, 100, 0)])
def test_the_trie_gives_what_a_loop_over_words_gives(monkeypatch, block, products, cross):
    monkeypatch.setattr(trajectories, "TRIE_TARGETS", block)
    monkeypatch.setattr(trajectories, "CPU_PRODUCTS", products)
    monkeypatch.setattr(trajectories, "CROSS_RATIO", cross)
    gold, length = words(100)
    for lp in (table(), table(number=1), table(tokens=9)):
        number = lp.shape[2]
        parts = [(0, number), (0, max(1, number // 10)), (0, (number + 1) // 2), (number // 4, number)]
        for found, (start, end) in zip(log_means(lp, gold, length, parts), parts, strict=True):
            torch.testing.assert_close(found, naively(lp[:, :, start:end], gold, length), rtol=1e-9, atol=1e-9)


def test_the_trie_gives_what_a_product_of_matrices_gives():
    lp, (gold, length) = table(), words(100)
    ones = one_hot(gold, 5) * (torch.arange(7) < length[:, None])[:, :, None]
    found = (ones.flatten(1).to(lp) @ lp.flatten(0, 1)).logsumexp(1) - log(90)
    torch.testing.assert_close(by_all(lp, gold, length), found, rtol=1e-9, atol=1e-9)


def test_words_of_one_token_need_no_other():
    lp, zeros = table(), torch.zeros(2, 1, dtype=torch.long)
    found = by_all(lp, zeros, torch.ones(2, dtype=torch.long))
    torch.testing.assert_close(found, (lp[0, 0].logsumexp(0) - log(90)).expand(2))


def test_float32_is_close_to_float64_however_improbable_words_are():
    gold, length = words(200)
    for scale in (1.0, 5.0, 30.0):
        lp = table(scale=scale).float()
        found = by_all(lp, gold, length)
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, naively(lp, gold, length), rtol=1e-5, atol=1e-5)
    assert found.min() < -100  # where products of probabilities are 0 in float32


def test_no_word_has_a_probability_of_its_own_twice_as_large_for_being_there_twice():
    lp, (gold, length) = table(), words(20)
    both = by_all(lp, gold.repeat(2, 1), length.repeat(2))
    torch.testing.assert_close(both[:20], both[20:])
    torch.testing.assert_close(both[:20], by_all(lp, gold, length))


def all_words(steps):
    """Return all targets of up to `steps` tokens over two letters and stop, and all beginnings that do not stop."""
    stopped = [(*word, 0) for size in range(steps) for word in product((1, 2), repeat=size)]
    return stopped + list(product((1, 2), repeat=steps))


def batch(targets):
    length = torch.tensor([len(target) for target in targets])
    gold = torch.tensor([[*target, *[0] * (int(length.max()) - len(target))] for target in targets])
    return Batch(torch.arange(len(targets)), gold[:, :1] * 0, gold, length)


def test_probabilities_of_all_words_and_of_the_unfinished_sum_to_one():
    rows = batch(all_words(3))
    found = by_all(table(tokens=3, steps=3), rows.gold, rows.length)
    torch.testing.assert_close(found.exp().sum(), torch.tensor(1.0))


class Chain(torch.nn.Module):
    """h_1 = x_1, h_t = 0.6 h_{t-1} + 0.8 x_t for one-dimensional states, told from h_0 = 0 by being exactly 0."""

    def at(self, state):
        from bench_ssm.maps import Scale

        return Scale(0.6 * state, torch.where(state == 0, 1.0, 0.8))


class Logits(torch.nn.Module):
    """Of stop, a and b: P(a | h) = 1 / (1 + exp(-2 slope h)), and stop never."""

    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, states):
        logits = self.slope * torch.cat([states, -states], -1)
        return torch.cat([torch.full_like(states, -1e9), logits.log_softmax(-1)], -1)


def chain(slope, trajectories=200_000, **settings):
    config = DeepSSMConfig(state=1, steps=3, trajectories=trajectories, **settings)
    model = config.load()(config, TaskInfo(["</s>", "a", "b"])).eval()
    model.generative, model.emission = Chain(), Logits(slope)
    return model


A, B = 1, 2


def standard_errors(model, rows, rng):
    """Return estimates of P(w) and their standard errors, from the trajectories themselves."""
    states = model.prior(torch.arange(model.config.trajectories), rng.fork("trajectories"))[1:]
    lp = model.emission(states)  # [T, N, V]
    each = torch.stack([sum(lp[t, :, token] for t, token in enumerate(word[:size])).exp() for word, size in rows])
    return each.mean(1), each.std(1) / each.shape[1] ** 0.5


def scored(model, targets, rng):
    return model.score(batch(targets), Scoring("trajectories", rng)).log_probs.exp()


def test_the_orthant_probabilities_of_a_gaussian_chain():
    model, rng, rho = chain(1000), Rng(3), 0.6
    wanted = torch.tensor([1 / 2, 1 / 4 + asin(rho) / (2 * pi), 1 / 8 + (2 * asin(rho) + asin(rho**2)) / (4 * pi)])
    torch.testing.assert_close(wanted[1:], torch.tensor([0.352416, 0.256722]), rtol=0, atol=1e-6)
    targets = [(A,), (A, A), (A, A, A)]
    _, errors = standard_errors(model, [(word, len(word)) for word in targets], rng)
    assert ((scored(model, targets, rng) - wanted).abs() < 4 * errors).all()


def test_a_logistic_chain_agrees_with_quadrature():
    model, rng = chain(1), Rng(4)
    targets = list(product((A, B), repeat=3))
    found = scored(model, targets, rng)
    mean, errors = standard_errors(model, [(word, 3) for word in targets], rng)
    torch.testing.assert_close(found, mean)
    wanted = torch.tensor([quadrature(word) for word in targets])
    torch.testing.assert_close(wanted[:2], torch.tensor([0.197947, 0.108359]), rtol=0, atol=1e-6)
    assert wanted.sum() == pytest.approx(1)
    assert ((found - wanted).abs() < 4 * errors).all()


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


def test_a_tenth_of_the_trajectories_are_the_first_ones():
    model, rows = chain(1, trajectories=1000), batch(list(product((A, B), repeat=3)))
    told = model.score(rows, Scoring("trajectories", Rng(4))).values["log_prob_by_a_tenth"]
    fewer = chain(1, trajectories=100).score(rows, Scoring("trajectories", Rng(4))).log_probs
    torch.testing.assert_close(told, fewer)


@pytest.mark.parametrize("trajectories", [1000, 4, 7])
def test_the_quarters_of_the_trajectories_are_all_of_them(trajectories):
    model, rows = chain(1, trajectories=trajectories), batch(list(product((A, B), repeat=3)))
    found = model.score(rows, Scoring("trajectories", Rng(4)))
    sizes = torch.tensor([trajectories * (n + 1) // 4 - trajectories * n // 4 for n in range(4)])
    quarters = torch.stack([found.values[name] for name in QUARTERS]).exp()
    torch.testing.assert_close((quarters * sizes[:, None]).sum(0) / trajectories, found.log_probs.exp())
    assert len({round(one, 9) for one in quarters[:, 0].tolist()}) == 4


@pytest.mark.parametrize("trajectories", [20, 400])
def test_the_true_entropy_is_within_two_errors_of_its_estimate(trajectories):
    """H = -sum_w P(w) ln P(w) over the 8 words of a logistic chain; 0.95 less two errors of 100 experiments."""
    targets = list(product((A, B), repeat=3))
    truth = torch.tensor([quadrature(word) for word in targets])
    entropy, model, inside = -(truth * truth.log()).sum(), chain(1, trajectories=trajectories), []
    for key in range(100):
        found = model.score(batch(targets), Scoring("trajectories", Rng(key)))
        rows = [
            Prediction(n, values={name: float(each[n]) for name, each in found.values.items()})
            for n in range(len(targets))
        ]
        parts = truth @ torch.tensor([estimates_of(one, lambda nats: -nats) for one in rows])
        whole = -float(truth @ found.log_probs)
        inside.append(abs(whole - entropy) <= 2 * sampling_error(whole, parts.tolist()))
    assert sum(inside) / 100 >= 0.905


def test_without_an_emission_every_token_is_as_probable_as_any_other():
    config = DeepSSMConfig(state=3, trajectories=7, steps=6)
    model = config.load()(config, TaskInfo([*"abcdefghijklmnopqrstuvwxyz", "</s>"]))
    for weights in model.emission.parameters():
        torch.nn.init.zeros_(weights)
    rows = batch([(1, 2, 0), (0,), (5, 5, 5, 5, 0)])
    torch.testing.assert_close(model.score(rows, Scoring("trajectories", Rng(2))).log_probs, -rows.length * log(27))
    values = [one.values for one in model.sample(rows, 6, Rng(1))]
    assert all(one["information"] == pytest.approx(0, abs=1e-12) for one in values)
    assert all(one["entropy"] == pytest.approx(log(27) / log(2)) for one in values)


def test_the_trajectories_are_drawn_again_once_weights_or_noise_change():
    config = DeepSSMConfig(state=3, trajectories=50)
    model, rows = config.load()(config, TaskInfo(["</s>", "a", "b"])), batch([(1, 2, 0), (0,)])
    ask = lambda key=1: model.score(rows, Scoring("trajectories", Rng(key))).log_probs  # noqa: E731
    first = ask()
    table = model.cached[2]
    assert torch.equal(ask(), first)
    assert model.cached[2] is table
    assert not torch.equal(ask(2), first)
    model.emission.weight.data.mul_(2)
    assert not torch.equal(ask(), first)
    model.emission.weight.data.div_(2)
    model.origin.data.add_(1)
    assert not torch.equal(ask(), first)


def test_mutual_information_of_the_orthant_chain():
    """I(1) is one bit; I(2) is the mean binary entropy of Phi(rho h / sqrt(1 - rho^2)), less a bias of about 1/K."""
    model = chain(1000)
    drawn = Rng(5).normal(torch.arange(4000), 0, 400).view(4000, 400, 1)
    first = Rng(6).normal(torch.arange(4000), 0, 1)
    one = model.information(torch.zeros(50, 1), drawn[:50])
    two = model.information(first, drawn)
    bias = 1 / (2 * 400 * log(2))
    assert one.mean().item() == pytest.approx(1 - bias, abs=4 * one.std().item() / 50**0.5)
    assert two.mean().item() == pytest.approx(0.811645 - bias, abs=4 * two.std().item() / 4000**0.5)
    assert model.information(first, drawn[:, :2]).max() <= 1
