"""Tests of claims: every comparison is one, and they are put together as the words of the expression say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log, sqrt
from typing import NamedTuple

from bench_reports.language.claim_terms import Extreme, Piece, Values, number, pieces, queries_of, words
from bench_reports.language.expressions import QUANTIFIER, Query, Term
from bench_reports.statistics.estimate import EVERYWHERE, Estimate, Measured, contrast
from bench_reports.statistics.shares import share_of
from bench_reports.statistics.tails import SMALLEST


class Pair(NamedTuple):
    """The p-values of a statement and of its contrary."""

    true: float
    false: float


class Quantified(NamedTuple):
    """In how many trainings a condition was tested that is claimed of every one."""

    condition: str
    tested: int
    trainings: int


UNTESTED = Pair(1.0, 1.0)  # of a comparison that could not have been otherwise: neither is shown

ROUNDING = 1e-6  # of slopes, which are differences of functions
MOST_EXPONENT = 709.0  # of floating-point numbers


@dataclass
class ClaimTest:
    """Tests an expression over measurements."""

    measured: Mapping[Query, Measured]
    only_these: bool = False  # of these trainings, whatever others would do
    comparisons: int = 0
    vacuous: list[str] = field(default_factory=list)  # comparisons that could not be otherwise
    unresolved: list[str] = field(default_factory=list)  # whose difference is below the error of an estimator
    quantified: list[Quantified] = field(default_factory=list)
    mixed: list[Query] = field(default_factory=list)  # tested in these trainings, as trainings differ in kind

    def p_values(self, term: Term) -> Pair | None:
        """Return the p-values of a statement and of its contrary; None if all of it is vacuous.

        What must all be shown has the largest p-value (intersection-union; Berger, 1982), what one of several may
        show the smallest times their number (Bonferroni). Vacuous comparisons show nothing.
        """
        found = self._p_values(term)
        return found if self.comparisons > len(self.vacuous) else None

    def _p_values(self, term: Term) -> Pair:
        kind = term.operation
        if kind == "not":
            return _contrary(self._p_values(term.parts[0]))
        if kind in ("and", "all", "or", "any"):
            found = [self._p_values(part) for part in term.parts]
            return (_every if kind in ("and", "all") else _any)(found)
        if kind == QUANTIFIER:
            return self._in_every_training(term.parts[0])
        self.comparisons += 1
        left, right = (pieces(part) for part in term.parts)
        if kind in ("==", "!="):
            return self._equal(left, right, kind == "==")
        pair = self._below(*((left, right) if kind.startswith("<") else (right, left)))
        if pair is None:
            self.vacuous.append(words(term))
        return pair or UNTESTED

    def _in_every_training(self, condition: Term) -> Pair:
        """Test a condition in each training by its examples alone, without those in which it is vacuous."""
        if condition.operation in ("and", "all"):
            return _every([self._in_every_training(part) for part in condition.parts])
        inside = dict.fromkeys(queries_of(condition))
        trainings = max(len(self.measured[query].values) for query in inside)
        each = ({query: in_training(self.measured[query], seed) for query in inside} for seed in range(trainings))
        tests = [*map(ClaimTest, each)]
        found = [pair for test in tests if (pair := test.p_values(condition))]
        self.comparisons += 1
        self.quantified.append(Quantified(words(condition), len(found), trainings))
        self.unresolved += dict.fromkeys(text for test in tests for text in test.unresolved)
        if not found:
            self.vacuous.append(words(condition))
        return _every(found) if found else UNTESTED

    def _equal(self, left: Piece, right: Piece, equal: bool) -> Pair:
        """Test an equality of counts, which holds if it is exact; of what is sampled nothing shows it."""
        gap, slopes = self._gap(left, right)
        sampled = gap.varies or any(self.measured[query].draws is not None for query in slopes)
        found = Pair(SMALLEST, 1.0) if not (sampled or gap.value) else Pair(1.0, max(gap.p(), SMALLEST))
        return found if equal else _contrary(found)

    def _below(self, low: Piece, high: Piece) -> Pair | None:
        """Return the p-values of low < high; None where that could not be otherwise."""
        for side, every in ((high, "min"), (low, "max")):
            if isinstance(side, Extreme):
                found = [self._below(*((low, one) if side is high else (one, high))) for one in side.pieces]
                known = [one or UNTESTED for one in found]
                return (_every if side.which == every else _any)(known) if any(found) else None
        assert isinstance(low, Term)
        assert isinstance(high, Term)
        return self._tested(low, high)

    def _tested(self, low: Term, high: Term) -> Pair | None:
        gap, slopes = self._gap(low, high)
        own = [self.measured[query] for query in slopes]
        if len(own) == 1 and own[0].is_mixed:
            self.mixed.extend(slopes)
        at_bounds = (one.bounds == EVERYWHERE or one.at_bound.all() for one in own)  # also where there are none
        if len(own) > 1 and not (gap.varies or gap.value) and all(at_bounds):
            return None
        if gap.error.variance and abs(gap.value) <= sqrt(gap.error.variance):
            self.unresolved.append(f"{words(low)} and {words(high)}")
        if len(own) == 1 and (share := share_of(own[0])) and (slope := next(iter(slopes.values()))):
            null = share.value - gap.value / slope  # where both sides are equal
            found = Pair(share.p_above(null), share.p_below(null))
            found = found if slope > 0 else _contrary(found)
        else:
            above = gap.p_above()
            found = _no_surer_than_signs(Pair(above, 1 - above), gap.value, own, [*slopes.values()])
        return Pair(max(found.true, SMALLEST), max(found.false, SMALLEST))

    def _gap(self, low: Piece, high: Piece) -> tuple[Estimate, Mapping[Query, float]]:
        """Return high - low, and its slopes in the means behind it.

        Where all of these are tested as logarithms it is log(high / low), so that factors become sums.
        """
        own = {query: self.measured[query] for query in dict.fromkeys([*queries_of(low), *queries_of(high)])}
        logs = all(one.scale == "log" for one in own.values())
        means = {query: one.mean for query, one in own.items()}

        def height(some: Values) -> float:
            values = {query: _natural(own[query], mean) for query, mean in some.items()}
            least, most = number(low, values), number(high, values)
            return log(most) - log(least) if logs and 0 < min(least, most) < inf else most - least

        slopes = {}
        for query, one in own.items():
            step = _step(one)
            up, down = (height({**means, query: means[query] + sign * step}) for sign in (1, -1))
            slopes[query] = (up - down) / (2 * step)
        found = contrast([*own.values()], [*slopes.values()], height(means))
        return (found.only_these() if self.only_these else found), slopes


def _every(found: Sequence[Pair]) -> Pair:
    return Pair(max(one.true for one in found), min(1.0, len(found) * min(one.false for one in found)))


def _any(found: Sequence[Pair]) -> Pair:
    return _contrary(_every([_contrary(one) for one in found]))


def _contrary(found: Pair) -> Pair:
    return Pair(found.false, found.true)


def in_training(one: Measured, seed: int) -> Measured:
    """Return the measurement of a single training."""
    place = seed if len(one.values) > 1 else 0
    draws = None if one.draws is None else one.draws[place : place + 1]
    return replace(one, values=one.values[place : place + 1], draws=draws)


def _no_surer_than_signs(found: Pair, gap: float, own: Sequence[Measured], slopes: Sequence[float]) -> Pair:
    """Return the p-values of a difference of two shares, no smaller than those of the exact test without a margin.

    A normal distribution promises too much where few examples differ between both.
    """
    if len(own) != 2 or abs(sum(slopes)) > ROUNDING * abs(slopes[0]) or not slopes[0]:
        return found
    signs = sign_test(*(own if slopes[0] > 0 else own[::-1]))
    if signs is None:
        return found
    margin = slopes[0] * (own[0].mean - own[1].mean) - gap
    nothing = ROUNDING * abs(slopes[0])
    true = max(found.true, signs.true) if margin >= -nothing else found.true
    return Pair(true, max(found.false, signs.false) if margin <= nothing else found.false)


def sign_test(ours: Measured, theirs: Measured) -> Pair | None:
    """Return the p-values of one share above another of the same examples of one training; None of others.

    Were both shares equal, an example that is a case of one alone would be a case of either with probability 1/2
    (McNemar, 1947; mid-p: Fagerland, Lydersen and Laake, 2013). The variance over replicates gives their number.
    """
    counted = all(len(one.values) == 1 and share_of(one) for one in (ours, theirs))
    if not counted or ours.sample is None or ours.sample != theirs.sample:
        return None
    assert ours.draws is not None  # as of every share
    assert theirs.draws is not None
    from scipy.special import bdtrc

    examples = ours.units
    ahead = round((ours.mean - theirs.mean) / 100 * examples)
    spread = float((ours.draws[0, 0] - theirs.draws[0, 0]).var()) * (examples / 100) ** 2
    more = spread + ahead**2 / examples - abs(ahead)
    unlike = abs(ahead) + 2 * max(0, round(more / 2))  # which has the parity of `ahead`

    def at_least(cases: int) -> float:
        return float(bdtrc(cases, unlike, 0.5) + (bdtrc(cases - 1, unlike, 0.5) if cases else 1.0)) / 2

    return Pair(at_least((unlike + ahead) // 2), at_least((unlike - ahead) // 2))


def _natural(one: Measured, value: float) -> float:
    if one.scale != "log":
        return value
    return exp(value) if value < MOST_EXPONENT else inf


def _step(one: Measured) -> float:
    """Return a small change of a mean: far below what it may be off."""
    drawn = float(one.draws[:, 0].var(1).mean()) if one.draws is not None else 0.0
    return max(sqrt(float(one.values.var()) + drawn) / 1e3, 1e-6 * max(1.0, abs(one.mean)))
