"""How often the statistics of reports keep what they promise, by simulation.

    python tests/calibration/promises.py [--repetitions N] [--seed N] [--only NAME,...] [--record]

Every table says what share of experiments it counts, in percent, and between which bounds that share must lie.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from other_worlds import EQUAL, GAUSSIAN, SINGLE, UNKNOWABLE, Draw, OtherWorld
from worlds import METRICS, World, streams, weights

from bench_reports.language.expressions import Query, read
from bench_reports.statistics.claim_tests import ClaimPair, ClaimTest
from bench_reports.statistics.comparisons import all_pairs, holm, with_baseline, with_best
from bench_reports.statistics.equivalence import SAME, Printed, beside, of_two_samples
from bench_reports.statistics.estimate import Measured, contrast, difference
from bench_reports.statistics.looks import spent
from bench_reports.statistics.measurements import alone, interval_of
from bench_reports.statistics.power import seeds_needed
from bench_reports.statistics.tails import LEVEL, Array
from block_bootstrap import BLOCKS, block_length

RECORDED = Path(__file__).parents[1] / "recorded" / "calibration.json"
LAST = "Not covered by these simulations"  # behind all tables
DOCS = Path(__file__).parents[2] / "docs"
IN_STATISTICS = ("conclusions",)  # all other tables are in simulations.md
SEEDS = (1, 2, 3, 5, 10)
SPREADS = (0.0, 0.5, 3.0)
ONE = (0.0,)  # what one seed can promise something of

Says: TypeAlias = Callable[[list[Measured]], bool]


@dataclass(frozen=True)
class Row:
    """A row of a table: shares in percent, each of the lowest and the highest if several worlds are behind it."""

    label: str
    shares: Mapping[str, Sequence[float]]  # by column
    bounds: Mapping[str, tuple[float, float]]  # between which they must lie if repeated for ever
    about: Mapping[str, str] = field(default_factory=dict)  # more to be shown in a column


@dataclass
class Study:
    """Counts how often something is so in repeated experiments."""

    repetitions: int
    generator: np.random.Generator
    quick: bool = False  # fewer worlds, for a test that takes seconds

    @property
    def seeds(self) -> Sequence[int]:
        return (1, 2, 3, 5) if self.quick else SEEDS

    @property
    def spreads(self) -> Sequence[float]:
        return (0.5, 3.0) if self.quick else SPREADS

    def share(self, world: World, says: Says) -> float:
        """Return the percentage of experiments in a world of which something is so."""
        return 100 * float(np.mean([says(cells) for cells in world.experiments(self.repetitions, self.generator)]))

    def covered(self, world: World, spreads: Sequence[float]) -> list[float]:
        """Return how often the interval of a difference covers the truth, for each spread."""
        worlds = [world.with_spread(spread) for spread in spreads]
        return [
            self.share(one, partial(_hits, one.shifts[0] - one.shifts[1] if _is_normal(one) else 0.0))
            for one in worlds
        ]


def _is_normal(world: World) -> bool:
    return world.metric == "normal"


def _hits(true: float, cells: list[Measured]) -> bool:
    low, high = difference(*cells).interval()
    return low <= true <= high


def _interval_bounds(seeds: int) -> tuple[float, float]:
    """Return between which bounds the coverage of the 95 % interval of a difference must lie."""
    return 92.0, {1: 97.5, 2: 100.0, 3: 99.5}.get(seeds, 99.0)


def differences(study: Study) -> Iterator[Row]:
    """95 % intervals of a difference: lowest and highest coverage over spreads 0, 0.5 and 3."""
    metrics = ("normal", "share 10 %", "perplexity") if study.quick else tuple(METRICS)
    for metric in metrics:
        for examples in (100,) if study.quick else (20, 100, 400):
            worlds = {seeds: World(metric, seeds, examples) for seeds in study.seeds}
            shares = {f"S={s}": study.covered(world, ONE if s == 1 else study.spreads) for s, world in worlds.items()}
            promised = examples >= 100
            bounds = {f"S={s}": _interval_bounds(s) if promised else (90.0, 100.0) for s in worlds}
            yield Row(f"{metric}, N = {examples}", shares, bounds)
    for metric in () if study.quick else ("normal", "share 10 %", "BLEU-like"):
        shares = {f"S={s}": study.covered(World(metric, s, 3_000), (0.0 if s == 1 else 1.0,)) for s in (1, 3)}
        yield Row(f"{metric}, N = 3,000", shares, {f"S={s}": _interval_bounds(s) for s in (1, 3)})


def designs(study: Study) -> Iterator[Row]:
    """The same for other designs, normal, N = 120."""
    spreads = study.spreads
    for label, world in {
        "decoders of the same training runs": World(paired=True, examples=120),
        "correlated training runs (0.5), unknown to the test": World(alike=0.5, examples=120),
        "documents of 4 sentences": World(group=4, examples=480),
        "two test sets, averaged": World(examples=120, shifts=(0.0, 0.0), sets=2),
    }.items():
        shares, bounds = {}, {}
        for seeds in study.seeds:
            one = World(**{**vars(world), "seeds": seeds})
            told = ONE if seeds == 1 else spreads
            shares[f"S={seeds}"] = study.covered(one, told) if world.sets == 1 else _averaged(study, one, told)
            bounds[f"S={seeds}"] = _interval_bounds(seeds)
        yield Row(label, shares, bounds)
    unequal = {"S=2": (2, 5), "S=3": (3, 5), "S=5": (5, 10), "S=10": (10, 3)}
    kept = {name: pair for name, pair in unequal.items() if not study.quick or name in ("S=2", "S=3")}
    shares = {name: study.covered(World(seeds=pair, examples=120), spreads) for name, pair in kept.items()}
    bounds = {name: _interval_bounds(min(pair)) for name, pair in kept.items()}
    about = {name: "{} against {}".format(*pair) for name, pair in kept.items()}
    yield Row("unequal numbers of seeds", shares, bounds, about)


def _averaged(study: Study, world: World, spreads: Sequence[float]) -> list[float]:
    def hits(cells: list[Measured]) -> bool:
        low, high = contrast(cells, [0.5, -0.5, 0.5, -0.5]).interval()
        return low <= 0 <= high

    return [study.share(World(**{**vars(world), "spread": spread}), hits) for spread in spreads]


def untold(study: Study) -> Iterator[Row]:
    """If the task does not declare its documents, normal, N = 480 in documents of 4: coverage in %."""
    world = World(group=4, examples=480, told=False)
    shares = {f"S={s}": study.covered(World(**{**vars(world), "seeds": s}), (0.0,)) for s in (1, 3)}
    yield Row("sentences resampled individually", shares, {})


def estimators(study: Study) -> Iterator[Row]:
    """Sampled estimates (whole population, training spread 1): coverage in %."""
    for label, error in (("error as large as the spread", 1.0), ("error 3 times the spread", 3.0), ("no error", 0.0)):
        shares, bounds = {}, {}
        for seeds in study.seeds:
            if seeds == 1 and not error:
                continue
            normal, hits = study.generator.standard_normal, 0
            for _ in range(study.repetitions):
                cells = [
                    Measured((normal(seeds) * (seeds > 1)) + normal() * error, None, error=error) for _ in range(2)
                ]
                low, high = difference(*cells).interval()
                hits += low <= 0 <= high
            shares[f"S={seeds}"] = [100 * hits / study.repetitions]
            bounds[f"S={seeds}"] = (92.0, 100.0)
        yield Row(label, shares, bounds)


def single(study: Study) -> Iterator[Row]:
    """95 % intervals of one cell, spread 1 (0 with one seed): coverage in %."""
    metrics = ("share 10 %", "perplexity") if study.quick else tuple(METRICS)
    for metric in metrics:
        for examples in (100,) if study.quick else (20, 100):
            shares, bounds = {}, {}
            for seeds in study.seeds:
                world = World(metric, seeds, examples, 0.0 if seeds == 1 else 1.0, (0.0,))
                true = float(world.truth(np.random.default_rng(5))[0])
                shares[f"S={seeds}"] = [study.share(world, partial(_covers, true))]
                few = metric in ("lognormal", "share 10 %", "perplexity") or examples < 100
                exact = seeds == 1 and metric.startswith("share")
                bounds[f"S={seeds}"] = (94.0, 100.0) if exact else (85.0, 99.5) if few else (92.0, 99.5)
            yield Row(f"{metric}, N = {examples}", shares, bounds)


def _covers(true: float, cells: list[Measured]) -> bool:
    low, high = alone(cells[0]).interval()
    return low <= true <= high


ERROR = (0.0, 5.0)  # bounds of an error that a test promises


def columns(study: Study) -> Iterator[Row]:
    """Columns of a table, N = 50, spread 1: % with a false bold, and with a false p below 5 %."""
    tops: dict[str, Sequence[float]] = {
        "2 equal rows": (0, 0),
        "5 equal rows": (0,) * 5,
        "2 of 5 on top": (9, 9, 0, 0, 0),
    }
    if not study.quick:
        tops["10 equal rows"] = (0,) * 10
    for label, shifts in tops.items():
        bold, small = {}, {}
        for seeds in study.seeds:
            world = World(seeds=seeds, examples=50, spread=1.0 if seeds > 1 else 0.0, shifts=shifts)
            found = [
                with_best([[one] for one in cells], 1)
                for cells in world.experiments(study.repetitions, study.generator)
            ]
            top = [place for place, shift in enumerate(shifts) if shift == max(shifts)]
            bold[f"S={seeds}"] = [100 * float(np.mean([max(one.p for one in some) < LEVEL for some in found]))]
            false = [any(one.adjusted < LEVEL for one in some if {one.one, one.other} <= {*top}) for some in found]
            small[f"S={seeds}"] = [100 * float(np.mean(false))]
        yield Row(f"{label}: bold", bold, dict.fromkeys(bold, ERROR))
        yield Row(f"{label}: p against the best", small, dict.fromkeys(small, ERROR))
    for label, compare in {
        "p against a baseline, 5 equal rows": with_baseline,
        "p of all pairs, 5 equal rows": all_pairs,
    }.items():
        shares = {}
        for seeds in study.seeds:
            world = World(seeds=seeds, examples=50, spread=1.0 if seeds > 1 else 0.0, shifts=(0,) * 5)
            arguments = (0,) if compare is with_baseline else ()
            shares[f"S={seeds}"] = [study.share(world, partial(_any_small, compare, arguments))]
        yield Row(label, shares, dict.fromkeys(shares, ERROR))


def _any_small(compare: Callable[..., list[object]], arguments: tuple[int, ...], cells: list[Measured]) -> bool:
    return any(one.adjusted < LEVEL for one in compare([[one] for one in cells], *arguments))  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Boundary:
    """A claim in a world where it is just not true, or just not false."""

    claim: str  # of cells a, b, c
    shifts: Sequence[float]  # of their means, in errors of a difference at one seed
    metric: str = "normal"
    factor: float = 1.0  # by which a log-scale `a` is larger than it was drawn
    base: float = 0.0  # added to all shifts


BOUNDARIES = (
    Boundary("a > b", (0, 0)),
    Boundary("a > b > c", (0, 0, -99)),
    Boundary("a > max(b, c)", (0, 0, 0)),
    Boundary("a > b or a > c", (0, 0, 0)),
    Boundary("any of 5 equal pairs", (0, 0, 0, 0, 0, 0)),
    Boundary("max(a, b) > c", (0, 0, 0)),
    Boundary("abs(a - b) < 6", (6, 0)),
    Boundary("a / b > 1.1", (0, 0), base=10),
    Boundary("a <= 1.05 * b", (0, 0), "perplexity", 1.05),
    Boundary("a - b > b - c", (1, 0, -1)),
)


def claims(study: Study) -> Iterator[Row]:
    """Claims at their boundary, N = 100, spread 1: % `holds` and % `fails` (both false)."""
    chosen = BOUNDARIES[:4] if study.quick else BOUNDARIES
    for one in chosen:
        holds, fails = {}, {}
        for seeds in study.seeds:
            found = [_judged(study, one, cells) for cells in _at_boundary(study, one, seeds)]
            holds[f"S={seeds}"] = [100 * float(np.mean([true <= LEVEL for true, _ in found]))]
            fails[f"S={seeds}"] = [100 * float(np.mean([false <= LEVEL for _, false in found]))]
        yield Row(f"{one.claim}: holds", holds, dict.fromkeys(holds, ERROR))
        yield Row(f"{one.claim}: fails", fails, dict.fromkeys(fails, ERROR))


def conclusions(study: Study) -> Iterator[Row]:
    """What one, three or ten seeds can show: % `holds` for `a > b`, by the true difference in standard deviations over training runs (spread 3; S = 1: in this training run)."""
    claim = Boundary("a > b", (0, 0))
    for apart in (0.0, 0.5, 1.0, 2.0, 4.0):
        found = {}
        for seeds in study.seeds:
            world = World("normal", seeds, 400, 3.0)
            world = World(**{**vars(world), "shifts": (apart * 3 * world.unit, 0.0)})
            cells = world.experiments(study.repetitions, study.generator)
            found[f"S={seeds}"] = [100 * float(np.mean([_judged(study, claim, some)[0] <= LEVEL for some in cells]))]
        bounds = {name: ERROR for name in found if name != "S=1"} if not apart else {}
        yield Row(f"{apart:g} sd", found, bounds)


def _at_boundary(study: Study, one: Boundary, seeds: int) -> Iterator[list[Measured]]:
    world = World(one.metric, seeds, 100, 1.0 if seeds > 1 else 0.0, (0,) * len(one.shifts))
    shifts = [shift * world.unit + one.base for shift in one.shifts]
    if "1.1" in one.claim:
        shifts = [one.base, one.base / 1.1]
    return World(**{**vars(world), "shifts": shifts}).experiments(study.repetitions, study.generator)


def _judged(study: Study, one: Boundary, cells: list[Measured]) -> tuple[float, float]:
    if one.factor != 1:
        first, moved = cells[0], float(np.log(one.factor))
        assert first.draws is not None
        cells = [
            Measured(first.values + moved, first.draws + moved, first.units, sample=first.sample, scale="log"),
            *cells[1:],
        ]
    unit = World(one.metric, 1, 100).unit
    text = " or ".join(f"a > {name}" for name in "bcdef") if one.claim.startswith("any") else one.claim
    text = text.replace("< 6", f"< {6 * unit!r}")
    for name in "abcdef":
        text = _named(text, name)
    expression = read(text)
    assert expression.term, expression.problems
    measured = {Query("score", (("model", name),)): cell for name, cell in zip("abcdef", cells, strict=False)}
    pair = ClaimTest(measured).p_values(expression.term)
    return (1.0, 1.0) if pair is None else (pair.true, pair.false)


def _named(text: str, name: str) -> str:
    words = text.replace("(", "( ").replace(")", " )").replace(",", " , ").split(" ")
    return " ".join(f"v('score', model='{name}')" if word == name else word for word in words)


def shares(study: Study) -> Iterator[Row]:
    """Rare cases: claims about a share at its boundary, one seed: % `holds` (false)."""
    for percent, examples in ((1.0, 100), (1.0, 300), (5.0, 100), (50.0, 20)):
        query = Query("score", ())
        below, above = read(f"v('score') < {percent}"), read(f"v('score') > {percent}")
        hits = [0, 0]
        for _ in range(study.repetitions):
            cases = study.generator.random(examples) < percent / 100
            drawn = study.generator.multinomial(examples, np.full(examples, 1 / examples), 200) @ cases / examples
            one = Measured(np.array([100 * cases.mean()]), 100 * drawn[None, None], examples, scale="share")
            for place, expression in enumerate((below, above)):
                assert expression.term
                pair = ClaimTest({query: one}).p_values(expression.term)
                hits[place] += pair is not None and pair.true <= LEVEL
        found = {
            f"share {word}": [100 * number / study.repetitions] for word, number in zip(("<", ">"), hits, strict=True)
        }
        yield Row(f"{percent:g} % of {examples}", found, dict.fromkeys(found, ERROR))


MOST_FALSE = {50: 7.5, 100: 7.0, 300: 6.5}  # % of one-sided errors, by examples
A_OVER_B, B_OVER_A = (read(f"v('score', model='{one}') > v('score', model='{two}')") for one, two in ("ab", "ba"))


def other_worlds(study: Study) -> Iterator[Row]:
    """Equal systems with non-Gaussian data: % `a > b` holds and % `b > a` holds (both false)."""
    yield from _false_claims(study, EQUAL, (1, 2, 3, 5), MOST_FALSE)


def beyond(study: Study) -> Iterator[Row]:
    """The same with skewed training runs, which few seeds cannot reveal: no guarantee."""
    yield from _false_claims(study, UNKNOWABLE, (3, 5), {})


def _false_claims(
    study: Study, worlds: Mapping[str, OtherWorld], seeds: Sequence[int], most: Mapping[int, float]
) -> Iterator[Row]:
    for label, world in worlds.items():
        for examples in (50,) if study.quick else (50, 100, 300):
            shares = {}
            for count in (1, 3) if study.quick else seeds:
                if count > 1 or label.startswith(("opposed", "log", "heavy")):
                    cells = world.experiments(study.repetitions, count, examples, study.generator)
                    found = [[one.true <= LEVEL for one in _both(some)] for some in cells]
                    shares[f"S={count}"] = [100 * float(share) for share in np.mean(found, axis=0)]
            promised = [name for name in shares if name != "S=1" or label.startswith("opposed")]
            bounds = dict.fromkeys(promised, (0.0, most[examples])) if most else {}
            yield Row(f"{label}, N = {examples}", shares, bounds)


def _both(cells: list[Measured]) -> list[ClaimPair]:
    """Return the p-values of `a > b` and `b > a`."""
    measured = {Query("score", (("model", name),)): cell for name, cell in zip("ab", cells, strict=True)}
    found = [ClaimTest(measured).p_values(one.term) for one in (A_OVER_B, B_OVER_A) if one.term]
    return [one or ClaimPair(1.0, 1.0) for one in found]


def other_cells(study: Study) -> Iterator[Row]:
    """Cells with non-Gaussian data: % whose interval covers the truth or is not printed (% printed)."""
    yield from _cells(study, SINGLE, (90.0, 100.0), None)


def gaussian_cells(study: Study) -> Iterator[Row]:
    """The same with Gaussian data, where at least 95 % have an interval."""
    yield from _cells(study, GAUSSIAN, (92.0, 100.0), 95.0)


def _cells(
    study: Study, worlds: Mapping[str, OtherWorld], bounds: tuple[float, float], least: float | None
) -> Iterator[Row]:
    for label, world in worlds.items():
        for examples in (50,) if study.quick else (50, 100, 300):
            right, known = {}, {}
            for seeds in (1, 2, 3) if study.quick else (1, 2, 3, 5):
                true = world.truth(Draw(study.generator, 1, seeds, examples))
                if seeds == 1 and "training runs" in label:
                    continue
                cells = world.experiments(study.repetitions, seeds, examples, study.generator)
                found = [interval_of(one) for (one,) in cells]
                right[f"S={seeds}"] = [100 * float(np.mean([not one or one[0] <= true <= one[1] for one in found]))]
                known[f"S={seeds}"] = [100 * float(np.mean([one is not None for one in found]))]
            about = {name: f"{share:.0f}" for name, (share,) in known.items()}
            yield Row(f"{label}, N = {examples}", right, dict.fromkeys(right, bounds), about)
            if least is not None:
                yield Row(f"{label}, N = {examples}: intervals", known, dict.fromkeys(known, (least, 100.0)))


def as_often(study: Study) -> Iterator[Row]:
    """Normal data: true claims that hold, in % of those that hold without the skewness correction."""
    for apart in (2.0, 3.0):
        for examples in (50, 100, 300):
            shares = {}
            for seeds in (1, 2, 3, 5):
                world = World("normal", seeds, examples, 1.0 if seeds > 1 else 0.0)
                world = World(**{**vars(world), "shifts": (apart * world.unit, 0.0)})
                found = [difference(*cells) for cells in world.experiments(study.repetitions, study.generator)]
                holds = sum(one.p_above() <= LEVEL for one in found)
                before = sum(replace(one, skewness=0.0).p_above() <= LEVEL for one in found)
                shares[f"S={seeds}"] = [min(100.0, 100 * holds / max(1, before))]
            yield Row(f"difference of {apart:g} errors, N = {examples}", shares, dict.fromkeys(shares, (90.0, 100.0)))


def many_claims(study: Study) -> Iterator[Row]:
    """Reports with 20 claims about equal systems: % in which any claim holds, and any primary claim."""
    any_holds, primary = {}, {}
    for seeds in (3, 5):
        world = World("normal", seeds, 50, 1.0, (0.0,) * 21)
        found = []
        for cells in world.experiments(min(study.repetitions, 2_000), study.generator):
            p = [difference(cells[0], one).p_above() for one in cells[1:]]
            found.append((min(p) <= LEVEL, min(holm(p)) <= LEVEL))
        any_holds[f"S={seeds}"], primary[f"S={seeds}"] = ([100 * float(share)] for share in np.mean(found, axis=0))
    yield Row("any claim", any_holds, {})
    yield Row("any primary claim", primary, dict.fromkeys(primary, ERROR))


def looks(study: Study) -> Iterator[Row]:
    """Seeds added until `a > b` or its negation holds, at most 22 (20 looks) or 10 (8 looks): % of experiments."""
    for apart, most in ((0.0, 10),) if study.quick else ((0.0, 22), (0.0, 10), (2.0, 10), (4.0, 10)):
        world = World("normal", most, 50, 3.0)
        world = World(**{**vars(world), "shifts": (apart * 3 * world.unit, 0.0)})
        schedule, found = [*range(3, most + 1)], []
        for cells in world.experiments(min(study.repetitions, 2_000), study.generator):
            p = [difference(*(_first(cell, seeds) for cell in cells)).p_above() for seeds in schedule]
            levels = [spent(look, len(schedule)) for look in range(1, len(schedule) + 1)]
            found.append(
                [
                    any(one <= LEVEL for one in p),
                    any(one <= level for one, level in zip(p, levels, strict=True)),
                    p[-1] <= LEVEL,
                ]
            )
        names = ("5 % at each look", "5 % over all looks", "one look, at the end")
        shares = {name: [100 * float(share)] for name, share in zip(names, np.mean(found, axis=0), strict=True)}
        bounds = dict.fromkeys(names[1:], ERROR) if not apart else {}
        yield Row(f"{apart:g} sd apart, up to {most} seeds", shares, bounds)


def _first(cell: Measured, seeds: int) -> Measured:
    assert cell.draws is not None
    return replace(cell, values=cell.values[:seeds], draws=cell.draws[:seeds])


def power(study: Study) -> Iterator[Row]:
    """Minimum detectable difference of one experiment: % of second experiments that detect it."""
    for metric, examples in (("normal", 100), ("lognormal", 100), ("BLEU-like", 100)):
        for spread in (3.0,) if study.quick else (0.3, 3.0):
            if study.quick and metric != "normal":
                continue
            found = {}
            for seeds in study.seeds:
                world = World(metric, seeds, examples, spread if seeds > 1 else 0.0)
                twice = [
                    [difference(*cells) for cells in world.experiments(study.repetitions, study.generator)]
                    for _ in range(2)
                ]
                pairs = zip(*twice, strict=True)
                hits = [two.value + one.detectable() > two.half_width() for one, two in pairs]
                found[f"S={seeds}"] = [100 * float(np.mean(hits))]
            yield Row(f"{metric}, N = {examples}, spread {spread:g}", found, dict.fromkeys(found, (72.0, 88.0)))


def planned(study: Study) -> Iterator[Row]:
    """`bench plan --power`, difference of 3 errors over examples: % of experiments with the planned seeds that detect it."""
    for spread in (1.0, 3.0):
        found, about = {}, {}
        for pilot in (3, 5, 10):
            world = World(seeds=pilot, examples=400, spread=spread)
            hits, asked = [], []
            for cells in world.experiments(min(study.repetitions, 1_000), study.generator):
                number = seeds_needed(difference(*cells), pilot, 3 * world.unit)
                asked.append(number or 1_000)
                hits.append(_found(study, world, min(number or 1_000, 1_000), 3 * world.unit))
            found[f"pilot of {pilot}"], about[f"pilot of {pilot}"] = (
                [100 * float(np.mean(hits))],
                f"{np.median(asked):.0f} seeds",
            )
        yield Row(f"spread {spread:g}", found, dict.fromkeys(found, (75.0, 100.0)), about)


def _found(study: Study, world: World, seeds: int, apart: float) -> bool:
    """Say whether an experiment with some seeds finds a difference; its sums are drawn, not its examples."""
    normal, examples = study.generator.standard_normal, world.examples
    own = np.sqrt((1 - COMMON_OF_SEEDS) / examples)  # of a cell and a seed
    spread, common = world.spread * world.unit, np.sqrt(0.3 / examples)
    values = [normal(seeds) * np.hypot(spread, own) + normal() * common + apart * (cell == 0) for cell in range(2)]
    # The draws of a seed vary around the mean of its seeds by `own`, and all of them by `common`.
    draws = [(normal((seeds, DRAWN)) * own + normal(DRAWN) * common) * np.sqrt(1 - 1 / examples) for _ in range(2)]
    cells = [Measured(v, d[:, None], examples, sample=0) for v, d in zip(values, draws, strict=True)]
    return difference(*cells).p() <= LEVEL


COMMON_OF_SEEDS, DRAWN = 0.7, 200


def published(study: Study) -> Iterator[Row]:
    """Verdicts on published means, difference and tolerance in standard deviations of training runs: % false."""
    wrong = [(0.0, None, "different"), (2.0, 2.0, "equivalent"), (2.0, 2.0, "different")]
    for true, tolerance, verdict in wrong:
        for runs, told in ((1, False), (5, False), (5, True)):
            found = {f"S={s}": [_verdicts(study, s, true, tolerance, runs, told, verdict)] for s in study.seeds}
            words = f"difference {true:g}, tolerance {tolerance or 0:g}, {runs} run{'s' * (runs > 1)}{', sd printed' if told else ''}: {verdict}"
            yield Row(words, found, dict.fromkeys(found, ERROR))


def other_test_sets(study: Study) -> Iterator[Row]:
    """Equal systems on two test sets, training spread 0.2, 0.5 or 1 times the error over examples: % `different`."""
    for spread in (0.2,) if study.quick else (0.2, 0.5, 1.0):
        for runs, told in ((1, False), (5, False), (5, True)):
            found = {f"S={s}": _of_two_test_sets(study, s, spread, runs, told) for s in (2, 3, 5)}
            words = f"training runs {spread:g}, {runs} run{'s' * (runs > 1)}{', sd printed' if told else ''}"
            yield Row(
                f"{words}: treated as another sample",
                {s: [two] for s, (two, _) in found.items()},
                dict.fromkeys(found, ERROR),
            )
            yield Row(f"{words}: treated as the same sample", {s: [one] for s, (_, one) in found.items()}, {})


def _of_two_test_sets(study: Study, seeds: int, spread: float, runs: int, told: bool) -> tuple[float, float]:
    """Return how often our mean is called different from one of another test set, with its error and without."""
    size, hits = 100, []
    for _ in range(study.repetitions):
        both = []
        for count in (seeds, runs):
            draw = Draw(study.generator, 1, count, size)
            trained = draw.normal(1, count) * spread / np.sqrt(size)
            both.append(draw.quality()[0] + trained[0])  # [N, S]
        ours, theirs = (one.mean(0) for one in both)
        one = Measured(ours, (both[0].T @ weights(size).T)[:, None], size, sample=0)
        printed = Printed(float(theirs.mean()), float(theirs.std(ddof=1)) if told else None, runs)
        verdicts = [
            beside([*ours], printed, None, 0, True, samples).verdict for samples in (of_two_samples(one), SAME)
        ]
        hits.append([verdict == "different" for verdict in verdicts])
    two, same = 100 * np.mean(hits, axis=0)
    return float(two), float(same)


def published_power(study: Study) -> Iterator[Row]:
    """Correct verdicts, with the same units: %."""
    for true, tolerance, verdict in ((0.0, 2.0, "equivalent"), (6.0, 2.0, "different")):
        for runs, told in ((1, False), (5, False), (5, True)):
            found = {f"S={s}": [_verdicts(study, s, true, tolerance, runs, told, verdict)] for s in study.seeds}
            words = f"difference {true:g}, tolerance {tolerance:g}, {runs} run{'s' * (runs > 1)}{', sd printed' if told else ''}: {verdict}"
            yield Row(words, found, {})


def _verdicts(
    study: Study, seeds: int, true: float, tolerance: float | None, runs: int, told: bool, verdict: str
) -> float:
    ours = study.generator.standard_normal((study.repetitions, seeds)) + true
    theirs = study.generator.standard_normal((study.repetitions, runs))
    hits = 0
    for one, other in zip(ours, theirs, strict=True):
        deviation = float(other.std(ddof=1)) if told else None
        hits += beside([*one], Printed(float(other.mean()), deviation, runs), tolerance, 0).verdict == verdict
    return 100 * hits / study.repetitions


def of_streams(study: Study) -> Iterator[Row]:
    """Means of streams, and differences of two that share half of their variance: coverage in % (median block length)."""
    for examples in (300, 1_000) if study.quick else (100, 300, 1_000, 3_000):
        for label in ("mean", "difference"):
            if study.quick and label == "mean":
                continue
            found, about, bounds = {}, {}, {}
            for correlation in (0.0, 0.6) if study.quick else (0.0, 0.3, 0.6, 0.9):
                hits, lengths = _of_stream(study, examples, correlation, label == "difference")
                name = f"r={correlation:g}"
                found[name], about[name] = [hits], f"block {lengths:.0f}"
                if examples >= 300:
                    bounds[name] = (87.0 if correlation > 0.6 else 90.0, 99.0)
            yield Row(f"{label}, N = {examples:,}", found, bounds, about)


def _of_stream(study: Study, examples: int, correlation: float, paired: bool) -> tuple[float, float]:
    hits, lengths = [], []
    both = streams(study.repetitions, examples, correlation, study.generator)
    for common in both:
        own = streams(2 if paired else 1, examples, correlation, study.generator)
        series = [(common + one) / np.sqrt(2) for one in own] if paired else [common]
        cells = [_stream(one) for one in series]
        found = contrast(cells, [1.0, -1.0][: len(cells)])
        low, high = found.interval()
        hits.append(low <= 0 <= high)
        lengths.append(max(one.block for one in cells))
    return 100 * float(np.mean(hits)), float(np.median(lengths))


def _stream(series: Array) -> Measured:
    """Return the mean of a stream, with draws of blocks of all lengths."""
    lengths = tuple(length for length in BLOCKS if length == 1 or 8 * length <= len(series))
    starts = np.random.default_rng(3).integers(0, len(series), (250, len(series)))
    draws = [_block_means(series, starts, length) for length in lengths]
    return Measured(
        np.array([series.mean()]), np.stack(draws)[None], len(series), lengths, block_length(series), sample=0
    )


def _block_means(series: Array, starts: Array, length: int) -> Array:
    """Return the means of samples of blocks that wrap around [D]."""
    wrapped = np.concatenate([[0.0], np.cumsum(np.concatenate([series, series[: length - 1]]))])
    blocks = wrapped[length:] - wrapped[:-length]  # [N] sums
    number = -(-len(series) // length)
    return np.asarray(blocks[starts[:, :number].astype(int)].sum(1) / (number * length))


TABLES: tuple[Callable[[Study], Iterator[Row]], ...] = (
    differences, designs, untold, estimators, single, columns, claims, conclusions, shares, power, planned, published,
    published_power, of_streams, other_worlds, beyond, other_cells, gaussian_cells, as_often, many_claims, looks, other_test_sets,
)  # fmt: skip


def misses(row: Row, repetitions: int) -> list[str]:
    """Return the shares of a row that are outside of their bounds by more than three errors of the simulation."""
    found = []
    for column, (low, high) in row.bounds.items():
        for share in row.shares[column]:
            slack = [
                300 * np.sqrt(max(bound, 0.01) / 100 * (1 - min(bound, 99.99) / 100) / repetitions)
                for bound in (low, high)
            ]
            if not low - slack[0] <= share <= high + slack[1]:
                found.append(f"{row.label}, {column}: {share:.1f} is not within {low:g} and {high:g}")
    return found


def markdown(title: str, rows: Sequence[Row]) -> str:
    """Return a table of results."""
    names = list(dict.fromkeys(name for row in rows for name in row.shares))
    lines = [f"**{title}**", "", f"| | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
    for row in rows:
        cells = [_cell(row, name) for name in names]
        lines.append(f"| {row.label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: Row, name: str) -> str:
    if name not in row.shares:
        return ""
    ends = [f"{share:.1f}" for share in (min(row.shares[name]), max(row.shares[name]))]
    more = f" ({row.about[name]})" if name in row.about else ""
    return " to ".join(dict.fromkeys(ends)) + more


def main() -> None:
    """Print all tables, or those that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    for table in TABLES:
        if asked.only and table.__name__ not in asked.only.split(","):
            continue
        began = time.process_time()
        rows = [*table(Study(asked.repetitions, np.random.default_rng(asked.seed), asked.quick))]
        title = " ".join((table.__doc__ or "").split())
        print(f"\n{markdown(title, rows)}\n\n({time.process_time() - began:.0f} s)", flush=True)
        for row in rows:
            for text in misses(row, asked.repetitions):
                print("OUTSIDE:", text, flush=True)
        recorded[table.__name__] = {
            "title": title,
            "repetitions": asked.repetitions,
            "rows": [vars(row) for row in rows],
        }
    if asked.record:
        RECORDED.write_text(json.dumps(recorded, indent=0) + "\n", encoding="utf-8")
        for name in ("statistics", "simulations"):
            tables = {
                key: table for key, table in recorded.items() if (key in IN_STATISTICS) == (name == "statistics")
            }
            page = DOCS / f"{name}.md"
            page.write_text(documented(page.read_text(encoding="utf-8"), tables), encoding="utf-8")


def documented(text: str, recorded: Mapping[str, Any]) -> str:
    """Return a page with the tables that are recorded, each in its place, new ones behind all others."""
    for table in recorded.values():
        title = f"**{table['title']}**"
        before, _, rest = (text if title in text else text.replace(LAST, f"{title}\n\n{LAST}", 1)).partition(title)
        lines = rest.lstrip("\n").splitlines()
        after = "\n".join(lines[next((n for n, line in enumerate(lines) if not line.startswith("|")), len(lines)) :])
        found = markdown(table["title"], [Row(**row) for row in table["rows"]])
        text = f"{before}{found}\n\n{after.strip(chr(10))}\n"
    return text


if __name__ == "__main__":
    main()
