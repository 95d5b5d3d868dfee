"""A small core for benchmarks of neural sequence generation.

Every name that a plugin may import is listed here; names load on first use, so importing the package is free.
"""

# mypy: implicit-reexport
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_core.computing.guarded_log_probs import checked
    from bench_core.computing.guards import diverged
    from bench_core.config import Config, DecoderConfig, ExecutorConfig, MetricConfig, ModelConfig, ProbeConfig
    from bench_core.config import Settings, TaskConfig, kinded
    from bench_core.data import STOP, Batch, TaskInfo, Hypothesis, Kind, Outcome, Purpose, Source
    from bench_core.decoder import Decoder
    from bench_core.errors import BenchError, DataError, PluginError, SuiteError
    from bench_core.execution.executor import Executor, StageFailed, Tell, await_artifact, carry_out, check_answer
    from bench_core.execution.workers import Workers
    from bench_core.hooks import API, hookimpl, hookspec
    from bench_core.metric import Metric, Additive
    from bench_core.model import Loss, Model, Sampler, Scorer, Scores, Scoring, Vmappable, State, Stepper, Training
    from bench_core.random_numbers import Noise
    from bench_core.planning.plan import plan
    from bench_core.planning.stages import StageRequest
    from bench_core.probe import Finding, Premise, Probe, Statement
    from bench_core.registry import part, parts, suggestion
    from bench_core.tensor_rows import Rows
    from bench_core.runs.runner import run
    from bench_core.shared_draws import AGAIN, QUARTERS, estimates_of, sampling_error
    from bench_core.task import Size, Split, Task, TextSize
    from bench_core.generation_loop import as_hypothesis, draw, generate, invert, limits, topk_stable

_HOMES = {
    "probe": ["Finding", "Premise", "Probe", "Statement"],
    "computing.guarded_log_probs": ["checked"],
    "computing.guards": ["diverged"],
    "config": [
        "Config", "DecoderConfig", "ExecutorConfig", "MetricConfig", "ModelConfig", "ProbeConfig", "Settings",
        "TaskConfig", "kinded",
    ],
    "data": ["STOP", "Batch", "TaskInfo", "Hypothesis", "Kind", "Outcome", "Purpose", "Source"],
    "decoder": ["Decoder"],
    "errors": ["BenchError", "DataError", "PluginError", "SuiteError"],
    "planning.plan": ["plan"],
    "planning.stages": ["StageRequest"],
    "execution.executor": ["Executor", "StageFailed", "Tell", "await_artifact", "carry_out", "check_answer"],
    "execution.workers": ["Workers"],
    "hooks": ["API", "hookimpl", "hookspec"],
    "metric": ["Metric", "Additive"],
    "model": ["Loss", "Model", "Sampler", "Scorer", "Scores", "Scoring", "State", "Stepper", "Training", "Vmappable"],
    "random_numbers": ["Noise"],
    "registry": ["part", "parts", "suggestion"],
    "tensor_rows": ["Rows"],
    "runs.runner": ["run"],
    "shared_draws": ["AGAIN", "QUARTERS", "estimates_of", "sampling_error"],
    "task": ["Size", "Split", "Task", "TextSize"],
    "generation_loop": ["as_hypothesis", "draw", "generate", "invert", "limits", "topk_stable"],
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
