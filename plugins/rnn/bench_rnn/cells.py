"""Stacked recurrent layers with one state type for all cells.

Weights are named, shaped and initialized as in `torch.nn`, whose layers are used for the cells that it provides.
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

Units: TypeAlias = tuple[Tensor, ...]  # hidden states and, for the LSTM, cell states
Step: TypeAlias = Callable[[Tensor, Units, Tensor, Tensor], Units]  # projected, units, weight_hh, bias_hh -> units
Carry: TypeAlias = Callable[[Units, int], Units]  # state after step t - 1, t -> state read by step t


def pass_unchanged(units: Units, step: int) -> Units:
    """Return the state unchanged."""
    return units


def _tanh(projected: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
    return ((projected + linear(units[0], weight, bias)).tanh(),)


def _relu(projected: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
    return ((projected + linear(units[0], weight, bias)).relu(),)


def _torch_gru(projected: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
    """Apply the reset gate after the recurrent matrix: R * (H W + b)."""
    (hidden,) = units
    reset, update, new = projected.chunk(3, -1)
    past_reset, past_update, past_new = linear(hidden, weight, bias).chunk(3, -1)
    new = (new + (reset + past_reset).sigmoid() * past_new).tanh()
    return (new + (update + past_update).sigmoid() * (hidden - new),)


def _lstm(projected: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
    hidden, cells = units
    input_gate, forget_gate, candidate, output_gate = (projected + linear(hidden, weight, bias)).chunk(4, -1)
    cells = forget_gate.sigmoid() * cells + input_gate.sigmoid() * candidate.tanh()
    return output_gate.sigmoid() * cells.tanh(), cells


@dataclass(frozen=True)
class Layer:
    """A layer as functions: the input projection of all steps at once, and a recurrent step."""

    step: Step
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor

    def project(self, inputs: Tensor) -> Tensor:
        """Return the input projections [*, G H] of all gates for inputs [*, E]."""
        return linear(inputs, self.weight_ih, self.bias_ih)

    def __call__(self, projected: Tensor, units: Units) -> Units:
        """Take a step for each row of `projected` [*, G H] and `units` [*, H]."""
        return self.step(projected, units, self.weight_hh, self.bias_hh)

    def walk(self, inputs: Tensor, rows: Sequence[int], units: Units, carry: Carry) -> tuple[Tensor, Units]:
        """Take steps on `inputs` [sum(rows), E], ordered by step; step t reads the first rows[t] <= rows[t - 1] rows.

        Return the hidden states of all steps in the order of the inputs, and the final state [N, H] of each row.
        """
        hidden, ended = [], []
        for index, projected in enumerate(torch.split(self.project(inputs), [*rows])):
            if len(projected) < len(units[0]):
                ended.append([unit[len(projected) :] for unit in units])
                units = tuple(unit[: len(projected)] for unit in units)
            units = self(projected, carry(units, index))
            hidden.append(units[0])
        parts = zip(*[units, *reversed(ended)], strict=True)
        return torch.cat(hidden), tuple(torch.cat(part) for part in parts) if ended else units


def unstack(layers: nn.RNNBase, step: Step) -> list[Layer]:
    """Return a `Layer` for each layer of a `torch.nn` module."""
    return [Layer(step, *weights) for weights in layers.all_weights]


def unroll(
    layers: nn.RNNBase, step: Step, inputs: Tensor, rows: Sequence[int], units: Sequence[Units], carry: Carry
) -> tuple[Tensor, list[Units]]:
    """Run each layer from its initial state in `units`; return the top layer's states and all final states."""
    last = []
    for index, layer in enumerate(unstack(layers, step)):
        inputs = layer_inputs(layers, index, inputs)
        inputs, end = layer.walk(inputs, rows, units[index], carry)
        last.append(end)
    return inputs, last


def layer_inputs(layers: nn.RNNBase, index: int, inputs: Tensor) -> Tensor:
    """Return the inputs of layer `index`, with dropout between layers in training."""
    return dropout(inputs, layers.dropout, layers.training) if index and layers.dropout else inputs


class _StepwiseRNN(nn.RNNBase):
    """Layers that torch lacks, with the interface of `torch.nn` and PackedSequence; subclasses define `step`."""

    @staticmethod
    def step(projected: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
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
        hidden, last = unroll(self, self.step, data, rows, [(unit,) for unit in state], pass_unchanged)
        end = torch.stack([unit for (unit,) in last])
        if not packed:
            return hidden.view(len(rows), rows[0], -1).transpose(0, 1), end
        if inputs.unsorted_indices is not None:
            end = end.index_select(1, inputs.unsorted_indices)
        return inputs._replace(data=hidden), end


class LinearRNN(_StepwiseRNN, nn.RNN):
    """H_t = X_t W_xh + H_{t-1} W_hh + b_h."""

    @staticmethod
    def step(projected: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
        return (projected + linear(units[0], weight, bias),)


class NotesGRU(_StepwiseRNN, nn.GRU):
    """The GRU whose reset gate is applied before the recurrent matrix: (R * H) W + b (Cho et al., 2014)."""

    @staticmethod
    def step(projected: Tensor, units: Units, weight: Tensor, bias: Tensor) -> Units:
        (hidden,) = units
        sizes = [2 * hidden.shape[-1], hidden.shape[-1]]
        projected, projected_new = torch.split(projected, sizes, -1)
        (gates, new), (shift, shift_new) = torch.split(weight, sizes), torch.split(bias, sizes)
        reset, update = (projected + linear(hidden, gates, shift)).sigmoid().chunk(2, -1)
        candidate = (projected_new + linear(reset * hidden, new, shift_new)).tanh()
        return (candidate + update * (hidden - candidate),)


_KINDS: dict[tuple[Cell, Variant], tuple[Callable[..., nn.RNNBase], Step]] = {
    ("tanh", "torch"): (partial(nn.RNN, nonlinearity="tanh"), _tanh),
    ("relu", "torch"): (partial(nn.RNN, nonlinearity="relu"), _relu),
    ("identity", "torch"): (LinearRNN, LinearRNN.step),
    ("gru", "torch"): (nn.GRU, _torch_gru),
    ("gru", "notes"): (NotesGRU, NotesGRU.step),
    ("lstm", "torch"): (nn.LSTM, _lstm),
}


class Recurrent(nn.Module):
    """L layers of H units, whose state is a tuple of [N, L, H]: hidden states and, for the LSTM, cell states."""

    def __init__(
        self, cell: Cell, inputs: int, hidden: int, layers: int, dropout: float, variant: Variant = "torch"
    ) -> None:
        super().__init__()
        rate = dropout if layers > 1 else 0.0  # torch warns about rates without effect
        kind, self.step = _KINDS[cell, variant]
        self.layers = kind(inputs, hidden, layers, batch_first=True, dropout=rate)

    def forward(self, inputs: Tensor, units: Units | None = None) -> tuple[Tensor, Units]:
        """Read `inputs` [N, T, E]; return the top layer's hidden states [N, T, H] and the final state."""
        hidden, last = self.layers(inputs, units and _layers_first(units))
        return hidden, tuple(unit.transpose(0, 1) for unit in (last if isinstance(last, tuple) else (last,)))

    def unroll(self, inputs: Tensor, units: Units | None, carry: Carry) -> tuple[Tensor, Units]:
        """Compute `forward` in a loop over steps; `carry` may change the state between steps."""
        rows, steps = inputs.shape[:2]
        data, initial = inputs.transpose(0, 1).flatten(0, 1), self.begin(inputs, units)
        hidden, last = unroll(self.layers, self.step, data, [rows] * steps, initial, carry)
        return hidden.view(steps, rows, -1).transpose(0, 1), stack_layers(last)

    def walk(self, inputs: Tensor, rows: Sequence[int]) -> Tensor:
        """Read `inputs` [M, E], ordered by step; step t reads the first rows[t] <= rows[t - 1] rows.

        Return the top layer's hidden states [M, H] in the same order.
        """
        return unroll(self.layers, self.step, inputs, rows, self.begin(inputs[: rows[0]], None), pass_unchanged)[0]

    def begin(self, inputs: Tensor, units: Units | None) -> list[Units]:
        """Return the initial state [N, H] of each layer, taken from `units` [N, L, H]; zeros by default."""
        if units is None:
            zeros = inputs.new_zeros(len(inputs), self.layers.num_layers, self.layers.hidden_size)
            units = (zeros,) * (2 if isinstance(self.layers, nn.LSTM) else 1)
        return list(zip(*(unit.unbind(1) for unit in units), strict=True))


def stack_layers(units: Sequence[Units]) -> Units:
    """Stack the states [N, H] of all layers into a tuple of [N, L, H]."""
    return tuple(torch.stack(parts, 1) for parts in zip(*units, strict=True))


def _layers_first(units: Units) -> Tensor | Units:
    """Return a state in torch's layout; it is copied only if rows were selected since torch returned it."""
    transposed = tuple(unit.transpose(0, 1).contiguous() for unit in units)
    return transposed if len(transposed) > 1 else transposed[0]
