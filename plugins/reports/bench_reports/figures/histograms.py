"""Data of histograms and box plots of per-example scores: bins, bars and quartiles."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import ceil, floor, fsum
from typing import NamedTuple

from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Score
from bench_core.suites.cells import join
from bench_reports.content.sorting import applicable, why_missing
from bench_reports.figures.distributions import DISTRIBUTIONS, Counts, pool_counts
from bench_reports.figures.figure_data import Bar, FigureData, Names, Picture, Series, axis_label, has_place
from bench_reports.figures.kept_files import identity

DEFAULT_BINS = 50  #: of a histogram without `bins`
NOT_STORED = "the run stores {} only in total, not per example; run the suite again"
BOXES = (
    "Boxes reach from the first to the third quartile, with a line at the median and a diamond at the mean; whiskers "
    "reach to the farthest values within 1.5 times that range; dots are the values beyond."
)


class BoxStatistics(NamedTuple):
    """The quartiles of values, the farthest values within 1.5 interquartile ranges, and outliers (Tukey, 1977)."""

    examples: int
    mean: float
    whisker_low: float
    first_quartile: float
    median: float
    third_quartile: float
    whisker_high: float
    beyond: tuple[float, ...]  # distinct values


@dataclass(frozen=True)
class Spread:
    """The values of a metric over the examples of a group, pooled over seeds."""

    label: str
    metric: str
    counts: Counts
    seeds: int
    shared: bool = False  # whether all groups share it
    panel: str = ""


def spread_picture(data: FigureData) -> Picture:
    """Return a histogram or boxes; raise SuiteError if the per-example parts of a metric are not plain numbers."""
    figure, log = data.figure, data.figure.scales.x == "log"
    numbers = {metric: data.number(metric) for metric in figure.values}
    measured = [metric for metric in figure.values if metric in data.run.suite.metrics]
    panels = ((metric, *panel) for panel in data.panels.items() for metric in measured)
    spreads = [spread for panel in panels for spread in _spreads(data, *panel)]
    metrics = list(dict.fromkeys(spread.metric for spread in spreads if not spread.shared)) or [*figure.values]
    if len(metrics) > 1:
        named = ((spread, join(spread.label, figure.label_of(spread.metric))) for spread in spreads)
        spreads = [spread if spread.shared else replace(spread, label=label) for spread, label in named]
    same = list(dict.fromkeys(spread.metric for spread in spreads if spread.shared))
    notes = [f"{' and '.join(same)}: the same in all groups, drawn once."] if same else []
    notes += _outside(spreads, log)
    label = figure.labels.get("x") or axis_label(figure, {metric: numbers[metric] for metric in metrics})
    if figure.kind == "box":
        return Picture(figure, _boxes(spreads, log), label, "", numbers, [*notes, BOXES])
    bars = _histograms(spreads, figure.bins if isinstance(figure.bins, int) else DEFAULT_BINS, log)
    return Picture(figure, bars, label, figure.labels.get("y") or "share of examples (%)", numbers, notes)


def _spreads(
    data: FigureData, metric: str, panel: str, groups: Mapping[Names, Sequence[CellResult]]
) -> Iterator[Spread]:
    """Yield the values of each group; if several metrics are drawn, values common to all groups only once."""
    known = {identity(record.cell): record for record in DISTRIBUTIONS.read(data.run) if record.metric == metric}
    by_group: dict[Names, list[Counts]] = defaultdict(list)
    for names, cells in groups.items():
        for result in applicable(data.run, cells, metric):
            record = known.get(identity(result.cell))
            if record is None:
                measured = result.numbers.get(metric, Score()).value is not None
                data.leave_out(result, NOT_STORED.format(metric) if measured else why_missing(result, metric))
            elif record.reason:
                raise SuiteError(f"{record.reason}: no {data.figure.kind} can be drawn.")
            elif record.counts:
                by_group[names].append(record.counts)
            else:
                data.leave_out(result, "it has no examples")
    several = [counts for group in by_group.values() for counts in group]
    if len(by_group) > 1 and len(data.figure.values) > 1 and all(counts == several[0] for counts in several):
        yield Spread(data.figure.label_of(metric), metric, several[0], 1, shared=True, panel=panel)
        return
    for names, group in by_group.items():
        yield Spread(data.label(names), metric, pool_counts(group), len(group), panel=panel)


def _histograms(spreads: Sequence[Spread], most: int, log: bool) -> list[Series]:
    values = [value for spread in spreads for value, _ in drawable(spread.counts, log)]
    bins, series = edges(values, most, log) if values else [], []
    for spread in spreads if values else ():
        n, examples = size(spread.counts), heights(drawable(spread.counts, log), bins)
        bars = [Bar(low, high, bar, 100 * bar / n) for (low, high), bar in zip(pairwise(bins), examples, strict=True)]
        series.append(Series(spread.label, bars, spread.seeds, n, spread.shared, spread.panel))
    return series


def _boxes(spreads: Sequence[Spread], log: bool) -> list[Series]:
    drawn = [(spread, values) for spread in spreads if (values := drawable(spread.counts, log))]
    return [
        Series(spread.label, [box(values)], spread.seeds, size(spread.counts), spread.shared)
        for spread, values in drawn
    ]


def _outside(spreads: Sequence[Spread], log: bool) -> Iterator[str]:
    why = "infinite, undefined, or not above 0" if log else "infinite or undefined"
    for spread in spreads:
        left = size(spread.counts) - size(drawable(spread.counts, log))
        if left:
            name = join(spread.panel, spread.label) or spread.metric
            yield f"{name}: {left:,} of {size(spread.counts):,} values are off the axis ({why})."


def size(counts: Counts) -> int:
    """Return the number of examples."""
    return sum(count for _, count in counts)


def drawable(counts: Counts, log: bool) -> list[tuple[float, int]]:
    """Return the values that an axis can show."""
    return [(value, count) for value, count in counts if has_place(value, log)]


def edges(values: Sequence[float], most: int, log: bool) -> list[float]:
    """Return the edges of at most `most` bins over drawable values; the last bin includes the greatest value.

    Bins of whole numbers have edges half-way between numbers, and never get narrower towards higher values, so
    that no bar is low or high only because of where the bins fall.
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
    """Return the first numbers of bins and the end of the last bin, from which they are laid out downwards."""
    if not log:
        width = ceil((end - low) / most)
        return [end - width * step for step in range(ceil((end - low) / width), -1, -1)]
    starts, ratio = [end], (end / low) ** (1 / most)
    while starts[0] > low:
        starts.insert(0, max(low, min(starts[0] - 1, floor(starts[0] / ratio))))
    return starts


def heights(counts: Counts, bins: Sequence[float]) -> list[int]:
    """Return the number of examples in each bin; a value at the edge of two bins belongs to the upper bin."""
    examples = [0] * (len(bins) - 1)
    for value, count in counts:
        examples[min(bisect_right(bins, value), len(examples)) - 1] += count
    return examples


def box(counts: Counts) -> BoxStatistics:
    """Return the statistics of a box over finite values."""
    values, n = [value for value, _ in counts], size(counts)
    ends = list(accumulate(count for _, count in counts))
    first, median, third = (_quantile(values, ends, share) for share in (0.25, 0.5, 0.75))
    reach = 1.5 * (third - first)
    near = [value for value in values if first - reach <= value <= third + reach]
    low, high = min([*near, first]), max([*near, third])
    mean = fsum(value * count for value, count in counts) / n
    return BoxStatistics(
        n, mean, low, first, median, third, high, tuple(value for value in values if not low <= value <= high)
    )


def _quantile(values: Sequence[float], ends: Sequence[int], share: float) -> float:
    """Return a quantile by linear interpolation."""
    place = share * (ends[-1] - 1)
    below, above = (values[bisect_right(ends, index)] for index in (floor(place), ceil(place)))
    return below + (above - below) * (place - floor(place))
