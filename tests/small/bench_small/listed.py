"""Parts whose settings name files, in every way in which settings can."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from bench_core import (
    DecoderConfig,
    Kind,
    Metric,
    MetricConfig,
    ModelConfig,
    Scorer,
    Settings,
    Stepper,
    TaskConfig,
    Vmappable,
    hookimpl,
)
from bench_small.parts import Argmax, Bigram, Letters


class Lists(Settings):
    one: Path | None = None
    many: list[Path] = []
    named: dict[str, Path | int] = {}


class FiledConfig(TaskConfig):
    """Words from a file; it leaves to the core to digest it."""

    name, target = "filed", "bench_small.listed:Filed"
    file: Path
    prefix: int = 1


class WeightedConfig(ModelConfig):
    """The table of next-letter scores, begun by a number in a file."""

    name, target = "weighted", "bench_small.listed:Weighted"
    capabilities, likelihoods = {Stepper, Scorer, Vmappable}, {"exact": Kind.EXACT}
    start: Path
    scale: float = 0.1
    breaks: ClassVar[str] = "never"
    counts: ClassVar[bool] = False


class CutConfig(DecoderConfig):
    """The most probable letters, at most as many as a file says."""

    name, target, needs = "cut", "bench_small.listed:Cut", Stepper
    length: Path


class ListedConfig(MetricConfig):
    """The share of outputs that stand in a list."""

    name, target = "listed", "bench_small.listed:Listed"
    words: Path | None = None
    lists: Lists = Lists()
    pairs: tuple[tuple[str, Path], ...] = Field(())


class Filed(Letters):
    pass


class Weighted(Bigram):
    def __init__(self, config, info):
        super().__init__(config, info)
        self.table.weight.data[:, 0] += float(config.start.read_text())


class Cut(Argmax):
    def decode(self, model, batch, rng):
        limited = self.config.model_copy(update={"max_tokens": int(self.config.length.read_text())})
        return Argmax(limited).decode(model, batch, rng)


class Listed(Metric):
    better, unit, signature = 1, "%", ""

    def measure(self, predictions):
        config = self.config
        every = [config.words, config.lists.one, *config.lists.many, *config.lists.named.values()]
        every += [path for _, path in config.pairs]
        words = {word for path in every if isinstance(path, Path) for word in path.read_text().split()}
        return [float(prediction.texts[0] in words) for prediction in predictions]

    def combine(self, parts):
        return 100 * sum(parts) / len(parts)


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    return [FiledConfig]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    return [WeightedConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    return [CutConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    return [ListedConfig]
