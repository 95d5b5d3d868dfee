"""A softmax over frequent tokens and "other", and codes for the other tokens (Oda et al., 2017, arXiv:1704.06918)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench_core import Batch, Rng, State, TaskInfo, Training, cached_on_host, on_host, to_device
from bench_output_layers.code_vectors import vectors_for
from bench_output_layers.codes import CodedHead, Ecoc
from bench_output_layers.layer import counts_of
from bench_output_layers.orders import by_count

OfRest: TypeAlias = Callable[
    [Ecoc, Tensor, Tensor], Tensor
]  # rest, units [m, H], places among other tokens [m] -> [m]


class HybridSoftmax(CodedHead):
    """p(w) is a softmax for the k most frequent tokens, and p(other) p(w | other) for the others.

    `rest` predicts the others by codes; it is None if all tokens are in the softmax. Training minimizes the cross
    entropy of the softmax, plus the code cost of other tokens.
    """

    order: Tensor  # [V] tokens by decreasing count
    places: Tensor  # [V] position of each token in `order`
    counts: Tensor  # [V] counts of tokens in the training split

    def __init__(self, hidden: int, tokens: int, rest: Ecoc | None) -> None:
        super().__init__()
        self.tokens, self.rest = tokens, rest
        self.frequent = tokens - (rest.tokens if rest else 0)
        self.length = rest.length if rest else 0
        self.logits = nn.Linear(hidden, self.frequent + (rest is not None))
        for name in ("order", "places", "counts"):
            self.register_buffer(name, torch.zeros(tokens, dtype=torch.int64))

    # codewords

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        counts = counts_of(info, "`codes: hybrid` selects frequent tokens")
        order = by_count(counts)
        self.order.copy_(order)
        self.places.copy_(order.argsort())
        self.counts.copy_(counts)
        if self.rest is not None:
            coded, vectors = order[self.frequent :], vectors_for(self.rest.config, info)
            names = [info.vocabulary[token] for token in coded.tolist()]
            others = replace(info, vocabulary=names, counts=counts[coded].tolist())
            self.rest.prepare(others, rng, vectors and vectors.of(coded))

    @property
    def needs_statistics(self) -> bool:
        return self.rest is not None and self.rest.needs_statistics

    def fit_statistics(self, sentences: Sequence[list[int]], info: TaskInfo, rng: Rng) -> None:
        if self.rest is not None and self.rest.needs_statistics:
            vectors = vectors_for(self.rest.config, info, sentences, rng)
            self.rest.assign(vectors and vectors.of(self.coded.cpu()))

    def notes(self) -> Mapping[str, str]:
        return self.rest.notes() if self.rest else {}

    @property
    def coded(self) -> Tensor:
        """Return the ids of the tokens with codewords [R], by decreasing count."""
        return self.order[self.frequent :]

    @property
    def codebook(self) -> Tensor:
        """Return the codewords of the tokens `coded`, uint8 [R, d]; do not modify them."""
        return self.rest.codebook if self.rest else self.order.new_zeros(0, 0, dtype=torch.uint8)

    # tokens

    def scores(self, hidden: Tensor) -> Tensor:
        """Return the log-probability of every token [*, V]."""
        return self.reading_of(hidden.flatten(0, -2))[0].view(*hidden.shape[:-1], self.tokens)

    def reading_of(self, units: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
        log_probs: Tensor = self.logits(units).log_softmax(-1)
        values: Mapping[str, Tensor] = {}
        if self.rest is not None:
            of_rest, values = self.rest.reading_of(units)
            of_rest = of_rest.to(log_probs.dtype) + log_probs[:, self.frequent :]
            log_probs = torch.cat([log_probs[:, : self.frequent], of_rest], 1)
        return log_probs[:, self.places], values

    def log_probs(self, hidden: Tensor, past: State) -> tuple[Tensor, State]:
        return self.scores(hidden), past

    def log_probs_of(self, units: Tensor, gold: Tensor) -> Tensor:
        return -self._costs(units, gold, lambda rest, *some: -rest.log_probs_of(*some))

    def fit_reading(self, units: Tensor, gold: Tensor) -> None:
        """Fit the settings of the reading that are not given to the other tokens of `gold` [M]."""
        places = self.places[gold] - self.frequent
        rows = (places >= 0).nonzero()[:, 0]
        if self.rest is not None and len(rows):
            self.rest.fit_reading(units[rows], places[rows])

    def bit_errors(self, hidden: Tensor, gold: Tensor) -> Tensor:
        """Return the share of wrongly predicted bits [M] of each token of `gold` [M]; 0 for tokens without bits."""
        return self._add_rest(hidden.new_zeros(len(gold), dtype=torch.float64), hidden, gold, Ecoc.bit_errors)

    # costs

    def costs(self, units: Tensor, gold: Tensor, batch: Batch, training: Training) -> Tensor:
        return self._costs(units, gold, lambda rest, *some: rest.costs(*some, batch, training))

    def loss(self, hidden: Tensor, batch: Batch, past: State, training: Training) -> tuple[Tensor, State]:
        """Return the training costs, even in evaluation mode, as `Ecoc` does."""
        return self.costs(batch.at_real(hidden), batch.at_real(batch.gold), batch, training), past

    def score(self, hidden: Tensor, batch: Batch, past: State, by: str) -> tuple[Tensor, State]:
        if by != "bits":
            return super().score(hidden, batch, past, by)
        units, gold = batch.at_real(hidden), batch.at_real(batch.gold)
        return -self._costs(units, gold, lambda rest, *some: -rest.bound(*some)), past

    def _costs(self, units: Tensor, gold: Tensor, of_rest: OfRest) -> Tensor:
        """Return the cross entropy of the softmax [M], plus the cost of other tokens given that they are others."""
        targets = self.places[gold].clamp(max=self.frequent)
        return self._add_rest(cross_entropy(self.logits(units), targets, reduction="none"), units, gold, of_rest)

    def _add_rest(self, values: Tensor, units: Tensor, gold: Tensor, of_rest: OfRest) -> Tensor:
        """Add the values of tokens outside the softmax to `values` [M], without synchronizing."""
        if self.rest is None:
            return values
        places = cached_on_host(self.places)[on_host(gold)]
        rows = to_device((places >= self.frequent).nonzero()[:, 0], gold.device)
        others = of_rest(self.rest, units[rows], self.places[gold[rows]] - self.frequent)
        return values.index_add(0, rows, others.to(values.dtype))
