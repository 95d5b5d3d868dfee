"""The laws that mutants break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T", bound=type)

OUTPUTS = ("match", "length")
ALL = ("nats", *OUTPUTS)


@dataclass(frozen=True)
class Law:
    """What a mutant breaks, and how its refusal is recognized."""

    text: str
    says: str  # a pattern that the refusal contains, whatever its wording
    spoils: tuple[str, ...]  # metrics of which no number may remain
    warning: bool = False  # whether a warning by name is enough, as the numbers are what they say


LAWS: dict[type, Law] = {}  # by mutant, in the order of their files


def breaks(text: str, says: str, spoils: tuple[str, ...] = ALL, warning: bool = False) -> Callable[[T], T]:
    """Register a mutant with the law that it breaks."""

    def register(mutant: T) -> T:
        LAWS[mutant] = Law(text, says, spoils, warning)
        return mutant

    return register
