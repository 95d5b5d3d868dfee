"""Claim expressions as functions of numbers, with `min`, `max` and `abs` moved outside."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import fsum, inf, isnan, nan
from typing import NamedTuple, TypeAlias

from bench_reports.language.expressions import QUANTIFIER, Query, Term

Values: TypeAlias = Mapping[Query, float]
Piece: TypeAlias = "Term | Extreme"  # smooth terms inside `min` and `max`


class Extreme(NamedTuple):
    """The minimum or maximum of several pieces."""

    which: str  # min, max
    pieces: Sequence[Piece]


OPPOSITE = {"min": "max", "max": "min"}
SMOOTH: Mapping[str, Callable[..., float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else nan if not a else inf if a > 0 else -inf,
    "**": lambda a, b: a**b if a or b >= 0 else inf,
    "negative": lambda a: -a,
    "mean": lambda *some: fsum(some) / len(some),
    "min": lambda *some: min(some),
    "max": lambda *some: max(some),
    "abs": abs,
}
COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a < b or a > b,
}


def is_true(term: Term, values: Values) -> bool:
    """Return whether an expression is true for the given values."""
    kind = term.operation
    if kind in ("and", "all", QUANTIFIER):
        return all(is_true(part, values) for part in term.parts)
    if kind in ("or", "any"):
        return any(is_true(part, values) for part in term.parts)
    if kind == "not":
        return not is_true(term.parts[0], values)
    return COMPARED[kind](*(number(part, values) for part in term.parts))


def number(term: Piece, values: Values) -> float:
    """Return the value of an expression; nan where it is undefined."""
    if isinstance(term, Extreme):
        return SMOOTH[term.which](*(number(piece, values) for piece in term.pieces))
    if term.query:
        return values[term.query]
    if term.operation == "number":
        return term.number
    try:
        return SMOOTH[term.operation](*(number(part, values) for part in term.parts))
    except OverflowError:
        return inf


def words(term: Term) -> str:
    """Return the text of an expression with the variables of comprehensions filled in."""
    if term.query:
        return str(term.query)
    if term.operation == "number":
        return f"{term.number:g}"
    parts = [words(part) for part in term.parts]
    if term.operation in COMPARED or term.operation in ("+", "-", "*", "/", "**"):
        return f"{parts[0]} {term.operation} {parts[1]}"
    if term.operation in ("and", "or"):
        return f" {term.operation} ".join(parts)
    return f"{term.operation}({', '.join(parts)})"


def undefined(term: Term, values: Values) -> Iterator[Term]:
    """Yield the undefined sides of comparisons."""
    if term.operation in COMPARED:
        yield from (part for part in term.parts if isnan(number(part, values)))
    else:
        for part in term.parts:
            yield from undefined(part, values)


def queries_of(piece: Piece) -> Iterator[Query]:
    """Yield the queries of an expression, repetitions included."""
    if isinstance(piece, Term) and piece.query:
        yield piece.query
    for part in piece.pieces if isinstance(piece, Extreme) else piece.parts:
        yield from queries_of(part)


def pieces(term: Term) -> Piece:
    """Return an expression with `min`, `max` and `abs` moved outside of sums and constant factors."""
    kind = term.operation
    if kind in ("number", "v"):
        return term
    inner = [pieces(part) for part in term.parts]
    if kind == "abs":
        return Extreme("max", [inner[0], _outside(Term("negative", term.parts), inner, [-1])])
    if kind in OPPOSITE:
        return Extreme(kind, inner)
    return _outside(term, inner, _directions(term))


def _directions(term: Term) -> Sequence[float]:
    """Return the direction in which a term moves as each of its parts increases; 0 if unknown."""
    factors = [part.number if part.operation == "number" else 0.0 for part in term.parts]
    ways: dict[str, list[float]] = {
        "-": [1, -1],
        "negative": [-1],
        "*": factors[::-1],
        "/": [factors[-1], 0],
        "**": [0, 0],
    }
    return ways.get(term.operation, [1.0] * len(term.parts))


def _outside(term: Term, inner: Sequence[Piece], ways: Sequence[float]) -> Piece:
    for place, (piece, way) in enumerate(zip(inner, ways, strict=True)):
        if isinstance(piece, Extreme) and way:
            each = [_outside(term, [*inner[:place], part, *inner[place + 1 :]], ways) for part in piece.pieces]
            return Extreme(piece.which if way > 0 else OPPOSITE[piece.which], each)
    return Term(term.operation, tuple(map(_smooth, inner)), term.number, source=term.source)


def _smooth(piece: Piece) -> Term:
    """Return a piece as a term; an extreme that could not be moved outside becomes `min` or `max` of terms."""
    return piece if isinstance(piece, Term) else Term(piece.which, tuple(map(_smooth, piece.pieces)))
