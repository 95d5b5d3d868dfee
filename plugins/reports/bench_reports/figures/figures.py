"""Computes the data of every figure of a suite: here those of line and scatter plots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from statistics import fmean
from typing import Any, TypeAlias

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.runs.results import SHORT, CellResult, Number, Run
from bench_core.suites.axes import TRAINING_AXES
from bench_core.suites.cells import join
from bench_core.suites.figure_schema import Figure
from bench_reports.content.cost_tables import Spent, cost_label
from bench_reports.content.tables import applicable, why_missing
from bench_reports.figures.figure_data import (
    FigureData,
    Names,
    Picture,
    Point,
    Series,
    Spot,
    axis_label,
    has_place,
    kind_of,
    with_unit,
)
from bench_reports.figures.heatmap import heat_picture
from bench_reports.figures.histograms import spread_picture
from bench_reports.statistics.intervals import summary

History: TypeAlias = Sequence[Mapping[str, Any]]  # the evaluations of one training
Curve: TypeAlias = Sequence[tuple[float, float]]  # places and values, of one seed


ELSEWHERE = "what stages cost differs from machine to machine, and is in costs.html alone."


def pictures(run: Run) -> list[Picture]:
    """Return every figure that the suite of a run declares; one that cannot be drawn says why.

    Those of costs depend on clocks, and say where they are.
    """
    figures = run.suite.figures
    return [Picture(one, empty=ELSEWHERE) if one.costs else _picture(FigureData(run, one)) for one in figures]


def cost_pictures(run: Run) -> list[Picture]:
    """Return the figures that show what stages cost."""
    return [_picture(FigureData(run, figure)) for figure in run.suite.figures if figure.costs]


def _picture(data: FigureData) -> Picture:
    try:
        found = _maker(data.figure.kind)(data)
    except SuiteError as error:
        return Picture(data.figure, cells=data.cells, missing=[*data.missing], empty=str(error))
    lack = "none of its cells has anything to draw." if data.cells else "the run has no cells for it."
    return replace(found, cells=data.cells, missing=[*data.missing], empty="" if found.series else lack)


def _maker(kind: str) -> Callable[[FigureData], Picture]:
    if kind in MAKERS:
        return MAKERS[kind]
    if brought := kind_of(kind):
        return brought.make
    raise SuiteError(f"no installed plugin draws figures of the kind {kind!r}.")


def line_picture(data: FigureData) -> Picture:
    """Return training curves; raise SuiteError if no history tells what is asked for."""
    figure = data.figure
    found = {names: list(_histories(data, cells)) for names, cells in data.groups.items()}
    histories = [history for group in found.values() for _, history in group]
    keys = list(dict.fromkeys(key for history in histories for entry in history for key in entry))
    if keys and figure.y not in keys:
        known = [key for key in keys if key not in ("step", "epoch", "best")]
        raise SuiteError(f"no training of this run tells its {figure.y!r}. {suggestion(figure.y, known)}")
    curves: dict[Names, list[Curve]] = defaultdict(list)
    for names, group in found.items():
        for one, history in group:
            if curve := _curve(history, figure.x, figure.y):
                curves[names].append(curve)
            else:
                lacks = not any(figure.y in entry for entry in history)
                reason = f"its history does not tell {figure.y}" if lacks else "it ended before its first epoch did"
                data.leave_out(one, reason)
    series = [Series(join(*names), list(_means(group)), len(group)) for names, group in curves.items()]
    x_label = {"step": "updates", "epoch": "epochs"}[figure.x]
    notes = [*_uneven(curves.values()), *_outside(series, figure)]
    return Picture(figure, series, x_label, _entry_label(data), notes=notes)


def _histories(data: FigureData, cells: Iterable[CellResult]) -> Iterator[tuple[CellResult, History]]:
    """Yield one cell of every training, and how that went."""
    for one in {tuple(one.cell.get(axis) for axis in (*TRAINING_AXES, "seed")): one for one in cells}.values():
        history = data.run.histories.get(one.artifacts.get("train", "")[:SHORT])
        if history:
            yield one, history
        else:
            data.leave_out(one, one.reason or "the run keeps no history of it; run the suite again")


def _curve(history: History, x: str, y: str) -> Curve:
    """Return the points of one training; none if it has not gone through an epoch, where those are counted.

    A history tells which epochs are over, not how far the next one is: the updates say that.
    """
    points = [(entry["step"], float(entry[y])) for entry in history if isinstance(entry.get(y), int | float)]
    if x == "step":
        return points
    updates = [entry["step"] / entry["epoch"] for entry in history if entry["epoch"]]  # of an epoch, at most
    return [(step / min(updates), value) for step, value in points] if updates else []


def _means(curves: Sequence[Curve]) -> Iterator[Point]:
    """Yield the mean of each evaluation by its turn, since seeds may be judged after different numbers of steps."""
    for points in _turns(curves):
        xs, found = [x for x, _ in points], summary([y for _, y in points])
        yield Point(xs[0] if len(set(xs)) == 1 else fmean(xs), found.mean, found.std, found.n)


def _turns(curves: Sequence[Curve]) -> list[Curve]:
    return [[point for point in turn if point is not None] for turn in zip_longest(*curves)]


def _uneven(groups: Iterable[Sequence[Curve]]) -> Iterator[str]:
    """Yield what readers must know of means over seeds that differ in when they are judged, or end."""
    several = list(groups)
    if any(len({len(curve) for curve in curves}) > 1 for curves in several):
        yield "Where some seeds end before others, the mean is over those that go on."
    if any(len({x for x, _ in turn}) > 1 for curves in several for turn in _turns(curves)):
        yield "Seeds are judged at different places; each point is at the mean of those."


def _outside(series: Iterable[Series], figure: Figure) -> Iterator[str]:
    for one in series:
        left = sum(not _has_place(figure, point.x, point.mean) for point in one.rows)
        if left:
            yield f"{one.label or figure.y}: {left} of {len(one.rows)} points are off the axes, such as infinities."


def _has_place(figure: Figure, x: float, y: float) -> bool:
    return has_place(x, figure.scales.x == "log") and has_place(y, figure.scales.y == "log")


def _entry_label(data: FigureData) -> str:
    """Return what a history tells, with its unit: that of the metric behind it, or per token for a loss."""
    name = data.figure.y
    if name.split()[-1] == "loss":
        return f"{name} (per token)"
    metrics = {metric for metric, part in data.run.suite.metrics.items() if name.endswith(f" {part.get('name')}")}
    units = {number.unit for one in data.run.cells for metric, number in one.numbers.items() if metric in metrics}
    return with_unit(name, Number(unit=units.pop() if len(units) == 1 else ""))


def scatter_picture(data: FigureData) -> Picture:
    """Return a point for each group, means over seeds that have both numbers, of metrics or of costs."""
    x, y, costs = data.figure.x, data.figure.y, data.figure.costs
    if unknown := {x, y}.difference(data.run.suite.metrics, costs):
        raise SuiteError(f"the run does not measure {' and '.join(sorted(unknown))}.")
    numbers = {metric: data.number(metric) for metric in (x, y) if metric not in costs}
    labels = [cost_label(name) if name in costs else axis_label([name], numbers) for name in (x, y)]
    spent, series, notes = Spent(data.run), [], [COSTED] if costs else []
    for names, cells in data.groups.items():
        pairs = list(_pairs(data, spent, applicable(data.run, applicable(data.run, cells, x), y)))
        if not pairs:
            continue
        across, along = (summary(values) for values in zip(*pairs, strict=True))
        spot = Spot(across.mean, across.std, along.mean, along.std, len(pairs))
        if _has_place(data.figure, spot.x, spot.y):
            series.append(Series(join(*names), [spot], len(pairs)))
        else:
            notes.append(f"{join(*names)} is off the axes, at {spot.x:g} and {spot.y:g}.")
    return Picture(data.figure, series, labels[0], labels[1], numbers, notes)


def _pairs(data: FigureData, spent: Spent, cells: Iterable[CellResult]) -> Iterator[tuple[float, float]]:
    figure = data.figure
    for one in cells:
        x, y = (_along(spent, one, name, name in figure.costs) for name in (figure.x, figure.y))
        if x is not None and y is not None:
            yield x, y
            continue
        lacking = figure.x if x is None else figure.y
        unknown = one.reason or f"the run does not tell its {cost_label(lacking)}" if lacking in figure.costs else ""
        data.leave_out(one, unknown or why_missing(one, lacking))


def _along(spent: Spent, one: CellResult, name: str, cost: bool) -> float | None:
    return spent.of(one, name) if cost else one.numbers.get(name, Number()).value


COSTED = "Costs are those of the machine where a stage was computed, whatever else it did then."
MAKERS: Mapping[str, Callable[[FigureData], Picture]] = {
    "histogram": spread_picture,
    "box": spread_picture,
    "line": line_picture,
    "scatter": scatter_picture,
    "heat": heat_picture,
}
