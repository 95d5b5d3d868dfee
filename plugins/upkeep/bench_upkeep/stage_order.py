"""Orders stages for parallel execution: longest training stages first, to shorten the total time."""

from collections.abc import Mapping, Sequence
from statistics import median

from bench_core.planning.stages import Stage
from bench_upkeep.cost_estimates import CostEstimates


def ranks(stages: Sequence[Stage], estimates: CostEstimates, side_by_side: int) -> dict[str, float]:
    """Return a rank for each stage, by key; of all stages that can start, the lowest rank starts first.

    Training stages come first, longest first; the stages that use them follow in the order of the plan, so that a
    loaded model serves several stages. Without parallelism, all stages keep the order of the plan, which completes
    cells early.
    """
    places = {stage.key: float(place) for place, stage in enumerate(stages)}
    if side_by_side < 2:
        return places
    trainings = [stage for stage in stages if stage.about.trains]
    length = _lengths(trainings, estimates)
    longest = sorted(trainings, key=lambda stage: (-length[stage.key], places[stage.key]))
    return places | {stage.key: float(place - len(longest)) for place, stage in enumerate(longest)}


def _lengths(trainings: Sequence[Stage], estimates: CostEstimates) -> Mapping[str, float]:
    """Return the predicted seconds of training stages; if unknown, estimate them from rough size and known rates."""
    known = {stage.key: estimates.of(stage).seconds for stage in trainings}
    sizes = {
        stage.key: forecast.rough_size(stage.settings) for stage in trainings if (forecast := stage.about.forecaster)
    }
    rates = [seconds / sizes[key] for key, seconds in known.items() if seconds and sizes.get(key)]
    rate = median(rates) if rates else 1.0
    return {key: rate * sizes.get(key, 0.0) if seconds is None else seconds for key, seconds in known.items()}
