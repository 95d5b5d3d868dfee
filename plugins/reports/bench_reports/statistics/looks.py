"""Tests of a run that adds seeds until its claims are decided: each look at them spends a part of the level."""

import re
from collections.abc import Mapping
from typing import Any

from bench_reports.statistics.tails import LEVEL

LOOK_PATTERN = re.compile(r"until=decided, look (\d+) of (\d+)")  #: the argument recorded by a run that adds seeds


def spent(look: int, looks: int, level: float = LEVEL) -> float:
    """Return the level of the tests at one `look` of several, counted from 1.

    The levels of all looks sum to `level`, so that a false claim holds at any of them with at most that probability,
    however looks depend on each other (Bonferroni). They grow with the number of seeds, like those of O'Brien and
    Fleming (1979): few seeds seldom decide, and the last look is nearly as powerful as a single one with all seeds.
    """
    if not 1 <= look <= looks:
        raise ValueError(f"look {look} is not one of {looks}")
    return 2 * level * look / (looks * (looks + 1))


def level_of(info: Mapping[str, Any]) -> float:
    """Return the level of the tests of a run whose `info` may record a look."""
    look = next(
        (match for argument in info.get("asked") or () if (match := LOOK_PATTERN.fullmatch(str(argument)))), None
    )
    return spent(int(look[1]), int(look[2])) if look else LEVEL
