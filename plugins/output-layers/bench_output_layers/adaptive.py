"""Adaptive softmax: rare tokens in clusters with smaller projections."""

from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from bench_core import Rng, SuiteError, TaskInfo, by_host, cached_on_host
from bench_output_layers.layer import ScoringHead, counts_of
from bench_output_layers.orders import by_count


class AdaptiveSoftmax(ScoringHead):
    """A softmax over frequent tokens and clusters of rarer tokens, and another softmax within each cluster.

    Grave et al., 2017, arXiv:1609.04309. `cutoffs` are the frequency ranks at which clusters begin; the j-th cluster
    uses a projection of the hidden units to H / 4^j dimensions. Unlike in the paper, logits have biases, as in the
    other output layers.
    """

    order: Tensor  # [V] tokens by rank
    ranks: Tensor  # [V] rank of each token

    def __init__(self, hidden: int, tokens: int, cutoffs: tuple[int, ...]) -> None:
        super().__init__()
        edges = [0, *cutoffs, tokens]
        if any(end <= begin for begin, end in pairwise(edges)) or not cutoffs:
            raise SuiteError(
                f"invalid cutoffs {list(cutoffs)}: they must be increasing ranks above 0 and below the number of "
                f"tokens, {tokens:,}. Set others."
            )
        self.tokens, self.edges = tokens, edges[1:]
        self.head = nn.Linear(hidden, cutoffs[0] + len(cutoffs))
        self.tails = nn.ModuleList(
            _tail(hidden, max(1, hidden // 4 ** (number + 1)), end - begin)
            for number, (begin, end) in enumerate(zip(cutoffs, self.edges[1:], strict=True))
        )
        for name in ("order", "ranks"):
            self.register_buffer(name, torch.zeros(tokens, dtype=torch.int64))

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        order = by_count(counts_of(info, "this output layer makes clusters"))
        self.order.copy_(order)
        self.ranks.copy_(order.argsort())

    def scores(self, hidden: Tensor) -> Tensor:
        """Return the log-probability of every token [*, V]."""
        short = self.edges[0]
        head = self.head(hidden).log_softmax(-1)
        parts = [head[..., :short]]
        for number, tail in enumerate(self.tails):
            parts.append(head[..., short + number, None] + tail(hidden).log_softmax(-1))
        return torch.cat(parts, -1)[..., self.ranks]

    def log_probs_of(self, units: Tensor, gold: Tensor) -> Tensor:
        ranks, short = self.ranks[gold], self.edges[0]
        clusters = by_host(self._clusters, gold)
        head = self.head(units).log_softmax(1)
        log_probs: Tensor = head.gather(1, ranks.where(clusters == 0, short + clusters - 1)[:, None])[:, 0]
        for number, tail in enumerate(self.tails):
            places = by_host(partial(_places_of, number + 1), clusters)
            within = ranks[places] - self.edges[number]
            logits = tail(units[places])
            log_probs = log_probs.index_add(0, places, logits.log_softmax(1).gather(1, within[:, None])[:, 0])
        return log_probs

    def _clusters(self, gold: Tensor) -> Tensor:
        """Return the cluster [M] of each token on the host; 0 for tokens in the head."""
        return torch.bucketize(cached_on_host(self.ranks)[gold], torch.tensor(self.edges), right=True)


def _places_of(number: int, clusters: Tensor) -> Tensor:
    """Return the indices [K] of the entries of `clusters` [M] that equal a cluster."""
    return (clusters == number).nonzero()[:, 0]


def _tail(hidden: int, width: int, tokens: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(hidden, width, bias=False), nn.Linear(width, tokens))
