"""Recurrent encoders."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from bench_core import by_host
from bench_core.kit import pack, unpack
from bench_rnn.cells import Recurrent
from bench_rnn.plugin import Cell, Variant


class Encoder(nn.Module):
    """L layers of H units that read from left to right, or in both directions.

    f_s follows from f_{s-1}, and g_s from g_{s+1}; where both read, the layer above gets [f_s, g_s], in both of its
    directions. g starts at the last real token of each row: what pads a row is never read.
    """

    def __init__(
        self,
        cell: Cell,
        inputs: int,
        hidden: int,
        layers: int,
        dropout: float,
        bidirectional: bool,
        variant: Variant = "torch",
    ) -> None:
        super().__init__()
        sizes = [inputs, *[(1 + bidirectional) * hidden] * (layers - 1)]
        self.directions = nn.ModuleList(
            nn.ModuleList(Recurrent(cell, size, hidden, 1, 0.0, variant) for size in sizes)
            for _ in range(1 + bidirectional)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, length: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read the first `length` [N] of `inputs` [N, S, E], at least one of each row.

        Return the top layer's units [N, S, D], 0 where a row has ended, and the last state of every layer: a tuple of
        [N, L, D], as that of `Recurrent`. D is H, or 2 H for both directions: f after the last token, g at the first.
        """
        packed = pack(inputs, length)
        mirror = (
            by_host(lambda length: _mirror(length, inputs.shape[1]), length) if len(self.directions) > 1 else None
        )
        states = []
        for number, layer in enumerate(zip(*self.directions, strict=True)):
            if number:
                packed = _holding(packed, self.dropout(packed.data))
            read = [_read(rnn, packed, mirror if back else None) for back, rnn in enumerate(layer)]
            packed = _holding(packed, torch.cat([hidden for hidden, _ in read], 1))
            states.append([torch.cat(parts, 2) for parts in zip(*(units for _, units in read), strict=True)])
        hidden = unpack(packed, inputs.shape[1])
        return hidden, tuple(torch.cat(parts, 1) for parts in zip(*states, strict=True))


def _read(rnn: Recurrent, packed: PackedSequence, mirror: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the units after each packed token [M, H] and the last state; right to left if there is a `mirror`."""
    if mirror is not None:
        packed = _holding(packed, packed.data[mirror])
    hidden, units = rnn(packed)
    return hidden.data if mirror is None else hidden.data[mirror], units


def _mirror(length: Tensor, steps: int) -> Tensor:
    """Return for each packed token [M] the place among them of the one that faces it: the last of the row's first."""
    place = torch.arange(len(length) * steps, device=length.device).view(-1, steps)  # [N, S]
    facing = place[:, :1] + (length[:, None] - 1 - place[:1]) % steps  # anything where a row has ended
    pairs = torch.stack([place, facing], 2)
    real, faced = pack(pairs, length).data.unbind(1)
    packed = torch.empty_like(place).flatten()
    packed[real] = torch.arange(len(real), device=length.device)
    return packed[faced]


def _holding(packed: PackedSequence, data: Tensor) -> PackedSequence:
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
