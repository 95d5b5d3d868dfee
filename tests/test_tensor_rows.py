"""One operation reorders, widens and drops rows of everything that is kept by rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from bench_authors.testing import tiny_batch
from bench_core import Batch, State


@dataclass(frozen=True)
class Inner(State):
    sums: Any


@dataclass(frozen=True)
class Outer(State):
    units: Any
    layers: Any
    named: Any
    inner: Any
    nothing: Any = None
    step: int = 3


@pytest.fixture
def state():
    rows = torch.arange(4)
    layers = (rows * 10, (rows * 100, rows[:, None].expand(4, 2)))
    return Outer(rows.double(), layers, {"mask": rows > 1, "deep": {"x": -rows}}, Inner(rows + 5))


def everything(state):
    """Return all tensors as lists."""
    first, (second, third) = state.layers
    mask, deep = state.named["mask"], state.named["deep"]["x"]
    return [tensor.tolist() for tensor in (state.units, first, second, third, mask, deep, state.inner.sums)]


@pytest.mark.parametrize("rows", [[3, 1], [0, 0, 1, 1, 2, 2, 3, 3], [1, 0, 3, 2], [2], []], ids=str)
def test_select_moves_the_rows_of_every_tensor(state, rows):
    chosen = state.select(torch.tensor(rows, dtype=torch.long))
    for found, wanted in zip(everything(chosen), everything(state), strict=True):
        assert found == [wanted[row] for row in rows]


def test_select_leaves_what_is_no_tensor_and_what_it_was_given(state):
    before = everything(state)
    chosen = state.select(torch.tensor([2, 2]))
    assert chosen.nothing is None
    assert chosen.step == 3
    assert type(chosen) is Outer
    assert type(chosen.inner) is Inner
    assert everything(state) == before


def test_selections_can_follow_each_other(state):
    one = state.select(torch.tensor([3, 1, 0])).select(torch.tensor([2, 0]))
    assert everything(one) == everything(state.select(torch.tensor([0, 3])))


def test_change_reaches_every_tensor(state):
    doubled = state.change(lambda tensor: tensor.double() * 2)
    for found, wanted in zip(everything(doubled), everything(state), strict=True):
        assert found == (2 * torch.tensor(wanted, dtype=torch.float64)).tolist()
    weights = torch.ones(2, requires_grad=True)
    assert not Inner(weights * 2).change(torch.Tensor.detach).sums.requires_grad


def test_rows_of_a_batch_take_source_and_extras_along():
    whole = tiny_batch(source="tokens")
    batch = Batch(**{**vars(whole), "extras": {"weight": whole.length * 2.0}, "continues": True})
    chosen = batch.select(torch.tensor([4, 0]))
    assert chosen.ids.tolist() == [44, 40]
    assert chosen.length.tolist() == batch.length[[4, 0]].tolist()
    assert torch.equal(chosen.source, batch.source[[4, 0]])
    assert torch.equal(chosen.extras["weight"], batch.length[[4, 0]] * 2.0)
    assert chosen.continues
    assert len(chosen) == 2


def test_mask_and_inputs_follow_from_gold_and_opening():
    batch = tiny_batch([[3, 1], [], [2]], prefix=2)
    assert batch.prompt.tolist() == [[0, 1, 2], [0, 2, 3], [0, 3, 4]]
    assert batch.gold.tolist() == [[3, 1, 0], [0, 0, 0], [2, 0, 0]]
    assert batch.mask.tolist() == [[True, True, True], [True, False, False], [True, True, False]]
    assert batch.inputs.tolist() == [[0, 1, 2, 3, 1], [0, 2, 3, 0, 0], [0, 3, 4, 2, 0]]
