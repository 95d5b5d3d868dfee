"""The encoder: both directions, under padding."""

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bench_rnn.encoder import RecurrentEncoder

LENGTH = torch.tensor([3, 6, 1, 4])


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def encoder(cell="tanh", bidirectional=True, layers=2, dropout=0.0, **more):
    return RecurrentEncoder(cell, 3, 5, layers, dropout, bidirectional, **more)


def flat(found):
    hidden, units = found
    return [hidden, *units]


def test_both_directions_of_ones_give_the_notes_numbers():
    both = RecurrentEncoder("tanh", 1, 1, 1, 0.0, bidirectional=True)
    for name, weight in both.named_parameters():
        torch.nn.init.constant_(weight, 0.0 if "bias" in name else 1.0)
    hidden, (units,) = both(torch.tensor([[[1.0], [0.0]]]), torch.tensor([2]))
    assert hidden.flatten().tolist() == pytest.approx([0.761594, 0.761594, 0.642015, 0], abs=5e-7)  # f_1 g_1 f_2 g_2
    assert units.flatten().tolist() == pytest.approx([0.642015, 0.761594], abs=5e-7)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("cell", "kind"), [("tanh", "RNN"), ("gru", "GRU"), ("lstm", "LSTM")])
def test_it_gives_what_torch_gives_of_packed_rows(cell, kind, bidirectional):
    ours, inputs = encoder(cell, bidirectional), torch.randn(4, 6, 3)
    theirs = getattr(torch.nn, kind)(3, 5, 2, batch_first=True, bidirectional=bidirectional)
    weights = {
        f"{name[:-1]}{layer}{'_reverse' * back}": weight
        for back, direction in enumerate(ours.directions)
        for layer, rnn in enumerate(direction)
        for name, weight in rnn.layers.state_dict().items()
    }
    theirs.load_state_dict(weights)
    packed, last = theirs(pack_padded_sequence(inputs, LENGTH, batch_first=True, enforce_sorted=False))
    hidden, units = ours(inputs, LENGTH)
    torch.testing.assert_close(hidden, pad_packed_sequence(packed, batch_first=True)[0])
    for unit, wanted in zip(units, last if kind == "LSTM" else (last,), strict=True):
        by_layer = wanted.view(2, -1, 4, 5)  # [L, directions, N, H]
        torch.testing.assert_close(unit, by_layer.permute(2, 0, 1, 3).flatten(2))


@pytest.mark.parametrize(("cell", "variant"), [("lstm", "torch"), ("gru", "notes"), ("identity", "torch")])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_row_is_read_alike_alone_and_beside_longer_ones(cell, variant, bidirectional):
    both, inputs = encoder(cell, bidirectional, variant=variant), torch.randn(4, 6, 3)
    hidden, units = both(inputs, LENGTH)
    for row, length in enumerate(LENGTH.tolist()):
        alone, last = both(inputs[row : row + 1, :length], torch.tensor([length]))
        torch.testing.assert_close(hidden[row, :length], alone[0])
        torch.testing.assert_close([unit[row] for unit in units], [unit[0] for unit in last])
        assert not hidden[row, length:].any()


def test_what_pads_a_row_is_never_read():
    both, inputs = encoder("lstm"), torch.randn(4, 6, 3)
    pads = torch.arange(6) >= LENGTH[:, None]
    for content in (7.0, float("nan")):
        found = both(inputs.masked_fill(pads[:, :, None], content), LENGTH)
        torch.testing.assert_close(flat(found), flat(both(inputs, LENGTH)), rtol=0, atol=0)


@pytest.mark.parametrize(("bidirectional", "reached"), [(False, [False, False, True]), (True, [True, True, True])])
def test_the_last_input_reaches_the_first_state_from_the_right_alone(bidirectional, reached):
    one, inputs = encoder(bidirectional=bidirectional), torch.randn(1, 3, 3)
    other = torch.cat([inputs[:, :2], inputs[:, 2:] + 1], 1)
    before, after = (one(x, torch.tensor([3]))[0][0] for x in (inputs, other))
    assert (before != after).any(1).tolist() == reached


def test_dropout_falls_between_layers_alone():
    length = torch.tensor([4, 3])
    inputs = torch.randn(2, 4, 3)
    single, deep = (encoder(dropout=0.5, layers=layers) for layers in (1, 2))
    torch.testing.assert_close(flat(single(inputs, length)), flat(single(inputs, length)))
    assert not torch.equal(deep(inputs, length)[0], deep(inputs, length)[0])
    torch.testing.assert_close(flat(deep.eval()(inputs, length)), flat(deep(inputs, length)))
    assert (deep(inputs, length)[0][:1] != 0).all()
