"""Configs of parts that are built on the kit, which declare once what all of them share; imports no torch."""

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
    """Return the name of a part by that of its class, such as `min-gru` for `MinGRU`."""
    return _WORD_STARTS.sub("-", stem).lower()


def name_by_convention(config: type[Config], module: str = "") -> None:
    """Give a Config the `name` and `target` that it does not declare itself.

    `MinGRUConfig`, in `bench_x` or `bench_x.plugin`, is called `min-gru`. With `module="model"`, it builds
    `bench_x.model:MinGRU`.
    """
    declared, stem = vars(config), config.__name__.removesuffix("Config")
    if "name" not in declared:
        config.name = conventional_name(stem)
    if module and "target" not in declared:
        config.target = f"{config.__module__.removesuffix('.plugin')}.{module}:{stem}"


class LanguageModelConfig(ModelConfig):
    """The Config of a `LanguageModel`; its name and class follow from its own name, unless it declares them.

    `GPTConfig` in `bench_x.plugin` is the model `gpt`, of class `bench_x.model:GPT`.
    """

    capabilities: ClassVar[Set[type[Model]]] = {Stepper, Scorer}
    likelihoods: ClassVar[Mapping[str, Kind]] = {"exact": Kind.EXACT}

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls, "model")


class EncoderDecoderConfig(LanguageModelConfig):
    """The Config of an `EncoderDecoder`; one with sources other than tokens declares `sources`."""

    sources: ClassVar[Set[Source]] = {Source.TOKENS}


class ExampleMetricConfig(MetricConfig):
    """A metric in one method: `score` of one example, averaged over examples by their weights.

    Its name follows from that of the class: `WordOverlapConfig` is the metric `word-overlap`.
    """

    target: ClassVar[str] = "bench_core.kit.one_method:ExampleMean"
    better: ClassVar[int] = 1  #: +1 if higher is better, -1 if lower, 0 if neither is
    unit: ClassVar[str] = ""  #: "%" prints the mean as a percentage

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls)

    def bounds(self) -> tuple[float, float] | None:
        """Return 0 and 100 for a percentage; None, the default for other units, if undeclared."""
        return (0, 100) if self.unit == "%" else None

    @abstractmethod
    def score(self, hypothesis: str, references: Sequence[str]) -> float:
        """Return the score of the best hypothesis of one example, a finite number; from 0 to 1 with `unit = "%"`."""


class StepDecoderConfig(DecoderConfig):
    """A decoder in one method: `choose` selects the next action of every row.

    Its name follows from that of the class: `EpsilonGreedyConfig` is the decoder `epsilon-greedy`.
    """

    target: ClassVar[str] = "bench_core.kit.one_method:StepDecoder"
    needs: ClassVar[type[Model]] = Stepper

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls)

    @abstractmethod
    def choose(self, log_probs: Tensor, uniform: Tensor) -> Tensor:
        """Return an action for each row [M], given log-probabilities [M, A] and numbers in (0, 1) [M], float64."""
