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
    """What is dropped of each row, at all steps alike."""

    inputs: Sequence[Mask]  # of what each layer reads
    hidden: Sequence[Mask]  # of what each layer hands over to its next step
    output: Mask  # of what the top layer gives


class VariationalLayers(nn.Module):
    """L recurrent layers of H units; their state is a tuple of [N, L, H], as that of `Recurrent`.

    Dropout is variational (Gal and Ghahramani, 2016, arXiv:1512.05287): one mask for each row and layer, reused at
    every step. What is dropped of the units that a layer hands over to its own next step asks for a loop over steps,
    for LSTMs one with a gradient of its own; without that, a layer is torch's own.
    """

    def __init__(self, cell: Cell, inputs: int, hidden: int, layers: int, rates: Dropout) -> None:
        super().__init__()
        sizes = [inputs, *[hidden] * (layers - 1)]
        self.layers = nn.ModuleList(Recurrent(cell, size, hidden, 1, 0.0) for size in sizes)
        self.widths = [*sizes, hidden]
        self.rates = rates
        self.cells = cell == "lstm"  # whether the state has cells besides hidden units

    def masks(self, like: Tensor, rows: int) -> Masks:
        """Return what is dropped of `rows` rows, new for each call; nothing outside of training."""

        def drawn(width: int, rate: float) -> Mask:
            return dropout(like.new_ones(rows, 1, width), rate) if self.training and rate else None

        below, above = self.widths[:-1], self.widths[1:]
        return Masks(
            [drawn(width, self.rates.input) for width in below],
            [drawn(width, self.rates.hidden) for width in above],
            drawn(above[-1], self.rates.output),
        )

    def forward(self, inputs: Tensor, units: Units | None, masks: Masks) -> tuple[Tensor, Units]:
        """Read `inputs` [N, T, E]; return what the output layer gets [N, T, H] and the state after the last."""
        ends = []
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Recurrent)
            own = units and tuple(unit[:, number : number + 1] for unit in units)
            inputs, hidden = _masked(inputs, masks.inputs[number]), masks.hidden[number]
            if hidden is None:
                inputs, end = layer(inputs, own)
            elif self.cells and not torch.is_autocast_enabled(inputs.device.type):
                inputs, end = walk(layer.layers, inputs, own, hidden[:, 0])
            else:
                inputs, end = layer.unroll(inputs, own, partial(_hand_over, hidden[:, 0]))
            ends.append(end)
        return _masked(inputs, masks.output), tuple(torch.cat(parts, 1) for parts in zip(*ends, strict=True))


def _masked(values: Tensor, mask: Mask) -> Tensor:
    return values if mask is None else values * mask


def _hand_over(mask: Tensor, units: Units, step: int) -> Units:
    """Drop some of the hidden units; the cells of an LSTM stay."""
    return units[0] * mask, *units[1:]
