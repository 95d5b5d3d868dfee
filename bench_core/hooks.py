"""The six questions that the core asks every plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pluggy import HookimplMarker, HookspecMarker

if TYPE_CHECKING:
    from bench_core.config import (
        CertificateConfig,
        DecoderConfig,
        ExecutorConfig,
        MetricConfig,
        ModelConfig,
        TaskConfig,
    )

hookspec = HookspecMarker("bench")
hookimpl = HookimplMarker("bench")


@hookspec
def bench_models() -> list[type[ModelConfig]]:
    """Return the model families that this plugin offers."""
    raise NotImplementedError


@hookspec
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the decoders that this plugin offers."""
    raise NotImplementedError


@hookspec
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the tasks that this plugin offers."""
    raise NotImplementedError


@hookspec
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics that this plugin offers."""
    raise NotImplementedError


@hookspec
def bench_certificates() -> list[type[CertificateConfig]]:
    """Return the certificates that this plugin offers."""
    raise NotImplementedError


@hookspec
def bench_executors() -> list[type[ExecutorConfig]]:
    """Return the executors that this plugin offers."""
    raise NotImplementedError
