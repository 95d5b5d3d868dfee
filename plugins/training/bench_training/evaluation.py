"""Scores weights during training: by a metric, or by the training loss on a split."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from bench_core.computing.result_checks import check_loss
from bench_core.data import Purpose
from bench_core.errors import TrainingError
from bench_core.model import Training
from bench_core.random_numbers import Rng
from bench_core.task import Size, Task
from bench_training.log import Average


@dataclass(frozen=True)
class Selection:
    """A score for checkpoint selection or early stopping; higher (+1) or lower (-1) is better."""

    judge: Callable[[Any], float]
    better: int
    name: str


def mean_loss(
    model: Any, task: Task, split: str, size: Size, rng: Rng, device: torch.device, smoothing: float = 0.0
) -> float:
    """Return the training loss per target token on a split, for a model in evaluation mode."""
    average, memory = Average(), None
    for step, batch in enumerate(task.batches(split, Purpose.TRAIN, size)):
        carried = memory if batch.continues else None
        training = Training(0, 1, 0, 1, rng.fork(step), carried, label_smoothing=smoothing)
        loss = model.loss(batch.to(device), training)
        check_loss(loss, model)
        memory = loss.memory
        average.add(loss)
    if not average.totals:
        raise TrainingError(f"the split {split!r} has no batches. Is it empty?")
    return average.values()["loss"]
