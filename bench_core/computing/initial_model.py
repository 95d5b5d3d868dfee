"""Initialization and storage of models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.computing.building import built, load_weights, store_weights
from bench_core.computing.context import StageContext
from bench_core.computing.loading import with_files
from bench_core.computing.result_checks import diverged
from bench_core.data import Purpose, TaskInfo
from bench_core.errors import TrainingError
from bench_core.random_numbers import Rng
from bench_core.stage_kinds import HISTORY
from bench_core.task import Size, Task

if TYPE_CHECKING:
    import torch


def own_generators(device: torch.device) -> AbstractContextManager[None]:
    """Return a context manager that restores torch's generators."""
    import torch

    return torch.random.fork_rng([device] if device.type == "cuda" else [])


def initial_model(
    context: StageContext, task: Task, info: TaskInfo, settings: Mapping[str, Any], size: Size, device: torch.device,
    rng: Rng,
) -> Any:  # fmt: skip
    """Return a model before its first update; torch's generator is left in the state after initialization.

    `settings` contain the settings of the `model` and the path of its `initial` weights, or None. The model may fit
    statistics of the training split, read in batches of `size`.
    """
    import torch

    torch.manual_seed(rng.fork("weights").key % 2**63)
    model_info = with_files(context, info, settings["model"])
    model = built("model", settings["model"], model_info).to(device)
    model.setup(model_info, rng.fork("setup"))
    survey = rng.fork("survey")
    model.fit_statistics(lambda: (batch.to(device) for batch in task.batches("train", Purpose.TRAIN, size)), survey)
    if settings["initial"]:
        load_weights(model, Path(settings["initial"]))
    return model


def store_model(
    model: Any, history: Sequence[Mapping[str, Any]], numbers: Mapping[str, int], folder: Path
) -> dict[str, Any]:
    """Write a model and its history; return counts for the costs, including the training `numbers`.

    Raises TrainingError if weights are not finite.
    """
    if wrong := diverged(model):
        if numbers.get("updates"):
            raise TrainingError(f"after training, {wrong}. Lower `lr`, set `clip`, or train in fp32.")
        raise TrainingError(f"before any training, {wrong}. Use other weights.")
    store_weights(model, folder)
    (folder / HISTORY).write_text("".join(json.dumps(entry) + "\n" for entry in history), encoding="utf-8")
    counts = {"parameters": sum(parameter.numel() for parameter in model.parameters()), **numbers}
    notes = dict(model.notes())
    summary = {**counts, "about": notes} if notes else counts
    (folder / "training.json").write_text(json.dumps(summary, ensure_ascii=False), encoding="utf-8")
    return counts
