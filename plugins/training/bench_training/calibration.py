"""Measures how long the pieces of a training take, and how much memory it needs, in seconds."""

import os
from collections.abc import Mapping
from typing import Any

import torch

from bench_core.computing.building import built
from bench_core.computing.context import StageContext
from bench_core.computing.loading import load_task, with_files
from bench_core.errors import TrainingError
from bench_core.planning.hardware import device_name
from bench_core.planning.stages import Stage
from bench_training import memory
from bench_training.excerpt import elements, share_of
from bench_training.speed import Memory, TrainingSpeed
from bench_training.stages import training_config
from bench_training.timed_training import FEWEST, Epoch, TimedTraining

LEAST = 1 / 16  #: of the rows of a batch, if that fits in memory: with much fewer, their cost is not proportional
ROOM = 0.7  #: of the available memory that updates may take


def calibrate(context: StageContext, stage: Stage, seconds: float) -> TrainingSpeed:
    """Return the speed of a training on its device; each phase is measured for about `seconds`.

    Batches that take longer, or do not fit in memory, are cut to fewer rows, to which their cost is taken to be
    proportional. Raises TrainingError if not even the weights fit.
    """
    load, plain = os.getloadavg()[0], weights_on_meta(context, stage)
    timed = TimedTraining(context, stage, seconds)
    with timed.setup.own_generators():
        _check_room(*plain[1:], timed.device)
        setup, epoch = timed.build(), timed.epoch()
        found = _memory(timed, epoch, *plain)
        size, most = epoch.elements / epoch.batches, _share_in_memory(found)
        runs = [(settings, *_updates(timed, settings, most, size)) for settings in timed.phases()]
        reading, share = timed.reading(), min(share for *_, share in runs)
        own = [next(one for one in runs if one[0] == settings) for settings in timed.every_phase()]
        return TrainingSpeed(
            device=device_name(timed.device.type), setup=setup, evaluation=timed.evaluation(share), memory=found,
            updates=tuple(seconds * size + reading for _, seconds, *_ in own), updates_per_epoch=epoch.batches,
            measured=min(updates for *_, updates, _ in own), share=share, cpu_rate=timed.cpu_rate, load=load,
        )  # fmt: skip


def _updates(timed: TimedTraining, settings: Mapping[str, Any], most: float, size: float) -> tuple[float, int, float]:
    """Time updates of a phase; return also the share of the rows, at most `most`, with which they fit in the time."""
    first, _ = timed.updates(settings, least := min(most, LEAST), 1)
    share = min(most, max(least, timed.budget / FEWEST / (first * size)))
    share = most if share > most / 2 else share
    return *timed.updates(settings, share), share


def weights_on_meta(context: StageContext, stage: Stage) -> tuple[Any, int, int]:
    """Return the model on the meta device, and the bytes of all weights and optimizer states of its training."""
    _, info = load_task(context, stage)
    settings = stage.settings["model"]
    with torch.device("meta"):
        model = built("model", settings, with_files(context, info, settings)).train()
    weights, optimizer = memory.weights_and_optimizer(model, training_config(stage.settings))
    seeds = len(stage.settings.get("together", ())) or 1
    return model, weights * seeds, optimizer * seeds


def _check_room(weights: int, optimizer: int, device: torch.device) -> None:
    """Raise TrainingError if weights, their gradients and the optimizer's state exceed the available memory."""
    needed, there = weights + weights // 2 + optimizer, memory.available(device)
    if needed > there:
        raise TrainingError(
            f"its weights and the optimizer's state need {needed / 1e9:.1f} GB, and {there / 1e9:.1f} GB are "
            "available. Train it on another device, or make the model smaller."
        )


def _memory(timed: TimedTraining, epoch: Epoch, model: Any, weights: int, optimizer: int) -> Memory:
    """Return what a training needs in all: by a dry run of its heaviest phase, else by two updates with few rows."""
    seeds = len(timed.stage.settings.get("together", ())) or 1
    try:
        update = seeds * max(memory.dry_run(model, epoch.largest, settings) for settings in timed.phases())
        counted = True
    except Exception:  # whatever a model raises that reads values of activations
        update, counted = _by_few_rows(timed, epoch.largest), False
    return Memory(
        weights=weights, optimizer=optimizer, update=update, available=memory.available(timed.device),
        by_dry_run=counted,
    )  # fmt: skip


def _by_few_rows(timed: TimedTraining, batch: Any) -> int:
    """Return the bytes of an update on a batch, on the line through those of two small parts of it."""
    few = share_of(batch, 1 / 64)
    more = share_of(batch, 2 * len(few) / len(batch))
    low, high = (timed.update_bytes(part) for part in (few, more))
    if elements(more) == elements(few):
        return low
    return int(low + max(0, high - low) / (elements(more) - elements(few)) * (elements(batch) - elements(few)))


def _share_in_memory(needed: Memory) -> float:
    """Return the share of the rows of a batch with which an update fits in the memory."""
    room = ROOM * (needed.available - needed.weights - needed.optimizer) / max(1, needed.update)
    return min(1.0, max(0.0, room))
