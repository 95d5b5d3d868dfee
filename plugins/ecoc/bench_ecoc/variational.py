"""Recurrent layers with variational dropout."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from bench_ecoc.lstm import walk
from bench_ecoc.settings import Dropout
from bench_rnn.api import Recurrent, Units
from bench_rnn.plugin import Cell

Mask: TypeAlias = Tensor | None  # [N, 1, D] of 0 and 1 / (1 - rate); None drops nothing


@dataclass(frozen=True)
class Masks:
    """Dropout masks of each row, the same at all steps."""

    inputs: Sequence[Mask]  # per layer
    hidden: Sequence[Mask]  # recurrent connection, per layer
    output: Mask  # top layer


class VariationalLayers(nn.Module):
    """L recurrent layers of H units; their state is a tuple of [N, L, H], as in `Recurrent`.

    Dropout is variational (Gal and Ghahramani, 2016, arXiv:1512.05287): one mask per row and layer, reused at every
    step. Dropout on the recurrent connection requires a loop over steps (for LSTMs, with a hand-written gradient);
    otherwise, torch's own layers are used.
    """

    def __init__(self, cell: Cell, inputs: int, hidden: int, layers: int, rates: Dropout) -> None:
        super().__init__()
        sizes = [inputs, *[hidden] * (layers - 1)]
        self.layers = nn.ModuleList(Recurrent(cell, size, hidden, 1, 0.0) for size in sizes)
        self.widths = [*sizes, hidden]
        self.rates = rates
        self.cells = cell == "lstm"  # whether the state has cells in addition to hidden units

    def masks(self, like: Tensor, rows: int) -> Masks:
        """Sample the masks of `rows` rows; None outside of training."""

        def sample(width: int, rate: float) -> Mask:
            return dropout(like.new_ones(rows, 1, width), rate) if self.training and rate else None

        below, above = self.widths[:-1], self.widths[1:]
        return Masks(
            [sample(width, self.rates.input) for width in below],
            [sample(width, self.rates.hidden) for width in above],
            sample(above[-1], self.rates.output),
        )

    def forward(self, inputs: Tensor, units: Units | None, masks: Masks) -> tuple[Tensor, Units]:
        """Read `inputs` [N, T, E]; return the input of the output layer [N, T, H] and the final state."""
        ends = []
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Recurrent)
            state = units and tuple(unit[:, number : number + 1] for unit in units)
            inputs, hidden = _apply_mask(inputs, masks.inputs[number]), masks.hidden[number]
            if hidden is None:
                inputs, end = layer(inputs, state)
            elif self.cells and not torch.is_autocast_enabled(inputs.device.type):
                inputs, end = walk(layer.layers, inputs, state, hidden[:, 0])
            else:
                inputs, end = layer.unroll(inputs, state, partial(_drop_hidden, hidden[:, 0]))
            ends.append(end)
        return _apply_mask(inputs, masks.output), tuple(torch.cat(parts, 1) for parts in zip(*ends, strict=True))


def _apply_mask(values: Tensor, mask: Mask) -> Tensor:
    return values if mask is None else values * mask


def _drop_hidden(mask: Tensor, units: Units, step: int) -> Units:
    """Apply dropout to hidden units, but not to the cells of an LSTM."""
    return units[0] * mask, *units[1:]
