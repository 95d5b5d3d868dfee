"""Recurrent layers against the worked numbers of the RNN notes (section 6.7)."""

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bench_core import TaskInfo
from bench_rnn.cells import Recurrent, pass_unchanged
from bench_rnn.lm import RecurrentLM
from bench_rnn.plugin import RNNLMConfig

OPEN, SHUT = 1e3, -1e3  # what a gate reads to be 1 or 0


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def of_ones(cell, layers=1, variant="torch"):
    """Return the recurrent layers of a model of one unit, all weights 1 and biases 0."""
    rnn = RecurrentLM(RNNLMConfig(cell=cell, variant=variant, hidden=1, layers=layers), TaskInfo(["</s>", "a"])).rnn
    for name, weight in rnn.named_parameters():
        torch.nn.init.constant_(weight, 0.0 if "bias" in name else 1.0)
    return rnn


def silent(rnn):
    """Set all weights to 0."""
    for weight in rnn.parameters():
        torch.nn.init.zeros_(weight)
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


@pytest.mark.parametrize("cell", ["tanh", "relu", "identity", "gru", "lstm"])
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


@pytest.mark.parametrize(("cell", "state", "expected"), [("identity", [0.5], [1.5]), ("gru", [0.5], [0.570642])])
def test_cells_of_our_own_give_the_notes_numbers_too(cell, state, expected):
    rnn = of_ones(cell, variant="notes" if cell == "gru" else "torch")
    _, units = rnn(torch.ones(1, 1, 1), tuple(torch.full((1, 1, 1), value) for value in state))
    assert [unit.item() for unit in units] == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(("variant", "expected"), [("notes", [-0.1, 0.9]), ("torch", [-0.9, 0.1])])
def test_the_reset_gate_stands_before_or_after_the_recurrent_matrix(variant, expected):
    rnn = silent(Recurrent("gru", 1, 2, 1, 0.0, variant))
    with torch.no_grad():
        rnn.layers.weight_hh_l0[4:] = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
        rnn.layers.bias_hh_l0[:2] = torch.tensor([0.9, 0.1]).logit()
        rnn.layers.bias_hh_l0[2:4] = SHUT
    hidden, _ = rnn(torch.zeros(1, 1, 1), (torch.tensor([[[1.0, -1.0]]]),))
    torch.testing.assert_close(hidden.atanh().flatten(), torch.tensor(expected))


def test_the_gru_of_the_notes_is_their_formula():
    rnn, inputs, begin = Recurrent("gru", 3, 4, 1, 0.0, "notes"), torch.randn(2, 5, 3), torch.randn(2, 4)
    layers, h, states = rnn.layers, begin, []
    w_xr, w_xz, w_xh = (weight.T for weight in layers.weight_ih_l0.chunk(3))
    w_hr, w_hz, w_hh = (weight.T for weight in layers.weight_hh_l0.chunk(3))
    b_r, b_z, b_h = (layers.bias_ih_l0 + layers.bias_hh_l0).chunk(3)
    for x in inputs.unbind(1):
        r, z = (x @ w_xr + h @ w_hr + b_r).sigmoid(), (x @ w_xz + h @ w_hz + b_z).sigmoid()
        h = z * h + (1 - z) * (x @ w_xh + (r * h) @ w_hh + b_h).tanh()
        states.append(h)
    hidden, (last,) = rnn(inputs, (begin[:, None],))
    torch.testing.assert_close(hidden, torch.stack(states, 1))
    torch.testing.assert_close(last[:, 0], h)


def test_both_grus_agree_where_the_recurrent_matrix_is_diagonal_and_the_hidden_bias_zero():
    ours, theirs, inputs = (
        Recurrent("gru", 3, 4, 1, 0.0, "notes"),
        torch.nn.GRU(3, 4, batch_first=True),
        torch.randn(2, 6, 3),
    )
    ours.layers.load_state_dict(theirs.state_dict())
    assert not torch.allclose(ours(inputs)[0], theirs(inputs)[0])
    with torch.no_grad():
        for layers in (ours.layers, theirs):
            layers.weight_hh_l0[8:] *= torch.eye(4)
            layers.bias_hh_l0[8:] = 0
    torch.testing.assert_close(ours(inputs)[0], theirs(inputs)[0])


@pytest.mark.parametrize(("cell", "kind"), [("tanh", torch.nn.RNN), ("gru", torch.nn.GRU), ("lstm", torch.nn.LSTM)])
def test_a_stack_with_copied_weights_is_that_of_torch(cell, kind):
    ours, theirs, inputs = Recurrent(cell, 3, 4, 3, 0.0), kind(3, 4, 3, batch_first=True), torch.randn(2, 6, 3)
    ours.layers.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(ours(inputs)[0], theirs(inputs)[0])
    torch.testing.assert_close(ours.unroll(inputs, None, pass_unchanged)[0], theirs(inputs)[0])


def test_the_linear_rnn_is_its_formula():
    rnn, inputs = Recurrent("identity", 3, 4, 2, 0.0), torch.randn(2, 5, 3)
    states = torch.zeros(2, 2, 4)  # of both layers
    for step, x in enumerate(inputs.unbind(1)):
        for layer, (w_xh, w_hh, *biases) in enumerate(rnn.layers.all_weights):
            below = states[0] if layer else x
            states[layer] = (below @ w_xh.T + states[layer] @ w_hh.T + sum(biases)).detach()
        torch.testing.assert_close(rnn(inputs[:, : step + 1])[0][:, -1], states[1])


def test_one_product_with_stacked_weights_is_two_products():
    rnn, x, h = Recurrent("tanh", 3, 4, 1, 0.0), torch.randn(2, 3), torch.randn(2, 4)
    ((w_xh, w_hh, *biases),) = rnn.layers.all_weights
    at_once = (torch.cat([x, h], 1) @ torch.cat([w_xh.T, w_hh.T]) + sum(biases)).tanh()
    torch.testing.assert_close(rnn(x[:, None], (h[:, None],))[0][:, 0], at_once)


@pytest.mark.parametrize("variant", ["torch", "notes"])
def test_the_gates_of_a_gru_keep_replace_and_reset(variant):
    rnn, inputs, h = Recurrent("gru", 3, 4, 1, 0.0, variant), torch.randn(2, 5, 3), torch.randn(2, 4)
    layers = rnn.layers
    layers.bias_hh_l0.data[8:] = 0  # or torch's would reset it too

    def states(reset, update):
        layers.bias_ih_l0.data[:8] = torch.tensor([reset, update]).repeat_interleave(4)
        return rnn(inputs, (h[:, None],))[0]

    torch.testing.assert_close(states(OPEN, OPEN), h[:, None].expand(-1, 5, -1))
    fresh = (inputs @ layers.weight_ih_l0[8:].T + layers.bias_ih_l0[8:]).tanh()
    torch.testing.assert_close(states(SHUT, SHUT), fresh)
    plain = torch.nn.RNN(3, 4, batch_first=True)
    for (_, weight), name in zip(
        plain.named_parameters(), ["weight_ih", "weight_hh", "bias_ih", "bias_hh"], strict=True
    ):
        weight.data.copy_(getattr(layers, f"{name}_l0")[8:])
    torch.testing.assert_close(states(OPEN, SHUT), plain(inputs, h[None])[0])


@pytest.mark.parametrize("walked", [False, True])
def test_the_gates_of_an_lstm_keep_forget_and_hide(walked):
    rnn, inputs = Recurrent("lstm", 3, 4, 1, 0.0), torch.randn(2, 5, 3)
    h, c = torch.randn(2, 1, 4), torch.randn(2, 1, 4)

    def last(take, keep, give):
        gates = torch.tensor([take, keep, 0.0, give]).repeat_interleave(4)
        rnn.layers.bias_ih_l0.data.copy_(gates)
        return rnn.unroll(inputs, (h, c), pass_unchanged) if walked else rnn(inputs, (h, c))

    torch.testing.assert_close(last(SHUT, OPEN, 0.0)[1][1], c)
    assert not last(0.0, 0.0, SHUT)[0].any()
    assert not last(SHUT, SHUT, 0.0)[1][1].any()


@pytest.mark.parametrize(("weight", "expected"), [(0.9, 2.656e-5), (1.1, 13780.6)])
def test_a_hundred_steps_vanish_or_explode_forwards_and_backwards(weight, expected):
    rnn, begin = silent(Recurrent("identity", 1, 1, 1, 0.0)), torch.ones(1, 1, 1, requires_grad=True)
    torch.nn.init.constant_(rnn.layers.weight_hh_l0, weight)
    hidden, _ = rnn(torch.zeros(1, 100, 1), (begin,))
    (gradient,) = torch.autograd.grad(hidden[:, -1].sum(), begin)
    assert hidden[0, -1].item() == pytest.approx(expected, rel=1e-4)
    assert gradient.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("cell", "gates"), [("tanh", 1), ("identity", 1), ("gru", 3), ("lstm", 4)])
def test_a_layer_has_two_matrices_and_two_biases_a_gate(cell, gates):
    rnn = Recurrent(cell, 3, 5, 2, 0.0)
    assert sum(weight.numel() for weight in rnn.parameters()) == gates * ((3 + 5) * 5 + (5 + 5) * 5 + 4 * 5)


@pytest.mark.parametrize(("cell", "variant"), [("identity", "torch"), ("gru", "notes")])
def test_layers_of_our_own_read_packed_rows_as_torchs_do(cell, variant):
    rnn, inputs, length = Recurrent(cell, 3, 4, 2, 0.0, variant), torch.randn(4, 6, 3), torch.tensor([3, 6, 1, 3])
    begin = torch.randn(2, 4, 4)
    packed = pack_padded_sequence(inputs, length, batch_first=True, enforce_sorted=False)
    hidden, last = rnn.layers(packed, begin)
    hidden, found = pad_packed_sequence(hidden, batch_first=True)
    assert found.equal(length)
    for row, steps in enumerate(length):
        alone, end = rnn.layers(inputs[row : row + 1, :steps], begin[:, row : row + 1].contiguous())
        torch.testing.assert_close(hidden[row, :steps], alone[0])
        torch.testing.assert_close(last[:, row], end[:, 0])
    assert not hidden[2, 1:].any()
