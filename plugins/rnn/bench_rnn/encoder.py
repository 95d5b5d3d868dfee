"""Recurrent encoders."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from bench_core import by_host
from bench_core.kit import pack, unpack
from bench_rnn.cells import Recurrent
from bench_rnn.plugin import Cell, Variant


class RecurrentEncoder(nn.Module):
    """L layers of H units that read from left to right, or in both directions.

    f_s depends on f_{s-1}, and g_s on g_{s+1}; if bidirectional, both directions of the next layer read [f_s, g_s]. g
    starts at the last real token of each row: padding is never read.
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
        """Read the first `length` [N] vectors of each row of `inputs` [N, S, E]; lengths are at least 1.

        Return the top layer's states [N, S, D], 0 at padding, and the final state of all layers: a tuple of [N, L, D]
        as in `Recurrent`. D is H, or 2 H if bidirectional; the final f is at the last token, g at the first token.
        """
        packed = pack(inputs, length)
        mirror = (
            by_host(lambda length: _mirror(length, inputs.shape[1]), length) if len(self.directions) > 1 else None
        )
        states = []
        for number, layer in enumerate(zip(*self.directions, strict=True)):
            if number:
                packed = _with_data(packed, self.dropout(packed.data))
            read = [_read(rnn, packed, mirror if back else None) for back, rnn in enumerate(layer)]
            packed = _with_data(packed, torch.cat([hidden for hidden, _ in read], 1))
            states.append([torch.cat(parts, 2) for parts in zip(*(units for _, units in read), strict=True)])
        hidden = unpack(packed, inputs.shape[1])
        return hidden, tuple(torch.cat(parts, 1) for parts in zip(*states, strict=True))


def _read(rnn: Recurrent, packed: PackedSequence, mirror: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the states at each packed token [M, H] and the final state; right to left if `mirror` is given."""
    if mirror is not None:
        packed = _with_data(packed, packed.data[mirror])
    hidden, units = rnn(packed)
    return hidden.data if mirror is None else hidden.data[mirror], units


def _mirror(length: Tensor, steps: int) -> Tensor:
    """Return the packed index [M] of each packed token's mirror image: for a row's first token, its last token."""
    place = torch.arange(len(length) * steps, device=length.device).view(-1, steps)  # [N, S]
    facing = place[:, :1] + (length[:, None] - 1 - place[:1]) % steps  # arbitrary at padding
    pairs = torch.stack([place, facing], 2)
    real, faced = pack(pairs, length).data.unbind(1)
    packed = torch.empty_like(place).flatten()
    packed[real] = torch.arange(len(real), device=length.device)
    return packed[faced]


def _with_data(packed: PackedSequence, data: Tensor) -> PackedSequence:
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
