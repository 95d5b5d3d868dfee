"""Whether an expression is true, or false, of all numbers within bounds, and whether one expression implies another.

An expression is false of all numbers if no numbers make it true. Its comparisons become polynomials above 0. Linear
ones are decided by exact arithmetic. A product or power is a variable with bounds of its own, and the bounds of its
factors are halved until that decides, or until `STEPS` are over: what is not refuted by then is possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import isfinite, prod

from bench_reports.language.claim_formulas import (
    Above,
    AllOf,
    AnyOf,
    Box,
    Formula,
    Monomial,
    Name,
    Polynomial,
    Range,
    Reader,
    added,
    constant,
    multiplied,
    power_of,
    product_of,
)  # fmt: skip
from bench_reports.language.expressions import QUANTIFIER, Term
from bench_reports.language.simplex import Simplex, Value

STEPS = 200  #: systems of inequalities that are solved for one question
MOST_FACTORS = 12  # inequalities whose products are inequalities, too


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
    reader = Reader(bounds, max(1, sum(_denied(term, true) for term, true in wanted)))
    formula = AllOf([reader.formula(term, true) for term, true in wanted])
    return _Search(reader.box).is_possible([formula])


def _denied(term: Term, true: bool) -> int:
    """Return in how many places some training must not meet a condition."""
    if term.operation == QUANTIFIER:
        return not true
    true = true != (term.operation == "not")
    return sum(_denied(part, true) for part in term.parts)


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
        center = {name: _middle(low, high) for name, (low, high) in box.items()}
        points = (center, {**center, **system.solution()})
        if self.steps < 0 or any(all(_is_above(atom, point) for atom in atoms) for point in points):
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
                others = ((one[0], part) for one, part in polynomial.items() if one not in ((), (name,)))
                most = sum(product_of((part, part), found[other])[1] for other, part in others)
                limit = -(polynomial.get((), Fraction(0)) + most) / share
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
        factors += [Above(added(one, constant(Fraction(low)), -1), strict=False)] if isfinite(low) else []
        factors += [Above(added(constant(Fraction(high)), one, -1), strict=False)] if isfinite(high) else []
    for ours, theirs in combinations_with_replacement(factors[:MOST_FACTORS], 2):
        yield Above(multiplied(ours.polynomial, theirs.polynomial), ours.strict and theirs.strict)
    for left, right in combinations(names[:MOST_FACTORS], 2):
        apart: Polynomial = {(left,): Fraction(1), (right,): Fraction(-1)}
        yield Above(multiplied(apart, apart), strict=False)


def _middle(low: Fraction | float, high: Fraction | float) -> Fraction:
    """Return the middle of a range, or a number beyond the only end that it has; 0 where it has none."""
    if isfinite(low) and isfinite(high):
        return (Fraction(low) + Fraction(high)) / 2
    if isfinite(low):
        return Fraction(low) + max(Fraction(1), abs(Fraction(low)))
    return Fraction(high) - max(Fraction(1), abs(Fraction(high))) if isfinite(high) else Fraction(0)


def _is_above(atom: Above, values: Mapping[Name, Fraction]) -> bool:
    total = sum(share * prod(values[one] for one in monomial) for monomial, share in atom.polynomial.items())
    return total > 0 if atom.strict else total >= 0
