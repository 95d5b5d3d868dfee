"""The metrics of two cells of a run, with their differences and tests."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TypeAlias

from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Run, Score
from bench_core.runs.selecting import cell_name
from bench_reports.content.sorting import number_of, seed_of
from bench_reports.statistics.estimate import Estimate, difference
from bench_reports.statistics.intervals import Summary, summary
from bench_reports.statistics.measurements import measured, printed
from bench_reports.statistics.permutation import koehn_p_value

Pair: TypeAlias = tuple[CellResult, CellResult]  # A and B


@dataclass(frozen=True)
class Contrast:
    """A metric of two cells, over the seeds for which both have a number."""

    metric: str
    pairs: Sequence[Pair]
    number: Score  # a number of A, for unit, digits, direction and scale
    ours: Summary
    theirs: Summary
    unlike: str = ""  # why no difference is computed
    unpaired: str = ""  # why there is no paired test
    untested: str = ""  # why the test was not run
    estimate: Estimate | None = None  # estimated difference, or log ratio on a log scale
    koehn: float | None = None  # sacrebleu's p-value; None for equal scores

    @property
    def difference(self) -> float | None:
        """A - B; None if the numbers are not comparable."""
        return None if self.unlike else self.ours.mean - self.theirs.mean

    @property
    def is_paired(self) -> bool:
        """Whether both numbers are finite and from the same examples."""
        return not (self.unlike or self.unpaired)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of A - B, or of A / B on a log scale."""
        return None if self.estimate is None else printed(self.number.scale, self.estimate.interval())

    @property
    def p(self) -> float | None:
        """The two-sided p-value; the interval is its inversion."""
        return None if self.estimate is None else self.estimate.p()


def pairs_of(ours: Sequence[CellResult], theirs: Sequence[CellResult]) -> list[Pair]:
    """Pair cells by common seeds; without any, pair equal numbers of seeds in order; otherwise raise SuiteError."""
    by_seed = {seed_of(cell): cell for cell in theirs}
    pairs = [(cell, by_seed[seed_of(cell)]) for cell in ours if seed_of(cell) in by_seed]
    if not pairs:
        if len(ours) != len(theirs):
            seeds = [", ".join(str(seed_of(cell)) for cell in side) for side in (ours, theirs)]
            raise SuiteError(
                f"A has seeds {seeds[0]}, but B has seeds {seeds[1]}. Choose a seed for each, e.g. seed=0."
            )
        pairs = [*zip(ours, theirs, strict=True)]
    if pairs[0][0].cell == pairs[0][1].cell:
        raise SuiteError(f"A and B are the same cell, {cell_name(pairs[0][0].cell)}. Choose two different cells.")
    return pairs


def contrasts(run: Run, pairs: Sequence[Pair]) -> list[Contrast]:
    """Return the contrasts of all metrics that both cells have, in suite order."""
    names = dict.fromkeys([*run.suite.metrics, *(name for ours, _ in pairs for name in ours.numbers)])
    complete = {name: [pair for pair in pairs if all(number_of(cell, name) for cell in pair)] for name in names}
    return [_with_test(run, contrast(name, both)) for name, both in complete.items() if both]


def one_sided(pairs: Sequence[Pair], common: Sequence[Contrast]) -> list[str]:
    """Return the metrics that only one of the cells has."""
    metrics = {name for pair in pairs for cell in pair for name in cell.numbers if number_of(cell, name)}
    return sorted(metrics - {contrast.metric for contrast in common})


def contrast(name: str, pairs: Sequence[Pair]) -> Contrast:
    """Return the contrast of a metric that both cells have, without its test."""
    ours, theirs = ([pair[side].numbers[name] for pair in pairs] for side in (0, 1))
    values = [summary([float(number.value or 0) for number in numbers]) for numbers in (ours, theirs)]
    return Contrast(
        name, pairs, ours[0], values[0], values[1], _why_unlike([*ours, *theirs]), _why_unpaired(name, pairs, values)
    )


def _why_unlike(numbers: Sequence[Score]) -> str:
    """Return why numbers are not comparable, such as different signatures; empty if they are."""
    for what in ("signature", "kind", "unit"):
        words = list(dict.fromkeys(getattr(number, what) or "none" for number in numbers))
        if len(words) > 1:
            return f"they differ in {what}: {', '.join(words)}"
    return ""


def _why_unpaired(name: str, pairs: Sequence[Pair], values: Sequence[Summary]) -> str:
    """Return why two numbers cannot be paired: different examples or infinite values; empty if they can."""
    for axis in ("task", "split"):
        words = dict.fromkeys(str(cell.cell.get(axis)) for pair in pairs for cell in pair)
        if len(words) > 1:
            return f"the examples differ: {axis} {' and '.join(words)}"
    numbers = [cell.numbers[name] for pair in pairs for cell in pair]
    if len({number.sample for number in numbers}) > 1:
        counts = sorted({number.examples for number in numbers})
        sizes = f" ({' and '.join(f'{count:,}' for count in counts)})" if len(counts) > 1 else ""
        return f"the examples differ{sizes} between the cells or between seeds"
    if not all(isfinite(value.mean) for value in values):
        return "not all numbers are finite"
    return ""


def _with_test(run: Run, untested: Contrast) -> Contrast:
    """Return a contrast with its test, or with the reason why it has none."""
    if not untested.is_paired:
        return untested
    sides = [measured(run, [pair[side] for pair in untested.pairs], untested.metric) for side in (0, 1)]
    ours, theirs = sides
    if isinstance(ours, str) or isinstance(theirs, str):
        return replace(untested, untested=next(side for side in sides if isinstance(side, str)))
    estimate, koehn = difference(ours, theirs), None
    if is_of_sacrebleu(untested.number) and estimate.value and ours.draws is not None and theirs.draws is not None:
        koehn = koehn_p_value(estimate.value, (ours.draws - theirs.draws)[:, 0].mean(0))
    return replace(untested, estimate=estimate, koehn=koehn)


def is_of_sacrebleu(number: Score) -> bool:
    """Return whether a number comes from a sacreBLEU metric, recognized by the version in its signature."""
    return re.search(r"(^|\|)version:", number.signature) is not None
