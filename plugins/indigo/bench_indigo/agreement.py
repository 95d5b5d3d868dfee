"""In which order outputs were generated, told by the actions of their first hypotheses."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import nan
from typing import Self

from bench_core import Facts, Outcome, SuiteError, Summed
from bench_indigo.plugin import FirstWordsConfig, OrderAgreementConfig, OrderChunksConfig, OrderJumpConfig
from bench_indigo.trajectory import positions


class Ratio(Summed[Sequence[float]]):
    """A sum over another, of all examples; undefined (nan) where the other is 0."""

    better, unit = 0, ""
    scale = 1.0

    def total(self, sums: Sequence[float], examples: int) -> float:
        above, below = sums or (0, 0)
        return self.scale * above / below if below else nan


class OrderAgreement(Ratio):
    """Mean Kendall tau of the order of generation with that of reading: 1 left to right, -1 right to left.

    Outputs of fewer than two words have no order and are left out.
    """

    signature = "tau:a|mean over outputs of two words and more"

    def __init__(self, config: OrderAgreementConfig) -> None:
        super().__init__(config)

    def measure(self, outcomes: Sequence[Outcome]) -> list[Sequence[float]]:
        """Return the tau of each and 1, or zeros; raise SuiteError where the order is unknown."""
        orders = map(order, outcomes)
        return [[tau(places), 1] if len(places) > 1 else [0, 0] for places in orders]


class OrderJump(Ratio):
    """Mean distance, in the finished output, of words that were generated one after the other; 1 left to right."""

    unit, signature = "words", "pooled over all pairs"

    def __init__(self, config: OrderJumpConfig) -> None:
        super().__init__(config)

    def measure(self, outcomes: Sequence[Outcome]) -> list[Sequence[float]]:
        """Return the summed distances and the number of pairs; raise SuiteError where the order is unknown."""
        orders = map(order, outcomes)
        return [[sum(abs(a - b) for a, b in pairwise(each)), max(0, len(each) - 1)] for each in orders]


class OrderChunks(Ratio):
    """How many pieces outputs were made in, each generated without a gap from left to right; 1 left to right.

    The mean over outputs that have any word, or the number of chunks a word.
    """

    def __init__(self, config: OrderChunksConfig) -> None:
        super().__init__(config)
        self.signature = f"per:{config.per}"

    def measure(self, outcomes: Sequence[Outcome]) -> list[Sequence[float]]:
        """Return chunks, and outputs or words; raise SuiteError where the order is unknown."""
        orders = [*map(order, outcomes)]
        return [[chunks(each), len(each) if self.config.per == "word" else min(1, len(each))] for each in orders]


class FirstWords(Ratio):
    """Share of the commonest types of the training split among the words that were generated first.

    Pooled over outputs; one that is shorter has fewer first words.
    """

    unit, scale = "%", 100.0

    def __init__(self, config: FirstWordsConfig, common: frozenset[int] = frozenset()) -> None:
        super().__init__(config)
        self.signature = f"types:{config.types}|first:{config.first}|stop:excluded"
        self.common = common

    def prepare(self, facts: Facts, references: Mapping[int, Sequence[str]]) -> Self:
        """Look up the commonest types, ties to the lower id; raise SuiteError where nothing is counted."""
        if not facts.counts:
            raise SuiteError(
                "first-words needs the counts of the training tokens, which this task does not give. "
                "Leave this metric out for this task."
            )
        ranked = sorted(range(1, len(facts.counts)), key=lambda token: -facts.counts[token])
        return type(self)(self.config, frozenset(ranked[: self.config.types]))

    def measure(self, outcomes: Sequence[Outcome]) -> list[Sequence[float]]:
        """Return how many of the first words are common, and how many there are."""
        first = [self._first(outcome) for outcome in outcomes]
        return [[sum(token in self.common for token in tokens), len(tokens)] for tokens in first]

    def _first(self, outcome: Outcome) -> list[int]:
        tokens = outcome.hypotheses[0].tokens
        return [tokens[place] for place in order(outcome)[: self.config.first]]


def order(outcome: Outcome) -> list[int]:
    """Return the reading positions of the first hypothesis's words, in the order of their generation.

    Of two keys a slot, as insertion models may have, is only thought where actions do not read as slots.
    """
    tokens, actions = outcome.hypotheses[0].tokens, outcome.hypotheses[0].actions
    for keys in (1, 2):
        places = None if actions is None else positions(len(tokens), actions, keys)
        if actions is not None and places is not None and _reads(tokens, actions, places):
            return places
    raise SuiteError(
        f"the order in which example {outcome.id} was generated is unknown: its output of {len(tokens)} words comes "
        "with no chain of as many words, or of words and slots in turn. Leave this metric out for models that make "
        "no words one by one."
    )


def _reads(tokens: Sequence[int], actions: Sequence[int], places: Sequence[int]) -> bool:
    """Return whether the words among the actions are the tokens, each in its place."""
    words = actions if len(actions) == len(tokens) else actions[::2]
    return all(tokens[place] == word for place, word in zip(places, words, strict=True))


def tau(places: Sequence[int]) -> float:
    """Return Kendall's tau of a permutation of two and more with the ascending one."""
    ascending, seen = 0, list[int]()
    for place in places:
        ascending += bisect(seen, place)
        insort(seen, place)
    pairs = len(places) * (len(places) - 1) / 2
    return 2 * ascending / pairs - 1


def chunks(places: Sequence[int]) -> int:
    """Return the number of maximal runs that ascend by one."""
    return sum(after != before + 1 for before, after in pairwise([-2, *places]))
