"""The order in which stages begin: the longest trainings first, so that none begins when all others have ended."""

from collections.abc import Mapping, Sequence
from statistics import median

from bench_core.planning.stages import Stage
from bench_upkeep.predictions import Predictions


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
    sizes = {one.key: forecast.rough_size(one.settings) for one in trainings if (forecast := one.about.forecaster)}
    rates = [seconds / sizes[key] for key, seconds in known.items() if seconds and sizes.get(key)]
    rate = median(rates) if rates else 1.0
    return {key: rate * sizes.get(key, 0.0) if seconds is None else seconds for key, seconds in known.items()}
