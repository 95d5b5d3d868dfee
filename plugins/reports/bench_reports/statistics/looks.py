"""Tests of a run whose seeds are added until its claims are decided: each look at them spends a part of the level."""

import re
from collections.abc import Mapping
from typing import Any

from bench_reports.statistics.tails import LEVEL

LOOK = re.compile(r"until=decided, look (\d+) of (\d+)")  #: what a run was asked for that had its seeds added


def spent(look: int, looks: int, level: float = LEVEL) -> float:
    """Return the level of the tests at one `look` of so many, counted from 1.

    The levels of all looks sum to `level`, so that a false claim holds at any of them with that probability at most,
    however looks depend on each other (Bonferroni). They grow with the number of seeds, as those of O'Brien and
    Fleming (1979) do: few seeds seldom decide, and the last look is nearly as good as a single one of more seeds.
    """
    if not 1 <= look <= looks:
        raise ValueError(f"look {look} is not one of {looks}")
    return 2 * level * look / (looks * (looks + 1))


def level_of(info: Mapping[str, Any]) -> float:
    """Return the level of the tests of a run, of which `info` says at which look it is."""
    found = next((match for one in info.get("asked") or () if (match := LOOK.fullmatch(str(one)))), None)
    return spent(int(found[1]), int(found[2])) if found else LEVEL
