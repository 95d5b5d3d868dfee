"""The progress of a training: what a checkpoint has besides weights, optimizers and generators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Progress:
    """The progress of a training: all state besides weights and optimizer."""

    planned: list[int] = field(default_factory=list)  # updates of each phase
    batch_size: int = 0  # found by `batch_size: auto`
    epoch_length: int = 0  # batches of an epoch, once counted
    phase: int = 0
    step: int = 0
    first: int = 0  # step at which the phase began
    epoch: int = 0
    batch: int = 0  # batches of the epoch that are done
    best: float | None = None
    stale: int = 0  # evaluations without progress
    stop_best: float | None = None  # of the metric to stop by
    stop_stale: int = 0  # evaluations without progress in that
    history: list[dict[str, Any]] = field(default_factory=list)
