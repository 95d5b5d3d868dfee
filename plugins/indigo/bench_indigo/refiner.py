"""The interface of models that fill a canvas; imports no torch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from bench_core import Model, State

if TYPE_CHECKING:
    from torch import Tensor

    from bench_core import Batch

S = TypeVar("S", bound=State)


class Refiner(Model, Generic[S]):
    """Rereads a canvas of C tokens, and says what belongs into its C + 1 slots: slot s is before the s-th token.

    Many canvases lead to one target, by many ways, so it has no likelihood of targets.
    """

    @abstractmethod
    def begin(self, batch: Batch) -> S:
        """Read sources and openings, once for all canvases; return what is to be known of them."""

    @abstractmethod
    def refine(self, known: S, canvas: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p(slot) [N, C + 1] and all slots' vectors [N, C + 1, H].

        Of a row of the canvas [N, C] the first `length` [N] tokens are real; slots behind them have probability 0.
        """

    @abstractmethod
    def fill(self, vectors: Tensor) -> Tensor:
        """Return log p(word | slot) [M, V] for slots [M, H]; word 0, stop, leaves a slot as it is."""

    def limit(self, batch: Batch) -> Tensor | None:
        """Return the most target tokens that each row may take [N]; by default None, no limit of its own."""
        return None
