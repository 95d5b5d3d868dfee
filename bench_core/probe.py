"""The interface of probes: questions about a trained model besides decoding and scoring."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench_core.config import DecoderConfig
from bench_core.data import Batch
from bench_core.model import Model


@dataclass(frozen=True)
class Premise:
    """A premise of a statement, and whether it holds for this model."""

    text: str  # such as "no weight is above 1"
    holds: bool  # for this model


@dataclass(frozen=True)
class Statement:
    """What theory says of a model, before anything is measured."""

    source: str  # such as "Theorem 4.2, Welleck et al. (2020)"; empty where nothing is known of this model
    says: str  # what follows where every premise holds, or why nothing does
    premises: tuple[Premise, ...] = ()  # all must hold
    bound: str = ""  # the number behind it, such as "693 steps"
    metric: str = ""  # what it is about, as plugins call it; settings that it shares with the probe must agree
    promises: tuple[float, float] | None = None  # between which the metric must lie; None where nothing is promised

    @property
    def holds(self) -> bool:
        """Return whether it has a source, and every premise holds."""
        return bool(self.source) and all(premise.holds for premise in self.premises)


@dataclass(frozen=True)
class Finding:
    """The result of a probe: numbers by name, and statements."""

    numbers: Mapping[str, float] = field(default_factory=dict)  # by name, for the report
    statements: tuple[Statement, ...] = ()  # what follows for this model


class Probe(ABC):
    """Asks about a trained model what neither decoding nor scoring tells; built as `Class(config)`."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def ask(self, model: Model, decoder: DecoderConfig | None, batches: Iterable[Batch]) -> Finding:
        """Return the finding on a trained model, which is on the CPU and in evaluation mode.

        `decoder` is that of the cell, or None for probes whose Config has `with_decoder = False`. `batches` yields
        the rows that this cell decodes, lazily.
        """
