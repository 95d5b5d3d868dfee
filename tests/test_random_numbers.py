"""Numbers drawn by name: even, independent, and the same whatever the batch."""

from __future__ import annotations

import math

import pytest
import torch

from bench_authors.testing import float64
from bench_core import Rng

DRAWS = {
    "examples": lambda: Rng(5).uniform(torch.arange(200_000)),
    "places": lambda: Rng(5).uniform(torch.zeros(1, dtype=torch.long), 3, 200_000)[0],
    "steps": lambda: torch.cat([Rng(5).uniform(torch.arange(200), step) for step in range(1000)]),
    "shared": lambda: Rng(5).shared("x", (400, 500)).flatten(),
    "purposes": lambda: torch.cat([Rng(5).fork(turn).uniform(torch.arange(20)) for turn in range(10_000)]),
    "keys": lambda: torch.cat([Rng(key).uniform(torch.arange(20)) for key in range(10_000)]),
}
by_draws = pytest.mark.parametrize("drawn", DRAWS.values(), ids=DRAWS)


@pytest.mark.quick(3)
@by_draws
def test_numbers_are_even_and_strictly_between_0_and_1(drawn):
    numbers = drawn()
    assert numbers.dtype == torch.float64
    assert 0 < numbers.min() <= numbers.max() < 1
    assert abs(_chi_square(torch.histc(numbers, 100, 0, 1)) - 99) < 5 * math.sqrt(2 * 99)


@pytest.mark.quick(3)
@by_draws
def test_neighbouring_numbers_are_independent(drawn):
    numbers = drawn()
    for lag in (1, 2, 7, 20, 200):
        pairs = torch.stack([numbers[:-lag], numbers[lag:]])
        assert abs(torch.corrcoef(pairs)[0, 1].item()) < 5 / math.sqrt(len(numbers))
        cells = torch.histogramdd(pairs.T.contiguous(), [20, 20], range=[0.0, 1.0, 0.0, 1.0]).hist
        assert abs(_chi_square(cells.flatten()) - 399) < 5 * math.sqrt(2 * 399)


def _chi_square(counts):
    expected = counts.sum() / len(counts)
    return ((counts - expected) ** 2 / expected).sum().item()


def test_no_two_names_share_their_numbers():
    ids = torch.arange(50)
    rngs = [Rng(key) for key in range(20)] + [Rng(1).fork(turn) for turn in range(20)]
    numbers = torch.cat([rng.uniform(ids, step) for rng in rngs for step in range(20)])
    assert len(numbers.unique()) == len(numbers)


def test_every_bit_of_a_key_changes_half_of_the_bits():
    ids = torch.arange(2000)
    base = (Rng(12345).uniform(ids) * 2**32).long()
    for bit in (0, 1, 31, 62):
        changed = base ^ (Rng(12345 ^ 2**bit).uniform(ids) * 2**32).long()
        share = sum((changed >> place & 1).double().mean().item() for place in range(32)) / 32
        assert abs(share - 0.5) < 0.01


def test_an_example_draws_alike_in_every_batch():
    rng, ids = Rng(5).fork("decode"), torch.tensor([9, 2, 71, 4])
    for draw in (lambda rows: rng.uniform(rows, 4), lambda rows: rng.uniform(rows, 4, 6), _normal(rng)):
        together = draw(ids)
        assert torch.equal(draw(ids.flip(0)).flip(0), together)
        assert torch.equal(torch.cat([draw(one) for one in ids.split(1)]), together)


def _normal(rng):
    return lambda rows: rng.normal(rows, 4, 8)


def test_more_numbers_of_an_example_begin_with_the_same():
    ids = torch.arange(5)
    assert torch.equal(Rng(2).uniform(ids, 1, 9)[:, :4], Rng(2).uniform(ids, 1, 4))
    assert torch.equal(Rng(2).normal(ids, 1, 9)[:, :4], Rng(2).normal(ids, 1, 4))


def test_steps_purposes_and_names_keep_their_draws_apart():
    ids = torch.arange(100)
    assert (Rng(1).uniform(ids, 0) != Rng(1).uniform(ids, 1)).all()
    assert (Rng(1).fork("a").uniform(ids) != Rng(1).fork("b").uniform(ids)).all()
    assert (Rng(1).shared("a", (100,)) != Rng(1).shared("b", (100,))).all()
    assert Rng(1).fork("a") == Rng(1).fork("a") != Rng(1).fork("a").fork("a")
    assert Rng(1).fork(1) != Rng(11).fork("")


def test_neighbouring_keys_are_not_neighbouring_examples():
    assert (Rng(5).uniform(torch.arange(1000))[1:] != Rng(6).uniform(torch.arange(1000))[:-1]).all()


def test_normal_numbers_have_the_moments_of_the_normal_distribution():
    with float64():
        numbers = Rng(5).normal(torch.arange(1000), 2, 200).flatten()
    assert numbers.isfinite().all()
    error = 5 / math.sqrt(len(numbers))
    assert abs(numbers.mean()) < error
    assert abs((numbers**2).mean() - 1) < math.sqrt(2) * error
    assert abs((numbers**3).mean()) < math.sqrt(15) * error
    assert abs((numbers**4).mean() - 3) < math.sqrt(96) * error


def test_normal_numbers_have_the_default_type():
    ids = torch.arange(3)
    assert Rng(1).normal(ids, 0, 2).dtype == torch.float32
    with float64():
        assert Rng(1).normal(ids, 0, 2).dtype == torch.float64


def test_shared_numbers_have_the_shape_asked_for():
    assert Rng(1).shared("mask", (2, 3, 4)).shape == (2, 3, 4)
    assert torch.equal(Rng(1).shared("mask", (6,)), Rng(1).shared("mask", (2, 3)).flatten())


def test_numbers_are_the_hashes_that_they_are_said_to_be():
    """Stored artifacts depend on them; here in whole numbers, without the sign of int64."""

    def mix(x):
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    for key in (0, 7, -(2**63), 2**63 - 1):
        for number, step in ((0, 0), (1, 2), (40, 1000), (2**40, 3)):
            bits = mix((mix((mix((number + 0x9E3779B97F4A7C15) % 2**64) + key) % 2**64) + step) % 2**64)
            wanted = ((bits >> 12) + 0.5) / 2**52
            assert Rng(key).uniform(torch.tensor([number]), step).item() == wanted
            second = mix((bits + 2) % 2**64)
            assert Rng(key).uniform(torch.tensor([number]), step, 2)[0, 1].item() == ((second >> 12) + 0.5) / 2**52
