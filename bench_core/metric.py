"""The interface of metrics: one statistic per example, one score per cell."""

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

    from bench_core.data import Outcome, TaskInfo

X = TypeVar("X", default=Any)

#: The scale of intervals and tests: `log` for exp of a mean, such as perplexity; `share` for percents of examples
#: that either are a case or not.
Scale: TypeAlias = Literal["linear", "log", "share"]

#: What a score is about: a `sample` of examples, others of which could have been drawn; or the `whole` of them, such
#: as a sum over all types of words.
Population: TypeAlias = Literal["sample", "whole"]


class Metric(ABC, Generic[X]):
    """Scores a cell from plain outcomes, without model or torch; built as `Class(config)`."""

    label: ClassVar[str] = ""  #: in tables, such as "BLEU"; by default its name
    better: ClassVar[int]  #: +1 if higher is better, -1 if lower, 0 if neither is
    unit: ClassVar[str]  #: "%", "nats", "tokens", or nothing
    scale: ClassVar[Scale] = "linear"  #: on which scores are tested, see `Scale`
    population: ClassVar[Population] = "sample"  #: what the examples are, see `Population`
    digits: ClassVar[int] = 2  #: after the point, in tables
    may_be_nan: ClassVar[bool] = False  #: whether the score of some examples may be undefined
    may_be_infinite: ClassVar[bool] = False  #: likewise, infinite

    def __init__(self, config: Any) -> None:
        self.config = config

    @cached_property
    def signature(self) -> str:
        """Printed below tables; numbers of different signatures share no column. By default its name and settings."""
        return "|".join([self.config.name, *(f"{name}:{value}" for name, value in self.config)])

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return a metric fitted to the data, for example with document frequencies; by default itself."""
        return self

    @abstractmethod
    def measure(self, outcomes: Sequence[Outcome]) -> Iterable[X]:
        """Return the statistic of each example of a cell, such as matched and total n-grams, as JSON data.

        Outcomes are read from disk, whenever one is asked for: a metric that goes through them in order and yields
        statistics one by one measures any number of them in little memory. A list is as good where they are few.
        """

    @abstractmethod
    def combine(self, parts: Sequence[X]) -> float:
        """Return the score of the examples with statistics `parts`; called for every bootstrap sample."""

    def resample(self, parts: Sequence[X], counts: NDArray[np.integer]) -> list[float]:
        """Return the score of each of D bootstrap samples, in which example i occurs counts[d, i] times [D, N].

        By default calls `combine` for each sample; override it where a faster way exists, as in `Additive`.
        """
        repeated = (chain.from_iterable(map(repeat, parts, row)) for row in counts.tolist())
        return [self.combine([*sample]) for sample in repeated]

    def error(self, parts: Sequence[X]) -> float:
        """Return the standard error that a score has of its own, by sampling in a model; by default 0.

        It is in the unit of the score, and apart from which examples there are.
        """
        return 0.0


class Additive(Metric[X]):
    """A metric that is a function of sums of per-example statistics; its bootstrap is a matrix product."""

    factor: ClassVar[float] = 1.0  #: what means are multiplied by, such as 100 of shares in percent

    def row(self, part: X) -> Sequence[float]:
        """Return the finite numbers of a statistic that are summed [K]; by default all of it."""
        return part if isinstance(part, list | tuple) else [part]  # type: ignore[list-item]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        """Return the score of `examples` examples from the sums [K], which are empty if there are none.

        By default it is the mean of the first number, times `factor`; without examples it is undefined (nan).
        """
        return self.factor * sums[0] / examples if examples else nan

    def estimates(self, sums: Sequence[float], examples: int) -> Sequence[float]:
        """Return the scores by parts of the draws behind an estimate [5]; by default none, as it is exact.

        They are made from the sums of what `estimates_of` finds in outcomes; the error of the score follows.
        """
        return ()

    def sums(self, parts: Sequence[X]) -> list[float]:
        """Return the sums of the numbers of statistics [K], none if there are no statistics."""
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
    """Return what a metric sums of each example [N, K]."""
    import numpy as np

    columns = [np.frombuffer(column) for column in _columns(metric, parts)]
    return np.ascontiguousarray(np.stack(columns, 1)) if columns else np.zeros((len(parts), 0))


def resample_table(metric: Additive[Any], numbers: NDArray[np.float64], counts: NDArray[np.integer]) -> list[float]:
    """Return the score of each of D bootstrap samples [D, N] of the examples of a table [N, K]."""
    sums = counts.astype("float64") @ numbers
    return [metric.from_sums(row, int(size)) for row, size in zip(sums.tolist(), counts.sum(1), strict=True)]


def _columns(metric: Additive[X], parts: Sequence[X]) -> list[array[float]]:
    """Return what a metric sums, 8 bytes a number: K columns [N], none if there are no examples."""
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
