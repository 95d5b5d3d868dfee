"""Selects the outputs whose generation order a figure shows, and keeps them with the run."""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any, TypeAlias

from bench_core import Outcome, SuiteError
from bench_indigo.trajectory import orders

Chosen: TypeAlias = int | Sequence[int]  # how many examples, or their ids

COURSE = ("words", "order")  #: what a sample says of it: tokens as text, and their places as they were generated


def courses(
    outcomes: Sequence[Outcome], chosen: Iterable[Chosen], vocabulary: Sequence[str], hidden: Collection[int] = ()
) -> dict[int, dict[str, Any]]:
    """Return the courses of the chosen examples, by their ids.

    A number chooses so many of the first examples, but none that are `hidden`, and those of fewer than two words only
    where there are no others. Where it is unknown in which order outputs were generated, there are none.
    """
    try:
        found = orders(outcomes)
    except SuiteError:
        return {}
    several = [*chosen]
    free = _first(outcomes, max((one for one in several if isinstance(one, int)), default=0), hidden)
    wanted = {number for one in several for number in (free[:one] if isinstance(one, int) else one)}
    courses = {
        outcome.id: {"words": _texts(outcome.hypotheses[0].tokens, vocabulary), "order": order}
        for outcome, order in zip(outcomes, found, strict=True)
        if outcome.id in wanted
    }
    return dict(sorted(courses.items()))


def _first(outcomes: Sequence[Outcome], most: int, hidden: Collection[int]) -> list[int]:
    """Return the first examples that are not hidden, after at most so many those of fewer than two words."""
    aside = frozenset(hidden)
    long = (one.id for one in outcomes if one.id not in aside and _words(one) > 1)
    short = (one.id for one in outcomes if one.id not in aside and _words(one) < 2)
    return [*islice(long, most), *islice(short, most)]


def _words(outcome: Outcome) -> int:
    return len(outcome.hypotheses[0].tokens)


def _texts(tokens: Iterable[int], vocabulary: Sequence[str]) -> list[str]:
    return [vocabulary[token] if token < len(vocabulary) else str(token) for token in tokens]
