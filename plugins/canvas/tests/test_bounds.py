"""Bounds of canvases, on spaces that can be enumerated: V <= 4 tokens, at most 3 places."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from canvas_table import Table, batch_of, chain_rule, every, exact

from bench_authors.testing import float64
from bench_canvas import bounds
from bench_canvas.bounds import all_orders, hidden_log_probs, sampled_orders
from bench_canvas.canvas import MASK
from bench_core import Rng, State, SuiteError

SPACES = [(2, 1), (4, 1), (3, 2), (4, 2), (2, 3), (3, 3), (4, 3)]
spaces = pytest.mark.parametrize(("tokens", "places"), SPACES)


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        yield


def space(tokens, places, seed=0, sharp=1.0):
    """Return a model, all canvases, all places, and all orders."""
    target = every(tokens, places)
    orders = [*permutations(range(places))]
    return Table(tokens, places, seed, sharp=sharp), target, torch.ones_like(target, dtype=torch.bool), orders


@spaces
def test_all_canvases_in_all_orders_have_probability_one(tokens, places):
    model, target, _, orders = space(tokens, places)
    assert exact(model, State(), target, orders).exp().sum().item() == pytest.approx(1, abs=1e-12)


def mean_over_orders(bound, tokens, places):
    """Check that a bound is the mean of the chain rule over all C! orders."""
    model, target, free, orders = space(tokens, places)
    mean = torch.stack([chain_rule(model, State(), target, order) for order in orders]).mean(0)
    assert (bound(model, State(), target, free) - mean).abs().max() < 1e-12


@spaces
def test_the_bound_is_the_mean_over_all_orders_of_the_chain_rule(tokens, places):
    mean_over_orders(all_orders, tokens, places)


@pytest.mark.parametrize("sharp", [0.3, 1.0, 4.0])
@spaces
def test_no_bound_is_above_the_log_probability(tokens, places, sharp):
    model, target, free, orders = space(tokens, places, 5, sharp)
    log_prob = exact(model, State(), target, orders)
    assert (all_orders(model, State(), target, free) <= log_prob + 1e-12).all()
    if places > 1:
        assert (all_orders(model, State(), target, free) < log_prob - 1e-6).any(), "the case must bite"


def test_rows_of_different_widths_have_bounds_as_if_alone():
    model = Table(3, width=lambda ids: 1 + ids % 3)
    batch = batch_of(6)
    known, canvas = model.begin(batch)
    target = torch.where(canvas == MASK, (batch.ids[:, None] + torch.arange(3)) % 3, canvas)
    together = all_orders(model, known, target, canvas == MASK)
    for row in range(6):
        width = 1 + (40 + row) % 3
        alone = target[row : row + 1, :width]
        torch.testing.assert_close(all_orders(model, known, alone, alone >= 0)[0], together[row])


def test_places_of_a_prompt_are_never_masked():
    model, target, free, _ = space(3, 3)
    free[:, 0] = False
    by_hand = torch.stack([
        chain_rule(model, State(), target, (0, *order)) - chain_rule(model, State(), target, (0,))
        for order in permutations((1, 2))
    ])  # fmt: skip
    torch.testing.assert_close(all_orders(model, State(), target, free), by_hand.mean(0))


def test_sampled_orders_estimate_the_mean_over_all_orders():
    model, target, free, _ = space(3, 3)
    wanted = all_orders(model, State(), target, free)
    ids, rows = torch.arange(3000), torch.full((3000,), 14)
    found = sampled_orders(model, State(), target[rows], free[rows], ids, Rng(3), 1)
    error = found.std() / len(found) ** 0.5
    assert abs(found.mean() - wanted[14]) < 5 * error
    assert error < 0.1
    more = sampled_orders(model, State(), target[rows], free[rows], ids, Rng(3), 4)
    assert more.std() < 0.6 * found.std(), "four orders have half the deviation of one"


def test_sampled_orders_depend_on_the_example_alone():
    model, target, free, _ = space(3, 3)
    ids = torch.arange(27)
    together = sampled_orders(model, State(), target, free, ids, Rng(3), 2)
    backwards = sampled_orders(model, State(), target.flip(0), free, ids.flip(0), Rng(3), 2).flip(0)
    torch.testing.assert_close(together, backwards)
    assert torch.equal(together, sampled_orders(model, State(), target, free, ids, Rng(3), 2))
    assert not torch.equal(together, sampled_orders(model, State(), target, free, ids, Rng(4), 2))


def test_a_single_place_needs_no_order():
    model, target, free, _ = space(4, 1)
    wanted = model.places(State(), torch.full_like(target, MASK))[:, 0].diagonal()
    torch.testing.assert_close(all_orders(model, State(), target, free), wanted)
    torch.testing.assert_close(sampled_orders(model, State(), target, free, torch.arange(4), Rng(1), 3), wanted)


def test_wide_canvases_have_too_many_orders():
    target = torch.zeros(1, 11, dtype=torch.long)
    with pytest.raises(
        SuiteError, match=r"this canvas has 11, and at most 10 are possible\. Use `by: sampled-orders`"
    ):
        all_orders(Table(3, 11), State(), target, target == 0)


def unweighted(monkeypatch):
    monkeypatch.setattr(bounds, "_weights", lambda subset, sizes: [1.0] * len(sizes))


def without_the_share_of_a_subset(monkeypatch):
    monkeypatch.setattr(bounds, "_weights", lambda subset, sizes: [1 / subset.bit_count()] * len(sizes))


def sees_its_own_target(monkeypatch):
    def peeking(model, known, target, hidden):
        some = model.places(known, target).gather(2, target[:, :, None])[:, :, 0]
        return some.masked_fill(~hidden, 0.0)

    monkeypatch.setattr(bounds, "hidden_log_probs", peeking)


@pytest.mark.parametrize("mutant", [unweighted, without_the_share_of_a_subset, sees_its_own_target])
def test_bounds_that_are_not_the_mean_over_orders_are_detected(mutant, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        mean_over_orders(bounds.all_orders, 3, 3)


def test_only_hidden_places_count():
    model, target, free, _ = space(3, 3)
    hidden = free & (torch.arange(3) == 1)
    some = hidden_log_probs(model, State(), target, hidden)
    assert (some[:, [0, 2]] == 0).all()
    assert (some[:, 1] < 0).all()
