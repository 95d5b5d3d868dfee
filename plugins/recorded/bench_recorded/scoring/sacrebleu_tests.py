"""sacrebleu's own paired tests, for comparison with the numbers of its command."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from bench_core import SuiteError

KINDS: Mapping[str, Literal["bs", "ar"]] = {"bootstrap": "bs", "permutation": "ar"}  #: sacrebleu's names for tests


@dataclass(frozen=True)
class SystemResult:
    """sacrebleu's result for a system; fields other than the score may be missing, as in sacrebleu's command."""

    score: float
    mean: float | None  # mean of the bootstrap replicates
    half_width: float | None  # half width of the 95 % bootstrap interval
    p: float | None  # p-value of the difference from the baseline: one-tailed bootstrap, two-tailed permutation


@dataclass(frozen=True)
class MetricResult:
    """sacrebleu's results for all systems with one metric."""

    signature: str
    systems: Sequence[SystemResult]  # the baseline first


def sacrebleu_tests(
    metrics: Mapping[str, Any],
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    test: Literal["bootstrap", "permutation"],
) -> dict[str, MetricResult]:
    """Test each of at least two systems against the first; return the results by metric.

    `metrics` are sacrebleu scorers by name; `references` has a list for each file. All digits equal the output
    of sacrebleu's command: 1,000 resamples or 10,000 permutations, with the seed SACREBLEU_SEED or 12345. Raises
    SuiteError if SACREBLEU_SEED is invalid.
    """
    from sacrebleu.significance import PairedTest

    seed = os.environ.get("SACREBLEU_SEED", "none")
    if seed.lower() != "none" and not (seed.isascii() and seed.isdecimal()):
        raise SuiteError(f"SACREBLEU_SEED is {seed!r}. Set it to an integer or to none, or unset it.")
    by_metric = {}
    for name, scorer in metrics.items():
        with _quietly():
            signatures, results = PairedTest([*systems.items()], {name: scorer}, references, KINDS[test])()
        (label,) = signatures
        by_metric[name] = MetricResult(signatures[label].format(), [*map(_convert, results[label])])
    return by_metric


def _convert(result: Any) -> SystemResult:
    mean, half_width = (None if value is None else float(value) for value in (result.mean, result.ci))
    return SystemResult(float(result.score), mean, half_width, result.p_value)


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress sacrebleu's progress messages."""
    log = logging.getLogger("sacrebleu")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
