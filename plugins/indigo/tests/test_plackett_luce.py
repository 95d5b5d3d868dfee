"""Orders from Plackett-Luce distributions: laws by enumeration, and the mistakes that these catch."""

from __future__ import annotations

from itertools import permutations
from math import factorial, log

import pytest
import torch

from bench_authors.testing import float64
from bench_core import Rng
from bench_indigo import learned_order, plackett_luce
from bench_indigo.learned_order import score_function
from bench_indigo.plackett_luce import best_order, log_prob, orders_to_score, sample_orders, uniform

SCORES = torch.tensor([0.7, -0.4, 1.3, 0.2], dtype=torch.float64)
ROWS, STANDARD_ERRORS = 2500, 5


@pytest.fixture(autouse=True)
def double():
    with float64():
        yield


def every(words, steps):
    """Return all orders of `words` words [words!, steps]."""
    return torch.tensor([[*order, *range(words, steps)] for order in permutations(range(words))])


def by_definition(scores, order):
    """Return log q of an order, drawn word by word without replacement."""
    left, total = [*range(len(order))], 0.0
    for place in order:
        weights = scores[left].exp()
        total += log(scores[place].exp() / weights.sum())
        left.remove(place)
    return total


def enumerated(scores, words, steps):
    """Return all orders of `words` words, and their probabilities."""
    orders = every(words, steps)
    return orders, log_prob(scores[None, :steps], orders[None], torch.tensor([words]))[0].exp()


@pytest.mark.parametrize("words", [0, 1, 2, 3])
def test_the_probability_of_an_order_is_that_of_drawing_its_words_one_by_one(words):
    orders, probs = enumerated(SCORES, words, 4)
    assert probs.sum().item() == pytest.approx(1)
    for order, prob in zip(orders.tolist(), probs.tolist(), strict=True):
        assert log(prob) == pytest.approx(by_definition(SCORES, order[:words]))


def test_padding_changes_neither_probabilities_nor_gradients():
    scores = SCORES.clone().requires_grad_()
    total = log_prob(scores[None], torch.tensor([[[1, 0, 2, 3]]]), torch.tensor([2])).sum()
    total.backward()
    assert total.item() == pytest.approx(by_definition(SCORES, [1, 0]))
    assert scores.grad[2:].tolist() == [0, 0]
    assert scores.grad[0].item() == pytest.approx(-scores.grad[1].item())


def test_the_best_order_is_the_most_probable_one():
    orders, probs = enumerated(SCORES, 4, 4)
    assert orders[probs.argmax()].tolist() == [2, 0, 3, 1]
    assert best_order(SCORES[None], torch.tensor([4]))[0].tolist() == [2, 0, 3, 1]
    assert best_order(torch.zeros(1, 4), torch.tensor([3]))[0].tolist() == [0, 1, 2, 3]


def drawn(words=3, size=4, rows=ROWS, scores=SCORES):
    """Return samples of orders [rows, size, 4]."""
    return sample_orders(scores.expand(rows, -1), torch.full((rows,), words), torch.arange(rows), size, Rng(5))


def samples_have_their_probabilities():
    orders, probs = enumerated(SCORES, 3, 4)
    alike = (drawn()[:, :, None] == orders).all(3)  # [rows, size, 6]
    shares = alike.double().mean((0, 1))
    errors = (probs * (1 - probs) / (4 * ROWS)).sqrt()
    assert ((shares - probs).abs() < STANDARD_ERRORS * errors).all()
    pairs = alike[:, 0, :, None] & alike[:, 1, None]  # the first two samples of a target are independent
    both = probs[:, None] * probs
    assert ((pairs.double().mean(0) - both).abs() < STANDARD_ERRORS * (both / ROWS).sqrt()).all()


def test_samples_have_the_probabilities_of_their_orders_and_are_independent():
    samples_have_their_probabilities()


def test_samples_depend_on_the_example_alone_and_leave_padding_at_the_end():
    wide = torch.cat([SCORES, torch.tensor([9.0, 9.0])])
    number, ids = torch.tensor([3, 2]), torch.tensor([4, 8])
    narrow = sample_orders(SCORES.expand(2, -1), number, ids, 5, Rng(1))
    padded = sample_orders(wide.expand(2, -1), number, ids, 5, Rng(1))
    assert padded[:, :, :4].equal(narrow)
    assert padded[:, :, 4:].unique(dim=1).tolist() == [[[4, 5]], [[4, 5]]]
    assert sample_orders(SCORES[None], number[1:], ids[1:], 5, Rng(1)).equal(narrow[1:])
    assert narrow[1, :, 2:].unique(dim=0).tolist() == [[2, 3]]


REWARDS = torch.tensor([3.0, -1.0, 0.5, 4.0, -2.0, 1.0])  # of the six orders of three words


def gradient_is_unbiased(entropy=0.7):
    """Assert that the mean gradient of 10,000 draws is that of E_q[reward - entropy * log q] by enumeration."""
    exact = SCORES.clone().requires_grad_()
    orders, probs = enumerated(exact, 3, 4)
    (probs * (REWARDS - entropy * probs.log())).sum().backward()

    scores = SCORES.repeat(ROWS, 1).requires_grad_()
    number = torch.full((ROWS,), 3)
    samples = learned_order.sample_orders(scores.detach(), number, torch.arange(ROWS), 4, Rng(5))
    rewards = REWARDS[(samples[:, :, None] == orders).all(3).double().argmax(2)]
    log_q = log_prob(scores, samples, number)
    learned_order.score_function(log_q, (rewards - entropy * log_q).detach()).sum().backward()
    error = scores.grad.std(0) / ROWS**0.5
    difference = (scores.grad.mean(0) - exact.grad).abs()
    assert (difference <= STANDARD_ERRORS * error + 1e-12).all(), difference / error


def test_the_gradient_of_ten_thousand_draws_is_that_of_all_orders():
    gradient_is_unbiased()


def test_the_baseline_lowers_the_variance():
    """Compare with a gradient without a baseline, on rewards far from 0."""
    spread = []
    for baseline in (True, False):
        scores = SCORES.repeat(ROWS, 1).requires_grad_()
        samples = drawn()
        rewards = 10 + samples[:, :, 0].double()
        log_q = log_prob(scores, samples, torch.full((ROWS,), 3))
        term = score_function(log_q, rewards) if baseline else (rewards * log_q).mean(1)
        term.sum().backward()
        spread.append(scores.grad.std(0)[:3].sum().item())
    assert spread[0] < spread[1] / 3


def one_noise(scores, number, ids, size, rng):
    return plackett_luce.sample_orders(scores, number, ids, 1, rng).expand(-1, size, -1)


def includes_itself(log_q, rewards):
    return ((rewards - rewards.mean(1, keepdim=True)) * log_q).mean(1)


GRADIENT_MUTANTS = {
    "the baseline includes the sample itself": ("score_function", includes_itself),
    "one Gumbel noise for all samples": ("sample_orders", one_noise),
    "the gradient descends": ("score_function", lambda log_q, rewards: -score_function(log_q, rewards)),
}


@pytest.mark.parametrize("name", GRADIENT_MUTANTS)
def test_the_exact_gradient_catches_the_mistake(monkeypatch, name):
    monkeypatch.setattr(learned_order, *GRADIENT_MUTANTS[name])
    with pytest.raises(AssertionError):
        gradient_is_unbiased()


def test_the_law_of_samples_catches_noise_that_is_used_again(monkeypatch):
    monkeypatch.setitem(globals(), "sample_orders", one_noise)
    with pytest.raises(AssertionError):
        samples_have_their_probabilities()


def bound_is_exact_for_short_targets():
    """Assert that the bound of short targets is E_q[log p - log q] by enumeration."""
    chance = torch.Generator().manual_seed(2)
    scores = torch.randn(4, 4, generator=chance)
    number = torch.tensor([0, 1, 2, 3])
    chosen = plackett_luce.orders_to_score(scores, number, torch.arange(4), 6, Rng(0))
    log_probs = torch.randn(4, 6, generator=chance)
    found, entropies = chosen.elbo(log_probs), chosen.entropy()
    for row, words in enumerate(number.tolist()):
        orders, probs = enumerated(scores[row], words, 4)
        assert chosen.orders[row][chosen.alive[row]].tolist() == orders.tolist()
        expected = (probs * (log_probs[row, : len(orders)] - probs.log())).sum()
        assert found[row].item() == pytest.approx(expected.item())
        assert entropies[row].item() == pytest.approx(-(probs * probs.log()).sum().item(), abs=1e-12)
        assert found[row] <= log_probs[row, : len(orders)].logsumexp(0) + 1e-12


def test_the_bound_of_a_short_target_is_its_expectation_over_all_orders():
    bound_is_exact_for_short_targets()


def forgets_entropy(self, log_probs):
    return (self.weight * log_probs.where(self.weight > 0, 0.0)).sum(1)


def forgets_weights(self, log_probs):
    return (self.alive * (log_probs - self.log_q).where(self.alive, 0.0)).sum(1) / self.alive.sum(1)


@pytest.mark.parametrize("mistake", [forgets_entropy, forgets_weights])
def test_the_expectation_catches_the_mistake(monkeypatch, mistake):
    monkeypatch.setattr(plackett_luce.WeightedOrders, "elbo", mistake)
    with pytest.raises(AssertionError):
        bound_is_exact_for_short_targets()


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_is_the_log_sum_if_q_is_the_posterior(seed):
    """Compare with two orders, of which Plackett-Luce can be any distribution, and with equal probabilities."""
    log_probs = 3 * torch.randn(1, 2, generator=torch.Generator().manual_seed(seed))
    scores = torch.cat([log_probs, torch.zeros(1, 1)], 1)  # the first word first with probability p_1 / (p_1 + p_2)
    chosen = orders_to_score(scores, torch.tensor([2]), torch.tensor([0]), 2, Rng(0))
    assert chosen.elbo(log_probs).item() == pytest.approx(log_probs.logsumexp(1).item())
    some = orders_to_score(torch.zeros(1, 6), torch.tensor([5]), torch.tensor([0]), 7, Rng(seed))
    assert some.weight.tolist() == [[1 / 7] * 7]
    assert some.elbo(torch.full((1, 7), -2.0)).item() == pytest.approx(-2 + log(factorial(5)))


def test_sampled_bounds_of_longer_targets_scatter_around_the_expectation():
    orders, probs = enumerated(SCORES, 4, 4)
    log_probs = torch.randn(24, generator=torch.Generator().manual_seed(0))
    expected = (probs * (log_probs - probs.log())).sum()
    chosen = orders_to_score(SCORES.expand(ROWS, -1), torch.full((ROWS,), 4), torch.arange(ROWS), 3, Rng(1))
    values = chosen.elbo(log_probs[(chosen.orders[:, :, None] == orders).all(3).double().argmax(2)])
    assert (values.mean() - expected).abs() < STANDARD_ERRORS * values.std() / ROWS**0.5


def test_found_orders_have_equal_probabilities():
    orders = every(3, 4)[None, :4]
    chosen = uniform(orders, torch.tensor([[True, True, True, False]]))
    log_probs = torch.tensor([[-1.0, -2.0, -4.5, -torch.inf]])
    assert chosen.elbo(log_probs).item() == pytest.approx(-2.5 + log(3))
    assert chosen.entropy().item() == pytest.approx(log(3))
