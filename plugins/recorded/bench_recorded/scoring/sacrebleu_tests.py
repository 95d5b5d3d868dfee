"""The paired tests of sacrebleu itself, for those who compare with numbers of its command."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from bench_core import SuiteError

KINDS: Mapping[str, Literal["bs", "ar"]] = {"bootstrap": "bs", "permutation": "ar"}  #: its names of tests


@dataclass(frozen=True)
class SystemResult:
    """What sacrebleu says of a system: all but the score may be missing, as in its command."""

    score: float
    mean: float | None  # of bootstrap samples
    half_width: float | None  # of their 95 % interval
    p: float | None  # of its difference from the baseline, by one tail of the bootstrap, both of exchanges


@dataclass(frozen=True)
class MetricResult:
    """What sacrebleu says of all systems by one metric."""

    signature: str
    systems: Sequence[SystemResult]  # the baseline first


def sacrebleu_tests(
    metrics: Mapping[str, Any],
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    test: Literal["bootstrap", "permutation"],
) -> dict[str, MetricResult]:
    """Return the paired tests against the first of at least two systems, by the names of metrics.

    Scorers are those of sacrebleu, references a list for each file. Its numbers of samples and its seed are those of
    its command (1,000 resamples or 10,000 exchanges, SACREBLEU_SEED or 12345), and so are all digits. Raises
    SuiteError if SACREBLEU_SEED is no seed.
    """
    from sacrebleu.significance import PairedTest

    seed = os.environ.get("SACREBLEU_SEED", "none")
    if seed.lower() != "none" and not (seed.isascii() and seed.isdecimal()):
        raise SuiteError(f"SACREBLEU_SEED is {seed!r}. Set it to a whole number or to none, or leave it out.")
    found = {}
    for name, scorer in metrics.items():
        with _quietly():
            signatures, results = PairedTest([*systems.items()], {name: scorer}, references, KINDS[test])()
        (label,) = signatures
        found[name] = MetricResult(signatures[label].format(), [*map(_result, results[label])])
    return found


def _result(one: Any) -> SystemResult:
    mean, half = (None if value is None else float(value) for value in (one.mean, one.ci))
    return SystemResult(float(one.score), mean, half, one.p_value)


@contextmanager
def _quietly() -> Iterator[None]:
    """Leave out what sacrebleu logs of its progress."""
    log = logging.getLogger("sacrebleu")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
