"""Measurements of a run, as input of statistics."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log
from typing import TYPE_CHECKING

import numpy as np

from bench_core.stage_kinds import weights_of
from bench_reports.statistics.estimate import Estimate, Measured, contrast
from bench_reports.statistics.shares import Share, share_of
from block_bootstrap import BLOCKS

if TYPE_CHECKING:
    from bench_core.runs.results import CellResult, Run, Score

OLDER = "measured by an older version that stored no data for tests: run the suite again"
NO_DRAWS = "the run stores no bootstrap replicates: run the suite again"
NOT_FINITE = "not all numbers of its seeds and replicates are finite"
#: Share of training runs that may be of a kind that two runs do not show, with 90 % confidence
UNSEEN = 1 - 0.1**0.5
MAX_NUMBER = 1e150  #: variances of larger numbers overflow
TOO_LARGE = "some of its numbers are so large that their variance overflows"


def measured(run: Run, cells: Sequence[CellResult], metric: str) -> Measured | str:
    """Return a metric of cells that differ only in the seed, or the reason why nothing can be tested."""
    numbers = [result.numbers[metric] for result in cells]
    first, keys = numbers[0], [result.artifacts.get(f"measure/{metric}", "") for result in cells]
    if not all(number.scale for number in numbers):
        return OLDER
    whole = not any(number.units for number in numbers)
    if not whole and not all(key in run.draws for key in keys):
        return NO_DRAWS
    samples = {number.sample for number in numbers}
    if len(samples) > 1:
        return "its seeds were measured on different examples"
    values = np.array([float(number.value or 0) for number in numbers])
    draws = np.zeros((len(cells), 0)) if whole else np.stack([run.draws[key] for key in keys])
    with np.errstate(all="ignore"):
        values, draws = (np.log(some) if first.scale == "log" else some for some in (values, draws))
    if not (np.isfinite(values).all() and np.isfinite(draws).all()):
        return NOT_FINITE
    if max(np.abs(values).max(), np.abs(draws).max(initial=0.0)) > MAX_NUMBER:
        return TOO_LARGE
    trainings = tuple(weights_of(result.artifacts) for result in cells)
    return Measured(
        values, None if whole else draws, units=first.units or float("inf"), blocks=BLOCKS[: draws.shape[1]],
        block=max(number.block for number in numbers), sample=samples.pop() or None,
        training=trainings if all(trainings) else None, trained=_is_trained(run, cells[0]),
        error=max(_error(number) for number in numbers), scale=first.scale or "linear", bounds=_bounds(numbers),
    )  # fmt: skip


def _bounds(numbers: Sequence[Score]) -> tuple[float, float]:
    """Return the bounds of numbers on the scale of their tests: declared, or implied by a share or perplexity."""
    scale = numbers[0].scale
    declared = [number.bounds for number in numbers if number.bounds]
    low = min((low for low, _ in declared), default=0.0 if scale in ("share", "log") else -inf)
    high = max((high for _, high in declared), default=100.0 if scale == "share" else inf)
    if scale != "log":
        return low, high
    return log(low) if low > 0 else -inf, log(high) if high > 0 else inf


def _error(number: Score) -> float:
    """Return the standard error of a number itself, on the scale of its tests."""
    return number.error / abs(number.value) if number.scale == "log" and number.value else number.error


def _is_trained(run: Run, result: CellResult) -> bool:
    """Return whether seeds may change a model: it has or may have parameters, and is not a fixed system."""
    about = (run.info.get("models") or {}).get(str(result.cell.get("model")), {})
    return bool(about.get("parameters", 1)) and not about.get("one_system")


def alone(measurement: Measured) -> Estimate | Share:
    """Return the estimate of a single measurement, exact for a share of examples."""
    return share_of(measurement) or contrast([measurement], [1.0])


def interval_of(measurement: Measured) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean over seeds on the scale of the metric, or None.

    None if nothing varies, and for training runs that differ in kind. With one seed, it covers other examples for
    this training run alone. For a share in two runs, it allows for a kind of run that neither of them shows.
    """
    if measurement.is_mixed:
        return None
    estimate = alone(measurement)
    if isinstance(estimate, Estimate) and not (estimate.varies or estimate.floor.variance):
        return None
    low, high = printed(measurement.scale, estimate.interval())
    if len(measurement.values) == 2 and measurement.trained and measurement.scale == "share":
        low, high = low - UNSEEN * low, high + UNSEEN * (100.0 - high)
    return low, high


def printed(scale: str, interval: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of an interval on the scale of the metric."""
    low, high = interval
    return (_exp(low), _exp(high)) if scale == "log" else (low, high)


def _exp(value: float) -> float:
    return exp(value) if value < log(np.finfo(float).max) else float("inf")
