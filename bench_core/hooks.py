"""pluggy hooks: the parts that a plugin provides, and what it adds to runs and reports."""

from collections.abc import Sequence

from pluggy import HookimplMarker, HookspecMarker

from bench_core.config import (
    DecoderConfig,
    ExecutorConfig,
    MetricConfig,
    ModelConfig,
    ObserverConfig,
    ProbeConfig,
    TaskConfig,
)
from bench_core.sections import Section
from bench_core.stage_kinds import StageKind

API = 2  #: version of the interfaces; a plugin may give the first and last that it works with: `supports`

hookspec = HookspecMarker("bench")  #: marks a hook that a plugin defines; without arguments, one for Configs
hookimpl = HookimplMarker("bench")  #: marks functions of a plugin that answer a hook, such as `bench_models`


@hookspec
def bench_models() -> list[type[ModelConfig]]:
    """Return the model families that this plugin provides."""


@hookspec
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the decoders that this plugin provides."""


@hookspec
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the tasks that this plugin provides."""


@hookspec
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics that this plugin provides."""


@hookspec
def bench_probes() -> list[type[ProbeConfig]]:
    """Return the probes that this plugin provides."""


@hookspec
def bench_executors() -> list[type[ExecutorConfig]]:
    """Return the executors that this plugin provides."""


@hookspec
def bench_observers() -> list[type[ObserverConfig]]:
    """Return the observers that this plugin provides, which hear of runs while they are under way."""


@hookspec
def bench_stage_kinds(known: Sequence[str]) -> Sequence[StageKind]:
    """Return kinds of stages; `known` has the names of those of the core, which are taken."""


@hookspec
def bench_sections(api: int) -> list[Section]:
    """Return sections of suites that this plugin adds; `api` is the version of the interfaces here, `API`."""
