"""Data of lines, bars and scatter plots of a metric or a cost: against an axis, a setting, or another metric."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Score
from bench_reports.content.cost_tables import StageCosts, cost_label
from bench_reports.content.sorting import applicable, why_missing
from bench_reports.figures.error_bars import SeedMean, mean_of_cells, mean_of_values
from bench_reports.figures.figure_data import (
    FigureData,
    Picture,
    Point,
    Series,
    Spot,
    axis_label,
    check_unique_seeds,
    has_place,
    is_number,
)
from bench_reports.figures.histories import outside
from bench_reports.figures.tick_text import EXACT, tick_text

COSTED = "Costs were measured on the machine that computed each stage, whatever its load."


@dataclass
class Quantity:
    """A metric or a cost of the cells of a figure."""

    data: FigureData
    spent: StageCosts
    name: str

    @property
    def cost(self) -> bool:
        return self.name in self.data.figure.costs

    @cached_property
    def number(self) -> Score:
        """A number of this quantity; raises SuiteError if it is not measured, or has several kinds."""
        if not self.cost and self.name not in self.data.run.suite.metrics:
            raise SuiteError(f"the run does not measure {self.name}.")
        return Score() if self.cost else self.data.number(self.name)

    def label(self, axis: str) -> str:
        """Return the label of the axis `x` or `y`."""
        usual = cost_label(self.name) if self.cost else axis_label(self.data.figure, {self.name: self.number})
        return self.data.figure.labels.get(axis) or usual

    def applicable(self, cells: Sequence[CellResult]) -> Sequence[CellResult]:
        """Return the cells to which the quantity applies: all except cells skipped on purpose."""
        return cells if self.cost else applicable(self.data.run, cells, self.name)

    def value(self, result: CellResult) -> float | None:
        """Return its value in a cell, if any."""
        return self.spent.of(result, self.name) if self.cost else result.numbers.get(self.name, Score()).value

    def mean(self, cells: Sequence[CellResult]) -> SeedMean:
        """Return its mean over cells that have it, with the interval of tables; for a cost, over seeds."""
        spread = self.data.figure.spread
        if not self.cost:
            average, untested = mean_of_cells(self.data.run, cells, self.name, spread)
            self.data.untested.update({untested: None} if untested else {})
            return average
        average = mean_of_values([value for result in cells if (value := self.value(result)) is not None], "", spread)
        return average if average.low is None else average._replace(low=max(0.0, average.low))

    def leave_out(self, result: CellResult) -> None:
        """Note that a cell lacks this quantity."""
        unknown = result.reason or f"the run does not record its {cost_label(self.name)}" if self.cost else ""
        self.data.leave_out(result, unknown or why_missing(result, self.name))


def place_picture(data: FigureData) -> Picture:
    """Return lines or bars against an axis or a setting; raise SuiteError where two cells share a place."""
    figure, quantity = data.figure, Quantity(data, StageCosts(data.run), data.figure.y)
    assert figure.place
    values = {data.word(result, figure.place): data.value(result, figure.place) for result in data.cells}
    numeric = figure.kind == "line" and figure.place.setting is not None and all(map(is_number, values.values()))
    texts = {name: tick_text(value, EXACT) if is_number(value) else name for name, value in values.items()}
    names = {name: figure.label_of(text) for name, text in texts.items()}
    series = []
    for panel, groups in data.panels.items():
        for group, cells in groups.items():
            points = [*_points(data, quantity, quantity.applicable(cells), values if numeric else names)]
            if any(point.seeds for point in points):
                series.append(Series(data.label(group), points, max(point.seeds for point in points), panel=panel))
    shown = {point.x for group in series for point in group.rows}
    order = sorted(names, key=data.order(figure.place).__getitem__)
    places = [] if numeric else list(dict.fromkeys(names[name] for name in order if names[name] in shown))
    ticks = sorted(shown) if numeric else []
    notes = [*([COSTED] if figure.costs else []), *outside(data, series)]
    numbers = {} if quantity.cost else {quantity.name: quantity.number}
    return Picture(
        figure, series, data.axis_label("x"), quantity.label("y"), numbers, notes, places=places, ticks=ticks,
        tested=not quantity.cost,
    )  # fmt: skip


def _points(
    data: FigureData, quantity: Quantity, cells: Sequence[CellResult], xs: Mapping[str, float | str]
) -> Iterator[Point]:
    """Yield a point for each place of a series; an empty point where no seed has a number."""
    for (name,), in_place in data.group(cells, [data.figure.x]).items():
        if known := _complete_cells(check_unique_seeds(in_place), quantity):
            yield Point(xs[name], *quantity.mean(known))
        else:
            yield Point(xs[name], None, None, None, None, 0)


def _complete_cells(cells: Sequence[CellResult], *quantities: Quantity) -> list[CellResult]:
    """Return the cells that have all of these quantities, and note the others."""
    known = []
    for result in cells:
        if missing := next((quantity for quantity in quantities if quantity.value(result) is None), None):
            missing.leave_out(result)
        else:
            known.append(result)
    return known


def scatter_picture(data: FigureData) -> Picture:
    """Return points of two metrics or costs, averaged over seeds that have both; a line joins them in order of x."""
    figure, spent = data.figure, StageCosts(data.run)
    x, y = Quantity(data, spent, figure.x), Quantity(data, spent, figure.y)
    unknown = {x.name, y.name}.difference(data.run.suite.metrics, figure.costs)
    if unknown:
        raise SuiteError(f"the run does not measure {' and '.join(sorted(unknown))}.")
    numbers = {quantity.name: quantity.number for quantity in (x, y) if not quantity.cost}
    series, notes = [], [COSTED] if figure.costs else []
    for panel, groups in data.panels.items():
        for names, cells in groups.items():
            spots = []
            for spot in _spots(data, x, y, y.applicable(x.applicable(cells))):
                if has_place(spot.x, figure.scales.x == "log") and has_place(spot.y, figure.scales.y == "log"):
                    spots.append(spot)
                else:
                    name = "/".join(filter(None, [panel, data.label(names), spot.point]))
                    notes.append(f"{name} is off the axes, at {spot.x:g} and {spot.y:g}.")
            if spots:
                spots = sorted(spots, key=lambda spot: spot.x) if figure.kind == "line" else spots
                series.append(Series(data.label(names), spots, max(spot.seeds for spot in spots), panel=panel))
    tested = not (x.cost and y.cost)
    return Picture(figure, series, x.label("x"), y.label("y"), numbers, notes, tested=tested)


def _spots(data: FigureData, x: Quantity, y: Quantity, cells: Sequence[CellResult]) -> Iterator[Spot]:
    """Yield the points of a series."""
    for names, group in data.group(cells, data.figure.points).items():
        if known := _complete_cells(group, x, y):
            name = data.label(names, data.figure.points) if data.figure.points else ""
            across, along = x.mean(known), y.mean(known)
            yield Spot(name, *across[:4], *along[:4], along.seeds)
