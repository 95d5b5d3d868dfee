"""What the plugin offers: the parts of bench_small, each broken in the `way` that it is told."""

from __future__ import annotations

from bench_small.plugin import ArgmaxConfig, BigramConfig, EndedConfig, LettersConfig

from bench_core import DecoderConfig, MetricConfig, ModelConfig, TaskConfig, hookimpl


class BrokenLettersConfig(LettersConfig):
    """Words over a few letters."""

    name, target = "broken-letters", "bench_broken.parts:BrokenLetters"
    way: str = ""


class BrokenConfig(BigramConfig):
    """A table of next-letter scores."""

    name, target = "broken", "bench_broken.parts:Broken"
    way: str = ""


class BrokenDecoderConfig(ArgmaxConfig):
    """The most probable letter."""

    name, target = "broken-decoder", "bench_broken.parts:BrokenDecoder"
    way: str = ""


class BrokenRateConfig(EndedConfig):
    """The share of outputs that end."""

    name, target = "broken-rate", "bench_broken.parts:BrokenRate"
    way: str = ""

    def bounds(self):
        return 0, 100


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    return [BrokenLettersConfig]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    return [BrokenConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    return [BrokenDecoderConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    return [BrokenRateConfig]
