"""What the plugin offers."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from bench_core import (
    DataError,
    DecoderConfig,
    Kind,
    MetricConfig,
    ModelConfig,
    Sampler,
    Scorer,
    Source,
    Stepper,
    TaskConfig,
    Vmappable,
    hookimpl,
)
from bench_core.files import digest


class LettersConfig(TaskConfig):
    """Words over a few letters, from a file or made up."""

    name, target = "letters", "bench_small.parts:Letters"
    file: str | None = None
    words: PositiveInt = 40
    prefix: NonNegativeInt = 1

    def reads(self, data: Path) -> Mapping[str, str]:
        if self.file is None:
            return {}
        if not (data / self.file).is_file():
            raise DataError(f"{data / self.file} is missing. Write some words into it.")
        return {self.file: digest(data / self.file)}


class PicturesConfig(TaskConfig):
    """A task that no model here can take."""

    name, target, source = "pictures", "bench_small.parts:Letters", Source.GRID


class BigramConfig(ModelConfig):
    """A table of next-letter scores."""

    name, target = "bigram", "bench_small.parts:Bigram"
    capabilities, by_phase = {Stepper, Scorer, Vmappable}, {"noisy"}
    likelihoods = {"exact": Kind.EXACT, "half": Kind.BOUND}
    scale: float = 0.1
    breaks: Literal["never", "building", "training", "nan", "by chance"] = "never"
    noisy: bool = False
    counts: bool = False  # whether it begins with the counts of the training split


class BlindConfig(ModelConfig):
    """A model that can only be sampled."""

    name, target = "blind", "bench_small.parts:Blind"
    capabilities = {Sampler}


class ArgmaxConfig(DecoderConfig):
    """The most probable letter."""

    name, target, needs = "argmax", "bench_small.parts:Argmax", Stepper


class DrawConfig(DecoderConfig):
    """A random letter."""

    name, target, needs = "draw", "bench_small.parts:Draw", Sampler
    breaks: bool = False


class BadConfig(DecoderConfig):
    """The most probable letter, after something that no part should do."""

    name, target, needs = "bad", "bench_small.bad:Bad", Stepper
    deed: str


class ClearConfig(MetricConfig):
    """A metric that empties what it measures."""

    name, target = "clear", "bench_small.bad:Clear"


class EndedConfig(MetricConfig):
    """The share of outputs that end."""

    name, target, limits = "ended", "bench_small.parts:Ended", {"most": "max_tokens"}
    most: PositiveInt = 5

    def bounds(self):
        return 0, 100


class NatsConfig(MetricConfig):
    """Nats per token."""

    name, target, needs = "nats", "bench_small.parts:Nats", Scorer
    by: str | None = None

    def bounds(self):
        return (0, inf) if self.by is None else (-inf, inf)  # estimates of probabilities may be above 1


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    return [LettersConfig, PicturesConfig]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    return [BigramConfig, BlindConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    return [ArgmaxConfig, DrawConfig, BadConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    return [EndedConfig, NatsConfig, ClearConfig]
