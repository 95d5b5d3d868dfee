"""Bootstrap replicates of a cell's score, resampling single examples, groups or blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_core.computing.result_checks import brief, gave, is_number
from bench_core.metric import Additive, Metric, resample_table, table
from block_bootstrap import BLOCKS, REPLICATES, ReplicateScores, block_length, resamples

MAX_COUNTS = 2**22  # maximum number of example counts in memory


@dataclass(frozen=True)
class Replicates:
    """The scores of bootstrap samples and the number of independent units."""

    draws: ReplicateScores  # [B, D], one row per block length
    units: int  # examples or groups; 0 for a whole population
    block: int = 1  # number of dependent consecutive examples


def replicates(metric: Metric[Any], parts: Sequence[Any], groups: Sequence[int], consecutive: bool) -> Replicates:
    """Return bootstrap replicates of a score from the examples' statistics `parts`; none for a whole population.

    `groups` assigns a group to each example; groups are resampled as units. Consecutive examples are resampled in
    blocks of several lengths, because the cells they will be compared with are not known yet.
    """
    if metric.population == "whole" or not len(parts):
        return Replicates(np.zeros((0, REPLICATES)), 0)
    names, places = np.unique(np.asarray(groups, dtype=np.int64), return_inverse=True)
    if len(names) < len(parts):
        return Replicates(draws(metric, parts, 1, places)[None], len(names))
    if not consecutive:
        return Replicates(draws(metric, parts)[None], len(parts))
    lengths = [length for length in BLOCKS if length == 1 or 8 * length <= len(parts)]
    scores = np.stack([draws(metric, parts, length) for length in lengths])
    return Replicates(scores, len(parts), block_length(contributions(metric, parts)))


def draws(
    metric: Metric[Any], parts: Sequence[Any], block: int = 1, places: NDArray[np.intp] | None = None
) -> NDArray[np.float64]:
    """Return the scores [D] of bootstrap samples, drawn in blocks of examples or, given their `places`, in groups."""
    resample, number = _resampling(metric, parts), len(parts) if places is None else int(places.max()) + 1
    grouped = (counts if places is None else counts[:, places] for counts in resamples(number, block))
    scores = [score for counts in grouped for score in resample(counts)]
    invalid = [score for score in scores if not is_number(score)]
    if invalid or len(scores) not in (0, REPLICATES):
        what = brief(invalid[0]) if invalid else f"{len(scores)} scores"
        raise gave(metric, "resample", f"{what} for {REPLICATES} samples", "expected one number per sample.")
    return np.array(scores, dtype=np.float64)


def _resampling(metric: Metric[Any], parts: Sequence[Any]) -> Callable[[NDArray[np.uint16]], list[float]]:
    """Return a function that scores resamples of `parts`; an additive metric sums a precomputed table."""
    if isinstance(metric, Additive) and getattr(metric.resample, "__func__", None) is Additive.resample:
        return partial(resample_table, metric, table(metric, parts))
    return partial(metric.resample, parts if isinstance(parts, list) else [*parts])


def contributions(metric: Metric[Any], parts: Sequence[Any]) -> NDArray[np.float64]:
    """Return the influence of each example on the score [N]: the negated score without the example."""
    if isinstance(metric, Additive) and getattr(metric.resample, "__func__", None) is Additive.resample:
        numbers = table(metric, parts)
        left = numbers.sum(0) - numbers
        return -np.array([metric.from_sums(row, len(parts) - 1) for row in left.tolist()])
    rows = max(1, MAX_COUNTS // max(1, len(parts)))
    scores: list[float] = []
    for first in range(0, len(parts), rows):
        counts = np.ones((min(rows, len(parts) - first), len(parts)), dtype=np.uint16)
        np.fill_diagonal(counts[:, first:], 0)
        scores += metric.resample([*parts], counts)
    return -np.array(scores, dtype=np.float64)
