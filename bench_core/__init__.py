"""The core of a benchmark suite for neural sequence generation.

This module exports every public name. Names are imported on first use, so importing the package is cheap.
"""

# mypy: implicit-reexport
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

if TYPE_CHECKING:
    from bench_core.computing.guarded_log_probs import checked
    from bench_core.computing.result_checks import diverged
    from bench_core.config import UNSPACED, Config, DecoderConfig, ExecutorConfig, MetricConfig, ModelConfig
    from bench_core.config import ObserverConfig, PathOrName, ProbeConfig, Settings, TaskConfig, kinded
    from bench_core.data import STOP, Batch, TaskInfo, Hypothesis, Kind, Prediction, Prompt, Purpose, Source
    from bench_core.decoder import Decoder, TextDecoder
    from bench_core.errors import BenchError, DataError, PluginError, SuiteError
    from bench_core.execution.executor import Executor, Tell, await_artifact, carry_out, check_answer
    from bench_core.execution.failures import StageFailed
    from bench_core.execution.workers import Workers
    from bench_core.host_copies import (
        by_host,
        cached_on_host,
        knows_host_copy,
        on_host,
        remember,
        to_device,
        waits_for_device,
    )
    from bench_core.hooks import API, hookimpl, hookspec
    from bench_core.inspection import Inspection
    from bench_core.metric import Metric, Additive
    from bench_core.model import Generation, Loss, Model, OwnVocabulary, Sampler, Scorer, Scores, Scoring, Vmappable
    from bench_core.model import State, Stepper, TextGenerator, TextScore, TextScorer, Training
    from bench_core.observed_inputs import reads
    from bench_core.observer import Evaluation, Event, Hear, Number, Observer, RunEnded, RunStarted, StageEnded
    from bench_core.observer import StageStarted, TrainingEvent, TrainingName, TrainingStarted, Update
    from bench_core.observer import event_from_json, event_to_json
    from bench_core.random_numbers import Rng
    from bench_core.planning.plan import plan
    from bench_core.planning.stages import StageRequest
    from bench_core.probe import Finding, Premise, Probe, Statement
    from bench_core.registry import part, parts, suggestion
    from bench_core.tensor_rows import Rows
    from bench_core.runs.runner import Execution, run
    from bench_core.sections import Section
    from bench_core.stage_kinds import StageKind
    from bench_core.shared_draws import AGAIN, QUARTERS, estimates_of, sampling_error
    from bench_core.task import Size, Split, Task, TextSize
    from bench_core.thinking import Thinking, thinking_in, without_thinking
    from bench_core.generation_loop import as_hypothesis, draw, generate, invert, limits, topk_stable

_HOMES = {
    "thinking": ["Thinking", "thinking_in", "without_thinking"],
    "probe": ["Finding", "Premise", "Probe", "Statement"],
    "computing.guarded_log_probs": ["checked"],
    "computing.result_checks": ["diverged"],
    "config": [
        "Config", "DecoderConfig", "ExecutorConfig", "MetricConfig", "ModelConfig", "ObserverConfig", "PathOrName",
        "ProbeConfig", "Settings", "TaskConfig", "UNSPACED", "kinded",
    ],
    "data": ["STOP", "Batch", "TaskInfo", "Hypothesis", "Kind", "Prediction", "Prompt", "Purpose", "Source"],
    "decoder": ["Decoder", "TextDecoder"],
    "errors": ["BenchError", "DataError", "PluginError", "SuiteError"],
    "planning.plan": ["plan"],
    "planning.stages": ["StageRequest"],
    "execution.executor": ["Executor", "Tell", "await_artifact", "carry_out", "check_answer"],
    "execution.failures": ["StageFailed"],
    "execution.workers": ["Workers"],
    "inspection": ["Inspection"],
    "host_copies": [
        "by_host", "cached_on_host", "knows_host_copy", "on_host", "remember", "to_device", "waits_for_device",
    ],
    "hooks": ["API", "hookimpl", "hookspec"],
    "metric": ["Metric", "Additive"],
    "model": [
        "Generation", "Loss", "Model", "OwnVocabulary", "Sampler", "Scorer", "Scores", "Scoring", "State", "Stepper",
        "TextGenerator", "TextScore", "TextScorer", "Training", "Vmappable",
    ],
    "observed_inputs": ["reads"],
    "observer": [
        "Evaluation", "Event", "Hear", "Number", "Observer", "RunEnded", "RunStarted", "StageEnded", "StageStarted",
        "TrainingEvent", "TrainingName", "TrainingStarted", "Update", "event_from_json", "event_to_json",
    ],
    "random_numbers": ["Rng"],
    "registry": ["part", "parts", "suggestion"],
    "tensor_rows": ["Rows"],
    "runs.runner": ["Execution", "run"],
    "sections": ["Section"],
    "stage_kinds": ["StageKind"],
    "shared_draws": ["AGAIN", "QUARTERS", "estimates_of", "sampling_error"],
    "task": ["Size", "Split", "Task", "TextSize"],
    "generation_loop": ["as_hypothesis", "draw", "generate", "invert", "limits", "topk_stable"],
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME]

#: Deprecated names, moved to bench-notebook; removed in the next release.
_MOVED = ("LoadedRun", "StoredOutcomes", "TrainedModel", "evaluate", "load")
#: Former names; removed in the next release.
_RENAMED = {
    "Noise": "Rng", "Outcome": "Prediction", "StoredOutcomes": "StoredPredictions", "kept_on_host": "cached_on_host",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        from bench_core.errors import Fault
        from bench_core.optional import NOTEBOOK, optional_module

        text: Fault = f"import {name} from bench_notebook; importing it from bench_core is deprecated"
        warn(text, DeprecationWarning, stacklevel=2)
        return getattr(optional_module(NOTEBOOK, "", f"bench_core.{name}"), _RENAMED.get(name, name))
    if name in _RENAMED:
        from bench_core.former_names import warn_of_former

        warn_of_former(f"bench_core.{name}", _RENAMED[name])
        name = _RENAMED[name]
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
