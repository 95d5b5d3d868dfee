"""Measurements of a run, as statistics take them."""

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
    from bench_core.runs.results import CellResult, Number, Run

OLDER = "measured by an older version, without what tests need: run the suite again"
NO_DRAWS = "the run keeps no draws of its examples: run the suite again"
NOT_FINITE = "not all numbers of its seeds and draws are finite"
#: Share of trainings that may be of a kind of which two trainings show none, with 90 % confidence
UNSEEN = 1 - 0.1**0.5
LARGEST = 1e150  #: whose variance is a number
TOO_LARGE = "some of its numbers are so large that their variance is none"


def measured(run: Run, cells: Sequence[CellResult], metric: str) -> Measured | str:
    """Return a metric of cells that differ in the seed alone, or why nothing can be tested."""
    numbers = [one.numbers[metric] for one in cells]
    first, keys = numbers[0], [one.artifacts.get(f"measure/{metric}", "") for one in cells]
    if not all(number.scale for number in numbers):
        return OLDER
    whole = not any(number.units for number in numbers)
    if not whole and not all(key in run.draws for key in keys):
        return NO_DRAWS
    samples = {number.sample for number in numbers}
    if len(samples) > 1:
        return "its seeds are of different examples"
    values = np.array([float(number.value or 0) for number in numbers])
    draws = np.zeros((len(cells), 0)) if whole else np.stack([run.draws[key] for key in keys])
    with np.errstate(all="ignore"):
        values, draws = (np.log(some) if first.scale == "log" else some for some in (values, draws))
    if not (np.isfinite(values).all() and np.isfinite(draws).all()):
        return NOT_FINITE
    if max(np.abs(values).max(), np.abs(draws).max(initial=0.0)) > LARGEST:
        return TOO_LARGE
    trainings = tuple(weights_of(one.artifacts) for one in cells)
    return Measured(
        values,
        None if whole else draws,
        units=first.units or float("inf"),
        blocks=BLOCKS[: draws.shape[1]],
        block=max(number.block for number in numbers),
        sample=samples.pop() or None,
        training=trainings if all(trainings) else None,
        trained=_is_trained(run, cells[0]),
        error=max(_error(number) for number in numbers),
        scale=first.scale or "linear",
        bounds=_bounds(numbers),
    )


def _bounds(numbers: Sequence[Number]) -> tuple[float, float]:
    """Return the bounds of numbers on the scale of their tests: declared, or those of all shares and perplexities."""
    scale = numbers[0].scale
    declared = [number.bounds for number in numbers if number.bounds]
    low = min((low for low, _ in declared), default=0.0 if scale in ("share", "log") else -inf)
    high = max((high for _, high in declared), default=100.0 if scale == "share" else inf)
    if scale != "log":
        return low, high
    return log(low) if low > 0 else -inf, log(high) if high > 0 else inf


def _error(number: Number) -> float:
    """Return the error of a number of its own, on the scale of its tests."""
    return number.error / abs(number.value) if number.scale == "log" and number.value else number.error


def _is_trained(run: Run, one: CellResult) -> bool:
    """Return whether seeds may change a model: it has parameters, or nobody knows, and is not one system."""
    about = (run.info.get("models") or {}).get(str(one.cell.get("model")), {})
    return bool(about.get("parameters", 1)) and not about.get("one_system")


def alone(one: Measured) -> Estimate | Share:
    """Return the estimate of a single measurement: an exact one of a share of examples."""
    return share_of(one) or contrast([one], [1.0])


def interval_of(one: Measured) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean over seeds, as it is printed; None where there is none.

    There is none where nothing varies, and of trainings that differ in kind. With one seed it is about other examples
    for this training alone. Of two trainings with a share, it allows for a kind that neither is of.
    """
    if one.is_mixed:
        return None
    found = alone(one)
    if isinstance(found, Estimate) and not (found.varies or found.floor.variance):
        return None
    low, high = printed(one.scale, found.interval())
    if len(one.values) == 2 and one.trained and one.scale == "share":
        low, high = low - UNSEEN * low, high + UNSEEN * (100.0 - high)
    return low, high


def printed(scale: str, interval: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of an interval on the scale of the numbers."""
    low, high = interval
    return (_exp(low), _exp(high)) if scale == "log" else (low, high)


def _exp(value: float) -> float:
    return exp(value) if value < log(np.finfo(float).max) else float("inf")
