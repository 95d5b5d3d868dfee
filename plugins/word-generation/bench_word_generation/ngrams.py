"""Letter n-gram perplexity of generated words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from math import exp, inf, nan
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench_core import STOP, Additive, Outcome, SuiteError, TaskInfo
from bench_word_generation.distributions import Distributions, Floats
from bench_word_generation.plugin import NGramPerplexityConfig

Numbers: TypeAlias = NDArray[Any]

SOME = 10_000  # outputs at a time


@dataclass(frozen=True)
class Level:
    """What followed each context of one length."""

    grams: Numbers  # [G] keys of contexts and what followed them, ascending
    counts: Floats  # [G]
    contexts: Numbers  # [C] ascending
    totals: Floats  # [C] n(u), how often a context occurred
    kinds: Numbers  # [C] N1(u), how many different symbols followed it

    @classmethod
    def of(cls, keys: Numbers, weights: Floats, base: int) -> Level:
        """Count keys, whose last digit to `base` is what followed."""
        grams, places = np.unique(keys, return_inverse=True)
        counts: Floats = np.bincount(places, weights).astype(np.float64)
        contexts, first = np.unique(grams // base, return_index=True)
        kinds = np.diff(first, append=len(grams))
        return cls(grams, counts, contexts, np.add.reduceat(counts, first), kinds)

    def refined(self, probs: Floats, keys: Numbers, base: int) -> Floats:
        """Return the probabilities of what followed, given those after contexts one shorter [M]."""
        counts, _ = _looked_up(self.grams, keys, self.counts, self.counts)
        totals, kinds = _looked_up(self.contexts, keys // base, self.totals, self.kinds)
        return np.where(totals > 0, (counts + kinds * probs) / np.maximum(totals + kinds, 1), probs)


def _looked_up(table: Numbers, keys: Numbers, *columns: Numbers) -> tuple[Numbers, ...]:
    """Return what columns say of keys, 0 of those that the table lacks."""
    if not len(table):  # no word is so long
        return tuple(np.zeros(len(keys)) for _ in columns)
    places = np.minimum(table.searchsorted(keys), len(table) - 1)
    found = table[places] == keys
    return tuple(np.where(found, column[places], 0) for column in columns)


class WittenBell:
    """p(c | u) = (n(u, c) + N1(u) p(c | u')) / (n(u) + N1(u)), where u' lacks the oldest symbol of u.

    Interpolated down to 1 / V over letters and stop (Witten and Bell, 1991, method C). One mark stands before each
    word, is never predicted, and ends contexts that would reach further. A context never seen changes nothing.
    """

    def __init__(
        self, words: Sequence[Sequence[int]], counts: Sequence[float] | Floats, order: int, symbols: int
    ) -> None:
        self.order, self.symbols, self.base = order, symbols, symbols + 1  # the mark is the last digit
        if self.base**order > np.iinfo(np.int64).max:
            raise SuiteError(f"{order}-grams of {symbols} symbols are too many to be numbered. Choose a smaller `n`.")
        flat, places, rows = self._flat(words)
        weights = np.asarray(counts, np.float64)[rows]
        self.levels = [Level.of(keys, weights[at], self.base) for at, keys in self._keys(flat, places)]

    def surprise(self, words: Sequence[Sequence[int]]) -> Floats:
        """Return -ln p of each word [N], of just the symbols that it has."""
        flat, places, rows = self._flat(words)
        probs = np.full(len(flat), 1 / self.symbols)
        for level, (at, keys) in zip(self.levels, self._keys(flat, places), strict=True):
            probs[at] = level.refined(probs[at], keys, self.base)
        costs = np.where(places > 0, -np.log(probs), 0)
        return np.bincount(rows, costs, len(words)).astype(np.float64)

    def _flat(self, words: Sequence[Sequence[int]]) -> tuple[Numbers, Numbers, Numbers]:
        """Return all symbols with a mark before each word, their places within words, and whose they are."""
        lengths = np.array([len(word) + 1 for word in words], np.int64)
        flat = np.array([symbol for word in words for symbol in (self.symbols, *word)], np.int64)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        return flat, np.arange(len(flat)) - (lengths.cumsum() - lengths)[rows], rows

    def _keys(self, flat: Numbers, places: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield for each length of context where one ends that is so long, and its key with what follows there."""
        for length in range(self.order):
            at = np.flatnonzero(places >= max(1, length))
            yield at, sum(flat[at - back] * self.base**back for back in range(length + 1))


class NGramPerplexity(Additive[list[float]]):
    """exp(-sum of ln p / number of symbols) of the first hypotheses, stop included where they have one."""

    label = "n-gram perplexity"
    better, unit, scale = -1, "", "log"
    config: NGramPerplexityConfig
    may_be_nan = True
    may_be_infinite = True
    ngrams: WittenBell | None = None

    def __init__(self, config: NGramPerplexityConfig) -> None:
        super().__init__(config)
        self.signature = f"n:{config.n}|tokens of:{config.of}|smoothing:witten-bell|stop:included"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric that has counted the n-grams of the words, each as often as it occurs."""
        knowing, known = copy(self), Distributions.of(info, self.config.name)
        counts, letters = known.within(self.config.of), {letter: i for i, letter in enumerate(info.vocabulary)}
        there = counts.nonzero()[0]
        words = [[*(letters[letter] for letter in known.words[place]), STOP] for place in there.tolist()]
        knowing.ngrams = WittenBell(words, counts[there].astype(np.float64), self.config.n, len(letters))
        return knowing

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[list[float]]:
        """Yield the surprise of each output in nats, and its number of symbols."""
        assert self.ngrams is not None, "`prepare` comes first"
        first = (outcome.hypotheses[0] for outcome in outcomes)
        every = ([*one.tokens, STOP] if one.finished else one.tokens for one in first)
        while words := [*islice(every, SOME)]:
            costs = self.ngrams.surprise(words).tolist()
            yield from ([cost, float(len(word))] for cost, word in zip(costs, words, strict=True))

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        cost, symbols = sums or (0, 0)
        if not symbols:
            return nan
        return exp(cost / symbols) if cost / symbols < 700 else inf
