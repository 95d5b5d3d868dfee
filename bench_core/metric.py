"""How well it went: one statistic per example, one number per cell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from bench_core.data import Facts, Outcome

X = TypeVar("X", default=Any)


class Metric(ABC, Generic[X]):
    """A number about a cell, computed from plain outcomes: no model, no torch. Built as `Class(config)`."""

    better: ClassVar[int]  #: +1 if higher is better, -1 if lower, 0 if neither is
    unit: ClassVar[str]  #: "%", "nats", "tokens", or nothing
    digits: ClassVar[int] = 2  #: after the point, in tables
    signature: str  #: printed below tables; numbers of different signatures share no column

    def __init__(self, config: Any) -> None:
        self.config = config

    def prepare(self, facts: Facts, references: Mapping[int, Sequence[str]]) -> Self:
        """Return a metric that knows the data, such as document frequencies; by default itself."""
        return self

    @abstractmethod
    def measure(self, outcomes: Sequence[Outcome]) -> list[X]:
        """Return what each example of a whole cell contributes, such as matched and total n-grams, as JSON data."""

    @abstractmethod
    def combine(self, parts: Sequence[X]) -> float:
        """Return the score of the examples behind `parts`; resampling calls it again and again."""

    def interval(self, parts: Sequence[X], level: float = 0.95) -> tuple[float, float] | None:
        """Return a confidence interval that follows from theory, where there is one; by default None."""
        return None
