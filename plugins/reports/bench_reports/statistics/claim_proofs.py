"""Whether an expression is true, or false, of all numbers within bounds, and whether one expression implies another.

An expression is false of all numbers if no numbers make it true. Its comparisons become polynomials above 0. Linear
ones are decided by exact arithmetic. A product or power is a variable with bounds of its own, and the bounds of its
factors are halved until that decides, or until `STEPS` are over: what is not refuted by then is possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import inf, isfinite, prod
from random import Random
from typing import NamedTuple, TypeAlias

from bench_reports.language.expressions import QUANTIFIER, Query, Term
from bench_reports.statistics.claim_terms import OTHER, Extreme, Piece, pieces
from bench_reports.statistics.simplex import Simplex, Value

STEPS = 200  #: systems of inequalities that are solved for one question
MOST_FACTORS = 12  # inequalities whose products are inequalities, too
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}

Name: TypeAlias = tuple[Query, int]  # a value between trainings (0), or in one of several trainings (1, 2, ...)
Monomial: TypeAlias = tuple[Name, ...]  # sorted, powers as repetitions
Polynomial: TypeAlias = Mapping[Monomial, Fraction]
Range: TypeAlias = tuple[Fraction | float, Fraction | float]  # floats where it has no end
Box: TypeAlias = Mapping[Name, Range]


class Above(NamedTuple):
    """A polynomial that must be above 0, or at least 0."""

    polynomial: Polynomial
    strict: bool


@dataclass(frozen=True)
class AllOf:
    """What must all be true."""

    parts: Sequence[Formula]


@dataclass(frozen=True)
class AnyOf:
    """Of which something must be true."""

    parts: Sequence[Formula]


Formula: TypeAlias = "Above | AllOf | AnyOf"
TRUE, FALSE = AllOf(()), AnyOf(())


def truth(term: Term, bounds: Mapping[str, tuple[float, float]]) -> bool | None:
    """Return whether an expression is true, or false, of all numbers; None if it varies, or may do so.

    `bounds` are by metric; an end that is not finite is none. Numbers for which a side has no value do not count.
    """
    if not is_possible([(term, False)], bounds):
        return True
    return None if is_possible([(term, True)], bounds) else False


def implies(stronger: Term, weaker: Term, bounds: Mapping[str, tuple[float, float]]) -> bool:
    """Return whether it is proven that one expression is true of all numbers of which another is."""
    return not is_possible([(stronger, True), (weaker, False)], bounds)


def is_possible(wanted: Sequence[tuple[Term, bool]], bounds: Mapping[str, tuple[float, float]]) -> bool:
    """Return whether numbers within bounds may give every one of some expressions its truth value."""
    reader = _Reader(bounds, [0])
    reader.trainings = max(1, sum(_denied(term, true) for term, true in wanted))
    formula = AllOf([reader.formula(term, true) for term, true in wanted])
    return _Search(reader.box).is_possible([formula])


def _denied(term: Term, true: bool) -> int:
    """Return in how many places some training must not meet a condition."""
    if term.operation == QUANTIFIER:
        return not true
    true = true != (term.operation == "not")
    return sum(_denied(part, true) for part in term.parts)


@dataclass
class _Reader:
    """Reads expressions as formulas."""

    bounds: Mapping[str, tuple[float, float]]
    used: list[int]  # trainings in which a condition must not be met
    trainings: int = 1
    box: dict[Name, Range] = field(default_factory=dict)

    def formula(self, term: Term, true: bool, training: int = 0) -> Formula:
        """Return what makes an expression true, or false."""
        kind = term.operation
        if kind == "not":
            return self.formula(term.parts[0], not true, training)
        if kind == QUANTIFIER:
            return self._quantified(term.parts[0], true)
        if kind in ("and", "all", "or", "any"):
            parts = [self.formula(part, true, training) for part in term.parts]
            return AllOf(parts) if (kind in ("and", "all")) == true else AnyOf(parts)
        left, right = (pieces(part) for part in term.parts)
        return self._compared(left, kind if true else NEGATED[kind], right, training)

    def _quantified(self, condition: Term, true: bool) -> Formula:
        if true:
            return AllOf([self.formula(condition, True, one) for one in range(1, self.trainings + 1)])
        self.used[0] += 1
        return self.formula(condition, False, self.used[0])

    def _compared(self, left: Piece, sign: str, right: Piece, training: int) -> Formula:
        if sign == "==":
            return AllOf([self._below(left, right, False, training), self._below(right, left, False, training)])
        if sign == "!=":
            return AnyOf([self._below(left, right, True, training), self._below(right, left, True, training)])
        low, high = (left, right) if sign[0] == "<" else (right, left)
        return self._below(low, high, len(sign) == 1, training)

    def _below(self, low: Piece, high: Piece, strict: bool, training: int) -> Formula:
        for side, every in ((high, "min"), (low, "max")):
            if isinstance(side, Extreme):
                pairs = [(low, one) if side is high else (one, high) for one in side.pieces]
                parts = [self._below(*pair, strict, training) for pair in pairs]
                return AllOf(parts) if side.which == every else AnyOf(parts)
        difference = Term("-", (_term(high), _term(low)))
        least, most = _interval(difference, self, training)
        if least > 0 or (least == 0 and not strict):
            return TRUE
        if most < 0 or (most == 0 and strict):
            return FALSE
        return AnyOf([self._factored(_above(case, strict)) for case in self.cases(difference, training)])

    def _factored(self, formula: Formula) -> Formula:
        """Return a formula whose products have lost the factors that are never below 0."""
        if not isinstance(formula, Above):
            return type(formula)([self._factored(part) for part in formula.parts])
        first, *others = formula.polynomial or [()]
        shared = (one for one in dict.fromkeys(first) if all(one in other for other in others))
        factor = next((one for one in shared if self.box[one][0] >= 0), None)
        if factor is None or len(first) + len(others) == 1:
            return formula
        rest = self._factored(
            Above({_without(one, factor): part for one, part in formula.polynomial.items()}, formula.strict)
        )
        if self.box[factor][0] > 0:
            return rest
        own: Polynomial = {(factor,): Fraction(1)}
        return (
            AllOf([Above(own, strict=True), rest])
            if formula.strict
            else AnyOf([Above(_plus({}, own, -1), strict=False), rest])
        )

    def cases(self, term: Term, training: int) -> Iterator[Case]:
        """Yield a number as a quotient of polynomials, for every choice among extremes inside of it."""
        if term.query:
            self.range_of(term.query, training)
            yield Case((), {((term.query, training),): Fraction(1)}, ONE)
        elif term.operation == "number":
            yield Case((), _constant(_exact(term.number)), ONE)
        else:
            for parts in product(*([*self.cases(part, training)] for part in term.parts)):
                guards = tuple(guard for part in parts for guard in part.guards)
                if term.operation in (*OTHER, "abs"):
                    yield from _extreme(term.operation, parts, guards)
                else:
                    yield Case(guards, *_combined(term, parts))

    def range_of(self, query: Query, training: int) -> Range:
        """Return the bounds of a value, which is in the box from now on."""
        low, high = self.bounds.get(query.metric, (-inf, inf))
        found = (_exact(low) if isfinite(low) else -inf, _exact(high) if isfinite(high) else inf)
        return self.box.setdefault((query, training), found)


class Case(NamedTuple):
    """A quotient of polynomials, and what must be true for it to be the number that is meant."""

    guards: tuple[Formula, ...]
    above: Polynomial
    below: Polynomial


def _exact(number: float) -> Fraction:
    return Fraction(repr(float(number)))


def _without(monomial: Monomial, factor: Name) -> Monomial:
    place = monomial.index(factor)
    return monomial[:place] + monomial[place + 1 :]


def _constant(number: Fraction | int) -> Polynomial:
    return {(): Fraction(number)} if number else {}


ONE = _constant(1)


def _plus(one: Polynomial, other: Polynomial, factor: int = 1) -> Polynomial:
    found = dict(one)
    for monomial, share in other.items():
        found[monomial] = found.get(monomial, Fraction(0)) + factor * share
    return {monomial: share for monomial, share in found.items() if share}


def _times(one: Polynomial, other: Polynomial) -> Polynomial:
    found: dict[Monomial, Fraction] = {}
    for (left, ours), (right, theirs) in product(one.items(), other.items()):
        monomial = tuple(sorted((*left, *right), key=str))
        found[monomial] = found.get(monomial, Fraction(0)) + ours * theirs
    return {monomial: share for monomial, share in found.items() if share}


def _combined(term: Term, parts: Sequence[Case]) -> tuple[Polynomial, Polynomial]:
    kind, (first, *rest) = term.operation, parts
    above, below = first.above, first.below
    if kind == "negative":
        return _plus({}, above, -1), below
    if kind == "**":
        return _power(above, below, term.parts[1])
    for other in rest:
        if kind in ("+", "-", "mean"):
            ours, theirs = _times(above, other.below), _times(other.above, below)
            above, below = _plus(ours, theirs, -1 if kind == "-" else 1), _times(below, other.below)
        else:
            over, under = (other.above, other.below) if kind == "*" else (other.below, other.above)
            above, below = _times(above, over), _times(below, under)
    return above, _times(below, _constant(len(parts))) if kind == "mean" else below


def _power(above: Polynomial, below: Polynomial, exponent: Term) -> tuple[Polynomial, Polynomial]:
    sign = exponent.operation == "negative"
    number = int((exponent.parts[0] if sign else exponent).number)
    found = ONE, ONE
    for _ in range(number):
        found = _times(found[0], above), _times(found[1], below)
    return found[::-1] if sign else found


def _extreme(kind: str, parts: Sequence[Case], guards: tuple[Formula, ...]) -> Iterator[Case]:
    several = [parts[0], parts[0]._replace(above=_plus({}, parts[0].above, -1))] if kind == "abs" else parts
    for one in several:
        ahead = []
        for other in several:
            if other is not one:
                pair = (other, one) if kind == "min" else (one, other)
                apart = Case((), *_combined(Term("-"), pair))
                ahead.append(_above(apart, strict=False))
        yield Case((*guards, *ahead), one.above, one.below)


def _above(case: Case, strict: bool) -> Formula:
    """Return that a quotient is above 0, or at least 0, where it has a value."""
    signs = []
    for factor in (1, -1):
        below = _plus({}, case.below, factor)
        if {*below} <= {()}:
            if below.get((), 0) > 0:
                signs.append(AllOf([*case.guards, Above(_plus({}, case.above, factor), strict)]))
        else:
            above = Above(_plus({}, case.above, factor), strict)
            signs.append(AllOf([*case.guards, Above(below, strict=True), above]))
    return AnyOf(signs)


def _term(piece: Piece) -> Term:
    assert isinstance(piece, Term)
    return piece


def _interval(term: Term, reader: _Reader, training: int) -> Range:
    """Return bounds of a number, by those of its parts."""
    if term.query:
        return reader.range_of(term.query, training)
    if term.operation == "number":
        return _exact(term.number), _exact(term.number)
    parts = [_interval(part, reader, training) for part in term.parts]
    match term.operation:
        case "negative":
            return -parts[0][1], -parts[0][0]
        case "+" | "mean":
            low, high = (sum(ends) for ends in zip(*parts, strict=True))
            return (low / len(parts), high / len(parts)) if term.operation == "mean" else (low, high)
        case "-":
            return parts[0][0] - parts[1][1], parts[0][1] - parts[1][0]
        case "*":
            return product_of(*parts)
        case "**":
            exponent = parts[1][0]
            return power_of(parts[0], int(exponent)) if exponent >= 0 else (-inf, inf)
        case "min":
            return min(low for low, _ in parts), min(high for _, high in parts)
        case "max":
            return max(low for low, _ in parts), max(high for _, high in parts)
        case "abs":
            low, high = parts[0]
            return max(low, -high, Fraction(0)), max(-low, high)
    return -inf, inf


def product_of(one: Range, other: Range) -> Range:
    """Return the bounds of a product."""
    ends: list[Fraction | float] = [a * b if a and b else Fraction(0) for a in one for b in other]
    return min(ends), max(ends)


def power_of(one: Range, exponent: int) -> Range:
    """Return the bounds of a power."""
    low, high = one
    ends = [low**exponent, high**exponent] if exponent else [Fraction(1), Fraction(1)]
    return (Fraction(0) if exponent and exponent % 2 == 0 and low < 0 < high else min(ends)), max(ends)


@dataclass
class _Search:
    """Searches numbers that make a formula true; products of them are variables of their own."""

    box: dict[Name, Range]
    steps: int = STEPS
    system: _System = field(default_factory=lambda: _System())

    def is_possible(self, wanted: Sequence[Formula], chosen: Sequence[Above] = ()) -> bool:
        """Return whether all of `wanted` may be true beside what was chosen."""
        atoms, choices, stack = [*chosen], list[AnyOf](), [*wanted]
        while stack:
            match stack.pop():
                case Above() as atom:
                    atoms.append(atom)
                    if not self.system.add(atom, self.box):
                        return False
                case AllOf(parts) | AnyOf([_] as parts):
                    stack += parts
                case choice:
                    choices.append(choice)
        if not self._feasible(self.system):
            return False
        if not choices:
            return not _products(atoms) or self._is_possible_in(_narrowed(self.box, atoms), atoms)
        first, *rest = sorted(choices, key=lambda one: len(one.parts))
        for part in first.parts:
            mark = self.system.solver.mark()
            possible = self.is_possible([part, *rest], atoms)
            self.system.solver.undo(mark)
            if possible:
                return True
        return False

    def _feasible(self, system: _System) -> bool:
        """Return whether a system has a solution; yes, once the steps are over."""
        self.steps -= 1
        return self.steps < 0 or system.solver.feasible()

    def _is_possible_in(self, box: Box, atoms: Sequence[Above]) -> bool:
        """Return whether numbers in a box may be a solution, of products too: halve it until it is clear."""
        system = _System()
        if not (all(system.add(atom, box) for atom in [*atoms, *_implied(atoms, box)]) and self._feasible(system)):
            return False
        center, *others = _points(box, self.steps)
        points = [center, {**center, **system.solution()}, *others]
        if self.steps < 0 or any(_all_above(atoms, point) for point in points):
            return True
        inside = dict.fromkeys(name for one in _products(atoms) for name in one)
        widest = max(inside, key=lambda name: box[name][1] - box[name][0])
        low, high = box[widest]
        middle = _middle(low, high)
        return any(self._is_possible_in({**box, widest: half}, atoms) for half in ((low, middle), (middle, high)))


class _System:
    """Linear inequalities of monomials."""

    def __init__(self) -> None:
        self.solver = Simplex()
        self.variables: dict[Monomial, int] = {}

    def add(self, atom: Above, box: Box) -> bool:
        """Add an inequality; return whether it is not false by itself."""
        constant = atom.polynomial.get((), Fraction(0))
        shares = {self._variable(one, box): share for one, share in atom.polynomial.items() if one}
        if not shares:
            return constant > 0 or (constant == 0 and not atom.strict)
        lead = shares[min(shares)]
        form = self.solver.form({one: share / lead for one, share in shares.items()})
        limit: Value = (-constant / lead, Fraction(int(atom.strict) * (1 if lead > 0 else -1)))
        return self.solver.bound(form, low=limit) if lead > 0 else self.solver.bound(form, high=limit)

    def _variable(self, monomial: Monomial, box: Box) -> int:
        if monomial not in self.variables:
            found: Range = (Fraction(1), Fraction(1))
            for one in dict.fromkeys(monomial):
                found = product_of(found, power_of(box[one], monomial.count(one)))
            low, high = ((Fraction(end), Fraction(0)) if isfinite(end) else None for end in found)
            self.variables[monomial] = self.solver.variable(low, high)
        return self.variables[monomial]

    def solution(self) -> Mapping[Name, Fraction]:
        """Return the numbers of a solution; what is smaller than every other number is a millionth."""
        known = {one: self.solver.value[at] for one, at in self.variables.items()}
        return {one[0]: value + tiny / 10**6 for one, (value, tiny) in known.items() if len(one) == 1}


def _narrowed(box: Box, atoms: Sequence[Above]) -> Box:
    """Return a box without numbers that a linear inequality excludes, whatever the others are."""
    found = dict(box)
    for polynomial, _ in [*atoms, *atoms]:
        if max(map(len, polynomial), default=0) == 1:
            for (name,), share in ((one, share) for one, share in polynomial.items() if one):
                others = [
                    product_of((part, part), found[one[0]])[1]
                    for one, part in polynomial.items()
                    if one not in ((), (name,))
                ]
                limit = -(polynomial.get((), Fraction(0)) + sum(others)) / share
                low, high = found[name]
                found[name] = (max(low, limit), high) if share > 0 else (low, min(high, limit))
    return found


def _products(atoms: Sequence[Above]) -> list[Monomial]:
    return [one for atom in atoms for one in atom.polynomial if len(one) > 1]


def _implied(atoms: Sequence[Above], box: Box) -> Iterator[Above]:
    """Yield products of two linear inequalities, or bounds, and squares (Sherali and Adams, 1990)."""
    names = list(dict.fromkeys(name for one in _products(atoms) for name in one))
    factors = [atom for atom in atoms if max(map(len, atom.polynomial), default=0) == 1]
    for name in names:
        low, high = box[name]
        one: Polynomial = {(name,): Fraction(1)}
        factors += [Above(_plus(one, _constant(Fraction(low)), -1), strict=False)] if isfinite(low) else []
        factors += [Above(_plus(_constant(Fraction(high)), one, -1), strict=False)] if isfinite(high) else []
    for ours, theirs in combinations_with_replacement(factors[:MOST_FACTORS], 2):
        yield Above(_times(ours.polynomial, theirs.polynomial), ours.strict and theirs.strict)
    for left, right in combinations(names[:MOST_FACTORS], 2):
        apart: Polynomial = {(left,): Fraction(1), (right,): Fraction(-1)}
        yield Above(_times(apart, apart), strict=False)


def _points(box: Box, seed: int) -> Iterator[Mapping[Name, Fraction]]:
    """Yield some points in a box: its middle, corners, and others by chance."""
    generator = Random(seed)
    ends = {name: (_end(low, high, -1), _end(low, high, 1)) for name, (low, high) in box.items()}
    for shares in ((4, 4), (0, 0), (8, 8), *[(0, 8)] * 4, *[(1, 7)] * 8):
        tries = {name: generator.randint(*shares) if len({*shares}) > 1 else shares[0] for name in box}
        yield {name: low + (high - low) * tries[name] / 8 for name, (low, high) in ends.items()}


def _end(low: Fraction | float, high: Fraction | float, way: int) -> Fraction:
    """Return an end of a range, or something beyond its middle where it has none."""
    end = high if way > 0 else low
    return Fraction(end) if isfinite(end) else _middle(low, high) + way * 100


def _middle(low: Fraction | float, high: Fraction | float) -> Fraction:
    if isfinite(low) and isfinite(high):
        return (Fraction(low) + Fraction(high)) / 2
    if isfinite(low):
        return Fraction(low) + max(Fraction(1), abs(Fraction(low)))
    return Fraction(high) - max(Fraction(1), abs(Fraction(high))) if isfinite(high) else Fraction(0)


def _all_above(atoms: Sequence[Above], values: Mapping[Name, Fraction]) -> bool:
    return all(_is_above(atom, values) for atom in atoms)


def _is_above(atom: Above, values: Mapping[Name, Fraction]) -> bool:
    total = Fraction(0)
    for monomial, share in atom.polynomial.items():
        total += share * prod(values[one] for one in monomial)
    return total > 0 if atom.strict else total >= 0
