"""Tests of claims: each comparison is tested, and the tests are combined according to the expression."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log, sqrt
from typing import NamedTuple

from bench_reports.language.claim_terms import Extreme, Piece, Values, number, pieces, queries_of, words
from bench_reports.language.expressions import QUANTIFIER, Query, Term
from bench_reports.statistics.estimate import EVERYWHERE, Estimate, Measured, contrast
from bench_reports.statistics.shares import share_of
from bench_reports.statistics.tails import MIN_P_VALUE


class ClaimPair(NamedTuple):
    """The p-values of a statement and of its negation."""

    true: float
    false: float


class Quantified(NamedTuple):
    """The number of training runs in which a condition claimed for every training run was tested."""

    condition: str
    tested: int
    trainings: int


UNTESTED = ClaimPair(1.0, 1.0)  # for comparisons with a constant truth value, which show nothing

ROUNDING = 1e-6  # rounding error of slopes, which are finite differences
MAX_EXPONENT = 709.0  # exp of more overflows


@dataclass
class ClaimTest:
    """Tests an expression over measurements."""

    measured: Mapping[Query, Measured]
    only_these: bool = False  # whether conclusions are limited to these training runs
    comparisons: int = 0
    vacuous: list[str] = field(default_factory=list)  # comparisons with a constant truth value
    unresolved: list[str] = field(default_factory=list)  # differences below the error of an estimator
    quantified: list[Quantified] = field(default_factory=list)
    mixed: list[Query] = field(default_factory=list)  # tested for these runs only, which differ in kind

    def p_values(self, term: Term) -> ClaimPair | None:
        """Return the p-values of a statement and of its negation; None if all its comparisons are vacuous.

        A conjunction has the largest p-value of its parts (intersection-union; Berger, 1982), a disjunction the
        smallest times their number (Bonferroni). Vacuous comparisons show nothing.
        """
        pair = self._p_values(term)
        return pair if self.comparisons > len(self.vacuous) else None

    def _p_values(self, term: Term) -> ClaimPair:
        kind = term.operation
        if kind == "not":
            return _contrary(self._p_values(term.parts[0]))
        if kind in ("and", "all", "or", "any"):
            pairs = [self._p_values(part) for part in term.parts]
            return (_every if kind in ("and", "all") else _any)(pairs)
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

    def _in_every_training(self, condition: Term) -> ClaimPair:
        """Test a condition over examples in each training run, except in runs where the condition is vacuous."""
        if condition.operation in ("and", "all"):
            return _every([self._in_every_training(part) for part in condition.parts])
        inside = dict.fromkeys(queries_of(condition))
        trainings = max(len(self.measured[query].values) for query in inside)
        each = ({query: in_training(self.measured[query], seed) for query in inside} for seed in range(trainings))
        tests = [*map(ClaimTest, each)]
        pairs = [pair for test in tests if (pair := test.p_values(condition))]
        self.comparisons += 1
        self.quantified.append(Quantified(words(condition), len(pairs), trainings))
        self.unresolved += dict.fromkeys(text for test in tests for text in test.unresolved)
        if not pairs:
            self.vacuous.append(words(condition))
        return _every(pairs) if pairs else UNTESTED

    def _equal(self, left: Piece, right: Piece, equal: bool) -> ClaimPair:
        """Test an equality of counts: it holds if the counts are equal; sampled numbers can never show equality."""
        gap, slopes = self._gap(left, right)
        sampled = gap.varies or any(self.measured[query].draws is not None for query in slopes)
        pair = (
            ClaimPair(MIN_P_VALUE, 1.0) if not (sampled or gap.value) else ClaimPair(1.0, max(gap.p(), MIN_P_VALUE))
        )
        return pair if equal else _contrary(pair)

    def _below(self, low: Piece, high: Piece) -> ClaimPair | None:
        """Return the p-values of low < high; None if its truth value is constant."""
        for side, every in ((high, "min"), (low, "max")):
            if isinstance(side, Extreme):
                results = [self._below(*((low, piece) if side is high else (piece, high))) for piece in side.pieces]
                known = [result or UNTESTED for result in results]
                return (_every if side.which == every else _any)(known) if any(results) else None
        assert isinstance(low, Term)
        assert isinstance(high, Term)
        return self._test_difference(low, high)

    def _test_difference(self, low: Term, high: Term) -> ClaimPair | None:
        gap, slopes = self._gap(low, high)
        measurements = [self.measured[query] for query in slopes]
        if len(measurements) == 1 and measurements[0].is_mixed:
            self.mixed.extend(slopes)
        at_bounds = (
            measurement.bounds == EVERYWHERE or measurement.at_bound.all() for measurement in measurements
        )  # also True without measurements
        if len(measurements) > 1 and not (gap.varies or gap.value) and all(at_bounds):
            return None
        if gap.error.variance and abs(gap.value) <= sqrt(gap.error.variance):
            self.unresolved.append(f"{words(low)} and {words(high)}")
        if len(measurements) == 1 and (share := share_of(measurements[0])) and (slope := next(iter(slopes.values()))):
            null = share.value - gap.value / slope  # value at which both sides are equal
            pair = ClaimPair(share.p_above(null), share.p_below(null))
            pair = pair if slope > 0 else _contrary(pair)
        else:
            above = gap.p_above()
            pair = _at_least_sign_test(ClaimPair(above, 1 - above), gap.value, measurements, [*slopes.values()])
        return ClaimPair(max(pair.true, MIN_P_VALUE), max(pair.false, MIN_P_VALUE))

    def _gap(self, low: Piece, high: Piece) -> tuple[Estimate, Mapping[Query, float]]:
        """Return high - low, and its slopes in the means behind it.

        If all of these are tested as logarithms, it is log(high / low), so that factors become sums.
        """
        measurements = {query: self.measured[query] for query in dict.fromkeys([*queries_of(low), *queries_of(high)])}
        logs = all(measurement.scale == "log" for measurement in measurements.values())
        means = {query: measurement.mean for query, measurement in measurements.items()}

        def height(some: Values) -> float:
            values = {query: _natural(measurements[query], mean) for query, mean in some.items()}
            least, most = number(low, values), number(high, values)
            return log(most) - log(least) if logs and 0 < min(least, most) < inf else most - least

        slopes = {}
        for query, measurement in measurements.items():
            step = _step(measurement)
            up, down = (height({**means, query: means[query] + sign * step}) for sign in (1, -1))
            slopes[query] = (up - down) / (2 * step)
        estimate = contrast([*measurements.values()], [*slopes.values()], height(means))
        return (estimate.only_these() if self.only_these else estimate), slopes


def _every(pairs: Sequence[ClaimPair]) -> ClaimPair:
    return ClaimPair(max(pair.true for pair in pairs), min(1.0, len(pairs) * min(pair.false for pair in pairs)))


def _any(pairs: Sequence[ClaimPair]) -> ClaimPair:
    return _contrary(_every([_contrary(pair) for pair in pairs]))


def _contrary(pair: ClaimPair) -> ClaimPair:
    return ClaimPair(pair.false, pair.true)


def in_training(measurement: Measured, seed: int) -> Measured:
    """Return the measurement of a single training run."""
    place = seed if len(measurement.values) > 1 else 0
    draws = None if measurement.draws is None else measurement.draws[place : place + 1]
    return replace(measurement, values=measurement.values[place : place + 1], draws=draws)


def _at_least_sign_test(
    pair: ClaimPair, gap: float, measurements: Sequence[Measured], slopes: Sequence[float]
) -> ClaimPair:
    """Return the p-values of a difference of two shares, no smaller than those of the exact test without a margin.

    A normal distribution overstates the evidence if few examples differ between both.
    """
    if len(measurements) != 2 or abs(sum(slopes)) > ROUNDING * abs(slopes[0]) or not slopes[0]:
        return pair
    signs = sign_test(*(measurements if slopes[0] > 0 else measurements[::-1]))
    if signs is None:
        return pair
    margin = slopes[0] * (measurements[0].mean - measurements[1].mean) - gap
    negligible = ROUNDING * abs(slopes[0])
    true = max(pair.true, signs.true) if margin >= -negligible else pair.true
    return ClaimPair(true, max(pair.false, signs.false) if margin <= negligible else pair.false)


def sign_test(ours: Measured, theirs: Measured) -> ClaimPair | None:
    """Return the p-values for one share exceeding another, in one training run on the same examples; else None.

    If both shares were equal, an example that is a case of only one would be a case of either with probability 1/2
    (McNemar, 1947; mid-p: Fagerland, Lydersen and Laake, 2013). The variance over replicates gives their number.
    """
    counted = all(len(measurement.values) == 1 and share_of(measurement) for measurement in (ours, theirs))
    if not counted or ours.sample is None or ours.sample != theirs.sample:
        return None
    assert ours.draws is not None  # as for every share
    assert theirs.draws is not None
    from scipy.special import bdtrc

    examples = ours.units
    ahead = round((ours.mean - theirs.mean) / 100 * examples)
    spread = float((ours.draws[0, 0] - theirs.draws[0, 0]).var()) * (examples / 100) ** 2
    more = spread + ahead**2 / examples - abs(ahead)
    unlike = abs(ahead) + 2 * max(0, round(more / 2))  # has the parity of `ahead`

    def at_least(cases: int) -> float:
        return float(bdtrc(cases, unlike, 0.5) + (bdtrc(cases - 1, unlike, 0.5) if cases else 1.0)) / 2

    return ClaimPair(at_least((unlike + ahead) // 2), at_least((unlike - ahead) // 2))


def _natural(measurement: Measured, value: float) -> float:
    if measurement.scale != "log":
        return value
    return exp(value) if value < MAX_EXPONENT else inf


def _step(measurement: Measured) -> float:
    """Return a small change of a mean, far below its error."""
    drawn = float(measurement.draws[:, 0].var(1).mean()) if measurement.draws is not None else 0.0
    return max(sqrt(float(measurement.values.var()) + drawn) / 1e3, 1e-6 * max(1.0, abs(measurement.mean)))
