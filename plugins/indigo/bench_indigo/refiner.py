"""The interface of models that fill a canvas; does not import torch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from bench_core import Model, State

if TYPE_CHECKING:
    from torch import Tensor

    from bench_core import Batch

S = TypeVar("S", bound=State)


class Refiner(Model, Generic[S]):
    """Encodes a canvas of C tokens and predicts words for its C + 1 slots; slot s is before the s-th token.

    Many sequences of canvases lead to a target, so a Refiner has no likelihood of targets.
    """

    @abstractmethod
    def begin(self, batch: Batch) -> S:
        """Encode sources and prompts, once for all canvases."""

    @abstractmethod
    def refine(self, known: S, canvas: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p(slot) [N, C + 1] and the vectors of all slots [N, C + 1, H].

        The first `length` [N] tokens of a row of the canvas [N, C] are real; slots after them have probability 0.
        """

    @abstractmethod
    def fill(self, vectors: Tensor) -> Tensor:
        """Return log p(word | slot) [M, V] for slots [M, H]; word 0, EOS, leaves a slot unchanged."""

    def limit(self, batch: Batch) -> Tensor | None:
        """Return the maximum number of target tokens per row [N]; None (the default) for no limit."""
        return None
