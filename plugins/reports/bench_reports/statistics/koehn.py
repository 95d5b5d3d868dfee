"""The p-value of the paired bootstrap as sacrebleu counts it, to be set beside its own."""

from __future__ import annotations

import numpy as np

from bench_reports.statistics.tails import Array


def koehn_p_value(difference: float, draws: Array) -> float:
    """Return the p-value of Koehn (2004) from the differences of draws [D], as sacrebleu has it.

    It is one-sided, and knows nothing of other trainings.
    """
    apart = np.abs(draws) - np.abs(draws).mean()
    return (int((apart > abs(difference)).sum()) + 1) / (len(draws) + 1)
