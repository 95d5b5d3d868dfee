"""Significance within the columns of a table: a paired bootstrap over examples nested in seeds, Holm-corrected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import erfc, inf, isfinite, sqrt
from typing import NamedTuple

import numpy as np

from bench_core.storage.bootstrap_replicates import DRAWS, Draws
from bench_reports.content.grid import Entry, Grid, Place, Test
from bench_reports.statistics.claim_bootstrap import drawn_seeds

LEVEL = 0.05  #: below which a difference counts
POWER = 1.96 + 0.84  #: standard errors of a difference that is found in four of five cases, at 5 %


def tested(grid: Grid, draws: Mapping[str, Draws]) -> Grid:
    """Return a table in which the numbers are marked that are better than all others of their column."""
    return marked(grid, [*_tests(grid, draws)])


def _tests(grid: Grid, draws: Mapping[str, Draws]) -> Iterator[Test]:
    """Yield the best of each column against every other number of it that is of the same examples."""
    for place, column in enumerate(grid.columns):
        alike: dict[str, list[_Sampled]] = defaultdict(list)
        for row, entries in enumerate(grid.entries):
            found = _draws_of(entries[place], draws) if column.number.better else None
            if found is not None and (summary := entries[place].summary):
                one = _Sampled((row, place), summary.mean, found, nested(found))
                alike[entries[place].sample].append(one)
        for numbers in alike.values():
            best = max(numbers, key=lambda one: column.number.better * one.mean)
            yield from (_test(best, other) for other in numbers if other is not best)


class _Sampled(NamedTuple):
    """A number of a table, and what draws say of it."""

    place: Place
    mean: float
    draws: Draws  # for each seed over the examples [S, D]
    nested: Draws  # over the seeds too [D]


def _test(best: _Sampled, other: _Sampled) -> Test:
    difference, apart = best.mean - other.mean, best.nested - other.nested
    p = max(p_value(difference, apart), _t_value(difference, best.draws, other.draws))
    return Test(best.place, other.place, p, float(apart.std()))


def _draws_of(entry: Entry, draws: Mapping[str, Draws]) -> Draws | None:
    """Return the draws of a number [S, D]; None where there are none, or some are not finite."""
    if entry.summary is None or not entry.sample or not isfinite(entry.summary.mean):
        return None
    if not all(key in draws for key in entry.keys):
        return None
    found: Draws = np.stack([draws[key] for key in entry.keys])
    return found if np.isfinite(found).all() else None


def marked(grid: Grid, tests: Sequence[Test]) -> Grid:
    """Return a table with the p-values of tests, corrected for all of them, in the place of those that it had."""
    if not tests:
        return grid
    adjusted = dict(zip(((one.best, one.other) for one in tests), holm([one.p for one in tests]), strict=True))
    worst: dict[Place, float] = defaultdict(float)  # p of each best against the other that is the nearest
    entries = [[*row] for row in grid.entries]
    for (best, (row, column)), p in adjusted.items():
        worst[best] = max(worst[best], p)
        entries[row][column] = replace(entries[row][column], p=p)
    for (row, column), p in worst.items():
        entries[row][column] = replace(entries[row][column], best=p < LEVEL)
    return replace(grid, entries=entries, tests=tests)


def nested(draws: Draws) -> Draws:
    """Return the means over seeds of draws [S, D], for each of them of seeds drawn with repeats [D]."""
    seeds, number = draws.shape
    chosen = drawn_seeds(seeds)[1 : 1 + number] if seeds > 1 else np.zeros((number, 1), dtype=np.intp)  # [D, S]
    means: Draws = np.mean(draws[chosen, np.arange(number)[:, None]], axis=1)
    return means


def nested_p_value(difference: float, ours: Draws, theirs: Draws) -> float:
    """Return the p-value of a difference of means over seeds, from draws [S, D] of both sides.

    That of nested draws, and no less than Student's t gives: few seeds that happen to agree tell little of others.
    """
    return max(p_value(difference, nested(ours) - nested(theirs)), _t_value(difference, ours, theirs))


def _t_value(difference: float, ours: Draws, theirs: Draws) -> float:
    """Return the tail of t, to either side, with the degrees of freedom of Satterthwaite (1946); 0 of one seed.

    The variance of seeds is found with few of these degrees, S - 1, and that of examples with many.
    """
    seeds = min(len(ours), len(theirs))
    if seeds < 2 or not difference:
        return 0.0
    if len(ours) == len(theirs):
        of_seeds = float((ours - theirs).mean(1).var(ddof=1)) / seeds
    else:
        of_seeds = sum(float(one.mean(1).var(ddof=1)) / len(one) for one in (ours, theirs))
    variance = of_seeds + float((ours.mean(0) - theirs.mean(0)).var())
    if not variance:
        return 0.0
    freedom = (seeds - 1) * (variance / of_seeds) ** 2 if of_seeds else inf
    return t_tail(abs(difference) / sqrt(variance), freedom)


def t_tail(t: float, freedom: float) -> float:
    """Return how probable |T| > t is, for Student's T."""
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -t))


def p_value(difference: float, draws: Draws) -> float:
    """Return how often chance alone leads as far from 0 as `difference`, by draws of it moved to a mean of 0.

    To either side. Where none of the draws gets that far, it is the tail of a normal distribution of their spread,
    since many comparisons need smaller values than 1,000 draws can tell.
    """
    apart = np.abs(draws - draws.mean())
    reached = int((apart > abs(difference)).sum())
    if reached or not len(draws):
        return (reached + 1) / (len(draws) + 1)
    error = float(draws.std())
    tail = erfc(abs(difference) / error / sqrt(2)) if error else (0.0 if difference else 1.0)
    return min(tail, 1 / (len(draws) + 1)) if difference else 1.0


def koehn_p_value(difference: float, draws: Draws) -> float:
    """Return the p-value of Koehn (2004) as sacrebleu has it: one-sided, so about half of `p_value` where small."""
    apart = np.abs(draws) - np.abs(draws).mean()
    return (int((apart > abs(difference)).sum()) + 1) / (len(draws) + 1)


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values that hold for all of them together (Holm, 1979)."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = highest
    return adjusted


def smallest_differences(grid: Grid) -> dict[str, tuple[float, float]]:
    """Return for each metric the differences, lowest and highest, that comparisons would mostly have shown."""
    found: dict[str, tuple[float, float]] = {}
    for test in (one for one in grid.tests if one.error):
        name, least = grid.columns[test.best[1]].value, POWER * test.error
        low, high = found.get(name, (inf, -inf))
        found[name] = min(low, least), max(high, least)
    return found


def method(grid: Grid) -> str:
    """Say what bold numbers mean."""
    seeds = {entry.summary.n for row in grid.entries for entry in row if entry.summary}
    over = "examples" if seeds == {1} else "examples nested in seeds"
    alone = " Variation between training runs is not included (one seed)." if seeds == {1} else ""
    several = f"Holm-corrected for {len(grid.tests):,} comparisons, " if len(grid.tests) > 1 else ""
    number = min(test.exchanges for test in grid.tests)
    text = f"paired bootstrap over {over}, {DRAWS:,} draws, {several}p < {LEVEL:g}"
    if number:
        at_once = "" if seeds == {1} else ", in all seeds at once"
        text = f"paired permutation test, {number:,} exchanges of examples{at_once}, {several}p < {LEVEL:g}"
        alone = " Other trainings are not in it, only these." if seeds != {1} else alone
    if any(entry.best for row in grid.entries for entry in row):
        return f"Bold: better than every other of its column on the same examples ({text}).{alone}"
    return f"None is better than every other of its column on the same examples ({text}).{alone}"
