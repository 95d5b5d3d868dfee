"""Attention from decoder states to source positions."""

import torch
from torch import Tensor, nn

from bench_core.kit import SourceStates
from bench_rnn.plugin import AttentionKind

TERMS = 2**25  # of additive attention computed at a time, 128 MiB in float32


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

    def read(self, states: Tensor, mask: Tensor) -> SourceStates:
        """Keep encoder units [N, S, H], real where `mask` [N, S] is true, for queries to come."""
        return SourceStates(self.keys(states), states, mask)

    def forward(self, hidden: Tensor, sources: SourceStates) -> Tensor:
        """Return s~ [N, K, H] of the decoder's units s [N, K, H]."""
        contexts = sources.attend(self.queries(hidden), self._scores)
        return torch.tanh(self.combine(torch.cat([hidden, contexts], 2)))

    def _scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        if self.weight is None:
            return queries @ keys.transpose(1, 2)
        most = max(1, TERMS // max(1, keys.numel()))
        terms = (torch.tanh(some[:, :, None] + keys[:, None]) for some in torch.split(queries, most, 1))
        return torch.cat([self.weight(some)[:, :, :, 0] for some in terms], 1)
