"""Computes C_w . z for all tokens in time independent of the code length.

Consecutive ranks differ in one base bit and, except for the first ranks, in one check bit, so that

    C_r . z = C_{r-1} . z  +- z_base  +- z_check

Ranks are processed in blocks of 32, each of which starts with an exact product: sums stay short, so rounding errors
are no larger than in a matrix product.
"""

import torch
from torch import Tensor

from bench_output_layers.packed_codes import CHUNK_BITS, unpack

BLOCK_RANKS = 32  # ranks per exact product
CHUNK_POSITIONS = 32  # positions per chunk, sized for the processor's cache


class Scan:
    """Scores of all tokens; `packed` [V, ...] are codewords of d bits, and `ranks` [V] the tokens' ranks."""

    def __init__(self, packed: Tensor, ranks: Tensor, bits: int, dtype: torch.dtype) -> None:
        self.ranks, self.bits = ranks, bits
        self.tokens = len(ranks)
        order = ranks.argsort()
        steps = _steps(packed[order], bits)  # columns of changed bits, per rank
        number = torch.tensor([len(step) for step in steps])
        self.first = int((number != number[-1]).nonzero()[-1]) + 1
        anchors = torch.arange(self.first, self.tokens, BLOCK_RANKS)
        self.blocks = len(anchors)
        whole = torch.cat([torch.arange(self.first), anchors])
        self.codes = unpack(packed[order[whole]], bits).to(dtype)
        regular = torch.stack(steps[self.first :])
        padding = regular.new_zeros(self.blocks * BLOCK_RANKS - len(regular), regular.shape[1])
        self.columns = torch.cat([regular, padding]).T.contiguous()  # [1 or 2, blocks * BLOCK]

    def __call__(self, z: Tensor) -> Tensor:
        """Return C_w . z for each token [N, V], given `z` [N, d]."""
        scores = z.new_empty(len(z), self.tokens)
        for begin in range(0, len(z), CHUNK_POSITIONS):
            ranked = self._scores_by_rank(z[begin : begin + CHUNK_POSITIONS])
            torch.index_select(ranked, 1, self.ranks, out=scores[begin : begin + CHUNK_POSITIONS])
        return scores

    def by_rank(self, z: Tensor) -> Tensor:
        """Return C_r . z by rank [N, V], for `z` [N, d]."""
        return torch.cat([self._scores_by_rank(some) for some in torch.split(z, CHUNK_POSITIONS)])

    def _scores_by_rank(self, z: Tensor) -> Tensor:
        products = z @ self.codes.T
        signed = torch.cat([z, -z], 1)
        steps = signed.index_select(1, self.columns[0])
        for column in self.columns[1:]:
            steps += signed.index_select(1, column)
        blocks = steps.view(len(z), self.blocks, BLOCK_RANKS)
        blocks[:, :, 0] = products[:, self.first :]
        rest = blocks.cumsum(2).flatten(1)[:, : self.tokens - self.first]
        return torch.cat([products[:, : self.first], rest], 1)


def _steps(packed: Tensor, bits: int) -> list[Tensor]:
    """Return, for each rank, the columns of [z, -z] that lead to it from the previous rank; none for rank 0."""
    steps = [torch.zeros(0, dtype=torch.int64)]
    for ranks in torch.split(torch.arange(1, len(packed)), max(1, CHUNK_BITS // bits)):
        codes = unpack(packed[ranks], bits)
        rows, columns = (codes != unpack(packed[ranks - 1], bits)).nonzero(as_tuple=True)
        signed = columns + bits * (codes[rows, columns] == 0)
        steps += torch.split(signed, torch.bincount(rows, minlength=len(ranks)).tolist())
    return steps
