"""Means over seeds, the ends of their bands and error bars, and notes that explain them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from bench_core.metric import Scale
from bench_core.runs.results import CellResult, Run
from bench_reports.content.sorting import seed_of
from bench_reports.statistics.intervals import summary

if TYPE_CHECKING:
    from bench_reports.figures.figure_data import Picture

Spread: TypeAlias = Literal["interval", "std", "none"]
Ends: TypeAlias = tuple[float, float]

#: Possible values of metrics, by scale
RANGES: Mapping[Scale | Literal[""], Ends] = {"share": (0.0, 100.0), "log": (0.0, inf)}
INTERVAL_NAMES = {"line": "bands", "survival": "bands", "bar": "error bars", "scatter": "error bars"}


class SeedMean(NamedTuple):
    """The mean of a metric over seeds, its standard deviation, and the ends of its band or error bar, if any."""

    mean: float
    std: float | None
    low: float | None
    high: float | None
    seeds: int


def mean_of_cells(run: Run, cells: Sequence[CellResult], metric: str, spread: Spread) -> tuple[SeedMean, str]:
    """Return a metric's mean over cells that differ only in the seed, and, if it has no interval, the reason.

    Intervals are as in tables: over seeds and examples, or with one seed, over the examples of that training run.
    """
    from bench_reports.statistics.measurements import interval_of, measured

    cells = sorted(cells, key=seed_of)
    values = [float(result.numbers[metric].value or 0) for result in cells]
    if spread != "interval":
        return mean_of_values(values, cells[0].numbers[metric].scale, spread), ""
    known = measured(run, cells, metric)
    if isinstance(known, str):
        return _with_ends(values, None), known
    return _with_ends(values, interval_of(known)), ""


def mean_of_values(values: Sequence[float], scale: Scale | Literal[""], spread: Spread) -> SeedMean:
    """Return the mean over seeds of values that vary with seeds alone, such as those of a training curve.

    There is no spread for a single seed, or if any value is infinite or undefined.
    """
    if spread == "none" or len(values) < 2 or not all(map(isfinite, values)):
        return _with_ends(values, None)
    if spread == "interval":
        return _with_ends(values, _interval(values, scale))
    moments, (lowest, highest) = summary(values), RANGES.get(scale, (-inf, inf))
    reach = moments.std or 0.0
    return _with_ends(values, (max(moments.mean - reach, lowest), min(moments.mean + reach, highest)))


def _interval(values: Sequence[float], scale: Scale | Literal[""]) -> Ends | None:
    import numpy as np

    from bench_reports.statistics.estimate import Measured
    from bench_reports.statistics.measurements import interval_of

    if scale == "log" and min(values) <= 0:
        return None
    series = np.log(values) if scale == "log" else np.array(values, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        ends = interval_of(Measured(series, scale=scale or "linear"))
    if ends is None or not all(end == end for end in ends):
        return None
    lowest, highest = RANGES.get(scale, (-inf, inf))
    return max(ends[0], lowest), min(ends[1], highest)


def _with_ends(values: Sequence[float], ends: Ends | None) -> SeedMean:
    moments = summary(values)
    low, high = ends or (None, None)
    return SeedMean(moments.mean, moments.std, low, high, moments.n)


def variation(picture: Picture, trained: bool) -> str:
    """Return a note that explains means and the bands or error bars around them."""
    shown, rows = INTERVAL_NAMES[picture.figure.kind], [row for group in picture.series for row in group.rows]
    drawn = any(getattr(row, end, None) is not None for row in rows for end in ("low", "x_low", "y_low"))
    seeds = {row.seeds for row in rows if row.seeds}
    if max(seeds) < 2:
        if drawn:
            return f"One seed: {shown} are 95 % intervals over examples{', for this training run only' * trained}."
        return f"One seed: no {shown}, because the variation over seeds is unknown."
    counted = " to ".join(f"{number:,}" for number in sorted({min(seeds), max(seeds)}))
    if picture.figure.spread == "none" or not drawn:
        return f"Means over {counted} seeds."
    if picture.figure.spread == "std":
        return f"Means over {counted} seeds; {shown} show one standard deviation over seeds."
    what = "over seeds and examples, as in tables" if picture.tested else "over seeds, for the same examples"
    alone = "; with one seed, over examples only" if picture.tested and min(seeds) == 1 else ""
    return f"Means over {counted} seeds; {shown} are 95 % intervals {what}{alone}."
