"""What the plugin offers."""

from __future__ import annotations

from typing import ClassVar

from bench_small.plugin import LettersConfig

from bench_core import (
    DecoderConfig,
    Kind,
    MetricConfig,
    ModelConfig,
    ProbeConfig,
    Scorer,
    Stepper,
    TaskConfig,
    hookimpl,
)


class WordsConfig(LettersConfig):
    """Words over a few letters, shuffled."""

    name, target = "deeds-words", "bench_deeds.clean:Words"


class TableConfig(ModelConfig):
    """A table of next-letter scores."""

    name, target, capabilities = "deeds-table", "bench_deeds.clean:Table", {Stepper, Scorer}
    likelihoods: ClassVar = {"exact": Kind.EXACT}
    scale: float = 0.5


class BestConfig(DecoderConfig):
    """The most probable letter."""

    name, target, needs = "deeds-best", "bench_deeds.clean:Best", Stepper


class DrawnConfig(DecoderConfig):
    """A random letter."""

    name, target, needs = "deeds-drawn", "bench_deeds.clean:Drawn", Stepper


class ShapeConfig(MetricConfig):
    """A number that depends on much."""

    name, target = "deeds-shape", "bench_deeds.clean:Shape"


class NatsConfig(MetricConfig):
    """Nats per token."""

    name, target, needs = "deeds-nats", "bench_deeds.clean:Nats", Scorer
    by: str | None = None


class DeedTaskConfig(WordsConfig):
    """A task that does something besides."""

    name, target = "deed-task", "bench_deeds.parts:DeedTask"
    deed: str


class DeedModelConfig(TableConfig):
    """A model that does something besides."""

    name, target = "deed-model", "bench_deeds.parts:DeedModel"
    deed: str


class DeedDecoderConfig(BestConfig):
    """A decoder that does something besides."""

    name, target = "deed-decoder", "bench_deeds.parts:DeedDecoder"
    deed: str


class DeedMetricConfig(NatsConfig):
    """A metric that does something besides."""

    name, target = "deed-metric", "bench_deeds.parts:DeedMetric"
    deed: str


class DeedProbeConfig(ProbeConfig):
    """A probe that does something besides."""

    name, target = "deed-probe", "bench_deeds.parts:DeedProbe"
    deed: str


class ImportedTaskConfig(DeedTaskConfig):
    """A task whose module replaces a method of torch when it is imported."""

    name, target = "imported-task", "bench_deeds.imported.task:Doer"


class ImportedModelConfig(DeedModelConfig):
    """A model whose module replaces a function of torch when it is imported."""

    name, target = "imported-model", "bench_deeds.imported.model:Doer"


class ImportedDecoderConfig(DeedDecoderConfig):
    """A decoder whose module replaces a method of the core when it is imported."""

    name, target = "imported-decoder", "bench_deeds.imported.decoder:Doer"


class ImportedMetricConfig(DeedMetricConfig):
    """A metric whose module replaces a function of the standard library when it is imported."""

    name, target = "imported-metric", "bench_deeds.imported.metric:Doer"


class ImportedProbeConfig(DeedProbeConfig):
    """A probe whose module replaces a function of numpy when it is imported."""

    name, target = "imported-probe", "bench_deeds.imported.probe:Doer"


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    return [WordsConfig, DeedTaskConfig, ImportedTaskConfig]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    return [TableConfig, DeedModelConfig, ImportedModelConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    return [BestConfig, DrawnConfig, DeedDecoderConfig, ImportedDecoderConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    return [ShapeConfig, NatsConfig, DeedMetricConfig, ImportedMetricConfig]


@hookimpl
def bench_probes() -> list[type[ProbeConfig]]:
    return [DeedProbeConfig, ImportedProbeConfig]
