"""Contrasts of measured numbers, with one standard error behind their intervals, tests and detectable differences.

A number v[s] of a model trained with seed s and measured on N examples is

    v[s] = mean + training[s] + examples + both[s]

where `examples` is what the test set adds to all seeds alike and `both` what it adds to one of them. The error of a
mean over seeds, of a difference, or of any smooth function of means has a part of the seeds, var(v[s]) / S, which
contains `both`, and a part of the examples, which does not: the mean covariance of the bootstrap draws of two seeds.
Tests allow for the skewness of what examples add by Hall's (1992) monotone transformation of Student's statistic.
Where trainings differ in kind, some at 0 % and some at 60 %, nothing is said of others than these.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum, inf, isfinite, sqrt
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench_reports.statistics.tails import LEVEL, POWER, Array, Part, detectable, p_above, reach, skewness_of

ROUNDING = 1e-11  # of numbers: relative differences that come from the order of sums
UNDERSTATED = 3.0  #: times 1 / sqrt(N): by how much a sample has less skewness than what it was drawn from, simulated
EVERYWHERE = (-inf, inf)


NONE = Part(0.0)


@dataclass(frozen=True)
class Measured:
    """A metric over seeds, on the scale of its tests: perplexities by their logarithms."""

    values: Array  # [S]
    draws: Array | None = None  # [S, B, D], bootstrap draws for each block length; None of a whole population
    units: float = inf  # how many are drawn independently: examples, or groups of them
    blocks: tuple[int, ...] = (1,)  # [B], numbers of examples in a row that were drawn together
    block: int = 1  # how many depend on each other
    sample: Hashable = None  # measurements that share it are of the same examples, in the same draws
    training: Hashable = None  # those that share it are of the same trainings, seed by seed
    trained: bool = True  # False where seeds change nothing, as with counts of n-grams
    error: float = 0.0  # standard error of an estimate, whatever the examples
    scale: Literal["linear", "log", "share"] = "linear"  # a share is in percent
    bounds: tuple[float, float] = EVERYWHERE  # of values

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def is_mixed(self) -> bool:
        """Return whether trainings seem to differ in kind rather than in degree: no interval describes others.

        So it is if a third of them or more are at a bound of the metric, or if their mean is nearer to a bound than
        their standard deviation, without what examples explain of it: no normal distribution is like that.
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
        """Return which trainings are at a bound of the metric [S]."""
        ends = [end for end in self.bounds if isfinite(end)]
        near = ROUNDING * max(1.0, *map(abs, ends)) if ends else 0.0
        found: NDArray[np.bool_] = (np.abs(self.values[:, None] - np.array(ends)) <= near).any(1)
        return found

    @property
    def _by_examples(self) -> float:
        """Return the variance between trainings that examples explain."""
        if self.draws is None:
            return 0.0
        drawn = self.draws[:, 0]
        return float((drawn - drawn.mean(0)).var(1).sum()) / (len(drawn) - 1)

    @property
    def is_constant(self) -> bool:
        """Return whether neither seeds nor examples change anything."""
        least = ROUNDING * float(np.abs(self.values).max())
        varied = [self.values] if self.draws is None else [self.values, self.draws]
        return not self.error and all(np.ptp(some) <= least for some in varied)


@dataclass(frozen=True)
class Estimate:
    """A number with its error: that for other trainings and examples, and that for these trainings alone."""

    value: float
    seeds: Part | None  # None with one seed: what is said is of this training
    examples: Part  # what the examples add to the seeds' part
    alone: Part  # the whole part of the examples, if these trainings were the only ones
    error: Part = NONE  # of estimators
    floor: Part = NONE  # of shares of which no example, or every one, is a case
    skewness: float = 0.0  # of what examples add
    bounds: tuple[float, float] = EVERYWHERE  # of what is estimated

    @property
    def varies(self) -> bool:
        """Return whether anything that was seen made a difference: seeds, examples or an estimator."""
        return any(part and part.variance for part in (self.seeds, self.alone, self.error))

    @property
    def of_these_trainings(self) -> bool:
        """Return whether other trainings are left out, as their variance is unknown."""
        return self.seeds is None

    def only_these(self) -> Estimate:
        """Return what is known of these trainings, whatever others would do."""
        return replace(self, seeds=None, examples=NONE)

    def reversed(self) -> Estimate:
        """Return the estimate of the difference the other way round."""
        low, high = self.bounds
        return replace(self, value=-self.value, skewness=-self.skewness, bounds=(-high, -low))

    def half_width(self, level: float = LEVEL) -> float:
        """Return half the width of the interval, wherever its bounds are."""
        below, above = self._reached(level)
        return (below - above) / 2

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval of probability 1 - level: all values that a test at `level` does not reject.

        It stays within the bounds, is never narrower than that of these trainings alone, and no more symmetric than
        the replicates are.
        """
        (below, above), (least, most) = self._reached(level), self.bounds
        return min(max(self.value - below, least), most), max(min(self.value - above, most), least)

    def p(self, null: float = 0.0) -> float:
        """Return the two-sided p-value of `null`: the level at which the interval just reaches it, and never 0."""
        if self.value == null:
            return 1.0
        return min(1.0, 2 * min(self.p_above(null), self.reversed().p_above(-null)))

    def p_above(self, null: float = 0.0) -> float:
        """Return the one-sided p-value of the statement that the true number is above `null`.

        One less it is that of the contrary. It falls as `null` does. Of the p-values with and without other
        trainings, and with and without skewness, it is the one that shows least: the skewness of a small sample with
        an outlier is itself uncertain, and the population may have none.
        """
        found = [p_above(parts, spread, self.value - null) for parts in self._parts() for spread in self._spreads]
        return sorted([min(found), max(found), 0.5])[1]

    @property
    def _spreads(self) -> Sequence[tuple[float, float]]:
        """Return the skewness of what examples add, which may be none, with its variance."""
        variance = self.alone.variance + self.floor.variance
        return [(skewness, variance) for skewness in dict.fromkeys((0.0, self.skewness))]

    def _reached(self, level: float) -> tuple[float, float]:
        """Return how far the interval reaches below the value, and (negative) above it, wherever its bounds are."""
        reached = [reach(parts, spread, level) for parts in self._parts() for spread in self._spreads]
        return max(below for below, _ in reached), min(above for _, above in reached)

    def detectable(self, power: float = POWER) -> float:
        """Return the difference that another experiment like this one would find with probability `power`.

        The error is itself an estimate: its multiple is such that the probability is right on average. It is larger
        by as much as skewness widens the interval.
        """
        found = max(detectable(parts, power) for parts in self._parts())
        return found * self.half_width() / replace(self, skewness=0.0).half_width() if found else found

    def _parts(self) -> Iterator[Sequence[Part]]:
        """Yield the parts of the variance for these trainings and, if it is known, for others."""
        yield self.alone, self.error, self.floor
        if self.seeds is not None:
            yield self.seeds, self.examples, self.error, self.floor


def contrast(measured: Sequence[Measured], weights: Sequence[float], value: float | None = None) -> Estimate:
    """Return a weighted sum of means over seeds, or `value` where the weights are its slopes in the means.

    Measurements of the same trainings are paired by seed, those of the same sample by draw. Different samples are
    independent, even where their draws happen to be the same.
    """
    bounds, pairs = EVERYWHERE, [*zip(measured, weights, strict=True)]
    if value is None:
        value, bounds = fsum(one.mean * weight for one, weight in pairs), _between(pairs)
    least = ROUNDING * fsum(abs(one.mean * weight) for one, weight in pairs)
    samples = _Samples(measured, least**2)
    seeds, known = [], True
    for group in _trainings(pairs):
        series = np.sum([weight * one.values for one, weight in group], axis=0)
        known &= len(series) > 1 or not any(one.trained for one, _ in group)
        if len(series) > 1:
            variance = float(series.var(ddof=1)) / len(series)
            seeds.append(Part(variance if variance > least**2 else 0.0, len(series) - 1.0))
        samples.add(group)
    error = fsum((one.error * weight) ** 2 for one, weight in pairs)
    known &= len(measured) != 1 or not measured[0].is_mixed
    examples, alone, skewness = samples.parts()
    floor = Part(fsum(samples.floor.values()))
    value = value if abs(value) > least else 0.0
    return Estimate(value, together(seeds) if known else None, examples, alone, Part(error), floor, skewness, bounds)


def _between(pairs: Group) -> tuple[float, float]:
    """Return the least and the greatest that a weighted sum of means can be."""
    ends = [sorted(weight * end for end in one.bounds) for one, weight in pairs if weight]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def difference(ours: Measured, theirs: Measured) -> Estimate:
    """Return our mean less theirs; on a log scale, the logarithm of their ratio."""
    return contrast([ours, theirs], [1.0, -1.0])


def together(parts: Sequence[Part]) -> Part:
    """Return the sum of independent variances, with the degrees of freedom of Welch and Satterthwaite."""
    total = fsum(v for v, _ in parts)
    if not total:
        return Part(total, min((freedom for _, freedom in parts), default=inf))
    squares = fsum((v / total) ** 2 / freedom for v, freedom in parts)  # of shares, which no variance makes too large
    return Part(total, 1 / squares if squares else inf)


Group: TypeAlias = Sequence[tuple[Measured, float]]  # measurements with their weights


def _trainings(pairs: Group) -> list[Group]:
    """Return measurements of the same trainings together."""
    groups: dict[Hashable, list[tuple[Measured, float]]] = {}
    for place, (one, weight) in enumerate(pairs):
        groups.setdefault(_named(one.training, place), []).append((one, weight))
    return [*groups.values()]


def _named(shared: Hashable, place: int) -> Hashable:
    """Return what measurements have in common; the place of one that shares nothing."""
    return place if shared is None else ("of", shared)


class _Samples:
    """The parts of the error that examples have, by sample."""

    def __init__(self, measured: Sequence[Measured], least: float) -> None:
        self.least = least  # variance that is more than rounding
        self.members: dict[Hashable, list[Measured]] = {}
        for place, one in enumerate(measured):
            if one.draws is not None:
                self.members.setdefault(_named(one.sample, place), []).append(one)
        self.moved = dict.fromkeys(self.members, np.zeros(1))  # [D], the sum of means over seeds in each draw
        self.own = dict.fromkeys(self.members, 0.0)  # the variance of what draws add to single seeds
        self.floor = dict.fromkeys(self.members, 0.0)  # the variance of a share of three cases: the rule of three
        self.skewed: list[tuple[float, float]] = []  # skewness and variance of parts
        self.names = {id(one): name for name, some in self.members.items() for one in some}

    def add(self, group: Group) -> None:
        """Add measurements of the same trainings."""
        draws: dict[Hashable, Array] = {}
        for one, weight in group:
            if one.draws is not None:
                name = self.names[id(one)]
                drawn = one.draws[:, self._length(name)[0]]
                draws[name] = draws.get(name, 0.0) + weight * drawn
                if one.scale == "share" and not np.ptp(drawn):
                    case = 100 * weight / self._units(name)
                    self.floor[name] += 3 * case**2
                    self.skewed.append((np.sign(weight) * (-1 if one.mean > 50 else 1) / sqrt(3), 3 * case**2))
        for name, some in draws.items():
            count, mean = len(some), some.mean(0)
            self.moved[name] = self.moved[name] + mean
            if count > 1:
                self.own[name] += float((some - mean).var(1).sum()) / (count - 1) / count

    def parts(self) -> tuple[Part, Part, float]:
        """Return what examples add to the seeds' part of the variance, their whole part, and its skewness."""
        more, alone = [], []
        for name in self.members:
            units = self._units(name)
            small = units / (units - 1) if units > 1 else 1.0  # a bootstrap has (N - 1) / N of the variance
            variance = float(np.var(self.moved[name])) * small
            variance = variance if variance > self.least else 0.0
            freedom = 1 / (1 / max(units - 1, 1e-9) + 1 / max(1, self.moved[name].size - 1))
            alone.append(Part(variance, freedom))
            more.append(Part(max(0.0, variance - self.own[name] * small), freedom))
            if variance:
                moved = self.moved[name] - self.moved[name].mean()
                skewness = float(((moved / moved.std()) ** 3).mean())
                self.skewed.append((skewness * (1 + UNDERSTATED / sqrt(units)), variance))
        whole = together(alone)
        total = whole.variance + fsum(self.floor.values())
        return together(more), whole, fsum(skewness_of(one, total) for one in self.skewed) if total else 0.0

    def _length(self, name: Hashable) -> tuple[int, int]:
        """Return the place and the length of the blocks that all measurements of a sample are drawn by."""
        some = self.members[name]
        needed, lengths = max(one.block for one in some), min((one.blocks for one in some), key=len)
        place = next((place for place, length in enumerate(lengths) if length >= needed), len(lengths) - 1)
        return place, lengths[place]

    def _units(self, name: Hashable) -> float:
        return min(one.units for one in self.members[name]) / self._length(name)[1]
