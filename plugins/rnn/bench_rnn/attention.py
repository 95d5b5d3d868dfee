"""Attention from decoder states to source positions."""

import torch
from torch import Tensor, nn

from bench_core.kit import SourceStates
from bench_rnn.plugin import AttentionKind

MAX_TERMS = 2**25  # terms of additive attention computed at a time: 128 MiB in float32


class Attention(nn.Module):
    """a_ts is proportional to exp(score(s_t, h_s)), c_t = sum_s a_ts h_s, and s~_t = tanh(W_c [s_t, c_t]).

    s_t is the state of the decoder's top layer after reading y_{t-1}, and h_s is an encoder state. The scores:

        dot        s_t . h_s                      (Luong et al., 2015, arXiv:1508.04025)
        bilinear   s_t . W h_s                    ("general" in that paper)
        additive   v . tanh(U s_t + W h_s + b)    (Bahdanau et al., 2015, arXiv:1409.0473)

    c_t is not fed back into the recurrent layers, so attention is computed for all steps of a known target at once.
    This differs from Bahdanau et al., whose query is s_{t-1} and whose decoder reads c_t.
    """

    def __init__(self, kind: AttentionKind, hidden: int) -> None:
        super().__init__()
        self.keys = nn.Identity() if kind == "dot" else nn.Linear(hidden, hidden, bias=kind == "additive")
        self.queries = nn.Linear(hidden, hidden, bias=False) if kind == "additive" else nn.Identity()
        self.weight = nn.Linear(hidden, 1, bias=False) if kind == "additive" else None
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)

    def read(self, states: Tensor, mask: Tensor) -> SourceStates:
        """Prepare encoder states [N, S, H] for queries; `mask` [N, S] is false at padding."""
        return SourceStates(self.keys(states), states, mask)

    def forward(self, hidden: Tensor, sources: SourceStates) -> Tensor:
        """Return s~ [N, K, H] for decoder states s [N, K, H]."""
        contexts = sources.attend(self.queries(hidden), self._scores)
        return torch.tanh(self.combine(torch.cat([hidden, contexts], 2)))

    def _scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        if self.weight is None:
            return queries @ keys.transpose(1, 2)
        size = max(1, MAX_TERMS // max(1, keys.numel()))
        terms = (torch.tanh(part[:, :, None] + keys[:, None]) for part in torch.split(queries, size, 1))
        return torch.cat([self.weight(part)[:, :, :, 0] for part in terms], 1)
