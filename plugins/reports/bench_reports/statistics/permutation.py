"""The paired permutation test (approximate randomization): Noreen, 1989; Riezler and Maxwell, 2005.

If it makes no difference which of two cells produced an output, swapping the outputs of an example between them
changes nothing except by chance. Also the paired bootstrap test as computed by sacrebleu.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench_core.metric import Metric

REPLICATES = 1_000
MAX_EXCHANGES = 2**22  # exchanged examples per batch
ROUNDING = 1e-9  # relative error of scores, by which equal differences may seem to differ

Parts: TypeAlias = Sequence[Any]


def permutation_p_value(
    metric: Metric[Any], pairs: Sequence[tuple[Parts, Parts]], draws: int = REPLICATES, block: int = 1
) -> float:
    """Return how often random exchanges give a difference at least as far from 0, in either direction, as observed.

    `pairs` are the parts of both cells by seed, all on the same examples. Each example is exchanged with probability
    1/2, in all seeds at once, together with the other examples of its block of consecutive examples. The score is the
    mean over seeds, on the scale of the metric's tests. The observed difference counts as one of the draws, so that
    no p-value is below 1 / (draws + 1).
    """
    differences, largest = [], 0.0
    for chosen in _exchanges(len(pairs[0][0]), draws, block):
        ours, theirs = _scores(metric, pairs, chosen)
        largest = max(largest, float(np.abs([ours[:1], theirs[:1]]).max(initial=0.0)))
        differences.append(ours - theirs)
    distances = np.abs(np.concatenate(differences))
    near = distances < distances[0] - ROUNDING * max(largest, float(distances[0]))  # False for nan
    return float((~near).mean())


def koehn_p_value(difference: float, draws: NDArray[np.float64]) -> float:
    """Return the p-value of Koehn (2004) from bootstrap replicates of a difference [D], as computed by sacrebleu.

    It is one-sided and ignores the variance between training runs.
    """
    distances = np.abs(draws) - np.abs(draws).mean()
    return (int((distances > abs(difference)).sum()) + 1) / (len(draws) + 1)


def _scores(
    metric: Metric[Any], pairs: Sequence[tuple[Parts, Parts]], chosen: NDArray[np.uint8]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scores of both cells [D], with the examples in `chosen` [D, N] exchanged."""
    kept = 1 - chosen
    counts = np.hstack([kept, chosen]), np.hstack([chosen, kept])
    scores = [[metric.resample([*ours, *theirs], count) for count in counts] for ours, theirs in pairs]
    values = np.array(scores, dtype=np.float64)
    with np.errstate(all="ignore"):
        ours, theirs = np.mean(np.log(values) if metric.scale == "log" else values, axis=0)
    return ours, theirs


def _exchanges(examples: int, draws: int, block: int) -> Iterator[NDArray[np.uint8]]:
    """Yield which examples are exchanged [D, N], 0 or 1, in batches of draws; the very first draw exchanges none.

    The raw stream of the generator is the same in every release of numpy.
    """
    stream, blocks = np.random.PCG64(2), ceil(examples / block)
    words, rows = ceil(blocks / 64), max(1, MAX_EXCHANGES // max(1, examples))
    yield np.zeros((1, examples), dtype=np.uint8)
    for first in range(0, draws, rows):
        some = min(rows, draws - first)
        raw = stream.random_raw(some * words).astype("<u8").reshape(some, words)
        bits = np.unpackbits(raw.view(np.uint8), axis=1, count=blocks, bitorder="little")
        yield np.repeat(bits, block, axis=1)[:, :examples]
