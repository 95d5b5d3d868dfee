"""The interface of decoders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic

from typing_extensions import TypeVar

from bench_core.data import Batch, Hypothesis
from bench_core.model import Model
from bench_core.random_numbers import Noise

M = TypeVar("M", bound=Model, default=Model)


class Decoder(ABC, Generic[M]):
    """Generates sequences with a model; built as `Class(config)`."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def decode(self, model: M, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
        """Return the hypotheses of each row of `batch`, best first, at least one per row."""
