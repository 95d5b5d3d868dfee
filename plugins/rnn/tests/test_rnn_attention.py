"""Attention against loops over its definition."""

import pytest
import torch

from bench_rnn import attention
from bench_rnn.attention import Attention

KINDS = ["dot", "bilinear", "additive"]
LENGTH = torch.tensor([3, 5, 1, 4])
MASK = torch.arange(5) < LENGTH[:, None]


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def states():
    return torch.randn(4, 5, 6)


def score(one, s, h):
    """Return the score of a place h [H] for units s [H]."""
    if one.weight is not None:
        return one.weight.weight[0] @ torch.tanh(one.queries.weight @ s + one.keys.weight @ h + one.keys.bias)
    return s @ (h if isinstance(one.keys, torch.nn.Identity) else one.keys.weight @ h)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_its_equations_say(kind, states):
    one, hidden = Attention(kind, 6), torch.randn(4, 2, 6)
    found = one(hidden, one.read(states, MASK))
    for row, length in enumerate(LENGTH.tolist()):
        for s, attended in zip(hidden[row], found[row], strict=True):
            shares = torch.stack([score(one, s, h).exp() for h in states[row, :length]])
            context = sum(share * h for share, h in zip(shares / shares.sum(), states[row], strict=False))
            wanted = torch.tanh(one.combine.weight @ torch.cat([s, context]))
            torch.testing.assert_close(attended, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_sum_to_one_over_real_places(kind, states):
    one = Attention(kind, 6)
    weights = one.read(states, MASK).weights(torch.randn(4, 3, 6), one._scores)
    torch.testing.assert_close(weights.sum(2), torch.ones(4, 3))
    assert (weights.transpose(1, 2)[MASK] > 0).all()
    assert not weights.transpose(1, 2)[~MASK].any()


def test_additive_scores_by_portions_are_the_same(states, monkeypatch):
    one, hidden = Attention("additive", 6), torch.randn(4, 7, 6)
    whole = one(hidden, one.read(states, MASK))
    monkeypatch.setattr(attention, "MAX_TERMS", 3 * states.numel())
    torch.testing.assert_close(one(hidden, one.read(states, MASK)), whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chosen", [[3, 2, 1, 0], [0, 0, 1, 1, 1, 3], [2, 1, 2, 1, 2], [1]])
def test_generations_about_one_source_attend_as_each_alone(kind, chosen, states):
    one, rows = Attention(kind, 6), torch.tensor(chosen)
    sources, hidden = one.read(states, MASK), torch.randn(len(rows), 2, 6)
    copied = one.read(states[rows], MASK[rows])
    torch.testing.assert_close(one(hidden, sources.select(rows)), one(hidden, copied))
    again = torch.arange(len(rows)).flip(0)
    torch.testing.assert_close(one(hidden[again], sources.select(rows).select(again)), one(hidden, copied)[again])


def test_sources_are_not_copied_until_half_of_them_are_done(states):
    one = Attention("bilinear", 6)
    sources = one.read(states, MASK)
    beam = sources.select(torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])).select(torch.tensor([7, 6, 3, 2, 1]))
    assert beam.rows.tolist() == [3, 3, 1, 1, 0]
    assert beam.keys is sources.keys
    fewer = beam.select(torch.tensor([3, 4, 2]))
    assert fewer.rows.tolist() == [1, 0, 1]
    torch.testing.assert_close(fewer.values, states[[0, 1]])
