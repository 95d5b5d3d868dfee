"""Metrics of generation order, computed from the actions of the first hypothesis."""

from bisect import bisect, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from math import nan
from typing import Self

from bench_core import Additive, Prediction, SuiteError, TaskInfo
from bench_indigo.plugin import FirstWordsConfig, OrderChunksConfig
from bench_indigo.trajectory import orders

UNKNOWN = "<unk>"  #: the unknown token of tasks


class Ratio(Additive[Sequence[float]]):
    """Ratio of two sums over all examples; undefined (nan) if the denominator is 0."""

    better, unit = 0, ""
    may_be_nan = True

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        above, below = sums or (0, 0)
        return self.factor * above / below if below else nan


class OrderAgreement(Ratio):
    """Mean Kendall tau between generation order and reading order: 1 for left to right, -1 for right to left.

    Outputs of fewer than two words have no order and are excluded.
    """

    label = "Order agreement"
    signature = "tau:a|mean over outputs of two words and more"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[float]]:
        """Yield tau and 1 per output, or zeros if it is too short; raise SuiteError if the order is unknown."""
        return ([tau(places), 1] if len(places) > 1 else [0, 0] for places in orders(predictions))


class OrderJump(Ratio):
    """Mean distance in the finished output between consecutively generated words; 1 for left to right."""

    label = "Jump"
    unit, signature = "words", "pooled over all pairs"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[float]]:
        """Yield the sum of distances and the number of pairs; raise SuiteError if the order is unknown."""
        positions = orders(predictions)
        return ([sum(abs(a - b) for a, b in pairwise(each)), max(0, len(each) - 1)] for each in positions)


class OrderChunks(Ratio):
    """Number of chunks of an output, each generated left to right without a gap; 1 for left to right.

    The value is the mean over outputs with at least one word, or the number of chunks per word.
    """

    label = "Chunks"

    def __init__(self, config: OrderChunksConfig) -> None:
        super().__init__(config)
        self.signature = f"per:{config.per}"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[float]]:
        """Yield the number of chunks and the number of outputs or words; raise SuiteError if an order is unknown."""
        positions = orders(predictions)
        return ([chunks(each), len(each) if self.config.per == "word" else min(1, len(each))] for each in positions)


class FirstWords(Ratio):
    """Share of the most frequent training types among the words generated first.

    Pooled over outputs; shorter outputs have fewer first words. If `<unk>` is skipped, it is not a type, and the next
    generated word takes its place.
    """

    label = "First words"
    unit, factor = "%", 100.0

    def __init__(
        self, config: FirstWordsConfig, common: frozenset[int] = frozenset(), skipped: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(config)
        unknown = f"|{UNKNOWN}:excluded" if config.skip_unknown else ""
        self.signature = f"types:{config.types}|first:{config.first}|stop:excluded{unknown}"
        self.common, self.skipped = common, skipped

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Find the most frequent types (ties go to the lower id); raise SuiteError if the task has no counts."""
        if not info.counts:
            raise SuiteError(
                "first-words needs the counts of the training tokens, which this task does not provide. "
                "Leave this metric out for this task."
            )
        unknown = {token for token, text in enumerate(info.vocabulary) if text == UNKNOWN}
        skipped = frozenset(unknown if self.config.skip_unknown else ())
        types = (token for token in range(1, len(info.counts)) if token not in skipped)
        ranked = sorted(types, key=lambda token: -info.counts[token])
        return type(self)(self.config, frozenset(ranked[: self.config.types]), skipped)

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[float]]:
        """Yield the number of first words that are frequent, and the number of first words."""
        first = map(self._first, predictions, orders(predictions))
        return ([sum(token in self.common for token in tokens), len(tokens)] for tokens in first)

    def _first(self, prediction: Prediction, order: Sequence[int]) -> list[int]:
        generated = (prediction.hypotheses[0].tokens[place] for place in order)
        return [*islice((token for token in generated if token not in self.skipped), self.config.first)]


def tau(places: Sequence[int]) -> float:
    """Return Kendall's tau between a permutation of at least two places and ascending order."""
    ascending, seen = 0, list[int]()
    for place in places:
        ascending += bisect(seen, place)
        insort(seen, place)
    pairs = len(places) * (len(places) - 1) / 2
    return 2 * ascending / pairs - 1


def chunks(places: Sequence[int]) -> int:
    """Return the number of maximal runs of consecutive places."""
    return sum(after != before + 1 for before, after in pairwise([-2, *places]))
