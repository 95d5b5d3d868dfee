"""What theory promises of a trained model under a decoder, its premises checked on the weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench_core.config import DecoderConfig
    from bench_core.data import Batch
    from bench_core.model import Model


@dataclass(frozen=True)
class Premise:
    """What a theorem asks for, and whether this model has it."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Finding:
    """Which theorem is about a model and a decoder, and what follows from it for the rows that are decoded."""

    theorem: str  # such as "Theorem 4.2, Welleck et al. (2020)"; empty where none is about this model and decoder
    says: str  # what follows where every premise holds, or why nothing does
    premises: tuple[Premise, ...] = ()
    bound: str = ""  # the number behind it, such as "693 steps"
    promises: tuple[float, float] | None = None  # between which the metric must lie; None where nothing is promised

    @property
    def holds(self) -> bool:
        """Return whether there is a theorem all of whose premises hold."""
        return bool(self.theorem) and all(premise.holds for premise in self.premises)


class Certificate(ABC):
    """A statement about cells that theory makes before anything is measured; built as `Class(config)`."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def check(self, model: Model, decoder: DecoderConfig, batches: Iterable[Batch]) -> Finding:
        """Return what can be said of a trained model, on the CPU and in evaluation mode, under a decoder.

        `batches` hold the rows that are decoded in this cell, and are read as they are iterated over.
        """
