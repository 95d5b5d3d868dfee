"""N-gram baselines with smoothing.

They have counts instead of states and logits, so they do not extend `LanguageModel` of the kit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench_core import Batch, Loss, Scorer, Scores, Scoring, State, Stepper, TaskInfo, Training, waits_for_device
from bench_rnn.plugin import NGramConfig

MISSING = -1  # a token before the first, or an unseen context


@dataclass(frozen=True)
class NgramHistory(State):
    """The last tokens read."""

    tokens: Tensor  # [N, order - 1], padded with MISSING on the left


class NGramLM(nn.Module, Stepper[NgramHistory], Scorer):
    """p(w | the last order - 1 tokens), from counts of the tokens that followed them in training.

    Let c be the count of a context, c(w) the count of w after it, d the number of distinct tokens after it, and V the
    vocabulary size. From p = 1 / V on, each longer context refines the probability p of w after the next shorter one:

        none         c(w) / c; p after an unseen context, so the longest seen context decides
        additive     (c(w) + delta) / (c + delta V) whatever p is, so the longest available context decides
        witten-bell  (c(w) + d p) / (c + d); p after an unseen context (Witten and Bell, 1991, method C)

    Each batch of the first epoch is counted when its loss is computed; later epochs change nothing. There is nothing
    to optimize: `idle` exists only because training needs a parameter, and no probability depends on it. The loss
    uses all counts so far, including the current batch; without smoothing, it is infinite for unseen tokens.
    """

    def __init__(self, config: NGramConfig, info: TaskInfo) -> None:
        super().__init__()
        self.order, self.smoothing, self.delta = config.order, config.smoothing, config.delta
        self.tokens = len(info.vocabulary)
        self.levels = nn.ModuleList(Counts(self.tokens) for _ in range(config.order))
        self.idle = nn.Parameter(torch.zeros(()))

    def loss(self, batch: Batch, training: Training) -> Loss:
        windows, history = self._windows(batch, training.memory)
        real = batch.at_real(windows)  # [M, order]
        if self.training and torch.is_grad_enabled() and training.epoch == 0:
            with waits_for_device("the number of distinct contexts depends on the counted tokens"):
                self._count(real)
        cost = -self._probs_of(real).log().mean().to(self.idle.dtype)
        return Loss(cost + 0 * self.idle, batch.length.sum(), memory=history)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        windows, history = self._windows(batch, scoring.memory)
        mask = batch.mask
        zeros = torch.zeros(mask.shape, dtype=torch.float64, device=mask.device)
        return Scores(zeros.masked_scatter(mask, self._probs_of(batch.at_real(windows)).log()).sum(1), memory=history)

    def start(self, batch: Batch) -> tuple[Tensor, NgramHistory]:
        return self._next(torch.cat([self._no_history(batch), batch.prompt], 1))

    def step(self, state: NgramHistory, actions: Tensor) -> tuple[Tensor, NgramHistory]:
        return self._next(torch.cat([state.tokens, actions[:, None]], 1))

    def _next(self, read: Tensor) -> tuple[Tensor, NgramHistory]:
        """Return the log-probabilities [N, V] of the token after `read`, and the history."""
        history = read[:, read.shape[1] - self.order + 1 :]
        probs = torch.full((len(read), self.tokens), 1 / self.tokens, dtype=torch.float64, device=read.device)
        for counts, complete, contexts in self._contexts(history):
            probs = self._refine(probs, counts.after(contexts), *counts.summary(contexts), complete)
        return probs.log(), NgramHistory(history)

    def _probs_of(self, windows: Tensor) -> Tensor:
        """Return the probability of the last token of each window [M, order], given the tokens before it."""
        probs = torch.full((len(windows),), 1 / self.tokens, dtype=torch.float64, device=windows.device)
        for counts, complete, contexts in self._contexts(windows[:, :-1]):
            probs = self._refine(probs, counts.pairs(contexts, windows[:, -1]), *counts.summary(contexts), complete)
        return probs

    def _refine(self, probs: Tensor, counts: Tensor, seen: Tensor, distinct: Tensor, complete: Tensor) -> Tensor:
        """Refine `probs` by contexts longer by one token; `probs` and `counts` are [M] or [M, V], others [M]."""
        if probs.dim() > 1:
            seen, distinct, complete = seen[:, None], distinct[:, None], complete[:, None]
        if self.smoothing == "additive":
            return torch.where(complete, (counts + self.delta) / (seen + self.delta * self.tokens), probs)
        more = distinct * probs if self.smoothing == "witten-bell" else 0.0
        total = seen + distinct if self.smoothing == "witten-bell" else seen
        return torch.where(seen > 0, (counts + more) / total.clamp(min=1), probs)

    def _contexts(self, history: Tensor) -> Iterator[tuple[Counts, Tensor, Tensor]]:
        """Yield, per context length, its counts, whether each row of `history` is long enough, and contexts [M]."""
        numbers = history.new_zeros(len(history))
        for length, counts in enumerate(self._levels()):
            complete = torch.ones_like(numbers, dtype=torch.bool)
            if length:
                older = history[:, -length]
                complete, numbers = older != MISSING, counts.number(numbers, older)
            yield counts, complete, numbers

    def _levels(self) -> list[Counts]:
        return [counts for counts in self.levels if isinstance(counts, Counts)]

    def _count(self, windows: Tensor) -> None:
        """Count the last token of each window [M, order] after contexts of all lengths."""
        numbers = windows.new_zeros(len(windows))
        for length, counts in enumerate(self._levels()):
            if length:
                complete = windows[:, -1 - length] != MISSING
                windows, numbers = windows[complete], numbers[complete]
                numbers = counts.add_contexts(numbers, windows[:, -1 - length])
            counts.add(numbers, windows[:, -1])

    def _windows(self, batch: Batch, past: NgramHistory | None) -> tuple[Tensor, NgramHistory]:
        """Return each gold token with its context on its left [N, T, order], and the history for the next window."""
        before = past.tokens if past else self._no_history(batch)
        read = torch.cat([before, batch.prompt, batch.gold], 1)
        return read.unfold(1, self.order, 1)[:, -batch.gold.shape[1] :], NgramHistory(read[:, -self.order : -1])

    def _no_history(self, batch: Batch) -> Tensor:
        return batch.prompt.new_full((len(batch), self.order - 1), MISSING)


class Counts(nn.Module):
    """Counts of tokens after contexts of a fixed length, in sorted tables for binary search.

    A context consists of the number of the next shorter context (0 if empty) and an older token. Keys are
    number * V + token, exact and free of collisions for any order. New contexts receive the next free numbers.
    """

    keys: Tensor  # [C] keys of contexts, ascending
    numbers: Tensor  # [C] numbers of contexts, in the order of `keys`
    grams: Tensor  # [K] keys of pairs of a context and the token after it, ascending
    totals: Tensor  # [K + 1] at index k, the total count of the first k `grams`

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        for name, size in (("keys", 0), ("numbers", 0), ("grams", 0), ("totals", 1)):
            self.register_buffer(name, torch.zeros(size, dtype=torch.long))

    def number(self, shorter: Tensor, older: Tensor) -> Tensor:
        """Return the number of each context, MISSING if it is unseen."""
        places = find(self.keys, self._key(shorter, older))
        if not len(self.numbers):
            return places
        return torch.where(places < 0, MISSING, self.numbers[places.clamp(min=0)])

    def add_contexts(self, shorter: Tensor, older: Tensor) -> Tensor:
        """Add unseen contexts; return the number of each context."""
        self.keys, old, fresh = merge(self.keys, self._key(shorter, older))
        numbers = torch.empty_like(self.keys)
        numbers[old] = self.numbers
        numbers[fresh] = torch.arange(len(fresh), device=fresh.device) + len(self.numbers)
        self.numbers = numbers
        return self.number(shorter, older)

    def add(self, contexts: Tensor, tokens: Tensor) -> None:
        """Count each token once after its context."""
        keys = self._key(contexts, tokens)
        self.grams, old, _ = merge(self.grams, keys)
        counts = torch.zeros_like(self.grams)
        counts[old] = self.totals.diff()
        counts.index_add_(0, torch.searchsorted(self.grams, keys), torch.ones_like(keys))
        self.totals = torch.cat([counts.new_zeros(1), counts.cumsum(0)])

    def summary(self, contexts: Tensor) -> tuple[Tensor, Tensor]:
        """Return the count of each context and the number of distinct tokens after it; 0 for MISSING."""
        first, last = self._bounds(contexts)
        return self.totals[last] - self.totals[first], last - first

    def pairs(self, contexts: Tensor, tokens: Tensor) -> Tensor:
        """Return the count of each token after its context."""
        places = find(self.grams, self._key(contexts, tokens))
        return self.totals[places + 1] - self.totals[places.clamp(min=0)]  # 0 - 0 if unseen

    def after(self, contexts: Tensor) -> Tensor:
        """Return the counts of all tokens after each context [M, V]."""
        first, last = self._bounds(contexts)
        lengths = last - first
        rows = torch.arange(len(contexts), device=contexts.device).repeat_interleave(lengths)
        offsets = (lengths.cumsum(0) - lengths - first).repeat_interleave(lengths)
        places = torch.arange(len(rows), device=rows.device) - offsets
        counts = contexts.new_zeros(len(contexts), self.tokens)
        counts[rows, self.grams[places] % self.tokens] = self.totals[places + 1] - self.totals[places]
        return counts

    def _bounds(self, contexts: Tensor) -> tuple[Tensor, Tensor]:
        """Return the start and end of each context's range in `grams`."""
        edges = torch.searchsorted(self.grams, torch.stack([contexts, contexts + 1]) * self.tokens)
        return edges[0], edges[1]

    def _key(self, contexts: Tensor, tokens: Tensor) -> Tensor:
        """Return the key of a context and a token, MISSING if either is negative."""
        return torch.where((contexts < 0) | (tokens < 0), MISSING, contexts * self.tokens + tokens)

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *more: Any) -> None:
        """Resize the tables to the sizes of the loaded tables."""
        for name, tensor in list(self.named_buffers()):
            if prefix + name in state:
                setattr(self, name, tensor.new_empty(state[prefix + name].shape))
        super()._load_from_state_dict(state, prefix, *more)


def find(table: Tensor, keys: Tensor) -> Tensor:
    """Return the index of each key in an ascending table, MISSING if it is absent."""
    if not len(table):
        return torch.full_like(keys, MISSING)
    places = torch.searchsorted(table, keys).clamp(max=len(table) - 1)
    return torch.where(table[places] == keys, places, MISSING)


def merge(table: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Insert new keys into an ascending table; return it with the indices of its old and new keys."""
    fresh = torch.unique(keys)
    fresh = fresh[find(table, fresh) < 0]
    new = torch.searchsorted(table, fresh) + torch.arange(len(fresh), device=table.device)
    is_old = torch.ones(len(table) + len(fresh), dtype=torch.bool, device=table.device)
    is_old[new] = False
    old = is_old.nonzero()[:, 0]
    whole = table.new_empty(len(is_old))
    whole[old], whole[new] = table, fresh
    return whole, old, new
