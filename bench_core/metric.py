"""The interface of metrics: a statistic per example and a score per cell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from math import fsum, inf, log, nan
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias

from typing_extensions import TypeVar

from bench_core.shared_draws import sampling_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bench_core.data import Prediction, TaskInfo

X = TypeVar("X", default=Any)

#: The scale of intervals and tests: `log` for the exp of a mean, such as perplexity; `share` for percentages of
#: examples with a binary property.
Scale: TypeAlias = Literal["linear", "log", "share"]

#: The population that a score describes: a larger population, of which the examples are a `sample`, or the `whole`
#: set of examples, such as all word types in a sum over them.
Population: TypeAlias = Literal["sample", "whole"]


class Metric(ABC, Generic[X]):
    """A metric, which scores a cell from its predictions without the model or torch; built as `Class(config)`."""

    label: ClassVar[str] = ""  #: column header, such as "BLEU"; by default its name
    better: ClassVar[int]  #: +1 if higher is better, -1 if lower, 0 if neither
    unit: ClassVar[str]  #: "%", "nats", "tokens", or empty
    scale: ClassVar[Scale] = "linear"  #: scale of intervals and tests, see `Scale`
    population: ClassVar[Population] = "sample"  #: population that scores describe, see `Population`
    digits: ClassVar[int] = 2  #: decimal places in tables
    may_be_nan: ClassVar[bool] = False  #: whether scores may be undefined
    may_be_infinite: ClassVar[bool] = False  #: whether scores may be infinite

    def __init__(self, config: Any) -> None:
        self.config = config

    @cached_property
    def signature(self) -> str:
        """The signature printed below tables, by default name and settings; columns never mix signatures."""
        return "|".join([self.config.name, *(f"{name}:{value}" for name, value in self.config)])

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric fitted to the data, for example with document frequencies; by default itself."""
        return self

    @abstractmethod
    def measure(self, predictions: Sequence[Prediction]) -> Iterable[X]:
        """Return the statistic of each example of a cell, such as matched and total n-grams, as JSON data.

        Predictions are read from disk on access: a metric that iterates over them in order and yields statistics
        needs little memory for any number of examples. Returning a list is fine for small inputs.
        """

    @abstractmethod
    def combine(self, parts: Sequence[X]) -> float:
        """Return the score of examples with statistics `parts`; called for every bootstrap sample."""

    def resample(self, parts: Sequence[X], counts: NDArray[np.integer]) -> list[float]:
        """Return the scores of D bootstrap samples, where sample d contains example i `counts[d, i]` times [D, N].

        By default calls `combine` for each sample; override it if there is a faster way, as in `Additive`.
        """
        repeated = (chain.from_iterable(map(repeat, parts, row)) for row in counts.tolist())
        return [self.combine([*sample]) for sample in repeated]

    def error(self, parts: Sequence[X]) -> float:
        """Return the standard error due to sampling inside a model; by default 0.

        It has the unit of the score and excludes the variance due to the choice of examples.
        """
        return 0.0


class Additive(Metric[X]):
    """A metric that is a function of summed per-example statistics; its bootstrap is a matrix product."""

    factor: ClassVar[float] = 1.0  #: factor of the mean, such as 100 for percentages

    def row(self, part: X) -> Sequence[float]:
        """Return the finite numbers to sum for a statistic [K]; by default all of its numbers."""
        return part if isinstance(part, list | tuple) else [part]  # type: ignore[list-item]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        """Return the score of `examples` examples from the sums [K], which are empty without examples.

        By default returns the mean of the first number times `factor`, or NaN without examples.
        """
        return self.factor * sums[0] / examples if examples else nan

    def estimates(self, sums: Sequence[float], examples: int) -> Sequence[float]:
        """Return scores from subsets of the model's samples [5], used to estimate the score's error; by default none.

        They are computed from sums of `estimates_of` over predictions. Exact scores have no such estimates.
        """
        return ()

    def sums(self, parts: Sequence[X]) -> list[float]:
        """Return the summed numbers of statistics [K]; empty without statistics."""
        return [_sum(column) for column in _columns(self, parts)]

    def combine(self, parts: Sequence[X]) -> float:
        return self.from_sums(self.sums(parts), len(parts))

    def error(self, parts: Sequence[X]) -> float:
        sums, examples = self.sums(parts), len(parts)
        whole, estimates = self.from_sums(sums, examples), self.estimates(sums, examples)
        if self.scale != "log":
            return sampling_error(whole, estimates)
        return whole * sampling_error(log(whole), [*map(log, estimates)]) if 0 < whole < inf else 0.0

    def resample(self, parts: Sequence[X], counts: NDArray[np.integer]) -> list[float]:
        return resample_table(self, table(self, parts), counts)


def table(metric: Additive[X], parts: Sequence[X]) -> NDArray[np.float64]:
    """Return the per-example numbers that a metric sums [N, K]."""
    import numpy as np

    columns = [np.frombuffer(column) for column in _columns(metric, parts)]
    return np.ascontiguousarray(np.stack(columns, 1)) if columns else np.zeros((len(parts), 0))


def resample_table(metric: Additive[Any], numbers: NDArray[np.float64], counts: NDArray[np.integer]) -> list[float]:
    """Return the scores of D bootstrap samples, given by `counts` [D, N], of the examples in a table [N, K]."""
    sums = counts.astype("float64") @ numbers
    return [metric.from_sums(row, int(size)) for row, size in zip(sums.tolist(), counts.sum(1), strict=True)]


def _columns(metric: Additive[X], parts: Sequence[X]) -> list[array[float]]:
    """Return the numbers that a metric sums, at 8 bytes each: K columns [N], or no columns without examples."""
    rows = map(metric.row, parts)
    columns = [array("d", [number]) for number in next(rows, ())]
    for row in rows:
        for column, number in zip(columns, row, strict=True):
            column.append(number)
    return columns


def _sum(numbers: Sequence[float]) -> float:
    """Return the correctly rounded sum; infinite on overflow."""
    try:
        return fsum(numbers)
    except OverflowError:
        return sum(numbers)
