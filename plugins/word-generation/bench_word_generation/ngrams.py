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

from bench_core import STOP, Additive, Prediction, SuiteError, TaskInfo
from bench_word_generation.distributions import Distributions, Floats
from bench_word_generation.plugin import NGramPerplexityConfig

Numbers: TypeAlias = NDArray[Any]

OUTPUTS_PER_CHUNK = 10_000


@dataclass(frozen=True)
class NgramLevel:
    """N-grams of the same length, and their contexts."""

    grams: Numbers  # [G] keys of n-grams, ascending
    counts: Floats  # [G]
    contexts: Numbers  # [C] keys of contexts, ascending
    totals: Floats  # [C] n(u), the count of a context
    kinds: Numbers  # [C] N1(u), the number of distinct symbols after u

    @classmethod
    def of(cls, keys: Numbers, weights: Floats, base: int) -> NgramLevel:
        """Count n-grams by their keys, whose last digit in base `base` is the predicted symbol."""
        grams, places = np.unique(keys, return_inverse=True)
        counts: Floats = np.bincount(places, weights).astype(np.float64)
        contexts, first = np.unique(grams // base, return_index=True)
        kinds = np.diff(first, append=len(grams))
        return cls(grams, counts, contexts, np.add.reduceat(counts, first), kinds)

    def refine(self, probs: Floats, keys: Numbers, base: int) -> Floats:
        """Return the probabilities [M] of predicted symbols, given `probs` [M] after the next shorter contexts."""
        counts, _ = _look_up(self.grams, keys, self.counts, self.counts)
        totals, kinds = _look_up(self.contexts, keys // base, self.totals, self.kinds)
        return np.where(totals > 0, (counts + kinds * probs) / np.maximum(totals + kinds, 1), probs)


def _look_up(table: Numbers, keys: Numbers, *columns: Numbers) -> tuple[Numbers, ...]:
    """Return the entries of columns for keys; 0 for keys that are not in the table."""
    if not len(table):  # no word is long enough
        return tuple(np.zeros(len(keys)) for _ in columns)
    places = np.minimum(table.searchsorted(keys), len(table) - 1)
    is_present = table[places] == keys
    return tuple(np.where(is_present, column[places], 0) for column in columns)


class WittenBell:
    """p(c | u) = (n(u, c) + N1(u) p(c | u')) / (n(u) + N1(u)), where u' is u without its oldest symbol.

    The shortest context is interpolated with 1 / V over letters and EOS (Witten and Bell, 1991, method C). A boundary
    precedes each word; it is never predicted, and contexts do not extend beyond it. Unseen contexts change nothing.
    """

    def __init__(
        self, words: Sequence[Sequence[int]], counts: Sequence[float] | Floats, order: int, symbols: int
    ) -> None:
        self.order, self.symbols, self.base = order, symbols, symbols + 1  # the boundary is the last symbol
        if self.base**order > np.iinfo(np.int64).max:
            raise SuiteError(f"{order}-grams of {symbols} symbols are too many to number. Choose a smaller `n`.")
        flat, places, rows = self._flatten(words)
        weights = np.asarray(counts, np.float64)[rows]
        self.levels = [NgramLevel.of(keys, weights[at], self.base) for at, keys in self._keys(flat, places)]

    def surprisal(self, words: Sequence[Sequence[int]]) -> Floats:
        """Return -ln p of each word [N], summed over its symbols."""
        flat, places, rows = self._flatten(words)
        probs = np.full(len(flat), 1 / self.symbols)
        for level, (at, keys) in zip(self.levels, self._keys(flat, places), strict=True):
            probs[at] = level.refine(probs[at], keys, self.base)
        costs = np.where(places > 0, -np.log(probs), 0)
        return np.bincount(rows, costs, len(words)).astype(np.float64)

    def _flatten(self, words: Sequence[Sequence[int]]) -> tuple[Numbers, Numbers, Numbers]:
        """Return all symbols (with a boundary before each word), their positions in words, and their word indices."""
        lengths = np.array([len(word) + 1 for word in words], np.int64)
        flat = np.array([symbol for word in words for symbol in (self.symbols, *word)], np.int64)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        return flat, np.arange(len(flat)) - (lengths.cumsum() - lengths)[rows], rows

    def _keys(self, flat: Numbers, places: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield, for each context length, the positions with a context of this length, and their n-gram keys."""
        for length in range(self.order):
            at = np.flatnonzero(places >= max(1, length))
            yield at, sum(flat[at - back] * self.base**back for back in range(length + 1))


class NGramPerplexity(Additive[list[float]]):
    """exp(-sum of ln p / number of symbols) of the best hypotheses; finished hypotheses include EOS."""

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
        """Return the metric with the n-gram counts of the words, weighted by their frequencies."""
        prepared, corpus = copy(self), Distributions.of(info, self.config.name)
        counts, letters = corpus.within(self.config.of), {letter: i for i, letter in enumerate(info.vocabulary)}
        present = counts.nonzero()[0]
        words = [[*(letters[letter] for letter in corpus.words[place]), STOP] for place in present.tolist()]
        prepared.ngrams = WittenBell(words, counts[present].astype(np.float64), self.config.n, len(letters))
        return prepared

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[list[float]]:
        """Yield the surprisal of each output in nats, and its number of symbols."""
        assert self.ngrams is not None, "call `prepare` first"
        first = (prediction.hypotheses[0] for prediction in predictions)
        every = ([*hypothesis.tokens, STOP] if hypothesis.finished else hypothesis.tokens for hypothesis in first)
        while words := [*islice(every, OUTPUTS_PER_CHUNK)]:
            costs = self.ngrams.surprisal(words).tolist()
            yield from ([cost, float(len(word))] for cost, word in zip(costs, words, strict=True))

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        cost, symbols = sums or (0, 0)
        if not symbols:
            return nan
        return exp(cost / symbols) if cost / symbols < 700 else inf
