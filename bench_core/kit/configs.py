"""Base Configs for parts built with the kit; does not import torch."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar

from bench_core.config import Config, DecoderConfig, MetricConfig, ModelConfig
from bench_core.data import Kind, Source
from bench_core.model import Model, Scorer, Stepper

if TYPE_CHECKING:
    from torch import Tensor

_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def conventional_name(stem: str) -> str:
    """Derive a part's name from its class name, such as `min-gru` from `MinGRU`."""
    return _WORD_STARTS.sub("-", stem).lower()


def name_by_convention(config: type[Config], module: str = "") -> None:
    """Set the `name` and `target` of a Config, unless it declares them.

    `MinGRUConfig` in `bench_x` or `bench_x.plugin` gets the name `min-gru` and, with `module="model"`, the target
    `bench_x.model:MinGRU`.
    """
    declared, stem = vars(config), config.__name__.removesuffix("Config")
    if "name" not in declared:
        config.name = conventional_name(stem)
    if module and "target" not in declared:
        config.target = f"{config.__module__.removesuffix('.plugin')}.{module}:{stem}"


class LanguageModelConfig(ModelConfig):
    """The Config of a `LanguageModel`; name and target derive from its class name, unless declared.

    `GPTConfig` in `bench_x.plugin` declares the model `gpt` of class `bench_x.model:GPT`.
    """

    capabilities: ClassVar[Set[type[Model]]] = {Stepper, Scorer}
    likelihoods: ClassVar[Mapping[str, Kind]] = {"exact": Kind.EXACT}

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls, "model")


class EncoderDecoderConfig(LanguageModelConfig):
    """The Config of an `EncoderDecoder`; override `sources` unless they are tokens."""

    sources: ClassVar[Set[Source]] = {Source.TOKENS}


class ExampleMetricConfig(MetricConfig):
    """A metric with a single method: `score` of an example, averaged over examples by weight.

    Its name derives from the class name: `WordOverlapConfig` declares the metric `word-overlap`.
    """

    target: ClassVar[str] = "bench_core.kit.one_method:ExampleMean"
    better: ClassVar[int] = 1  #: +1 if higher is better, -1 if lower, 0 if neither
    unit: ClassVar[str] = ""  #: "%" for a percentage, 100 times the mean

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls)

    def bounds(self) -> tuple[float, float] | None:
        """Return (0, 100) for a percentage; for other units, by default None (undeclared)."""
        return (0, 100) if self.unit == "%" else None

    @abstractmethod
    def score(self, hypothesis: str, references: Sequence[str]) -> float:
        """Return the finite score of an example's best hypothesis, from 0 to 1 with `unit = "%"`."""


class StepDecoderConfig(DecoderConfig):
    """A decoder with a single method: `choose` selects the next action of every row.

    Its name derives from the class name: `EpsilonGreedyConfig` declares the decoder `epsilon-greedy`.
    """

    target: ClassVar[str] = "bench_core.kit.one_method:StepDecoder"
    needs: ClassVar[type[Model]] = Stepper

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls)

    @abstractmethod
    def choose(self, log_probs: Tensor, uniform: Tensor) -> Tensor:
        """Return an action for each row [M], given log-probabilities [M, A] and float64 numbers in (0, 1) [M]."""
