"""Data of training curves, from the histories of a run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Any, TypeAlias

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.runs.results import KEY_CHARACTERS, CellResult, Score
from bench_core.stage_kinds import weights_of
from bench_core.suites.axes import TRAINING_AXES
from bench_reports.figures.error_bars import mean_of_values
from bench_reports.figures.figure_data import FigureData, Names, Picture, Point, Series, has_place, with_unit

History: TypeAlias = Sequence[Mapping[str, Any]]  # the evaluations of one training run
Curve: TypeAlias = Sequence[tuple[float, float]]  # places and values of one seed


def history_picture(data: FigureData) -> Picture:
    """Return training curves; raise SuiteError if no history contains the entry of the figure."""
    figure = data.figure
    several = [((panel, names), cells) for panel, groups in data.panels.items() for names, cells in groups.items()]
    histories = {place: [*_histories(data, cells)] for place, cells in several}
    keys = dict.fromkeys(
        key for group in histories.values() for _, history in group for entry in history for key in entry
    )
    if keys and figure.y not in keys:
        known = [key for key in keys if key not in ("step", "epoch", "best")]
        raise SuiteError(f"no training history of this run contains {figure.y!r}. {suggestion(figure.y, known)}")
    series, groups = [], []
    for (panel, names), group in histories.items():
        if curves := [*_curves(data, group)]:
            groups.append(curves)
            series.append(_series(data, panel, names, curves))
    x_label = figure.labels.get("x") or {"step": "updates", "epoch": "epochs"}[figure.x]
    notes = [*_uneven(groups), *outside(data, series)]
    return Picture(figure, series, x_label, figure.labels.get("y") or _entry_label(data), notes=notes)


def _histories(data: FigureData, cells: Iterable[CellResult]) -> Iterator[tuple[CellResult, History]]:
    """Yield one cell of every training run, with its history."""
    for result in {
        tuple(result.cell.get(axis) for axis in (*TRAINING_AXES, "seed")): result for result in cells
    }.values():
        history = data.run.histories.get(weights_of(result.artifacts)[:KEY_CHARACTERS])
        if history:
            yield result, history
        else:
            data.leave_out(result, result.reason or "the run stores no history of it; run the suite again")


def _curves(data: FigureData, group: Iterable[tuple[CellResult, History]]) -> Iterator[Curve]:
    """Yield the curve of each seed of a group."""
    figure = data.figure
    for result, history in group:
        if curve := _curve(history, figure.x, figure.y):
            yield curve
        else:
            lacks = not any(figure.y in entry for entry in history)
            reason = (
                f"its history does not contain {figure.y}" if lacks else "it ended before its first epoch was over"
            )
            data.leave_out(result, reason)


def _curve(history: History, x: str, y: str) -> Curve:
    """Return the points of one training run; if x is the epoch, there are none before the first epoch ends.

    A history records completed epochs only; the progress within an epoch is computed from the updates.
    """
    points = [(entry["step"], float(entry[y])) for entry in history if isinstance(entry.get(y), int | float)]
    if x == "step":
        return points
    updates = [entry["step"] / entry["epoch"] for entry in history if entry["epoch"]]  # updates per epoch, at most
    return [(step / min(updates), value) for step, value in points] if updates else []


def _series(data: FigureData, panel: str, names: Names, curves: Sequence[Curve]) -> Series:
    """Return the mean of each evaluation by its index, since seeds may be evaluated after different updates."""
    points, scale = [], _metric_behind(data).scale
    for turn in _turns(curves):
        xs, average = [x for x, _ in turn], mean_of_values([y for _, y in turn], scale, data.figure.spread)
        points.append(Point(xs[0] if len(set(xs)) == 1 else fmean(xs), *average))
    return Series(data.label(names), points, len(curves), panel=panel)


def _turns(curves: Sequence[Curve]) -> list[Curve]:
    return [[point for point in turn if point is not None] for turn in zip_longest(*curves)]


def _uneven(groups: Iterable[Sequence[Curve]]) -> Iterator[str]:
    """Yield notes on means over seeds that are evaluated at, or end at, different points."""
    several = list(groups)
    if any(len({len(curve) for curve in curves}) > 1 for curves in several):
        yield "Where some seeds end before others, means are over the remaining seeds."
    if any(len({x for x, _ in turn}) > 1 for curves in several for turn in _turns(curves)):
        yield "Seeds are evaluated at different steps; each point is drawn at their mean."


def outside(data: FigureData, series: Iterable[Series]) -> Iterator[str]:
    """Yield notes on the number of points of each series that the axes cannot show."""
    scales = data.figure.scales
    for group in series:
        known = [point for point in group.rows if point.mean is not None]
        places = [
            (isinstance(point.x, str) or has_place(point.x, scales.x == "log"))
            and has_place(point.mean, scales.y == "log")
            for point in known
        ]
        if left := places.count(False):
            name = "/".join(filter(None, [group.panel, group.label])) or data.figure.y
            yield f"{name}: {left} of {len(known)} points are off the axes, such as infinite values."


def _entry_label(data: FigureData) -> str:
    """Return an entry of a history with the unit of the metric behind it; losses are per token."""
    name = data.figure.y.replace("_", " ")
    if name.split()[-1] == "loss":
        return f"{name} (per token)"
    return with_unit(name, _metric_behind(data))


def _metric_behind(data: FigureData) -> Score:
    """Return a number with the unit and the scale of the metric behind a history entry, if known."""
    parts, name = data.run.suite.metrics.items(), data.figure.y
    metrics = {metric for metric, part in parts if name.endswith(f" {part.get('name')}")}
    numbers = [number for result in data.run.cells for metric, number in result.numbers.items() if metric in metrics]
    about = {(number.unit, number.scale) for number in numbers if number.value is not None}
    unit, scale = about.pop() if len(about) == 1 else ("", "")
    return Score(unit=unit, scale=scale)
