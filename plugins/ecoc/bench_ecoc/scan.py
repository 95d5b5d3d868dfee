"""Computes C_w . z of all tokens in time independent of the code length.

Neighbours in rank differ in one base bit and, but for the first ranks, in one check bit, so that

    C_r . z = C_{r-1} . z  +- z_base  +- z_check

Ranks are taken in blocks of 32, each of which begins with a product of its own: sums stay short, so they round no
worse than a product of matrices does.
"""

import torch
from torch import Tensor

from bench_ecoc.codebook import CELLS, unpack

BLOCK = 32  # ranks behind one product
ROWS = 32  # positions at a time, which a processor's cache has room for


class Scan:
    """Scores of all tokens, where `packed` [V, ...] are the codewords of d bits and `ranks` [V] the tokens' ranks."""

    def __init__(self, packed: Tensor, ranks: Tensor, bits: int, dtype: torch.dtype) -> None:
        self.ranks, self.bits = ranks, bits
        self.tokens = len(ranks)
        order = ranks.argsort()
        steps = _steps(packed[order], bits)  # per rank: the bits in which it differs from the one before
        number = torch.tensor([len(step) for step in steps])
        self.first = int((number != number[-1]).nonzero()[-1]) + 1
        anchors = torch.arange(self.first, self.tokens, BLOCK)
        self.blocks = len(anchors)
        whole = torch.cat([torch.arange(self.first), anchors])
        self.codes = unpack(packed[order[whole]], bits).to(dtype)
        regular = torch.stack(steps[self.first :])
        padding = regular.new_zeros(self.blocks * BLOCK - len(regular), regular.shape[1])
        self.columns = torch.cat([regular, padding]).T.contiguous()  # [1 or 2, blocks * BLOCK]

    def __call__(self, z: Tensor) -> Tensor:
        """Return C_w . z by token [N, V], for `z` [N, d]."""
        found = z.new_empty(len(z), self.tokens)
        for begin in range(0, len(z), ROWS):
            ranked = self._ranked(z[begin : begin + ROWS])
            torch.index_select(ranked, 1, self.ranks, out=found[begin : begin + ROWS])
        return found

    def by_rank(self, z: Tensor) -> Tensor:
        """Return C_r . z by rank [N, V], for `z` [N, d]."""
        return torch.cat([self._ranked(some) for some in torch.split(z, ROWS)])

    def _ranked(self, z: Tensor) -> Tensor:
        products = z @ self.codes.T
        signed = torch.cat([z, -z], 1)
        steps = signed.index_select(1, self.columns[0])
        for column in self.columns[1:]:
            steps += signed.index_select(1, column)
        blocks = steps.view(len(z), self.blocks, BLOCK)
        blocks[:, :, 0] = products[:, self.first :]
        rest = blocks.cumsum(2).flatten(1)[:, : self.tokens - self.first]
        return torch.cat([products[:, : self.first], rest], 1)


def _steps(packed: Tensor, bits: int) -> list[Tensor]:
    """Return, of each rank, the columns of [z, -z] that lead there from the one before; of the first, none."""
    found = [torch.zeros(0, dtype=torch.int64)]
    for ranks in torch.split(torch.arange(1, len(packed)), max(1, CELLS // bits)):
        codes = unpack(packed[ranks], bits)
        rows, columns = (codes != unpack(packed[ranks - 1], bits)).nonzero(as_tuple=True)
        signed = columns + bits * (codes[rows, columns] == 0)
        found += torch.split(signed, torch.bincount(rows, minlength=len(ranks)).tolist())
    return found
