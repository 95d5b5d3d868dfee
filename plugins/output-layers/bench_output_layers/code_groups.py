"""Groups of codewords: a token's own, and its own with one of its check bits flipped."""

import torch
from torch import Tensor

from bench_output_layers.code_table import CodeTable
from bench_output_layers.gray_walk import own_checks
from bench_output_layers.packed_codes import unpack


class CodeGroups:
    """K codewords per token, in a table whose codewords are a Gray walk."""

    def __init__(self, table: CodeTable) -> None:
        self.table, self.bits = table, table.bits

    def fill(self) -> None:
        """Determine the check bits of all tokens from the codewords in the table."""
        order, columns = self.table.order.cpu(), torch.empty(self.table.own_checks.shape, dtype=torch.int64)
        columns[order] = own_checks(self.table.codes.cpu()[order], columns.shape[1])
        self.table.own_checks.copy_(columns)

    def best_gain(self, z: Tensor, tokens: Tensor) -> Tensor:
        """Return the change of s [M] for the best codeword of each of `tokens` [M], for `z` [M, d]; at least 0."""
        columns = self.table.own_checks[tokens]
        codes = unpack(self.table.packed[tokens], self.bits).gather(1, columns.clamp(min=0)).to(z.dtype)
        gains = (1 - 2 * codes) * z.gather(1, columns.clamp(min=0))
        return gains.masked_fill(columns < 0, -torch.inf).amax(1).clamp(min=0)

    def best_gains(self, z: Tensor) -> Tensor:
        """Return the change of s for the best codeword of every token [*, V]; at least 0."""
        return torch.stack(self._gains(z)).amax(0).clamp(min=0)

    def summed_gains(self, z: Tensor) -> Tensor:
        """Return the log of the sum of exp(change of s) over the codewords of every token [*, V]."""
        gains = self._gains(z)
        total = torch.zeros_like(gains[0])
        for gain in gains:
            total = torch.logaddexp(total, gain)
        return total

    def _gains(self, z: Tensor) -> list[Tensor]:
        """Return the changes of s if a check bit is flipped, as one tensor [*, V] per check bit."""
        signed = torch.cat([z, -z, z.new_full((*z.shape[:-1], 1), -torch.inf)], -1)
        return [signed[..., column] for column in self.table.cached("signed", self._signed_columns)]

    def _signed_columns(self) -> list[Tensor]:
        """Return the columns of [z, -z, -inf] that hold the changes of all tokens, [V] per bit."""
        checks = self.table.own_checks
        columns = checks + self.bits * self.table.codes.gather(1, checks.clamp(min=0)).long()
        return list(columns.where(checks >= 0, 2 * self.bits).unbind(1))
