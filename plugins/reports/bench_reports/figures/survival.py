"""Survival curves of output lengths: the share still unfinished after each token (Kaplan and Meier, 1958)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bench_core.errors import StoreError
from bench_core.runs.results import CellResult, Run
from bench_core.storage.predictions import read_predictions
from bench_reports.figures.error_bars import mean_of_values
from bench_reports.figures.figure_data import FigureData, Names, Picture, Series, check_unique_seeds
from bench_reports.figures.kept_files import ExampleRecord, KeptFile, identity
from bench_reports.language.of_suite import language

if TYPE_CHECKING:
    from bench_core.storage.store import Store

NOT_STORED = "the run stores no lengths of its outputs; run the suite again"
MEANING = (
    "Share of outputs that are unfinished after a number of tokens, EOS included (Kaplan–Meier estimate); "
    "+ marks unfinished outputs that were truncated by a limit."
)

Ends: TypeAlias = Sequence[tuple[int, int, int]]  # a length, outputs that ended with it, outputs truncated at it


class SurvivalPoint(NamedTuple):
    """A point of a survival curve, in percent of outputs, like `Point`; the curve is constant until the next."""

    x: int
    mean: float
    std: float | None
    low: float | None
    high: float | None
    seeds: int
    ended: int  # outputs of all seeds with this length
    cut: int  # outputs of all seeds that a limit truncated at this length


@dataclass(frozen=True)
class OutputLengths(ExampleRecord):
    """The lengths of the outputs of one cell, or the reason why they are unknown."""

    ends: Ends = ()

    @property
    def name(self) -> str:
        return "lengths"

    @property
    def stage(self) -> str:
        return "decode"


def _records_from_store(run: Run, store: Store) -> Iterator[OutputLengths]:
    figures = [figure for figure in language(run).figures if figure.kind == "survival"]
    for result in run.cells:
        key = result.artifacts.get("decode", "")
        if key and result.status == "done" and any(figure.covers(result.cell) for figure in figures):
            yield _lengths(result, key, store)


def _lengths(result: CellResult, key: str, store: Store) -> OutputLengths:
    ended, cut = Counter[int](), Counter[int]()
    try:
        for prediction in read_predictions(store.get("decode", key).file("predictions.jsonl.gz")):
            best = prediction.hypotheses[0]
            (ended if best.finished else cut)[len(best.tokens) + best.finished] += 1
    except StoreError:  # it contains a path, which reports must not show
        return OutputLengths(result.cell, reason="the stored artifact of its outputs is damaged")
    return OutputLengths(result.cell, [(length, ended[length], cut[length]) for length in sorted({*ended, *cut})])


OUTPUT_LENGTHS = KeptFile(
    "lengths.jsonl", OutputLengths, lambda figure: figure.kind == "survival", _records_from_store
)


def survival_picture(data: FigureData) -> Picture:
    """Return a survival curve for each group."""
    figure, known = data.figure, {identity(record.cell): record for record in OUTPUT_LENGTHS.read(data.run)}
    series = []
    for panel, groups in data.panels.items():
        for names, cells in groups.items():
            if curves := [*_curves(data, cells, known)]:
                series.append(_series(data, panel, names, curves))
    x, y = figure.labels.get("x") or "tokens", figure.labels.get("y") or "unfinished outputs (%)"
    return Picture(figure, series, x, y, notes=[MEANING] if series else [])


def _curves(
    data: FigureData, cells: Sequence[CellResult], known: Mapping[tuple[object, ...], OutputLengths]
) -> Iterator[Ends]:
    """Yield the output lengths of each seed."""
    for result in check_unique_seeds(cells):
        record = known.get(identity(result.cell))
        if record and record.ends:
            yield record.ends
        elif result.cell.get("decoder") is None:
            data.leave_out(result, "nothing was decoded")
        else:
            data.leave_out(result, (record.reason or "it has no examples") if record else result.reason or NOT_STORED)


def _series(data: FigureData, panel: str, names: Names, curves: Sequence[Ends]) -> Series:
    shares = [survival(ends) for ends in curves]
    ended, cut = Counter[int](), Counter[int]()
    for ends in curves:
        ended.update({length: number for length, number, _ in ends})
        cut.update({length: number for length, _, number in ends})
    points, last = [], [1.0] * len(curves)
    for length in sorted({0, 1, *ended, *cut}):
        last = [share.get(length, before) for share, before in zip(shares, last, strict=True)]
        average = mean_of_values([100 * share for share in last], "share", data.figure.spread)
        points.append(SurvivalPoint(length, *average, ended[length], cut[length]))
    return Series(data.label(names), points, len(curves), ended.total() + cut.total(), panel=panel)


def survival(ends: Ends) -> dict[int, float]:
    """Return the share of outputs still unfinished after each length at which outputs end or are truncated."""
    left, share, curve = sum(ended + cut for _, ended, cut in ends), 1.0, dict[int, float]()
    for length, ended, cut in ends:
        share *= 1 - ended / left
        curve[length] = share
        left -= ended + cut
    return curve
