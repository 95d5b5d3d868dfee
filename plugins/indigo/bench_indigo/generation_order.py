"""The outputs whose course figures of orders show: which ones, and what a run keeps of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from bench_core.computing.stages import sample_of
from bench_core.data import Outcome
from bench_core.errors import SuiteError
from bench_indigo.trajectory import orders

Chosen: TypeAlias = int | Sequence[int]  # how many examples, or their ids

COURSE = ("words", "order")  #: what a sample says of it: tokens as text, and their places as they were generated


def with_courses(
    samples: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Outcome],
    chosen: Iterable[Chosen],
    vocabulary: Sequence[str],
    hidden: Collection[int] = (),
) -> list[dict[str, Any]]:
    """Return samples of a decoding with the courses of the chosen examples, of which some may be new among them.

    A number chooses so many of the first examples, but none that are `hidden`, and those of fewer than two words only
    where there are no others. Where it is unknown in which order outputs were generated, samples stay as they are.
    """
    try:
        known = dict(zip((outcome.id for outcome in outcomes), orders(outcomes), strict=True))
    except SuiteError:
        return [*map(dict, samples)]
    found = {sample["id"]: dict(sample) for sample in samples}
    by_id = {outcome.id: outcome for outcome in outcomes}
    free = sorted((number for number in known if number not in hidden), key=lambda number: len(known[number]) < 2)
    wanted = {number for one in chosen for number in (free[:one] if isinstance(one, int) else one) if number in known}
    for number in sorted(wanted):
        course = {"words": _texts(by_id[number].hypotheses[0].tokens, vocabulary), "order": known[number]}
        found[number] = found.get(number, sample_of(by_id[number])) | course
    return [found[number] for number in sorted(found)]


def _texts(tokens: Iterable[int], vocabulary: Sequence[str]) -> list[str]:
    return [vocabulary[token] if token < len(vocabulary) else str(token) for token in tokens]
