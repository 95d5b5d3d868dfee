"""Repetition of n-grams within an output."""

from collections.abc import Iterator, Sequence
from math import nan

from bench_core import Additive, Prediction
from bench_metrics.plugin import RepetitionConfig


class Repetition(Additive[Sequence[int]]):
    """Share of n-grams that repeat an earlier n-gram of the same output, pooled over the first hypotheses of a cell.

    This is seq-rep-n of Welleck et al. (2019, arXiv:1908.04319), who average over outputs instead. NaN if no output
    has n tokens.
    """

    label = "Repetition"
    better, unit = -1, "%"
    may_be_nan = True

    def __init__(self, config: RepetitionConfig) -> None:
        super().__init__(config)
        self.signature = f"n:{config.n}|stop:excluded|pooled"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[int]]:
        """Yield the numbers of repeated n-grams and of all n-grams in each output."""
        return (_count_repeats(prediction.hypotheses[0].tokens, self.config.n) for prediction in predictions)

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        repeated, ngrams = sums or (0, 0)
        return 100 * repeated / ngrams if ngrams else nan


def _count_repeats(tokens: list[int], n: int) -> list[int]:
    ngrams = [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]
    return [len(ngrams) - len(set(ngrams)), len(ngrams)]
