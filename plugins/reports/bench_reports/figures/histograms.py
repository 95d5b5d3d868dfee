"""Data of histograms and box plots of per-example scores: bins, bars and quartiles."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import ceil, floor, fsum
from typing import NamedTuple

from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Number
from bench_core.suites.cells import join
from bench_reports.content.sorting import applicable, why_missing
from bench_reports.figures.distributions import DISTRIBUTIONS, Counts, pooled
from bench_reports.figures.figure_data import Bar, FigureData, Names, Picture, Series, axis_label, has_place
from bench_reports.figures.kept_files import identity

BINS = 50  #: of a histogram that does not say
UNKEPT = "the run keeps its {} alone, not that of each example; run the suite again"
BOXES = (
    "Boxes reach from the first to the third quartile, with a line at the median and a diamond at the mean; whiskers "
    "reach to the farthest values within 1.5 times that range; dots are the values beyond."
)


class Box(NamedTuple):
    """The quartiles of values, the farthest within 1.5 times their distance, and all beyond (Tukey, 1977)."""

    examples: int
    mean: float
    whisker_low: float
    first_quartile: float
    median: float
    third_quartile: float
    whisker_high: float
    beyond: tuple[float, ...]  # each value once


@dataclass(frozen=True)
class Spread:
    """The values of a metric over the examples of a group, pooled over seeds."""

    label: str
    metric: str
    counts: Counts
    seeds: int
    shared: bool = False  # by all groups
    panel: str = ""


def spread_picture(data: FigureData) -> Picture:
    """Return a histogram or boxes; raise SuiteError where a metric keeps no plain number of each example."""
    figure, log = data.figure, data.figure.scales.x == "log"
    numbers = {metric: data.number(metric) for metric in figure.values}
    measured = [metric for metric in figure.values if metric in data.run.suite.metrics]
    panels = ((metric, *panel) for panel in data.panels.items() for metric in measured)
    spreads = [spread for panel in panels for spread in _spreads(data, *panel)]
    own = list(dict.fromkeys(one.metric for one in spreads if not one.shared)) or [*figure.values]
    if len(own) > 1:
        named = ((one, join(one.label, figure.called(one.metric))) for one in spreads)
        spreads = [one if one.shared else replace(one, label=label) for one, label in named]
    same = list(dict.fromkeys(one.metric for one in spreads if one.shared))
    notes = [f"{' and '.join(same)}: the same in all groups, drawn once."] if same else []
    notes += _outside(spreads, log)
    label = figure.labels.get("x") or axis_label(figure, {metric: numbers[metric] for metric in own})
    if figure.kind == "box":
        return Picture(figure, _boxes(spreads, log), label, "", numbers, [*notes, BOXES])
    bars = _histograms(spreads, figure.bins if isinstance(figure.bins, int) else BINS, log)
    return Picture(figure, bars, label, figure.labels.get("y") or "share of examples (%)", numbers, notes)


def _spreads(
    data: FigureData, metric: str, panel: str, groups: Mapping[Names, Sequence[CellResult]]
) -> Iterator[Spread]:
    """Yield the values of each group; once those that all groups share, where there are metrics beside it."""
    known = {identity(one.cell): one for one in DISTRIBUTIONS.read(data.run) if one.metric == metric}
    found: dict[Names, list[Counts]] = defaultdict(list)
    for names, cells in groups.items():
        for one in applicable(data.run, cells, metric):
            kept = known.get(identity(one.cell))
            if kept is None:
                measured = one.numbers.get(metric, Number()).value is not None
                data.leave_out(one, UNKEPT.format(metric) if measured else why_missing(one, metric))
            elif kept.reason:
                raise SuiteError(f"{kept.reason}: no {data.figure.kind} can be drawn of it.")
            elif kept.counts:
                found[names].append(kept.counts)
            else:
                data.leave_out(one, "it has no examples")
    several = [counts for group in found.values() for counts in group]
    if len(found) > 1 and len(data.figure.values) > 1 and all(counts == several[0] for counts in several):
        yield Spread(data.figure.called(metric), metric, several[0], 1, shared=True, panel=panel)
        return
    for names, group in found.items():
        yield Spread(data.label(names), metric, pooled(group), len(group), panel=panel)


def _histograms(spreads: Sequence[Spread], most: int, log: bool) -> list[Series]:
    values = [value for one in spreads for value, _ in drawable(one.counts, log)]
    bins, series = edges(values, most, log) if values else [], []
    for one in spreads if values else ():
        n, found = size(one.counts), heights(drawable(one.counts, log), bins)
        bars = [Bar(low, high, bar, 100 * bar / n) for (low, high), bar in zip(pairwise(bins), found, strict=True)]
        series.append(Series(one.label, bars, one.seeds, n, one.shared, one.panel))
    return series


def _boxes(spreads: Sequence[Spread], log: bool) -> list[Series]:
    drawn = [(one, values) for one in spreads if (values := drawable(one.counts, log))]
    return [Series(one.label, [box(values)], one.seeds, size(one.counts), one.shared) for one, values in drawn]


def _outside(spreads: Sequence[Spread], log: bool) -> Iterator[str]:
    why = "infinite, undefined, or not above 0" if log else "infinite or undefined"
    for one in spreads:
        left = size(one.counts) - size(drawable(one.counts, log))
        if left:
            name = join(one.panel, one.label) or one.metric
            yield f"{name}: {left:,} of {size(one.counts):,} values are off the axis ({why})."


def size(counts: Counts) -> int:
    """Return how many examples there are."""
    return sum(count for _, count in counts)


def drawable(counts: Counts, log: bool) -> list[tuple[float, int]]:
    """Return the values that have a place on an axis."""
    return [(value, count) for value, count in counts if has_place(value, log)]


def edges(values: Sequence[float], most: int, log: bool) -> list[float]:
    """Return the edges of at most `most` bins over drawable values, the last of which includes the greatest.

    Bins of whole numbers begin and end half-way between two, and none holds fewer numbers than one further down: no
    bar is low or high only by how the bins fall.
    """
    low, high = min(values), max(values)
    if all(value == int(value) for value in values):
        return [start - 0.5 for start in _starts(int(low), int(high) + 1, most, log)]
    if low == high:
        return [low - abs(low) / 2, high + abs(high) / 2]
    steps = [step / most for step in range(most + 1)]
    inner = [low * (high / low) ** step if log else low + (high - low) * step for step in steps]
    return [low, *inner[1:-1], high]


def _starts(low: int, end: int, most: int, log: bool) -> list[int]:
    """Return the whole numbers that bins begin with, and that after the last, down from which they are laid out."""
    if not log:
        width = ceil((end - low) / most)
        return [end - width * step for step in range(ceil((end - low) / width), -1, -1)]
    starts, ratio = [end], (end / low) ** (1 / most)
    while starts[0] > low:
        starts.insert(0, max(low, min(starts[0] - 1, floor(starts[0] / ratio))))
    return starts


def heights(counts: Counts, bins: Sequence[float]) -> list[int]:
    """Return how many examples are in each bin; one that ends where the next begins leaves that value to it."""
    found = [0] * (len(bins) - 1)
    for value, count in counts:
        found[min(bisect_right(bins, value), len(found)) - 1] += count
    return found


def box(counts: Counts) -> Box:
    """Return what a box shows of finite values."""
    values, n = [value for value, _ in counts], size(counts)
    ends = list(accumulate(count for _, count in counts))
    first, median, third = (_quantile(values, ends, share) for share in (0.25, 0.5, 0.75))
    reach = 1.5 * (third - first)
    near = [value for value in values if first - reach <= value <= third + reach]
    low, high = min([*near, first]), max([*near, third])
    mean = fsum(value * count for value, count in counts) / n
    return Box(n, mean, low, first, median, third, high, tuple(value for value in values if not low <= value <= high))


def _quantile(values: Sequence[float], ends: Sequence[int], share: float) -> float:
    """Return a quantile, linear between the two values that it falls between."""
    place = share * (ends[-1] - 1)
    below, above = (values[bisect_right(ends, index)] for index in (floor(place), ceil(place)))
    return below + (above - below) * (place - floor(place))
