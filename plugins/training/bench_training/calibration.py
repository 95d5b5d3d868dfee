"""Measures within seconds how long the pieces of a training run take and how much memory it needs."""

import os
from collections.abc import Mapping
from typing import Any

import torch

from bench_core.computing.building import built_on_meta
from bench_core.computing.context import StageContext
from bench_core.computing.loading import load_task, with_files
from bench_core.errors import TrainingError
from bench_core.planning.hardware import device_name
from bench_core.planning.stages import Stage
from bench_training import memory
from bench_training.excerpt import elements, share_of
from bench_training.speed import TrainingMemory, TrainingSpeed
from bench_training.stages import training_config
from bench_training.timed_training import MIN_UPDATES, Epoch, TimedTraining

MIN_BATCH_SHARE = 1 / 16  #: share of rows, if they fit in memory; for much smaller shares, cost is not proportional
MAX_MEMORY_SHARE = 0.7  #: share of the available memory that updates may use


def calibrate(context: StageContext, stage: Stage, seconds: float) -> TrainingSpeed:
    """Return the speed of a training run on its device; each phase is measured for about `seconds`.

    Batches that take too long or do not fit in memory are truncated; cost is assumed to be proportional to rows.
    Raises TrainingError if even the weights do not fit.
    """
    load, on_meta = os.getloadavg()[0], weights_on_meta(context, stage)
    timed = TimedTraining(context, stage, seconds)
    with timed.setup.own_generators():
        _check_weights_fit(*on_meta[1:], timed.device)
        setup, epoch = timed.build(), timed.epoch()
        needed = _memory(timed, epoch, *on_meta)
        size, most = epoch.elements / epoch.batches, _share_in_memory(needed)
        runs = [(settings, *_updates(timed, settings, most, size)) for settings in timed.phases()]
        reading, share = timed.reading(), min(share for *_, share in runs)
        phases = [next(run for run in runs if run[0] == settings) for settings in timed.every_phase()]
        return TrainingSpeed(
            device=device_name(timed.device.type), setup=setup, evaluation=timed.evaluation(share), memory=needed,
            updates=tuple(seconds * size + reading for _, seconds, *_ in phases), updates_per_epoch=epoch.batches,
            measured=min(updates for *_, updates, _ in phases), share=share, cpu_rate=timed.cpu_rate, load=load,
        )  # fmt: skip


def _updates(timed: TimedTraining, settings: Mapping[str, Any], most: float, size: float) -> tuple[float, int, float]:
    """Time updates of a phase like `TimedTraining.updates`; also return the share of rows used (at most `most`)."""
    first, _ = timed.updates(settings, least := min(most, MIN_BATCH_SHARE), 1)
    share = min(most, max(least, timed.budget / MIN_UPDATES / (first * size)))
    share = most if share > most / 2 else share
    return *timed.updates(settings, share), share


def weights_on_meta(context: StageContext, stage: Stage) -> tuple[Any, int, int]:
    """Return the model on the meta device, and the bytes that its weights and optimizer state occupy in training."""
    _, info = load_task(context, stage)
    settings = stage.settings["model"]
    model = built_on_meta(settings, with_files(context, info, settings)).train()
    weights, optimizer = memory.weights_and_optimizer(model, training_config(stage.settings))
    seeds = len(stage.settings.get("vmapped", ())) or 1
    return model, weights * seeds, optimizer * seeds


def _check_weights_fit(weights: int, optimizer: int, device: torch.device) -> None:
    """Raise TrainingError if weights, gradients and optimizer state exceed the available memory."""
    needed, available = weights + weights // 2 + optimizer, memory.available(device)
    if needed > available:
        raise TrainingError(
            f"its weights and optimizer state need {needed / 1e9:.1f} GB, but only {available / 1e9:.1f} GB are "
            "available. Train it on another device, or make the model smaller."
        )


def _memory(timed: TimedTraining, epoch: Epoch, model: Any, weights: int, optimizer: int) -> TrainingMemory:
    """Return the memory that training needs, from a dry run of its heaviest phase, or else from two small updates."""
    seeds = len(timed.stage.settings.get("vmapped", ())) or 1
    try:
        update = seeds * max(memory.dry_run(model, epoch.largest, settings) for settings in timed.phases())
        counted = True
    except Exception:  # a model that reads activation values may raise anything
        update, counted = _by_few_rows(timed, epoch.largest), False
    return TrainingMemory(
        weights=weights, optimizer=optimizer, update=update, available=memory.available(timed.device),
        by_dry_run=counted,
    )  # fmt: skip


def _by_few_rows(timed: TimedTraining, batch: Any) -> int:
    """Return the bytes of an update on a batch, extrapolated linearly from two small parts of the batch."""
    few = share_of(batch, 1 / 64)
    more = share_of(batch, 2 * len(few) / len(batch))
    low, high = (timed.update_bytes(part) for part in (few, more))
    if elements(more) == elements(few):
        return low
    return int(low + max(0, high - low) / (elements(more) - elements(few)) * (elements(batch) - elements(few)))


def _share_in_memory(needed: TrainingMemory) -> float:
    """Return the share of a batch's rows for which an update fits in memory."""
    share = MAX_MEMORY_SHARE * (needed.available - needed.weights - needed.optimizer) / max(1, needed.update)
    return min(1.0, max(0.0, share))
