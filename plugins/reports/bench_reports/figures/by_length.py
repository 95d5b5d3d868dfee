"""Curves of a metric by the length of examples: `by_length.jsonl` of a run, and the data of their figures."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bench_core.data import Outcome, TaskInfo
from bench_core.errors import BenchError, StoreError
from bench_core.runs.provenance import recorded_part
from bench_core.runs.results import CellResult, Number, Run
from bench_core.storage.file_formats import Real
from bench_core.storage.outcomes import References, read_lines, read_outcomes
from bench_reports.content.sorting import applicable, why_missing
from bench_reports.figures.distributions import measured
from bench_reports.figures.error_bars import mean_of_values
from bench_reports.figures.figure_data import FigureData, Picture, Series, axis_label, one_of_each_seed
from bench_reports.figures.histories import outside
from bench_reports.figures.kept_files import KeptFile, Record, identity
from bench_reports.language.figure_schema import LENGTHS, Figure
from bench_reports.language.of_suite import language

if TYPE_CHECKING:
    from bench_core.storage.store import Store

BINS = 5  #: of a figure that does not say
UNKEPT = "the run keeps its {} alone, not that by length; run the suite again"

Ends: TypeAlias = tuple[int, ...]
Part: TypeAlias = tuple[int, int, float, int, Real]  # first and last length, their mean, examples, their metric


class LengthPoint(NamedTuple):
    """A metric of the examples of some lengths, at their mean length, as `Point`."""

    x: float
    mean: float
    std: float | None
    low: float | None
    high: float | None
    seeds: int
    first: int
    last: int
    examples: int


@dataclass(frozen=True)
class ByLength(Record):
    """A metric of one cell by the length of examples, or why that is unknown."""

    metric: str
    length: str  # such as `reference.tokens`
    bins: int | Ends  # as the figure says
    parts: Sequence[Part] = ()

    @property
    def name(self) -> str:
        return f"{self.metric} by {self.length}, {self.bins if isinstance(self.bins, int) else [*self.bins]}"

    @property
    def stage(self) -> str:
        return f"measure/{self.metric}"


def _wanted(figure: Figure) -> tuple[str, str, int | Ends]:
    return figure.y, figure.x, figure.bins or BINS


def _stored(run: Run, store: Store) -> Iterator[ByLength]:
    for one in run.cells:
        figures = [figure for figure in language(run).figures if figure.by_length and figure.covers(one.cell)]
        keys = dict(measured(run, one))
        for metric, length, bins in dict.fromkeys(map(_wanted, figures)):
            if metric in keys and one.numbers[metric].value is not None:
                yield _by_length(ByLength(one.cell, metric, length, bins), keys[metric], store)


def _by_length(empty: ByLength, key: str, store: Store) -> ByLength:
    try:
        return replace(empty, parts=tuple(_parts(store, key, empty.length, empty.bins)))
    except StoreError:  # names a path, which no report may
        return replace(empty, reason=f"what the store kept of {empty.metric} is damaged")
    except Exception as error:  # whatever a metric of a plugin raises of a part of the examples
        return replace(empty, reason=f"{empty.metric} cannot be measured by length: {error}")


def _parts(store: Store, key: str, length: str, bins: int | Ends) -> Iterator[Part]:
    """Yield the metric of the examples in each bin, from what it keeps of each."""
    artifact = store.get("measure", key)
    ingredients = artifact.manifest["ingredients"]
    kind, outcomes_key = ingredients["inputs"]["outcomes"]
    outcomes = read_outcomes(store.get(kind, outcomes_key).file("outcomes.jsonl.gz"))
    info = TaskInfo(**store.kept(*ingredients["inputs"]["task"]).json("facts.json"))
    config = recorded_part("metric", ingredients)
    metric = config.load()(config).prepare(info, References(outcomes))
    parts, lengths = read_lines(artifact.file("parts.jsonl.gz")), [length_of(one, length) for one in outcomes]
    for places in binned(lengths, bins):
        own = [lengths[place] for place in places]
        yield min(own), max(own), fmean(own), len(own), float(metric.combine([parts[place] for place in places]))


def length_of(outcome: Outcome, length: str) -> int:
    """Return one of the lengths of an example; raise BenchError if it has none."""
    found = {
        "reference.tokens": outcome.target_tokens,
        "reference.words": outcome.target_words or 0,
        "source.words": len(outcome.prompt.split()),
    }[length]
    if not found:
        raise BenchError(f"example {outcome.id} has no {length.partition('.')[0]}")
    return found


def binned(lengths: Sequence[int], bins: int | Ends) -> list[list[int]]:
    """Return the places of the examples in each bin that has some, shortest first.

    Bins of a given number have about as many examples each; a length is never in two of them.
    """
    ordered = sorted(lengths)
    count = bins if isinstance(bins, int) else 0
    ends = [ordered[-(-len(ordered) * turn // count) - 1] for turn in range(1, count + 1)] if ordered else []
    ends = sorted({*ends, *(() if isinstance(bins, int) else bins), *ordered[-1:]})
    found = defaultdict[int, list[int]](list)
    for place, length in enumerate(lengths):
        found[bisect_left(ends, length)].append(place)
    return [found[bin] for bin in sorted(found)]


BY_LENGTH = KeptFile("by_length.jsonl", ByLength, lambda figure: figure.by_length, _stored)


def length_picture(data: FigureData) -> Picture:
    """Return a curve for each group, with a point for each bin."""
    figure, number = data.figure, data.number(data.figure.y)
    wanted = ByLength({}, *_wanted(figure)).name
    known = {identity(one.cell): one for one in BY_LENGTH.read(data.run) if one.name == wanted}
    series = []
    for panel, groups in data.panels.items():
        for names, cells in groups.items():
            own = applicable(data.run, one_of_each_seed(cells), figure.y)
            curves = [kept.parts for one in own if (kept := _kept(data, one, known.get(identity(one.cell))))]
            if curves:
                series.append(Series(data.label(names), _points(data, number, curves), len(curves), panel=panel))
    x, y = figure.labels.get("x") or LENGTHS[figure.x], figure.labels.get("y")
    notes = ["Each point: the examples of some lengths, at their mean.", *outside(data, series)] if series else []
    return Picture(figure, series, x, y or axis_label(figure, {figure.y: number}), {figure.y: number}, notes)


def _kept(data: FigureData, one: CellResult, kept: ByLength | None) -> ByLength | None:
    """Return what is known of a cell; None, after a note, if there is nothing."""
    if kept and kept.parts:
        return kept
    known = one.numbers.get(data.figure.y, Number()).value is not None
    missing = UNKEPT.format(data.figure.y) if known else why_missing(one, data.figure.y)
    data.leave_out(one, (kept.reason or "it has no examples") if kept else missing)
    return None


def _points(data: FigureData, number: Number, curves: Sequence[Sequence[Part]]) -> list[LengthPoint]:
    """Return the mean over seeds in each bin; seeds with other examples have their own bins, and points."""
    bins: dict[tuple[int, int], list[Part]] = defaultdict(list)
    for parts in curves:
        for part in parts:
            bins[part[0], part[1]].append(part)
    points = []
    for (first, last), parts in sorted(bins.items()):
        found = mean_of_values([value for *_, value in parts], number.scale, data.figure.spread)
        x, examples = fmean(part[2] for part in parts), sum(part[3] for part in parts)
        points.append(LengthPoint(x, *found, first, last, examples))
    return points
