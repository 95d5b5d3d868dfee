"""Bootstrap: scores of resampled examples of a cell, one by one, in groups or in blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_core.computing.result_checks import gave, is_number, shown
from bench_core.metric import Additive, Metric, resample_table, table
from block_bootstrap import BLOCKS, DRAWS, Draws, block_length, resamples

AT_ONCE = 2**22  # counts of examples that are worked on at a time


@dataclass(frozen=True)
class Replicates:
    """The scores of bootstrap samples, and of how many independent units these are."""

    draws: Draws  # [B, D], for each block length
    units: int  # examples, or groups of them; 0 of a whole population
    block: int = 1  # how many examples in a row depend on each other


def replicates(metric: Metric[Any], parts: Sequence[Any], groups: Sequence[int], consecutive: bool) -> Replicates:
    """Return replicates of the score of examples with statistics `parts`; none of a whole population.

    Groups, one number for each example, are drawn as wholes. Consecutive examples are drawn in blocks of several
    lengths, as it is not known yet which cells they will be compared with.
    """
    if metric.population == "whole" or not len(parts):
        return Replicates(np.zeros((0, DRAWS)), 0)
    names, places = np.unique(np.asarray(groups, dtype=np.int64), return_inverse=True)
    if len(names) < len(parts):
        return Replicates(draws(metric, parts, 1, places)[None], len(names))
    if not consecutive:
        return Replicates(draws(metric, parts)[None], len(parts))
    lengths = [length for length in BLOCKS if length == 1 or 8 * length <= len(parts)]
    found = np.stack([draws(metric, parts, length) for length in lengths])
    return Replicates(found, len(parts), block_length(contributions(metric, parts)))


def draws(
    metric: Metric[Any], parts: Sequence[Any], block: int = 1, places: NDArray[np.intp] | None = None
) -> NDArray[np.float64]:
    """Return the scores [D] of bootstrap samples of the examples, drawn in blocks, or by their `places` of groups."""
    resample, number = _resampling(metric, parts), len(parts) if places is None else int(places.max()) + 1
    grouped = (some if places is None else some[:, places] for some in resamples(number, block))
    scores = [score for some in grouped for score in resample(some)]
    strange = [score for score in scores if not is_number(score)]
    if strange or len(scores) not in (0, DRAWS):
        what = shown(strange[0]) if strange else f"{len(scores)} scores"
        raise gave(metric, "resample", f"{what} for {DRAWS} samples", "it is one number each.")
    return np.array(scores, dtype=np.float64)


def _resampling(metric: Metric[Any], parts: Sequence[Any]) -> Callable[[NDArray[np.uint16]], list[float]]:
    """Return what scores resamples of the same parts, after one pass over them; sums use a table."""
    if isinstance(metric, Additive) and getattr(metric.resample, "__func__", None) is Additive.resample:
        return partial(resample_table, metric, table(metric, parts))
    return partial(metric.resample, parts if isinstance(parts, list) else [*parts])


def contributions(metric: Metric[Any], parts: Sequence[Any]) -> NDArray[np.float64]:
    """Return how far each example moves the score [N]: less the score without it."""
    if isinstance(metric, Additive) and getattr(metric.resample, "__func__", None) is Additive.resample:
        numbers = table(metric, parts)
        left = numbers.sum(0) - numbers
        return -np.array([metric.from_sums(row, len(parts) - 1) for row in left.tolist()])
    rows = max(1, AT_ONCE // max(1, len(parts)))
    found: list[float] = []
    for first in range(0, len(parts), rows):
        counts = np.ones((min(rows, len(parts) - first), len(parts)), dtype=np.uint16)
        np.fill_diagonal(counts[:, first:], 0)
        found += metric.resample([*parts], counts)
    return -np.array(found, dtype=np.float64)
