"""N-gram baselines with smoothing.

They count, and have neither states nor logits: no `LanguageModel` of the kit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench_core import Batch, Loss, Scorer, Scores, Scoring, State, Stepper, TaskInfo, Training, waits_for_device
from bench_rnn.plugin import NGramConfig

MISSING = -1  # stands for tokens before the first


@dataclass(frozen=True)
class History(State):
    """The last tokens read."""

    tokens: Tensor  # [N, order - 1], on the left MISSING where fewer were read


class NGramLM(nn.Module, Stepper[History], Scorer):
    """p(w | the last order - 1 tokens), from how often each token followed them in training.

    Let c be how often a context was seen, c(w) how often w followed it, d how many different tokens did, V the size
    of the vocabulary. A longer context refines the probability p of w after the next shorter one, at first 1 / V:

        none         c(w) / c; for a context never seen, p: so the longest one seen decides
        additive     (c(w) + delta) / (c + delta V), whatever p is: the longest context that there is decides
        witten-bell  (c(w) + d p) / (c + d); for a context never seen, p (Witten and Bell, 1991, method C)

    Every token of the first epoch is counted as its batch is learnt; more epochs change nothing. There is nothing to
    optimise: `idle` is there because a trainer wants a parameter, and no probability depends on it. The loss is that
    of the counts so far, the batch's own among them: without smoothing, that of a token never seen is infinite.
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
            with waits_for_device("how many different contexts there are is known once they are counted"):
                self._count(real)
        cost = -self._of(real).log().mean().to(self.idle.dtype)
        return Loss(cost + 0 * self.idle, batch.length.sum(), memory=history)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        windows, history = self._windows(batch, scoring.memory)
        mask = batch.mask
        zeros = torch.zeros(mask.shape, dtype=torch.float64, device=mask.device)
        return Scores(zeros.masked_scatter(mask, self._of(batch.at_real(windows)).log()).sum(1), memory=history)

    def start(self, batch: Batch) -> tuple[Tensor, History]:
        return self._next(torch.cat([self._nothing(batch), batch.opening], 1))

    def step(self, state: History, actions: Tensor) -> tuple[Tensor, History]:
        return self._next(torch.cat([state.tokens, actions[:, None]], 1))

    def _next(self, read: Tensor) -> tuple[Tensor, History]:
        """Return the log-probability of every token after those read [N, V]."""
        history = read[:, read.shape[1] - self.order + 1 :]
        probs = torch.full((len(read), self.tokens), 1 / self.tokens, dtype=torch.float64, device=read.device)
        for counts, known, contexts in self._contexts(history):
            probs = self._refined(probs, counts.after(contexts), *counts.seen(contexts), known)
        return probs.log(), History(history)

    def _of(self, windows: Tensor) -> Tensor:
        """Return the probability of the last token of each window [M, order], given those before."""
        probs = torch.full((len(windows),), 1 / self.tokens, dtype=torch.float64, device=windows.device)
        for counts, known, contexts in self._contexts(windows[:, :-1]):
            probs = self._refined(probs, counts.of(contexts, windows[:, -1]), *counts.seen(contexts), known)
        return probs

    def _refined(self, probs: Tensor, counts: Tensor, seen: Tensor, kinds: Tensor, known: Tensor) -> Tensor:
        """Return probabilities, [M] or [M, V], after a context one longer; `counts` are as `probs`, the rest [M]."""
        if probs.dim() > 1:
            seen, kinds, known = seen[:, None], kinds[:, None], known[:, None]
        if self.smoothing == "additive":
            return torch.where(known, (counts + self.delta) / (seen + self.delta * self.tokens), probs)
        more = kinds * probs if self.smoothing == "witten-bell" else 0.0
        total = seen + kinds if self.smoothing == "witten-bell" else seen
        return torch.where(seen > 0, (counts + more) / total.clamp(min=1), probs)

    def _contexts(self, history: Tensor) -> Iterator[tuple[Counts, Tensor, Tensor]]:
        """Yield for each length of context the counts, whether a row of `history` is so long, and its number [M]."""
        numbers = history.new_zeros(len(history))
        for length, counts in enumerate(self._levels()):
            known = torch.ones_like(numbers, dtype=torch.bool)
            if length:
                older = history[:, -length]
                known, numbers = older != MISSING, counts.number(numbers, older)
            yield counts, known, numbers

    def _levels(self) -> list[Counts]:
        return [counts for counts in self.levels if isinstance(counts, Counts)]

    def _count(self, windows: Tensor) -> None:
        """Count the last token of each window [M, order], after contexts of every length."""
        numbers = windows.new_zeros(len(windows))
        for length, counts in enumerate(self._levels()):
            if length:
                complete = windows[:, -1 - length] != MISSING
                windows, numbers = windows[complete], numbers[complete]
                numbers = counts.numbered(numbers, windows[:, -1 - length])
            counts.add(numbers, windows[:, -1])

    def _windows(self, batch: Batch, past: History | None) -> tuple[Tensor, History]:
        """Return each token of `gold` after those before it [N, T, order], and the last ones read."""
        before = past.tokens if past else self._nothing(batch)
        read = torch.cat([before, batch.opening, batch.gold], 1)
        return read.unfold(1, self.order, 1)[:, -batch.gold.shape[1] :], History(read[:, -self.order : -1])

    def _nothing(self, batch: Batch) -> Tensor:
        return batch.opening.new_full((len(batch), self.order - 1), MISSING)


class Counts(nn.Module):
    """How often each token followed each context of one length, sorted for look-up by halving.

    A context is the number of the next shorter one, 0 for the empty one, and an older token. Keys are number * V +
    token, exact and free of collisions at any order. Contexts are numbered as they come.
    """

    keys: Tensor  # [C] of contexts
    numbers: Tensor  # [C] of contexts, as `keys` stand
    grams: Tensor  # [K] keys of contexts and what followed them
    totals: Tensor  # [K + 1] how often the first k of `grams` were seen

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        for name, size in (("keys", 0), ("numbers", 0), ("grams", 0), ("totals", 1)):
            self.register_buffer(name, torch.zeros(size, dtype=torch.long))

    def number(self, shorter: Tensor, older: Tensor) -> Tensor:
        """Return the number of each context, MISSING if it was never seen."""
        places = find(self.keys, self._key(shorter, older))
        if not len(self.numbers):
            return places
        return torch.where(places < 0, MISSING, self.numbers[places.clamp(min=0)])

    def numbered(self, shorter: Tensor, older: Tensor) -> Tensor:
        """Return the number of each context, a new one if it was never seen."""
        self.keys, old, fresh = merged(self.keys, self._key(shorter, older))
        numbers = torch.empty_like(self.keys)
        numbers[old] = self.numbers
        numbers[fresh] = torch.arange(len(fresh), device=fresh.device) + len(self.numbers)
        self.numbers = numbers
        return self.number(shorter, older)

    def add(self, contexts: Tensor, tokens: Tensor) -> None:
        """Count each token once after its context."""
        keys = self._key(contexts, tokens)
        self.grams, old, _ = merged(self.grams, keys)
        counts = torch.zeros_like(self.grams)
        counts[old] = self.totals.diff()
        counts.index_add_(0, torch.searchsorted(self.grams, keys), torch.ones_like(keys))
        self.totals = torch.cat([counts.new_zeros(1), counts.cumsum(0)])

    def seen(self, contexts: Tensor) -> tuple[Tensor, Tensor]:
        """Return how often each context was seen, and how many different tokens followed it; 0 for MISSING."""
        first, last = self._between(contexts)
        return self.totals[last] - self.totals[first], last - first

    def of(self, contexts: Tensor, tokens: Tensor) -> Tensor:
        """Return how often each token followed its context."""
        places = find(self.grams, self._key(contexts, tokens))
        return self.totals[places + 1] - self.totals[places.clamp(min=0)]  # 0 - 0 where it never did

    def after(self, contexts: Tensor) -> Tensor:
        """Return how often every token followed each context [M, V]."""
        first, last = self._between(contexts)
        lengths = last - first
        rows = torch.arange(len(contexts), device=contexts.device).repeat_interleave(lengths)
        begun = (lengths.cumsum(0) - lengths - first).repeat_interleave(lengths)
        places = torch.arange(len(rows), device=rows.device) - begun
        counts = contexts.new_zeros(len(contexts), self.tokens)
        counts[rows, self.grams[places] % self.tokens] = self.totals[places + 1] - self.totals[places]
        return counts

    def _between(self, contexts: Tensor) -> tuple[Tensor, Tensor]:
        """Return where in `grams` the first and, exclusively, the last token after each context stand."""
        edges = torch.searchsorted(self.grams, torch.stack([contexts, contexts + 1]) * self.tokens)
        return edges[0], edges[1]

    def _key(self, contexts: Tensor, tokens: Tensor) -> Tensor:
        """Return the key of a context and a token, negative if there is none."""
        return torch.where((contexts < 0) | (tokens < 0), MISSING, contexts * self.tokens + tokens)

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *more: Any) -> None:
        """Make room for as many contexts as come."""
        for name, tensor in list(self.named_buffers()):
            if prefix + name in state:
                setattr(self, name, tensor.new_empty(state[prefix + name].shape))
        super()._load_from_state_dict(state, prefix, *more)


def find(table: Tensor, keys: Tensor) -> Tensor:
    """Return where each key stands in the ascending table, MISSING if it does not."""
    if not len(table):
        return torch.full_like(keys, MISSING)
    places = torch.searchsorted(table, keys).clamp(max=len(table) - 1)
    return torch.where(table[places] == keys, places, MISSING)


def merged(table: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ascending table with new keys put in, and where the old ones and the new now stand."""
    fresh = torch.unique(keys)
    fresh = fresh[find(table, fresh) < 0]
    new = torch.searchsorted(table, fresh) + torch.arange(len(fresh), device=table.device)
    is_old = torch.ones(len(table) + len(fresh), dtype=torch.bool, device=table.device)
    is_old[new] = False
    old = is_old.nonzero()[:, 0]
    whole = table.new_empty(len(is_old))
    whole[old], whole[new] = table, fresh
    return whole, old, new
