"""Survival curves: the share of outputs that have not ended after so many tokens, by Kaplan and Meier (1958)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bench_core.errors import StoreError
from bench_core.runs.results import CellResult, Run
from bench_core.storage.outcomes import read_outcomes
from bench_reports.figures.error_bars import mean_of_values
from bench_reports.figures.figure_data import FigureData, Names, Picture, Series, one_of_each_seed
from bench_reports.figures.kept_files import KeptFile, Record, identity
from bench_reports.language.of_suite import language

if TYPE_CHECKING:
    from bench_core.storage.store import Store

UNKEPT = "the run keeps no lengths of its outputs; run the suite again"
MEANING = (
    "Of all outputs, the share that has not ended after so many tokens, stop included (Kaplan–Meier); a mark (+) "
    "stands where a limit cut outputs that had not ended."
)

Ends: TypeAlias = Sequence[tuple[int, int, int]]  # a length, how many outputs ended with it, and how many were cut


class Surviving(NamedTuple):
    """A point of a survival curve, from which on it is constant: percent of the outputs, as `Point`."""

    x: int
    mean: float
    std: float | None
    low: float | None
    high: float | None
    seeds: int
    ended: int  # outputs of all seeds with this length
    cut: int  # outputs of all seeds that a limit cut at this length


@dataclass(frozen=True)
class Lengths(Record):
    """How long the outputs of one cell are, or why that is unknown."""

    ends: Ends = ()

    @property
    def name(self) -> str:
        return "lengths"

    @property
    def stage(self) -> str:
        return "decode"


def _stored(run: Run, store: Store) -> Iterator[Lengths]:
    figures = [figure for figure in language(run).figures if figure.kind == "survival"]
    for one in run.cells:
        key = one.artifacts.get("decode", "")
        if key and one.status == "done" and any(figure.covers(one.cell) for figure in figures):
            yield _lengths(one, key, store)


def _lengths(one: CellResult, key: str, store: Store) -> Lengths:
    ended, cut = Counter[int](), Counter[int]()
    try:
        for outcome in read_outcomes(store.get("decode", key).file("outcomes.jsonl.gz")):
            best = outcome.hypotheses[0]
            (ended if best.finished else cut)[len(best.tokens) + best.finished] += 1
    except StoreError:  # names a path, which no report may
        return Lengths(one.cell, reason="what the store kept of its outputs is damaged")
    return Lengths(one.cell, [(length, ended[length], cut[length]) for length in sorted({*ended, *cut})])


OUTPUT_LENGTHS = KeptFile("lengths.jsonl", Lengths, lambda figure: figure.kind == "survival", _stored)


def survival_picture(data: FigureData) -> Picture:
    """Return a survival curve for each group."""
    figure, known = data.figure, {identity(one.cell): one for one in OUTPUT_LENGTHS.read(data.run)}
    series = []
    for panel, groups in data.panels.items():
        for names, cells in groups.items():
            if curves := [*_curves(data, cells, known)]:
                series.append(_series(data, panel, names, curves))
    x, y = figure.labels.get("x") or "tokens", figure.labels.get("y") or "outputs not ended (%)"
    return Picture(figure, series, x, y, notes=[MEANING] if series else [])


def _curves(
    data: FigureData, cells: Sequence[CellResult], known: Mapping[tuple[object, ...], Lengths]
) -> Iterator[Ends]:
    """Yield the ends of the outputs of each seed."""
    for one in one_of_each_seed(cells):
        kept = known.get(identity(one.cell))
        if kept and kept.ends:
            yield kept.ends
        elif one.cell.get("decoder") is None:
            data.leave_out(one, "nothing was decoded")
        else:
            data.leave_out(one, (kept.reason or "it has no examples") if kept else one.reason or UNKEPT)


def _series(data: FigureData, panel: str, names: Names, curves: Sequence[Ends]) -> Series:
    shares = [survival(ends) for ends in curves]
    ended, cut = Counter[int](), Counter[int]()
    for ends in curves:
        ended.update({length: number for length, number, _ in ends})
        cut.update({length: number for length, _, number in ends})
    points, last = [], [1.0] * len(curves)
    for length in sorted({0, 1, *ended, *cut}):
        last = [share.get(length, before) for share, before in zip(shares, last, strict=True)]
        found = mean_of_values([100 * share for share in last], "share", data.figure.spread)
        points.append(Surviving(length, *found, ended[length], cut[length]))
    return Series(data.label(names), points, len(curves), ended.total() + cut.total(), panel=panel)


def survival(ends: Ends) -> dict[int, float]:
    """Return the share that has not ended after each length at which some outputs end or are cut."""
    left, share, found = sum(ended + cut for _, ended, cut in ends), 1.0, dict[int, float]()
    for length, ended, cut in ends:
        share *= 1 - ended / left
        found[length] = share
        left -= ended + cut
    return found
