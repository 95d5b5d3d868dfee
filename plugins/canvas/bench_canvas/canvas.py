"""The interface of models that predict the tokens of a canvas's places; does not import torch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from bench_core import Model, State

if TYPE_CHECKING:
    from torch import Tensor

    from bench_core import Batch

S = TypeVar("S", bound=State)

MASK = -1  #: a place without a token
BEYOND = -2  #: no place: the row's canvas is narrower than the widest canvas of the batch


class Canvas(Model, Generic[S]):
    """Predicts the token of every place of a canvas, given the tokens of the other places.

    A canvas is a row of places, which contain tokens or MASK. Its width depends on the model and the row, never on
    other rows. A prompt occupies the first places; an output ends at the first EOS after it. Decoders choose which
    places are written, and in which order.
    """

    @abstractmethod
    def begin(self, batch: Batch) -> tuple[S, Tensor]:
        """Encode sources and return them with the first canvas [N, C]: the prompt, then MASK, then BEYOND."""

    @abstractmethod
    def places(self, known: S, canvas: Tensor) -> Tensor:
        """Return log p(token | place, canvas) [N, C, V]; all finite, and meaningless where the canvas is BEYOND."""
