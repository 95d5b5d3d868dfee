"""A fault: what it does to a working suite, and the words that a message about it must have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench_faults.place import Place

#: Changes a place, and returns words that a message about it must have.
Inject = Callable[[Place], Sequence[str]]


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, in suites of these names; `late`: it changes files after they are written."""

    name: str
    suites: Sequence[str]
    inject: Inject
    late: bool = False


FAULTS: dict[str, Fault] = {}


def fault(name: str, *suites: str, late: bool = False) -> Callable[[Inject], Inject]:
    """Register a fault."""

    def register(inject: Inject) -> Inject:
        assert name not in FAULTS
        FAULTS[name] = Fault(name, suites, inject, late)
        return inject

    return register


def break_(fault: Fault, build: Callable[[Place], None], place: Place) -> Sequence[str]:
    """Write a working suite with this fault; return what a message about it must have."""
    build(place)
    if fault.late:
        place.write()
        return fault.inject(place)
    words = fault.inject(place)
    place.write()
    return words
