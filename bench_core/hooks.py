"""pluggy hooks by which plugins provide parts and extend runs and reports."""

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

API = 2  #: interface version; a plugin may declare the first and last version it works with as `supports`

hookspec = HookspecMarker("bench")  #: marks a hook defined by a plugin; hooks without arguments collect Configs
hookimpl = HookimplMarker("bench")  #: marks a plugin's implementation of a hook, such as `bench_models`


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
    """Return the observers that this plugin provides."""


@hookspec
def bench_stage_kinds(known: Sequence[str]) -> Sequence[StageKind]:
    """Return the stage kinds that this plugin adds; `known` lists the core's names, which are reserved."""


@hookspec
def bench_sections(api: int) -> list[Section]:
    """Return the suite sections that this plugin adds; `api` is the core's interface version, `API`."""
