"""Exact statements about a share of examples, of one training or of several without a case (Clopper, Pearson, 1934).

If none of N examples is a case in any of several trainings, the mean of their true shares is above u with probability
(1 - u)^N at most, however alike trainings are on an example: the one with the greatest share has shown none, too.
Of *other* trainings this says little: of S trainings without a case, up to 1 - 0.05^(1/S) of all could be of another
kind (63 % for three).
"""

from dataclasses import dataclass

from bench_reports.statistics.estimate import Measured
from bench_reports.statistics.tails import LEVEL, SMALLEST


@dataclass(frozen=True)
class Share:
    """How many of a number of independent examples were cases; values are in percent."""

    cases: int
    examples: int
    of_these_trainings: bool = True  # others are left out, as in an `Estimate`

    @property
    def value(self) -> float:
        return 100 * self.cases / self.examples

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval that misses the truth with probability `level` at most, whatever it is."""
        from scipy.special import betaincinv

        k, n, tail = self.cases, self.examples, level / 2
        low = betaincinv(k, n - k + 1, tail) if k else 0.0
        high = betaincinv(k + 1, n - k, 1 - tail) if k < n else 1.0
        return 100 * float(low), 100 * float(high)

    def p(self, null: float = 0.0) -> float:
        """Return twice the smaller tail of a binomial with this share, at most 1: the inversion of the interval."""
        return min(1.0, 2 * min(self.p_above(null), self.p_below(null)))

    def p_above(self, null: float = 0.0) -> float:
        """Return the p-value of the statement that the true share is above `null`: P(as many cases, or more).

        No p-value is 0.
        """
        from scipy.special import bdtrc

        share = min(max(null / 100, 0.0), 1.0)
        return max(SMALLEST, float(bdtrc(self.cases - 1, self.examples, share))) if self.cases else 1.0

    def p_below(self, null: float = 0.0) -> float:
        """Return the p-value of the statement that the true share is below `null`: P(as many cases, or fewer)."""
        from scipy.special import bdtr

        return max(SMALLEST, float(bdtr(self.cases, self.examples, min(max(null / 100, 0.0), 1.0))))


def share_of(measured: Measured) -> Share | None:
    """Return what a measurement counted, if it is a share of independent examples; else None.

    Of several trainings, this is known only where none has a case, or all examples of each are cases.
    """
    if measured.scale != "share" or measured.draws is None or measured.block > 1:
        return None
    if len(measured.values) > 1 and not (measured.is_constant and measured.mean in (0.0, 100.0)):
        return None
    examples = int(measured.units)
    cases = measured.mean / 100 * examples
    return Share(round(cases), examples) if abs(cases - round(cases)) < 1e-6 * examples else None
