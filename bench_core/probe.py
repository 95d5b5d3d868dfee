"""The interface of probes: analyses of trained models besides decoding and scoring."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench_core.config import DecoderConfig
from bench_core.data import Batch
from bench_core.model import Model


@dataclass(frozen=True)
class Premise:
    """A premise of a statement, and whether it holds for the model."""

    text: str  # such as "no weight is above 1"
    holds: bool


@dataclass(frozen=True)
class Statement:
    """A theoretical prediction about a model, made without measurement."""

    source: str  # such as "Theorem 4.2, Welleck et al. (2020)"; empty if no theory covers the model
    says: str  # the conclusion if all premises hold, or why there is no conclusion
    premises: tuple[Premise, ...] = ()  # all must hold
    bound: str = ""  # the bound as text, such as "693 steps"
    metric: str = ""  # name of the metric concerned; settings that it shares with the probe must agree
    promises: tuple[float, float] | None = None  # predicted range of the metric; None without a prediction

    @property
    def holds(self) -> bool:
        """Return whether it has a source, and every premise holds."""
        return bool(self.source) and all(premise.holds for premise in self.premises)


@dataclass(frozen=True)
class Finding:
    """The result of a probe: numbers by name, and statements."""

    numbers: Mapping[str, float] = field(default_factory=dict)  # shown in reports
    statements: tuple[Statement, ...] = ()


class Probe(ABC):
    """An analysis of a trained model besides decoding and scoring; built as `Class(config)`."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def ask(self, model: Model, decoder: DecoderConfig | None, batches: Iterable[Batch]) -> Finding:
        """Return the finding for a trained model, which is on the CPU and in evaluation mode.

        `decoder` is the cell's decoder, or None for probes whose Config has `with_decoder = False`. `batches` lazily
        yields the rows that the cell decodes.
        """
