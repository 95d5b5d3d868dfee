"""Exact statements about a share of the examples of one training (Clopper and Pearson, 1934)."""

from __future__ import annotations

from dataclasses import dataclass

from bench_reports.statistics.estimate import LEVEL, Measured


@dataclass(frozen=True)
class Share:
    """How many of a number of independent examples were cases; values are in percent."""

    cases: int
    examples: int

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
        """Return the p-value of the statement that the true share is above `null`: P(as many cases, or more)."""
        from scipy.special import bdtrc

        share = min(max(null / 100, 0.0), 1.0)
        return float(bdtrc(self.cases - 1, self.examples, share)) if self.cases else 1.0

    def p_below(self, null: float = 0.0) -> float:
        """Return the p-value of the statement that the true share is below `null`: P(as many cases, or fewer)."""
        from scipy.special import bdtr

        return float(bdtr(self.cases, self.examples, min(max(null / 100, 0.0), 1.0)))


def share_of(measured: Measured) -> Share | None:
    """Return what a measurement counted, if it is a share of independent examples of one training; else None."""
    if measured.scale != "share" or len(measured.values) != 1 or measured.draws is None or measured.block > 1:
        return None
    examples = int(measured.units)
    cases = measured.mean / 100 * examples
    return Share(round(cases), examples) if abs(cases - round(cases)) < 1e-6 * examples else None
