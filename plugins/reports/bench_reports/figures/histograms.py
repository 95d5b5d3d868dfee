"""Histograms and boxes: how the values of single examples are spread in each group of cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Number
from bench_core.suites.cells import join
from bench_reports.content.tables import applicable, why_missing
from bench_reports.figures.binning import box, drawable, edges, heights, size
from bench_reports.figures.distributions import Counts, distributions, identity, pooled
from bench_reports.figures.figure_data import Bar, Draft, Names, Picture, Series, axis_label

BINS = 50  #: of a histogram that does not say
BOXES = (
    "Boxes reach from the first to the third quartile, with a line at the median and a diamond at the mean; whiskers "
    "reach to the farthest values within 1.5 times that range; dots are the values beyond."
)


@dataclass(frozen=True)
class Spread:
    """The values of a metric over the examples of a group, pooled over seeds."""

    label: str
    metric: str
    counts: Counts
    seeds: int
    shared: bool = False  # by all groups

    def drawable(self, log: bool) -> Counts:
        """Return the values that have a place on the axis."""
        return drawable(self.counts, log)


def spread_picture(draft: Draft) -> Picture:
    """Return a histogram or boxes; raise SuiteError where a metric keeps no plain number of each example."""
    figure, log = draft.figure, draft.figure.scales.x == "log"
    numbers = {metric: draft.number(metric) for metric in figure.values}
    measured = [metric for metric in figure.values if metric in draft.run.suite.metrics]
    spreads = [spread for metric in measured for spread in _spreads(draft, metric)]
    own = list(dict.fromkeys(one.metric for one in spreads if not one.shared)) or [*figure.values]
    if len(own) > 1:
        spreads = [one if one.shared else replace(one, label=join(one.label, one.metric)) for one in spreads]
    notes = [*_agreements(spreads), *_outside(spreads, log)]
    label = axis_label(own, numbers)
    if figure.kind == "box":
        return Picture(figure, _boxes(spreads, log), label, "", numbers, [*notes, BOXES])
    return Picture(
        figure, _histograms(spreads, figure.bins or BINS, log), label, "share of examples (%)", numbers, notes
    )


def _spreads(draft: Draft, metric: str) -> Iterator[Spread]:
    """Yield the values of each group; once those that all groups share, where there are metrics beside it."""
    known = {identity(one.cell): one for one in distributions(draft.run) if one.metric == metric}
    found: dict[Names, list[Counts]] = defaultdict(list)
    for names, cells in draft.groups.items():
        for one in applicable(draft.run, cells, metric):
            kept = known.get(identity(one.cell))
            if kept is None:
                draft.leave_out(one, _why_unkept(one, metric))
            elif kept.reason:
                raise SuiteError(f"{kept.reason}: no {draft.figure.kind} can be drawn of it.")
            elif kept.counts:
                found[names].append(kept.counts)
            else:
                draft.leave_out(one, "it has no examples")
    several = [counts for group in found.values() for counts in group]
    if len(found) > 1 and len(draft.figure.values) > 1 and all(counts == several[0] for counts in several):
        yield Spread(metric, metric, several[0], 1, shared=True)
        return
    for names, group in found.items():
        yield Spread(join(*names), metric, pooled(group), len(group))


def _why_unkept(one: CellResult, metric: str) -> str:
    if one.numbers.get(metric, Number()).value is not None:
        return f"the run keeps its {metric} alone, not that of each example; run the suite again"
    return why_missing(one, metric)


def _histograms(spreads: Sequence[Spread], most: int, log: bool) -> list[Series]:
    values = [value for one in spreads for value, _ in one.drawable(log)]
    bins = edges(values, most, log) if values else []
    return [_histogram(one, bins, log) for one in spreads] if values else []


def _histogram(one: Spread, bins: Sequence[float], log: bool) -> Series:
    n, found = size(one.counts), heights(one.drawable(log), bins)
    bars = [Bar(low, high, bar, 100 * bar / n) for low, high, bar in zip(bins, bins[1:], found, strict=False)]
    return Series(one.label, bars, one.seeds, n, one.shared)


def _boxes(spreads: Sequence[Spread], log: bool) -> list[Series]:
    drawn = [(one, one.drawable(log)) for one in spreads]
    return [
        Series(one.label, [box(values)], one.seeds, size(one.counts), one.shared) for one, values in drawn if values
    ]


def _agreements(spreads: Sequence[Spread]) -> Iterator[str]:
    names = [one.metric for one in spreads if one.shared]
    if names:
        yield f"{' and '.join(names)}: the same in all groups, drawn once."


def _outside(spreads: Sequence[Spread], log: bool) -> Iterator[str]:
    why = "infinite, undefined, or not above 0" if log else "infinite or undefined"
    for one in spreads:
        left = size(one.counts) - size(one.drawable(log))
        if left:
            yield f"{one.label or one.metric}: {left:,} of {size(one.counts):,} values are off the axis ({why})."
