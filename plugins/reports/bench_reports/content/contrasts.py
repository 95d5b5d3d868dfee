"""The metrics of two cells of a run, each with the difference and its test."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TypeAlias

from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Number, Run
from bench_core.runs.selecting import cell_name
from bench_reports.content.sorting import number_of, seed_of
from bench_reports.statistics.estimate import Estimate, difference
from bench_reports.statistics.intervals import Summary, summary
from bench_reports.statistics.measurements import measured, printed
from bench_reports.statistics.permutation import koehn_p_value

Pair: TypeAlias = tuple[CellResult, CellResult]  # A and B


@dataclass(frozen=True)
class Contrast:
    """A metric of two cells, over the seeds in which both have a number."""

    metric: str
    pairs: Sequence[Pair]
    number: Number  # one of A's, for unit, digits, direction and scale
    ours: Summary
    theirs: Summary
    unlike: str = ""  # why the two numbers have no difference
    unpaired: str = ""  # why it cannot be tested by pairs
    untested: str = ""  # why it was not
    estimate: Estimate | None = None  # of the difference; on a log scale, of the logarithm of the ratio
    koehn: float | None = None  # as sacrebleu counts it, for which equal scores are no chance; so none of these

    @property
    def difference(self) -> float | None:
        """Return A less B, or None where that means nothing."""
        return None if self.unlike else self.ours.mean - self.theirs.mean

    @property
    def paired(self) -> bool:
        """Return whether both are of the same examples, and finite."""
        return not (self.unlike or self.unpaired)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of A less B, or of A / B on a log scale."""
        return None if self.estimate is None else printed(self.number.scale, self.estimate.interval())

    @property
    def p(self) -> float | None:
        """Return the two-sided p-value, of which the interval is the inversion."""
        return None if self.estimate is None else self.estimate.p()


def pairs_of(ours: Sequence[CellResult], theirs: Sequence[CellResult]) -> list[Pair]:
    """Return two cells seed by seed: by the seeds that both have, or in their order if both have as many others."""
    known = {seed_of(one): one for one in theirs}
    found = [(one, known[seed_of(one)]) for one in ours if seed_of(one) in known]
    if not found:
        if len(ours) != len(theirs):
            seeds = [", ".join(str(seed_of(one)) for one in side) for side in (ours, theirs)]
            raise SuiteError(f"A has the seeds {seeds[0]}, B {seeds[1]}. Name one of each, such as seed=0.")
        found = [*zip(ours, theirs, strict=True)]
    if found[0][0].cell == found[0][1].cell:
        raise SuiteError(f"A and B are the same cell, {cell_name(found[0][0].cell)}. Name two.")
    return found


def contrasts(run: Run, pairs: Sequence[Pair]) -> list[Contrast]:
    """Return every metric that both cells have, in the order of the suite."""
    names = dict.fromkeys([*run.suite.metrics, *(name for one, _ in pairs for name in one.numbers)])
    having = {name: [pair for pair in pairs if all(number_of(one, name) for one in pair)] for name in names}
    return [_tested(run, contrast(name, both)) for name, both in having.items() if both]


def one_sided(pairs: Sequence[Pair], found: Sequence[Contrast]) -> list[str]:
    """Return the metrics that only one of both cells has."""
    metrics = {name for pair in pairs for one in pair for name in one.numbers if number_of(one, name)}
    return sorted(metrics - {one.metric for one in found})


def contrast(name: str, pairs: Sequence[Pair]) -> Contrast:
    """Return a metric of two cells that both have it, untested."""
    ours, theirs = ([pair[side].numbers[name] for pair in pairs] for side in (0, 1))
    values = [summary([float(one.value or 0) for one in numbers]) for numbers in (ours, theirs)]
    return Contrast(
        name, pairs, ours[0], values[0], values[1], _unlike([*ours, *theirs]), _unpaired(name, pairs, values)
    )


def _unlike(numbers: Sequence[Number]) -> str:
    """Return why numbers cannot stand in one column, such as those of two signatures."""
    for what in ("signature", "kind", "unit"):
        words = list(dict.fromkeys(getattr(one, what) or "none" for one in numbers))
        if len(words) > 1:
            return f"they differ in {what}: {', '.join(words)}"
    return ""


def _unpaired(name: str, pairs: Sequence[Pair], values: Sequence[Summary]) -> str:
    """Return why two numbers are not of the same examples, or cannot be compared by chance."""
    for axis in ("task", "split"):
        words = dict.fromkeys(str(one.cell.get(axis)) for pair in pairs for one in pair)
        if len(words) > 1:
            return f"they are of different examples: those of {axis} {' and '.join(words)}"
    numbers = [one.numbers[name] for pair in pairs for one in pair]
    if len({one.sample for one in numbers}) > 1:
        counts = sorted({one.examples for one in numbers})
        sizes = f" ({' and '.join(f'{count:,}' for count in counts)})" if len(counts) > 1 else ""
        return f"they are of different examples{sizes}, or of seeds that differ in them"
    if not all(isfinite(one.mean) for one in values):
        return "not all are finite numbers"
    return ""


def _tested(run: Run, found: Contrast) -> Contrast:
    """Return a contrast with its test, where that can be had."""
    if not found.paired:
        return found
    sides = [measured(run, [pair[side] for pair in found.pairs], found.metric) for side in (0, 1)]
    ours, theirs = sides
    if isinstance(ours, str) or isinstance(theirs, str):
        return replace(found, untested=next(one for one in sides if isinstance(one, str)))
    estimate, koehn = difference(ours, theirs), None
    if is_of_sacrebleu(found.number) and estimate.value and ours.draws is not None and theirs.draws is not None:
        koehn = koehn_p_value(estimate.value, (ours.draws - theirs.draws)[:, 0].mean(0))
    return replace(found, estimate=estimate, koehn=koehn)


def is_of_sacrebleu(number: Number) -> bool:
    """Return whether a number is of a metric of sacrebleu, whose signatures end with its version."""
    return re.search(r"(^|\|)version:", number.signature) is not None
