"""Stacked recurrent layers with one kind of state, whatever their cell."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from bench_rnn.plugin import Cell

_LAYERS: dict[Cell, Callable[..., nn.Module]] = {
    "tanh": partial(nn.RNN, nonlinearity="tanh"),
    "relu": partial(nn.RNN, nonlinearity="relu"),
    "gru": nn.GRU,
    "lstm": nn.LSTM,
}


class Recurrent(nn.Module):
    """L layers of H units; their state is a tuple of [N, L, H]: hidden units, and for the LSTM its cells."""

    def __init__(self, cell: Cell, inputs: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        between = dropout if layers > 1 else 0.0  # torch warns of a rate that it has no use for
        self.layers = _LAYERS[cell](inputs, hidden, layers, batch_first=True, dropout=between)

    def forward(self, inputs: Tensor, units: tuple[Tensor, ...] | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read `inputs` [N, T, E]; return the top layer's hidden units [N, T, H] and the state after the last."""
        hidden, last = self.layers(inputs, units and _layers_first(units))
        return hidden, tuple(unit.transpose(0, 1) for unit in (last if isinstance(last, tuple) else (last,)))


def _layers_first(units: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    """Return the state as torch's layers take it; copied only where rows were selected since they gave it."""
    turned = tuple(unit.transpose(0, 1).contiguous() for unit in units)
    return turned if len(turned) > 1 else turned[0]
