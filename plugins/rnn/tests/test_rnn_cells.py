"""Recurrent layers against the worked numbers of the RNN notes (section 6.7)."""

import pytest
import torch

from bench_core import Facts
from bench_rnn.cells import Recurrent
from bench_rnn.lm import RecurrentLM
from bench_rnn.plugin import RNNLMConfig


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def of_ones(cell, layers=1):
    """Return the recurrent layers of a model of one unit, all weights 1 and biases 0."""
    rnn = RecurrentLM(RNNLMConfig(cell=cell, hidden=1, layers=layers), Facts(["</s>", "a"])).rnn
    for name, weight in rnn.named_parameters():
        torch.nn.init.constant_(weight, 0.0 if "bias" in name else 1.0)
    return rnn


@pytest.mark.parametrize(
    ("cell", "state", "expected"),
    [
        ("tanh", [0.5], [0.905148]),
        ("relu", [0.5], [1.5]),
        ("gru", [0.5], [0.570642]),  # of one unit and without bias, so both places of the reset gate agree
        ("lstm", [0.5, 0.25], [0.602754, 0.944420]),
    ],
)
def test_a_cell_of_ones_gives_the_notes_numbers(cell, state, expected):
    hidden, units = of_ones(cell)(torch.ones(1, 1, 1), tuple(torch.full((1, 1, 1), value) for value in state))
    assert [unit.item() for unit in units] == pytest.approx(expected, abs=5e-7)
    assert hidden.item() == units[0].item()


def test_two_tanh_layers_of_ones_give_the_notes_numbers():
    hidden, (units,) = of_ones("tanh", layers=2)(torch.ones(1, 1, 1))
    assert units.flatten().tolist() == pytest.approx([0.761594, 0.642015], abs=5e-7)
    assert hidden.item() == units[0, 1].item()


@pytest.mark.parametrize("cell", ["tanh", "relu", "gru", "lstm"])
def test_reading_in_two_halves_is_reading_at_once(cell):
    rnn, inputs = Recurrent(cell, 3, 4, 2, 0.0), torch.randn(5, 6, 3)
    whole, units = rnn(inputs)
    first, halfway = rnn(inputs[:, :2])
    second, end = rnn(inputs[:, 2:], halfway)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    torch.testing.assert_close(end, units)
    assert all(unit.shape == (5, 2, 4) for unit in units)


@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_chosen_rows_go_on_from_their_own_state(cell):
    rnn, inputs, rows = Recurrent(cell, 3, 4, 2, 0.0), torch.randn(4, 5, 3), torch.tensor([2, 0, 0, 3, 1])
    whole, _ = rnn(inputs)
    _, units = rnn(inputs[:, :3])
    rest, _ = rnn(inputs[rows, 3:], tuple(unit[rows] for unit in units))
    torch.testing.assert_close(rest, whole[rows, 3:])


def test_dropout_of_a_single_layer_raises_no_warning(recwarn):
    Recurrent("lstm", 2, 2, 1, 0.5)
    assert not recwarn.list
