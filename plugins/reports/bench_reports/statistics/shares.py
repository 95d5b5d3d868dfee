"""Exact statistics of a share of examples, in one training run or in several without a case (Clopper, Pearson, 1934).

If none of N examples is a case in any of several training runs, the mean of their true shares is above u with
probability at most (1 - u)^N, however runs depend on each other on an example: the run with the greatest share also
has no case. This says little about *other* runs: after S runs without a case, up to 1 - 0.05^(1/S) of all runs could
be of another kind (63 % for three).
"""

from dataclasses import dataclass

from bench_reports.statistics.estimate import Measured
from bench_reports.statistics.tails import LEVEL, MIN_P_VALUE


@dataclass(frozen=True)
class Share:
    """Number of cases among independent examples; values are in percent."""

    cases: int
    examples: int

    @property
    def value(self) -> float:
        return 100 * self.cases / self.examples

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval that misses the true share with probability `level` at most."""
        from scipy.special import betaincinv

        k, n, tail = self.cases, self.examples, level / 2
        low = betaincinv(k, n - k + 1, tail) if k else 0.0
        high = betaincinv(k + 1, n - k, 1 - tail) if k < n else 1.0
        return 100 * float(low), 100 * float(high)

    def p_above(self, null: float = 0.0) -> float:
        """Return the p-value of the statement that the true share is above `null`: P(as many cases or more).

        It is never 0.
        """
        from scipy.special import bdtrc

        share = min(max(null / 100, 0.0), 1.0)
        return max(MIN_P_VALUE, float(bdtrc(self.cases - 1, self.examples, share))) if self.cases else 1.0

    def p_below(self, null: float = 0.0) -> float:
        """Return the p-value of the statement that the true share is below `null`: P(as many cases or fewer)."""
        from scipy.special import bdtr

        return max(MIN_P_VALUE, float(bdtr(self.cases, self.examples, min(max(null / 100, 0.0), 1.0))))


def share_of(measured: Measured) -> Share | None:
    """Return the count behind a measurement, if it is a share of independent examples; else None.

    For several training runs, it exists only if no example is a case in any run, or every example in every run.
    """
    if measured.scale != "share" or measured.draws is None or measured.block > 1:
        return None
    if len(measured.values) > 1 and not (measured.is_constant and measured.mean in (0.0, 100.0)):
        return None
    examples = int(measured.units)
    cases = measured.mean / 100 * examples
    return Share(round(cases), examples) if abs(cases - round(cases)) < 1e-6 * examples else None
