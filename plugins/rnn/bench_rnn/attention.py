"""Attention from decoder states to source positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn

from bench_core import State

if TYPE_CHECKING:
    from bench_rnn.plugin import AttentionKind

TERMS = 2**25  # of additive attention computed at a time, 128 MiB in float32


@dataclass(frozen=True)
class Sources(State):
    """What M generations attend to; a source is kept once, however many of them are about it."""

    keys: Tensor  # [B, S, H]
    values: Tensor  # [B, S, H]
    real: Tensor  # [B, S] whether a place is one of the source
    rows: Tensor | None = None  # [M] the source of each generation; None while they are 0, 1, ...

    def change(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Follow a change that chooses rows; the sources stay where they are."""
        rows = torch.arange(len(self.keys), device=self.keys.device) if self.rows is None else self.rows
        return replace(self, rows=change(rows))

    def compacted(self) -> Self:
        """Return the same without the sources of generations that have ended, once these are the half."""
        if self.rows is None:
            return self
        alive = torch.unique(self.rows)
        if 2 * len(alive) > len(self.keys):
            return self
        return replace(
            self,
            keys=self.keys[alive],
            values=self.values[alive],
            real=self.real[alive],
            rows=torch.searchsorted(alive, self.rows),
        )


class Attention(nn.Module):
    """a_ts is proportional to exp(score(s_t, h_s)), c_t = sum_s a_ts h_s, and s~_t = tanh(W_c [s_t, c_t]).

    s_t are the units of the decoder's top layer after it has read y_{t-1}, h_s those of the encoder. The scores:

        dot        s_t . h_s                      (Luong et al., 2015, arXiv:1508.04025)
        bilinear   s_t . W h_s                    (their "general")
        additive   v . tanh(U s_t + W h_s + b)    (Bahdanau et al., 2015, arXiv:1409.0473)

    Nothing of c_t feeds back into the recurrent layers, so all steps of a known target attend at once. This departs
    from Bahdanau et al., whose query is s_{t-1} and whose c_t is read by the decoder.
    """

    def __init__(self, kind: AttentionKind, hidden: int) -> None:
        super().__init__()
        self.keys = nn.Identity() if kind == "dot" else nn.Linear(hidden, hidden, bias=kind == "additive")
        self.queries = nn.Linear(hidden, hidden, bias=False) if kind == "additive" else nn.Identity()
        self.weight = nn.Linear(hidden, 1, bias=False) if kind == "additive" else None
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)

    def read(self, states: Tensor, length: Tensor) -> Sources:
        """Keep encoder units [N, S, H], of which the first `length` [N] are real, for queries to come."""
        places = torch.arange(states.shape[1], device=states.device)
        return Sources(self.keys(states), states, places < length[:, None])

    def forward(self, hidden: Tensor, sources: Sources) -> Tensor:
        """Return s~ [M, K, H] of the units s [M, K, H] of M generations."""
        contexts = self._contexts(self.queries(hidden), sources)
        return torch.tanh(self.combine(torch.cat([hidden, contexts], 2)))

    def _contexts(self, queries: Tensor, sources: Sources) -> Tensor:
        """Return c [M, K, H]; generations about the same source ask together."""
        rows, number = sources.rows, len(sources.keys)
        if rows is None:
            return self.weights(queries, sources) @ sources.values
        sharing = rows.bincount(minlength=number)  # [B]
        order = rows.argsort(stable=True)
        place = torch.empty_like(rows)
        place[order] = torch.arange(len(rows), device=rows.device) - (sharing.cumsum(0) - sharing)[rows[order]]
        table = queries.new_zeros(number, int(sharing.max()), *queries.shape[1:])
        table[rows, place] = queries
        contexts = self.weights(table.flatten(1, 2), sources) @ sources.values
        return contexts.view(*table.shape[:3], -1)[rows, place]

    def weights(self, queries: Tensor, sources: Sources) -> Tensor:
        """Return a [B, K, S] of queries [B, K, H], those of each source."""
        scores = self._scores(queries, sources.keys).masked_fill(~sources.real[:, None], -torch.inf)
        return scores.softmax(2)

    def _scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        if self.weight is None:
            return queries @ keys.transpose(1, 2)
        most = max(1, TERMS // max(1, keys.numel()))
        terms = (torch.tanh(some[:, :, None] + keys[:, None]) for some in torch.split(queries, most, 1))
        return torch.cat([self.weight(some)[:, :, :, 0] for some in terms], 1)
