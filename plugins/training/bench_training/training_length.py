"""The number of updates and evaluations in training, given the settings and the updates per epoch."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

EPOCHS = 10  #: default if neither `epochs` nor `updates` is set


@dataclass(frozen=True)
class PhaseLength:
    """The length of a phase, unless patience ends it earlier."""

    updates: int
    evaluations: int


def phases_of(training: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the phases of training; by default, one phase without settings."""
    return [*training.get("phases", ())] or [{}]


def training_length(training: Mapping[str, Any], updates_per_epoch: int) -> list[PhaseLength]:
    """Return the length of each phase; `training` is JSON data."""
    lengths, step = [], 0
    for phase in phases_of(training):
        updates = updates_of(training, phase, lambda: updates_per_epoch)
        lengths.append(PhaseLength(updates, _evaluations(training, step, updates, updates_per_epoch)))
        step += updates
    return lengths


def updates_of(training: Mapping[str, Any], phase: Mapping[str, Any], epoch: Callable[[], int]) -> int:
    """Return the number of updates of a phase: `updates`, or `epochs` times `epoch()`, whichever is smaller."""
    updates, epochs = phase.get("updates"), phase.get("epochs")
    if updates is None and epochs is None:
        updates, epochs = training.get("updates"), training.get("epochs")
    if updates is None and epochs is None:
        epochs = EPOCHS
    by_epochs = math.inf if epochs is None else epochs * max(1, epoch())
    return int(min(by_epochs, math.inf if updates is None else updates))


def _evaluations(training: Mapping[str, Any], first: int, updates: int, updates_per_epoch: int) -> int:
    """Return the number of evaluations of a phase: every `evaluate_every` updates or each epoch, and at its end."""
    if not updates:
        return 0 if not training.get("phases") else 1
    if training.get("evaluate_every"):
        every, last = int(training["evaluate_every"]), first + updates
        return last // every - first // every + (last % every > 0)
    return math.ceil(updates / max(1, updates_per_epoch))
