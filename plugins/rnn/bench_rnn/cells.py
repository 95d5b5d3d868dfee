"""Stacked recurrent layers with one state type for every cell.

The weights are always those of `torch.nn`, by name, shape and start; so are the layers themselves where it has them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear
from torch.nn.utils.rnn import PackedSequence

from bench_rnn.plugin import Cell, Variant

Units: TypeAlias = tuple[Tensor, ...]  # hidden units, and for the LSTM its cells
Step: TypeAlias = Callable[[Tensor, Units, Tensor, Tensor], Units]  # read, units, weight_hh, bias_hh -> units
HandOver: TypeAlias = Callable[[Units, int], Units]  # what a step is given of the units that the one before left


def as_they_are(units: Units, step: int) -> Units:
    """Hand the units over."""
    return units


def _tanh(read: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
    return ((read + linear(units[0], weight, bias)).tanh(),)


def _relu(read: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
    return ((read + linear(units[0], weight, bias)).relu(),)


def _gru_of_torch(read: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
    """Reset what the recurrent matrix gives: R * (H W + b)."""
    (hidden,) = units
    reset, update, new = read.chunk(3, -1)
    past_reset, past_update, past_new = linear(hidden, weight, bias).chunk(3, -1)
    new = (new + (reset + past_reset).sigmoid() * past_new).tanh()
    return (new + (update + past_update).sigmoid() * (hidden - new),)


def _lstm(read: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
    hidden, cells = units
    take, keep, new, give = (read + linear(hidden, weight, bias)).chunk(4, -1)
    cells = keep.sigmoid() * cells + take.sigmoid() * new.tanh()
    return give.sigmoid() * cells.tanh(), cells


@dataclass(frozen=True)
class Layer:
    """One layer as functions: what it reads of its inputs, for all steps at once, and a step from units to units."""

    step: Step
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor

    def read(self, inputs: Tensor) -> Tensor:
        """Return what the gates read of inputs [*, E], [*, G H]."""
        return linear(inputs, self.weight_ih, self.bias_ih)

    def __call__(self, read: Tensor, units: Units) -> Units:
        """Take one step with every row of `read` [*, G H] and of units [*, H]."""
        return self.step(read, units, self.weight_hh, self.bias_hh)

    def walk(self, inputs: Tensor, rows: Sequence[int], units: Units, hand_over: HandOver) -> tuple[Tensor, Units]:
        """Take a step with the first `rows` of each, whose `inputs` [sum of `rows`, E] stand step by step.

        Return the hidden units after each step, as the inputs stand, and all units [N, H] after the last of each row.
        """
        hidden, ended = [], []
        for number, read in enumerate(torch.split(self.read(inputs), [*rows])):
            if len(read) < len(units[0]):
                ended.append([unit[len(read) :] for unit in units])
                units = tuple(unit[: len(read)] for unit in units)
            units = self(read, hand_over(units, number))
            hidden.append(units[0])
        parts = zip(*[units, *reversed(ended)], strict=True)
        return torch.cat(hidden), tuple(torch.cat(part) for part in parts) if ended else units


def stack(layers: nn.RNNBase, step: Step) -> list[Layer]:
    """Return each layer of a module of torch as functions."""
    return [Layer(step, *weights) for weights in layers.all_weights]


def unroll(
    layers: nn.RNNBase, step: Step, inputs: Tensor, rows: Sequence[int], units: Sequence[Units], hand_over: HandOver
) -> tuple[Tensor, list[Units]]:
    """Walk layer by layer, each from its own `units`; return the top one's units and the last ones of each layer."""
    last = []
    for number, layer in enumerate(stack(layers, step)):
        inputs = between(layers, number, inputs)
        inputs, end = layer.walk(inputs, rows, units[number], hand_over)
        last.append(end)
    return inputs, last


def between(layers: nn.RNNBase, number: int, inputs: Tensor) -> Tensor:
    """Return what layer `number` is given: of all but the first one, some is dropped in training."""
    return dropout(inputs, layers.dropout, layers.training) if number and layers.dropout else inputs


class _Looped(nn.RNNBase):
    """Layers that torch has not: all as in `torch.nn`, a PackedSequence too, but for the step."""

    @staticmethod
    def step(read: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
        """Return the units after a step."""
        raise NotImplementedError

    def forward(self, inputs: Any, state: Tensor | None = None) -> tuple[Any, Tensor]:
        packed = isinstance(inputs, PackedSequence)
        rows = inputs.batch_sizes.tolist() if packed else [inputs.shape[0]] * inputs.shape[1]
        data = inputs.data if packed else inputs.transpose(0, 1).flatten(0, 1)
        if state is None:
            state = data.new_zeros(self.num_layers, rows[0], self.hidden_size)
        elif packed and inputs.sorted_indices is not None:
            state = state.index_select(1, inputs.sorted_indices)
        hidden, last = unroll(self, self.step, data, rows, [(unit,) for unit in state], as_they_are)
        end = torch.stack([unit for (unit,) in last])
        if not packed:
            return hidden.view(len(rows), rows[0], -1).transpose(0, 1), end
        if inputs.unsorted_indices is not None:
            end = end.index_select(1, inputs.unsorted_indices)
        return inputs._replace(data=hidden), end


class LinearRNN(_Looped, nn.RNN):
    """H_t = X_t W_xh + H_{t-1} W_hh + b_h."""

    @staticmethod
    def step(read: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
        return (read + linear(units[0], weight, bias),)


class NotesGRU(_Looped, nn.GRU):
    """The GRU whose reset gate multiplies the units before the recurrent matrix: (R * H) W + b (Cho et al., 2014)."""

    @staticmethod
    def step(read: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
        (hidden,) = units
        sizes = [2 * hidden.shape[-1], hidden.shape[-1]]
        read, read_new = torch.split(read, sizes, -1)
        (gates, new), (shift, shift_new) = torch.split(weight, sizes), torch.split(bias, sizes)
        reset, update = (read + linear(hidden, gates, shift)).sigmoid().chunk(2, -1)
        candidate = (read_new + linear(reset * hidden, new, shift_new)).tanh()
        return (candidate + update * (hidden - candidate),)


_KINDS: dict[tuple[Cell, Variant], tuple[Callable[..., nn.RNNBase], Step]] = {
    ("tanh", "torch"): (partial(nn.RNN, nonlinearity="tanh"), _tanh),
    ("relu", "torch"): (partial(nn.RNN, nonlinearity="relu"), _relu),
    ("identity", "torch"): (LinearRNN, LinearRNN.step),
    ("gru", "torch"): (nn.GRU, _gru_of_torch),
    ("gru", "notes"): (NotesGRU, NotesGRU.step),
    ("lstm", "torch"): (nn.LSTM, _lstm),
}


class Recurrent(nn.Module):
    """L layers of H units; their state is a tuple of [N, L, H]: hidden units, and for the LSTM its cells."""

    def __init__(
        self, cell: Cell, inputs: int, hidden: int, layers: int, dropout: float, variant: Variant = "torch"
    ) -> None:
        super().__init__()
        rate = dropout if layers > 1 else 0.0  # torch warns of a rate that it has no use for
        kind, self.step = _KINDS[cell, variant]
        self.layers = kind(inputs, hidden, layers, batch_first=True, dropout=rate)

    def forward(self, inputs: Tensor, units: Units | None = None) -> tuple[Tensor, Units]:
        """Read `inputs` [N, T, E]; return the top layer's hidden units [N, T, H] and the state after the last."""
        hidden, last = self.layers(inputs, units and _layers_first(units))
        return hidden, tuple(unit.transpose(0, 1) for unit in (last if isinstance(last, tuple) else (last,)))

    def unroll(self, inputs: Tensor, units: Units | None, hand_over: HandOver) -> tuple[Tensor, Units]:
        """Do as `forward` in a loop over steps, with a say in what each layer hands over from one to the next."""
        number, steps = inputs.shape[:2]
        data, began = inputs.transpose(0, 1).flatten(0, 1), self.begin(inputs, units)
        hidden, last = unroll(self.layers, self.step, data, [number] * steps, began, hand_over)
        return hidden.view(steps, number, -1).transpose(0, 1), together(last)

    def walk(self, inputs: Tensor, rows: Sequence[int]) -> Tensor:
        """Read `inputs` [M, E] of steps of which step t is taken by the first rows[t] rows, fewer and fewer.

        They stand step by step, and so does what is returned: the top layer's hidden units [M, H].
        """
        return unroll(self.layers, self.step, inputs, rows, self.begin(inputs[: rows[0]], None), as_they_are)[0]

    def begin(self, inputs: Tensor, units: Units | None) -> list[Units]:
        """Return the units [N, H] of each layer before the first step: those of `units` [N, L, H], by default 0."""
        if units is None:
            zeros = inputs.new_zeros(len(inputs), self.layers.num_layers, self.layers.hidden_size)
            units = (zeros,) * (2 if isinstance(self.layers, nn.LSTM) else 1)
        return list(zip(*(unit.unbind(1) for unit in units), strict=True))


def together(units: Sequence[Units]) -> Units:
    """Return units [N, H] of each layer as a state, a tuple of [N, L, H]."""
    return tuple(torch.stack(parts, 1) for parts in zip(*units, strict=True))


def _layers_first(units: Units) -> Tensor | Units:
    """Return the state as torch's layers take it; copied only where rows were selected since they gave it."""
    turned = tuple(unit.transpose(0, 1).contiguous() for unit in units)
    return turned if len(turned) > 1 else turned[0]
