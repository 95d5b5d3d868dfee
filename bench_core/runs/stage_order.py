"""The order in which stages begin: the longest trainings first, so that none begins when all others have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from bench_core.planning.stages import Stage
from bench_core.planning.training_length import training_length
from bench_core.runs.predictions import Predictions

EPOCH = 1000  #: updates, where the data are not known
AUTO = 256  #: the size of batches that are to fill the memory


def ranks(stages: Sequence[Stage], predictions: Predictions, side_by_side: int) -> dict[str, float]:
    """Return a rank for each stage, by key; of stages that can begin, the one of lowest rank does.

    Trainings are first, the longest of them before others; what reads them follows in the order of the plan, so that
    a loaded model serves several stages. One at a time, all stages keep that order: cells are complete early.
    """
    places = {stage.key: float(place) for place, stage in enumerate(stages)}
    if side_by_side < 2:
        return places
    trainings = [stage for stage in stages if stage.about.trains]
    length = _lengths(trainings, predictions)
    longest = sorted(trainings, key=lambda stage: (-length[stage.key], places[stage.key]))
    return places | {stage.key: float(place - len(longest)) for place, stage in enumerate(longest)}


def _lengths(trainings: Sequence[Stage], predictions: Predictions) -> Mapping[str, float]:
    """Return the predicted seconds of trainings, those that are unknown by their rough size beside known ones."""
    known = {stage.key: predictions.of(stage).seconds for stage in trainings}
    sizes = {stage.key: rough_size(stage.settings) for stage in trainings}
    rates = [seconds / sizes[key] for key, seconds in known.items() if seconds and sizes[key]]
    rate = median(rates) if rates else 1.0
    return {key: rate * sizes[key] if seconds is None else seconds for key, seconds in known.items()}


def rough_size(settings: Mapping[str, Any]) -> float:
    """Return a number that grows with the cost of a training, by its settings alone: for an order, not for a time.

    It is the number of updates, times the size of a batch, times the squares of the sizes in the model's settings.
    """
    training = settings.get("training", {})
    updates = sum(one.updates for one in training_length(training, EPOCH))
    sizes = [value for value in settings.get("model", {}).values() if type(value) is int]
    batch = training.get("batch_size", 1)
    return updates * float(AUTO if batch == "auto" else batch) * (1.0 + sum(value * value for value in sizes))
