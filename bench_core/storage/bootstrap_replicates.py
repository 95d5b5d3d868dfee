"""Bootstrap replicates of a score: percentile intervals, and their file format."""

from __future__ import annotations

from collections.abc import Mapping
from math import cbrt, ceil
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

DRAWS = 1_000  #: of a number
LEVEL = 0.95  #: of intervals

Draws: TypeAlias = NDArray[np.float64]  # [D], a score each


def write_draws(path: Path, found: Mapping[str, Draws]) -> None:
    """Write the replicates of several numbers, by name."""
    path.write_bytes(save(dict(sorted(found.items()))))


def read_draws(content: bytes) -> dict[str, Draws]:
    """Return the replicates written by `write_draws`; raise ValueError if the file is invalid."""
    try:
        found: dict[str, Draws] = dict(sorted(load(content).items()))
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"it is not in the safetensors format: {error}") from None
    odd = next((name for name, one in found.items() if one.dtype != np.float64 or one.shape != (DRAWS,)), None)
    if odd is not None:
        raise ValueError(f"{odd[:80]!r} is not {DRAWS} numbers")
    return found


def percentiles(scores: Draws, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the percentile interval of replicates; None if some are not finite."""
    if not len(scores) or not np.isfinite(scores).all():
        return None
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def block_length(examples: int) -> int:
    """Return the block length of the block bootstrap for consecutive examples (Hall et al., 1995)."""
    return max(1, ceil(cbrt(examples)))
