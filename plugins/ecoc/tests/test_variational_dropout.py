"""Recurrent layers whose masks stay the same from step to step."""

from typing import get_args

import pytest
import torch

from bench_ecoc.lstm import walk
from bench_ecoc.settings import Dropout
from bench_ecoc.variational import VariationalLayers
from bench_rnn.api import Recurrent
from bench_rnn.plugin import Cell

CELLS = get_args(Cell)
NONE = Dropout(input=0, hidden=0, output=0)


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def layers(cell="lstm", rates=NONE, hidden=5):
    return VariationalLayers(cell, 3, hidden, 2, rates)


def units_of(rnn, rows):
    return tuple(torch.randn(rows, 2, 5) for _ in range(1 + rnn.cells))


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_without_dropout_they_are_those_of_the_recurrent_plugin(cell, begun):
    rnn, whole, inputs = layers(cell), Recurrent(cell, 3, 5, 2, 0.0), torch.randn(4, 6, 3)
    for number, layer in enumerate(rnn.layers):
        for name, weights in layer.layers.named_parameters():
            getattr(whole.layers, name.replace("l0", f"l{number}")).data.copy_(weights)
    units = units_of(rnn, 4) if begun else None
    hidden, last = rnn(inputs, units, rnn.masks(inputs, 4))
    expected, end = whole(inputs, units)
    torch.testing.assert_close(hidden, expected)
    assert len(last) == len(end)
    for ours, theirs in zip(last, end, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("cell", CELLS)
def test_a_mask_of_ones_in_a_loop_is_the_fused_layer(cell):
    rnn, inputs = layers(cell), torch.randn(4, 6, 3)
    plain = rnn.masks(inputs, 4)
    ones = [torch.ones(4, 1, 5)] * 2
    units = units_of(rnn, 4)
    looped = rnn(inputs, units, type(plain)(plain.inputs, ones, None))
    fused = rnn(inputs, units, plain)
    torch.testing.assert_close(looped, fused)


def loop_of_autograd(layer, inputs, units, mask):
    return layer.unroll(inputs, units, lambda given, step: (given[0] * mask, *given[1:]))


@pytest.mark.parametrize("begun", [False, True])
def test_the_lstm_with_a_gradient_of_its_own_is_the_loop_of_autograd(begun):
    layer, inputs = Recurrent("lstm", 3, 5, 1, 0.0), torch.randn(4, 6, 3, requires_grad=True)
    units = tuple(torch.randn(4, 1, 5, requires_grad=True) for _ in range(2)) if begun else None
    mask = (torch.rand(4, 5) < 0.7).double() / 0.7
    wanted = [inputs, *layer.parameters(), *(units or ())]
    found = []
    for hidden, (last, cells) in (
        walk(layer.layers, inputs, units, mask), loop_of_autograd(layer, inputs, units, mask),
    ):  # fmt: skip
        weights = torch.arange(hidden.numel()).view(hidden.shape).cos()  # every unit of every step matters
        total = (hidden * weights).sum() + (last * 2).sum() + cells.square().sum()
        found.append((hidden, last, cells, *torch.autograd.grad(total, wanted)))
    torch.testing.assert_close(*found)


def test_the_gradient_of_the_lstm_is_that_of_finite_differences():
    layer, mask = Recurrent("lstm", 2, 3, 1, 0.0).layers, torch.tensor([[0.0, 2, 2], [2, 0, 2]])

    def run(inputs, hidden, cells):
        found, last = walk(layer, inputs, (hidden, cells), mask)
        return (found, *last)

    shapes = [(2, 3, 2), (2, 1, 3), (2, 1, 3)]
    assert torch.autograd.gradcheck(run, [torch.randn(shape, requires_grad=True) for shape in shapes])


@pytest.mark.parametrize("cell", CELLS)
def test_reading_in_pieces_under_the_same_masks_is_reading_at_once(cell):
    rnn, inputs = layers(cell, Dropout(input=0.4, hidden=0.4, output=0.4)), torch.randn(4, 6, 3)
    masks = rnn.masks(inputs, 4)
    whole, end = rnn(inputs, None, masks)
    units, pieces = None, []
    for piece in torch.split(inputs, [2, 1, 3], 1):
        hidden, units = rnn(piece, units, masks)
        pieces.append(hidden)
    torch.testing.assert_close(torch.cat(pieces, 1), whole)
    torch.testing.assert_close(units, end)


@pytest.mark.parametrize("where", ["input", "hidden", "output"])
def test_each_rate_drops_its_own_with_one_mask_for_a_row(where):
    rnn = layers(rates=NONE.model_copy(update={where: 0.5}), hidden=200)
    masks = rnn.masks(torch.zeros(1), 50)
    drawn = {"input": masks.inputs, "hidden": masks.hidden, "output": [masks.output]}
    assert all(mask is None for name, found in drawn.items() if name != where for mask in found)
    for mask in drawn[where]:
        assert mask.shape[:2] == (50, 1)
        assert set(mask.unique().tolist()) == {0.0, 2.0}
        assert not torch.equal(mask, mask[:1].expand_as(mask))
    last = drawn[where][-1]
    assert (last == 0).double().mean().item() == pytest.approx(0.5, abs=0.03)


def test_what_is_dropped_at_one_step_is_dropped_at_all():
    rnn = layers(rates=NONE.model_copy(update={"output": 0.5}))
    hidden, _ = rnn(inputs := torch.randn(20, 7, 3), None, rnn.masks(inputs, 20))
    dropped = hidden == 0
    assert dropped.any()
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))


def test_units_handed_over_are_dropped_and_cells_are_not():
    """After the second step, a unit that is dropped has no influence through the recurrent matrix."""
    rnn = VariationalLayers("lstm", 3, 5, 1, NONE)
    inputs = torch.randn(1, 2, 3)
    shut = torch.tensor([1.0, 1, 0, 1, 1])[None, None]
    masks = rnn.masks(inputs, 1)
    masks = type(masks)(masks.inputs, [shut], None)
    units = (torch.randn(1, 1, 5), torch.randn(1, 1, 5))
    other = (units[0] + torch.tensor([0.0, 0, 9, 0, 0]), units[1])
    torch.testing.assert_close(rnn(inputs, other, masks), rnn(inputs, units, masks))
    cells = (units[0], units[1] + torch.tensor([0.0, 0, 9, 0, 0]))
    assert not torch.allclose(rnn(inputs, cells, masks)[0], rnn(inputs, units, masks)[0])


def test_nothing_is_dropped_outside_of_training():
    rnn = layers(rates=Dropout()).eval()
    masks = rnn.masks(torch.zeros(1), 2)
    assert {*masks.inputs, *masks.hidden, masks.output} == {None}
