"""Weights of the orders found: their gradients by finite differences, both ends of annealing, and mutants."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest
import torch
from pydantic import ValidationError

from bench_authors.testing import Case, check_model, float64, tiny_batch
from bench_core import Rng, Source, SuiteError, Training
from bench_indigo import insertion, order_weights
from bench_indigo.plugin import IndigoConfig
from bench_indigo.search import search

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 12}
TARGETS = [(1, 2, 3, 1), (2,), (), (4, 4, 1), (3, 1)]  # fewer orders than the beam, too


@pytest.fixture(autouse=True)
def double():
    with float64():
        yield


def case_of(**settings):
    batch = tiny_batch(TARGETS, source=Source.TOKENS)
    case = Case.of(IndigoConfig(**{**SMALL, "beam": 3, **settings}), batch=batch, source=Source.TOKENS)
    for weights in case.model.parameters():
        weights.requires_grad_()
    return case


def loss_of(case, progress=1.0, phase=None, smoothing=0.0):
    return case.model.loss(case.batch, Training(0, 1, 0, 1, Rng(7), None, phase or {}, smoothing, progress=progress))


def gradient(case, value):
    """Return the gradient of a value in a direction."""
    case.model.zero_grad()
    value.backward()
    pairs = zip(case.model.parameters(), direction(case), strict=True)
    return sum((weights.grad * step).sum() for weights, step in pairs if weights.grad is not None).item()


def direction(case):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(weights.shape, generator=generator) for weights in case.model.parameters()]


@torch.no_grad()
def difference(case, function, size=1e-6):
    """Return the change of a function of the weights in the same direction, by central differences."""
    values = []
    for sign in (1, -2):
        for weights, step in zip(case.model.parameters(), direction(case), strict=True):
            weights.add_(sign * size * step)
        values.append(function().item())
    for weights, step in zip(case.model.parameters(), direction(case), strict=True):
        weights.add_(size * step)
    return (values[0] - values[1]) / (2 * size)


@torch.no_grad()
def found(case):
    return search(case.model, case.batch, case.model.encode(case.batch), case.model.config.beam)


def log_sum(case, orders):
    return -case.model.weigh(case.batch, *orders, case.model.encode(case.batch)).logsumexp(1).sum() / tokens(case)


def mean(case, orders):
    log_probs = case.model.weigh(case.batch, *orders, case.model.encode(case.batch))
    return -log_probs.where(orders[1], 0.0).sum(1).div(orders[1].sum(1)).sum() / tokens(case)


def tokens(case):
    return case.batch.length.sum()


def posterior_weights_have_the_gradient_of_the_log_sum(**settings):
    case = case_of(weights="posterior", **settings)
    orders = found(case)
    by_difference = difference(case, lambda: log_sum(case, orders))
    assert abs(by_difference) > 1e-3, "the case must bite"
    assert gradient(case, loss_of(case).value) == pytest.approx(by_difference, rel=1e-5)


@pytest.mark.parametrize("settings", [{}, {"position_first": True}, {"beam": 24}], ids=str)
def test_posterior_weights_have_the_gradient_of_the_log_sum_over_the_orders_found(settings):
    posterior_weights_have_the_gradient_of_the_log_sum(**settings)


def annealed_weights_have_the_gradients_of_mean_and_log_sum_at_their_ends():
    case = case_of(weights="annealed", anneal=(0.2, 0.6))
    orders = found(case)
    by_mean, by_sum = (difference(case, lambda of=of: of(case, orders)) for of in (mean, log_sum))
    assert abs(by_mean - by_sum) > 1e-3, "the case must bite"
    for progress, wanted in ((0.0, by_mean), (0.2, by_mean), (0.6, by_sum), (1.0, by_sum)):
        assert gradient(case, loss_of(case, progress).value) == pytest.approx(wanted, rel=1e-5), progress


def test_annealed_weights_have_the_gradients_of_mean_and_log_sum_at_their_ends():
    annealed_weights_have_the_gradients_of_mean_and_log_sum_at_their_ends()


def test_uniform_weights_have_the_gradient_of_the_mean():
    case = case_of()
    orders = found(case)

    def value():
        parts = loss_of(case).parts
        return parts["words"] + parts["slots"] * (tokens(case) - len(case.batch)) / tokens(case)

    torch.testing.assert_close(value(), mean(case, orders))
    assert gradient(case, value()) == pytest.approx(difference(case, lambda: mean(case, orders)), rel=1e-5)


def test_sharper_weights_have_the_gradient_of_a_tempered_log_sum():
    case = case_of(weights="annealed", anneal=(0.0, 1.0))
    orders = found(case)

    def tempered():
        log_probs = 0.25 * case.model.weigh(case.batch, *orders, case.model.encode(case.batch))
        return -4 * log_probs.logsumexp(1).sum() / tokens(case)

    assert gradient(case, loss_of(case, 0.25).value) == pytest.approx(difference(case, tempered), rel=1e-5)


def test_smoothed_labels_leave_one_order_its_weight():
    plain, smooth = (loss_of(case_of(weights="posterior", beam=1), smoothing=share) for share in (0.0, 0.3))
    torch.testing.assert_close(plain.parts["slots"], smooth.parts["slots"])
    assert plain.value != smooth.value


def weights_of_all(tree, costs, rate):
    """Return a tree whose missing orders have weights as if they existed."""
    everything = replace(tree, weight=torch.ones_like(tree.weight))
    return order_weights.weighted(everything, costs, rate)


MUTANTS = {
    "sharpness never rises": (insertion, "sharpness", lambda config, progress: 0.0),
    "sharpness is 1 from the start": (insertion, "sharpness", lambda config, progress: 1.0),
    "sharpness of the whole rather than the rise": (insertion, "sharpness", lambda config, progress: progress),
    "impossible orders have weight": (insertion, "weighted", weights_of_all),
    "the least probable orders weigh most": (
        insertion,
        "weighted",
        lambda tree, costs, rate: order_weights.weighted(tree, costs, -rate),
    ),
    "words alone weigh orders": (
        insertion,
        "weighted",
        lambda tree, costs, rate: order_weights.weighted(tree, replace(costs, slots=0 * costs.slots), rate),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_these_laws_catch_their_mutants(monkeypatch, mutant):
    monkeypatch.setattr(*MUTANTS[mutant])
    with pytest.raises(AssertionError):
        annealed_weights_have_the_gradients_of_mean_and_log_sum_at_their_ends()


def test_posterior_weights_never_lose_to_uniform_weights():
    """The log-sum is at least the mean plus the log of the number of orders found."""
    case = case_of(weights="posterior")
    orders = found(case)
    gain = mean(case, orders) - log_sum(case, orders)
    assert gain >= sum(log(number) for number in orders[1].sum(1).tolist()) / tokens(case) - 1e-12


@pytest.mark.parametrize("settings", [{"weights": "posterior"}, {"weights": "annealed", "anneal": (0, 0.5)}], ids=str)
@pytest.mark.slow
def test_a_model_with_weights_keeps_all_contracts(settings):
    check_model(case_of(**settings))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"weights": "posterior", "order": "l2r"}, "but `order` is l2r"),
        ({"weights": "annealed", "orders": "one"}, "but `orders: one` learns from one of them"),
        ({"anneal": (0.3, 0.6)}, "`anneal` applies only to `weights: annealed`"),
        ({"weights": "posterior", "anneal": (0.3, 0.6)}, "`anneal` applies only to `weights: annealed`"),
        ({"weights": "annealed", "anneal": (0.6, 0.3)}, r"`anneal` must ascend, and \[0.6, 0.3\] does not"),
        ({"weights": "annealed", "anneal": (0.3, 0.3)}, "`anneal` must ascend"),
        ({"weights": "annealed", "anneal": (0.3, 1.3)}, "less than or equal to 1"),
        ({"weights": "annealed", "anneal": (0.3,)}, "Field required"),
    ],
)
def test_weights_without_a_meaning_are_refused(settings, told):
    with pytest.raises(ValidationError, match=told):
        IndigoConfig(**settings)


def test_a_phase_has_its_own_weights():
    case = case_of()
    before = loss_of(case, phase={"order": "l2r"}).value
    after = loss_of(case, phase={"order": "searched", "weights": "posterior"}).value
    torch.testing.assert_close(before, loss_of(case_of(order="l2r")).value)
    torch.testing.assert_close(after, loss_of(case_of(weights="posterior")).value)
    with pytest.raises(SuiteError, match="a phase of indigo has invalid settings"):
        loss_of(case, phase={"order": "l2r", "weights": "posterior"})
