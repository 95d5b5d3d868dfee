"""Compute the data of every figure of a suite."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from bench_core.errors import SuiteError
from bench_core.runs.results import Run
from bench_reports.content.labels import own_label, types_of
from bench_reports.figures.by_length import length_picture
from bench_reports.figures.figure_data import FigureData, Picture, kind_of
from bench_reports.figures.heatmap import heat_picture
from bench_reports.figures.histograms import spread_picture
from bench_reports.figures.histories import history_picture
from bench_reports.figures.limits import cut_note
from bench_reports.figures.metric_plots import place_picture, scatter_picture
from bench_reports.figures.survival import survival_picture
from bench_reports.language.figure_schema import Figure
from bench_reports.language.of_suite import language


def pictures(run: Run) -> list[Picture]:
    """Return the figures of a run in the order of the suite, except figures of costs, which depend on clocks."""
    return [_picture(FigureData(run, figure)) for figure in _figures(run) if not figure.costs]


def cost_pictures(run: Run) -> list[Picture]:
    """Return the figures of stage costs."""
    return [_picture(FigureData(run, figure)) for figure in _figures(run) if figure.costs]


def _figures(run: Run) -> list[Figure]:
    """Return the figures of a suite; names without labels in a figure get the labels of the suite or of metrics.

    Labels named `x` and `y` are taken from the figure alone.
    """
    numbers = {name: number for result in run.cells for name, number in result.numbers.items() if number.label}
    types = types_of(run)
    metrics = {name: label for name, number in numbers.items() if (label := own_label(types, name, number))}
    common = {name: label for name, label in (metrics | run.suite.labels).items() if name not in ("x", "y")}
    return [figure.model_copy(update={"labels": {**common, **figure.labels}}) for figure in language(run).figures]


def _picture(data: FigureData) -> Picture:
    try:
        kind = data.figure.kind
        maker = MAKERS.get(kind) or getattr(kind_of(kind), "make", None)
        if maker is None:
            raise SuiteError(f"no installed plugin draws figures of kind {kind!r}. Install the plugin that does.")
        picture = maker(data)
    except SuiteError as error:
        return Picture(data.figure, cells=data.cells, missing=[*data.missing], empty=str(error))
    lack = "none of its cells has anything to draw." if data.cells else "the run has no cells for it."
    notes = [
        *picture.notes,
        *cut_note(picture),
        *(f"Numbers without intervals: {reason}." for reason in data.untested),
    ]
    return replace(
        picture, cells=data.cells, missing=[*data.missing], notes=notes, empty="" if picture.series else lack
    )


def _line_picture(data: FigureData) -> Picture:
    """Return the data of a line, depending on its x."""
    figure = data.figure
    if figure.history:
        return history_picture(data)
    if figure.by_length:
        return length_picture(data)
    return place_picture(data) if figure.place else scatter_picture(data)


MAKERS: Mapping[str, Callable[[FigureData], Picture]] = {
    "histogram": spread_picture,
    "box": spread_picture,
    "line": _line_picture,
    "bar": place_picture,
    "scatter": scatter_picture,
    "survival": survival_picture,
    "heat": heat_picture,
}
