"""Selects the outputs whose generation order a figure shows, and keeps them with the run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
        known = dict(zip((outcome.id for outcome in outcomes), orders(outcomes), strict=True))
    except SuiteError:
        return {}
    by_id = {outcome.id: outcome for outcome in outcomes}
    free = sorted((number for number in known if number not in hidden), key=lambda number: len(known[number]) < 2)
    wanted = {number for one in chosen for number in (free[:one] if isinstance(one, int) else one) if number in known}
    return {
        number: {"words": _texts(by_id[number].hypotheses[0].tokens, vocabulary), "order": known[number]}
        for number in sorted(wanted)
    }


def _texts(tokens: Iterable[int], vocabulary: Sequence[str]) -> list[str]:
    return [vocabulary[token] if token < len(vocabulary) else str(token) for token in tokens]
