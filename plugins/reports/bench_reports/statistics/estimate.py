"""Contrasts of measured numbers, with one standard error behind their intervals, tests and detectable differences.

A number v[s] of a model trained with seed s and measured on N examples is

    v[s] = mean + training[s] + examples + both[s]

where `examples` is the effect of the test set on all seeds and `both` its effect on a single seed. The error of a
mean over seeds, of a difference, or of any smooth function of means has a part for the seeds, var(v[s]) / S, which
contains `both`, and a part for the examples, which does not: the mean covariance of the bootstrap replicates of two
seeds. Tests allow for the skewness of the examples' part by Hall's (1992) monotone transformation of Student's
statistic. If training runs differ in kind, some at 0 % and some at 60 %, conclusions apply to these runs only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum, inf, isfinite, sqrt
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench_reports.statistics.tails import LEVEL, POWER, Array, VariancePart, detectable, p_above, reach, skewness_of

ROUNDING = 1e-11  # relative differences of numbers due to the order of summation
UNDERSTATED = 3.0  #: times 1 / sqrt(N): how much less skewed a sample is than its population, by simulation
EVERYWHERE = (-inf, inf)


NONE = VariancePart(0.0)


@dataclass(frozen=True)
class Measured:
    """A metric over seeds, on the scale of its tests: the logarithm for perplexities."""

    values: Array  # [S]
    draws: Array | None = None  # [S, B, D], bootstrap replicates by block length; None for a whole population
    units: float = inf  # number of independent units: examples, or groups of them
    blocks: tuple[int, ...] = (1,)  # [B], block lengths: numbers of consecutive examples resampled together
    block: int = 1  # number of consecutive examples that depend on each other
    sample: Hashable = None  # equal for measurements on the same examples, with the same replicates
    training: Hashable = None  # equal for measurements of the same training runs, seed by seed
    trained: bool = True  # False if seeds have no effect, as in n-gram models
    error: float = 0.0  # standard error of an estimate, apart from the examples
    scale: Literal["linear", "log", "share"] = "linear"  # a share is in percent
    bounds: tuple[float, float] = EVERYWHERE  # smallest and largest possible value

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def is_mixed(self) -> bool:
        """Return whether training runs seem to differ in kind, not degree, so that no interval describes other runs.

        They do if at least a third of them are at a bound of the metric, or if their mean is nearer to a bound than
        their standard deviation (without the part that examples explain): no normal distribution is like that.
        """
        ends = [end for end in self.bounds if isfinite(end)]
        if not self.trained or len(self.values) < 2 or not ends:
            return False
        if 3 * int(self.at_bound.sum()) >= len(self.values):
            return True
        deviation = sqrt(max(0.0, float(self.values.var(ddof=1)) - self._by_examples))
        return min(abs(self.mean - end) for end in ends) < deviation

    @property
    def at_bound(self) -> NDArray[np.bool_]:
        """Return which training runs are at a bound of the metric, [S]."""
        ends = [end for end in self.bounds if isfinite(end)]
        near = ROUNDING * max(1.0, *map(abs, ends)) if ends else 0.0
        near_bound: NDArray[np.bool_] = (np.abs(self.values[:, None] - np.array(ends)) <= near).any(1)
        return near_bound

    @property
    def _by_examples(self) -> float:
        """Return the part of the variance between training runs that examples explain."""
        if self.draws is None:
            return 0.0
        drawn = self.draws[:, 0]
        return float((drawn - drawn.mean(0)).var(1).sum()) / (len(drawn) - 1)

    @property
    def is_constant(self) -> bool:
        """Return whether the number is independent of both seeds and examples."""
        least = ROUNDING * float(np.abs(self.values).max())
        varied = [self.values] if self.draws is None else [self.values, self.draws]
        return not self.error and all(np.ptp(some) <= least for some in varied)


@dataclass(frozen=True)
class Estimate:
    """A number with its error: for other training runs and examples, and for these training runs alone."""

    value: float
    seeds: VariancePart | None  # None with one seed: conclusions are limited to this training run
    examples: VariancePart  # what the examples add to the part of the seeds
    alone: VariancePart  # the whole part of the examples, for these training runs alone
    error: VariancePart = NONE  # variance of estimators
    floor: VariancePart = NONE  # variance for shares without a case, or without a counterexample
    skewness: float = 0.0  # skewness of the part of the examples
    bounds: tuple[float, float] = EVERYWHERE  # smallest and largest possible value

    @property
    def varies(self) -> bool:
        """Return whether seeds, examples or an estimator made any difference."""
        return any(part and part.variance for part in (self.seeds, self.alone, self.error))

    @property
    def of_these_trainings(self) -> bool:
        """Return whether the estimate is limited to these training runs: the variance of others is unknown."""
        return self.seeds is None

    def only_these(self) -> Estimate:
        """Return the estimate limited to these training runs."""
        return replace(self, seeds=None, examples=NONE)

    def negate(self) -> Estimate:
        """Return the estimate of the difference in the opposite direction."""
        low, high = self.bounds
        return replace(self, value=-self.value, skewness=-self.skewness, bounds=(-high, -low))

    def half_width(self, level: float = LEVEL) -> float:
        """Return half the width of the interval, ignoring bounds."""
        below, above = self._reach(level)
        return (below - above) / 2

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval of probability 1 - level: all values that a test at `level` does not reject.

        It stays within the bounds, is never narrower than the interval for these training runs alone, and never
        more symmetric than the replicates.
        """
        (below, above), (least, most) = self._reach(level), self.bounds
        return min(max(self.value - below, least), most), max(min(self.value - above, most), least)

    def p(self, null: float = 0.0) -> float:
        """Return the two-sided p-value of `null`: the level at which the interval just reaches it; never 0."""
        if self.value == null:
            return 1.0
        return min(1.0, 2 * min(self.p_above(null), self.negate().p_above(-null)))

    def p_above(self, null: float = 0.0) -> float:
        """Return the one-sided p-value of the statement that the true number is above `null`.

        The opposite statement has 1 minus this p-value, which decreases in `null`. Of the p-values with and without
        other training runs, and with and without skewness, it is the most conservative: the skewness of a small
        sample with an outlier is itself uncertain, and the population may have none.
        """
        p_values = [p_above(parts, spread, self.value - null) for parts in self._parts() for spread in self._spreads]
        return sorted([min(p_values), max(p_values), 0.5])[1]

    @property
    def _spreads(self) -> Sequence[tuple[float, float]]:
        """Return the possible skewnesses of the examples' part, including 0, each with its variance."""
        variance = self.alone.variance + self.floor.variance
        return [(skewness, variance) for skewness in dict.fromkeys((0.0, self.skewness))]

    def _reach(self, level: float) -> tuple[float, float]:
        """Return how far the interval extends below the value, and (negative) above it, ignoring bounds."""
        reached = [reach(parts, spread, level) for parts in self._parts() for spread in self._spreads]
        return max(below for below, _ in reached), min(above for _, above in reached)

    def detectable(self, power: float = POWER) -> float:
        """Return the difference that another experiment of the same kind would detect with probability `power`.

        The error is itself an estimate: its multiple is such that the probability is right on average. It is larger
        by as much as skewness widens the interval.
        """
        largest = max(detectable(parts, power) for parts in self._parts())
        return largest * self.half_width() / replace(self, skewness=0.0).half_width() if largest else largest

    def _parts(self) -> Iterator[Sequence[VariancePart]]:
        """Yield the parts of the variance for these training runs and, if known, for others."""
        yield self.alone, self.error, self.floor
        if self.seeds is not None:
            yield self.seeds, self.examples, self.error, self.floor


def contrast(measured: Sequence[Measured], weights: Sequence[float], value: float | None = None) -> Estimate:
    """Return a weighted sum of means over seeds, or `value` if the weights are its slopes in the means.

    Measurements of the same training runs are paired by seed, and those on the same sample by replicate. Different
    samples are independent, even if their replicates happen to be equal.
    """
    bounds, pairs = EVERYWHERE, [*zip(measured, weights, strict=True)]
    if value is None:
        value, bounds = fsum(measurement.mean * weight for measurement, weight in pairs), _between(pairs)
    least = ROUNDING * fsum(abs(measurement.mean * weight) for measurement, weight in pairs)
    samples = _Samples(measured, least**2)
    seeds, known = [], True
    for group in _trainings(pairs):
        series = np.sum([weight * measurement.values for measurement, weight in group], axis=0)
        known &= len(series) > 1 or not any(measurement.trained for measurement, _ in group)
        if len(series) > 1:
            variance = float(series.var(ddof=1)) / len(series)
            seeds.append(VariancePart(variance if variance > least**2 else 0.0, len(series) - 1.0))
        samples.add(group)
    error = fsum((measurement.error * weight) ** 2 for measurement, weight in pairs)
    known &= len(measured) != 1 or not measured[0].is_mixed
    examples, alone, skewness = samples.parts()
    floor = VariancePart(fsum(samples.floor.values()))
    value = value if abs(value) > least else 0.0
    return Estimate(
        value, together(seeds) if known else None, examples, alone, VariancePart(error), floor, skewness, bounds
    )


def _between(pairs: Group) -> tuple[float, float]:
    """Return the smallest and the largest possible value of a weighted sum of means."""
    ends = [sorted(weight * end for end in measurement.bounds) for measurement, weight in pairs if weight]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def difference(ours: Measured, theirs: Measured) -> Estimate:
    """Return our mean minus theirs; on a log scale, the logarithm of the ratio of the two."""
    return contrast([ours, theirs], [1.0, -1.0])


def together(parts: Sequence[VariancePart]) -> VariancePart:
    """Return the sum of independent variances, with the degrees of freedom of Welch and Satterthwaite."""
    total = fsum(v for v, _ in parts)
    if not total:
        return VariancePart(total, min((freedom for _, freedom in parts), default=inf))
    squares = fsum((v / total) ** 2 / freedom for v, freedom in parts)  # as fractions, which do not overflow
    return VariancePart(total, 1 / squares if squares else inf)


Group: TypeAlias = Sequence[tuple[Measured, float]]  # measurements with their weights


def _trainings(pairs: Group) -> list[Group]:
    """Return measurements grouped by training run."""
    groups: dict[Hashable, list[tuple[Measured, float]]] = {}
    for place, (measurement, weight) in enumerate(pairs):
        groups.setdefault(_group_key(measurement.training, place), []).append((measurement, weight))
    return [*groups.values()]


def _group_key(shared: Hashable, place: int) -> Hashable:
    """Return the key of a group of measurements; a measurement that shares nothing has its index as key."""
    return place if shared is None else ("of", shared)


class _Samples:
    """The parts of the error that are due to examples, by sample."""

    def __init__(self, measured: Sequence[Measured], least: float) -> None:
        self.least = least  # smallest variance that is more than rounding
        self.members: dict[Hashable, list[Measured]] = {}
        for place, measurement in enumerate(measured):
            if measurement.draws is not None:
                self.members.setdefault(_group_key(measurement.sample, place), []).append(measurement)
        self.moved = dict.fromkeys(self.members, np.zeros(1))  # [D], the sum of means over seeds in each replicate
        self.single_seed = dict.fromkeys(self.members, 0.0)  # the variance that replicates add to single seeds
        self.floor = dict.fromkeys(self.members, 0.0)  # the variance of a share of three cases: the rule of three
        self.skewed: list[tuple[float, float]] = []  # skewness and variance of parts
        self.names = {id(measurement): name for name, some in self.members.items() for measurement in some}

    def add(self, group: Group) -> None:
        """Add measurements of the same training runs."""
        draws: dict[Hashable, Array] = {}
        for measurement, weight in group:
            if measurement.draws is not None:
                name = self.names[id(measurement)]
                drawn = measurement.draws[:, self._length(name)[0]]
                draws[name] = draws.get(name, 0.0) + weight * drawn
                if measurement.scale == "share" and not np.ptp(drawn):
                    case = 100 * weight / self._units(name)
                    self.floor[name] += 3 * case**2
                    self.skewed.append(
                        (np.sign(weight) * (-1 if measurement.mean > 50 else 1) / sqrt(3), 3 * case**2)
                    )
        for name, some in draws.items():
            count, mean = len(some), some.mean(0)
            self.moved[name] = self.moved[name] + mean
            if count > 1:
                self.single_seed[name] += float((some - mean).var(1).sum()) / (count - 1) / count

    def parts(self) -> tuple[VariancePart, VariancePart, float]:
        """Return what examples add to the seeds' part of the variance, their whole part, and its skewness."""
        more, alone = [], []
        for name in self.members:
            units = self._units(name)
            small = units / (units - 1) if units > 1 else 1.0  # a bootstrap has (N - 1) / N of the variance
            variance = float(np.var(self.moved[name])) * small
            variance = variance if variance > self.least else 0.0
            freedom = 1 / (1 / max(units - 1, 1e-9) + 1 / max(1, self.moved[name].size - 1))
            alone.append(VariancePart(variance, freedom))
            more.append(VariancePart(max(0.0, variance - self.single_seed[name] * small), freedom))
            if variance:
                moved = self.moved[name] - self.moved[name].mean()
                skewness = float(((moved / moved.std()) ** 3).mean())
                self.skewed.append((skewness * (1 + UNDERSTATED / sqrt(units)), variance))
        whole = together(alone)
        total = whole.variance + fsum(self.floor.values())
        return together(more), whole, fsum(skewness_of(part, total) for part in self.skewed) if total else 0.0

    def _length(self, name: Hashable) -> tuple[int, int]:
        """Return the index and the block length that all measurements on a sample use."""
        some = self.members[name]
        needed = max(measurement.block for measurement in some)
        lengths = min((measurement.blocks for measurement in some), key=len)
        place = next((place for place, length in enumerate(lengths) if length >= needed), len(lengths) - 1)
        return place, lengths[place]

    def _units(self, name: Hashable) -> float:
        return min(measurement.units for measurement in self.members[name]) / self._length(name)[1]
