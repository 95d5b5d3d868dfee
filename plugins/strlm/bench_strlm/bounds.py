"""Bounds on termination (Welleck et al., 2020, arXiv:2002.02492), valid in floating point.

The functions take numbers, not models.
"""

from decimal import Decimal, localcontext
from math import ceil, exp, expm1, floor, inf, log, log1p

RESOLUTION = 2.0**-52  #: resolution of 52-bit random numbers; sampled probabilities are off by at most this
UNIT_ROUNDOFF = Decimal(2) ** -53  # largest relative error of an operation in float64
NEVER = 2**63  # more steps than decoding ever takes


def greedy_steps(epsilon: float) -> int:
    """Return the step by which greedy decoding emits EOS (Theorem 4.2); NEVER if rounding can prevent it.

    This is ceil(B) with B = -log 2 / log(1 - epsilon), or one step more if log alpha is so close to -log 2 that
    rounding decides. In float64, the sum of n terms log(1 - epsilon) has an error of up to n UNIT_ROUNDOFF; the error
    of log(1 - alpha) is far below 8 UNIT_ROUNDOFF.
    """
    with localcontext(prec=400):
        lost = -(1 - Decimal(epsilon)).ln() - UNIT_ROUNDOFF
        return ceil((Decimal(2).ln() + 8 * UNIT_ROUNDOFF) / lost) if lost > 0 else NEVER


def min_stop(epsilon: float, step: int) -> float:
    """Return 1 - (1 - epsilon)^step, the lower bound on p(EOS) at a step counted from 1."""
    return -expm1(step * log1p(-epsilon))


def log_no_stop(epsilon: float, steps: int, first: int = 1, rounding: float = 0.0) -> float:
    """Return a bound on log P(no EOS in `steps` tokens) if EOS is a candidate for sampling from step `first` on.

    At step n, the probability of another token is at most (1 - epsilon)^n (1 + rounding) + RESOLUTION.
    """
    chances = (exp(step * log1p(-epsilon)) * (1 + rounding) + RESOLUTION for step in range(first, steps + 1))
    return sum(log(chance) for chance in chances if chance < 1)


def log_no_stop_from(log_stop: float, steps: int) -> float:
    """Return a bound on log P(no EOS in `steps` sampled tokens) if p(EOS) is always at least exp(log_stop)."""
    chance = exp(log_stop) - RESOLUTION
    return steps * log1p(-chance) if chance > 0 else 0.0


def format_exp(log_number: float, up: bool) -> str:
    """Format exp(log_number) with two digits, rounded `up` or down, even outside the range of floats: `3.2e-489`."""
    if log_number == -inf:
        return "0"
    exponent = log_number / log(10)
    whole = floor(exponent)
    tenths = (ceil if up else floor)(10 ** (exponent - whole + 1))  # 10 to 100
    if tenths == 100:
        tenths, whole = 10, whole + 1
    return f"{tenths * 10.0 ** (whole - 1):g}" if abs(whole) < 3 else f"{tenths / 10}e{whole:+03d}"
