"""What the plugin offers: a Config for each part, called as its class in lower case with hyphens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from types import ModuleType

from bench_core import (
    Config,
    Decoder,
    DecoderConfig,
    Kind,
    Metric,
    MetricConfig,
    Model,
    ModelConfig,
    Sampler,
    Scorer,
    Source,
    Stepper,
    Task,
    TaskConfig,
    hookimpl,
)
from bench_mutants import decoders, harmful, metrics, models, sound, tasks, unusual
from bench_mutants.sound import Copies, Match, Reader


class WordsConfig(TaskConfig):
    """A task of words."""

    name, target = "sound-words", "bench_mutants.sound:Words"
    way: str = ""  #: of parts that do harm


class CopiesConfig(WordsConfig):
    """A task with a source."""

    name, target = "sound-copies", "bench_mutants.sound:Copies"
    source = Source.TOKENS


class TableConfig(ModelConfig):
    """A model that steps and scores."""

    name, target = "sound-table", "bench_mutants.sound:Table"
    capabilities = {Stepper, Scorer}
    likelihoods = {"exact": Kind.EXACT}
    way: str = ""


class ReaderConfig(TableConfig):
    """A model that reads a source."""

    name, target = "sound-reader", "bench_mutants.sound:Reader"
    sources = {Source.TOKENS}


class BoundedConfig(TableConfig):
    """A model with a bound."""

    name, target = "unusual-bounded", "bench_mutants.unusual:Bounded"
    likelihoods = {"below": Kind.BOUND}


class EstimatedConfig(TableConfig):
    """A model with an estimate."""

    name, target = "unusual-estimated", "bench_mutants.unusual:Estimated"
    likelihoods = {"about": Kind.ESTIMATE}


class TwoWaysConfig(TableConfig):
    """A model with both."""

    name, target = "unusual-two-ways", "bench_mutants.unusual:TwoWays"
    likelihoods = {"exact": Kind.EXACT, "below": Kind.BOUND}


class WholeConfig(ModelConfig):
    """A model that samples, and nothing else."""

    name, target = "unusual-whole", "bench_mutants.unusual:Whole"
    capabilities = {Sampler}


class GreedyConfig(DecoderConfig):
    """A decoder of steps."""

    name, target, needs = "sound-greedy", "bench_mutants.sound:Greedy", Stepper
    way: str = ""


class SamplingConfig(DecoderConfig):
    """A decoder of samples."""

    name, target, needs = "sound-draw", "bench_mutants.unusual:Ancestral", Sampler


class DeclaredNormalizedConfig(GreedyConfig):
    """A decoder whose log-probabilities are a token, as it declares."""

    name, target = "unusual-declared-normalized", "bench_mutants.unusual:DeclaredNormalized"

    def exempt(self) -> Mapping[str, str]:
        why = "log-probabilities are a token"
        return {"a_hypothesis_costs_what_its_chain_costs": why, "the_best_come_first": why}


class ScoreConfig(MetricConfig):
    """A metric without bounds."""

    name, target = "sound-length", "bench_mutants.sound:Length"
    way: str = ""


class ShareConfig(ScoreConfig):
    """A metric from 0 to 100."""

    name, target = "sound-match", "bench_mutants.sound:Match"

    def bounds(self) -> tuple[float, float]:
        return 0, 100


class ErrorRateConfig(ScoreConfig):
    """A metric in percent that may be above 100."""

    name, target = "unusual-error-rate", "bench_mutants.unusual:ErrorRate"

    def bounds(self) -> tuple[float, float]:
        return 0, inf


class CountConfig(ScoreConfig):
    """A metric that counts."""

    name, target = "unusual-count", "bench_mutants.unusual:Count"

    def is_count(self) -> bool:
        return True


class NatsConfig(MetricConfig):
    """A metric of likelihoods."""

    name, target, needs = "sound-nats", "bench_mutants.sound:Nats", Scorer
    by: str | None = None


class LeavingConfig(TableConfig):
    """A model whose module cannot be imported."""

    name, target = "leaving", "bench_mutants.leaving:Leaving"


def part_name(part: type) -> str:
    """Return what a suite calls a part: its class with hyphens, after the module of a mutant."""
    words = re.sub(r"(?<!^)(?=[A-Z])", "-", part.__name__).lower()
    return f"{part.__module__.rpartition('.')[2]}-{words}"


def _base(part: type) -> type[Config]:
    if issubclass(part, Task):
        return CopiesConfig if issubclass(part, Copies) else WordsConfig
    if issubclass(part, Model):
        return ReaderConfig if issubclass(part, Reader) else TableConfig
    if issubclass(part, Metric):
        bounded = issubclass(part, Match) and part is not metrics.AboveAll
        return ShareConfig if bounded else ScoreConfig
    return SamplingConfig if part.__orig_bases__[0] == Decoder[Sampler] else GreedyConfig


def _config(part: type) -> type[Config]:
    """Return the Config of a part; in keys, the code is that of the Config that it inherits."""
    base, target = _base(part), f"{part.__module__}:{part.__name__}"
    names = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": part.__doc__ or base.__doc__,
    }
    made = type(base)(base.__name__, (base,), {**names, "name": part_name(part), "target": target})
    return made


EXPLICIT = [
    WordsConfig, CopiesConfig, TableConfig, ReaderConfig, BoundedConfig, EstimatedConfig, TwoWaysConfig, WholeConfig,
    GreedyConfig, SamplingConfig, DeclaredNormalizedConfig, ScoreConfig, ShareConfig, ErrorRateConfig, CountConfig,
    NatsConfig,
    LeavingConfig,
]  # fmt: skip


def _parts(module: ModuleType) -> list[type]:
    declared = {config.target for config in EXPLICIT}
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    kinds = (Task, Model, Decoder, Metric)
    return [one for one in own if issubclass(one, kinds) and f"{one.__module__}:{one.__name__}" not in declared]


ALL: list[type[Config]] = [
    *EXPLICIT,
    *map(
        _config,
        [part for module in (sound, models, decoders, metrics, tasks, unusual, harmful) for part in _parts(module)],
    ),
]


def _of(kind: type[Config]) -> list[type[Config]]:
    return [one for one in ALL if issubclass(one, kind)]


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    return _of(TaskConfig)


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    return _of(ModelConfig)


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    return _of(DecoderConfig)


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    return _of(MetricConfig)
