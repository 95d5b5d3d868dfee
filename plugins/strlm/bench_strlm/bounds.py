"""Bounds on termination (Welleck et al., 2020, arXiv:2002.02492), valid in floating point.

Numbers only, no model.
"""

from decimal import Decimal, localcontext
from math import ceil, exp, expm1, floor, inf, log, log1p

DRAW = 2.0**-52  #: by so much a draw can miss a probability: draws have 52 bits
UNIT = Decimal(2) ** -53  # by so much, as a share, an operation in float64 may be wrong
NEVER = 2**63  # more steps than anything takes


def greedy_steps(epsilon: float) -> int:
    """Return the last step at which greedy decoding emits stop (Theorem 4.2); NEVER if rounding may put it off.

    That is ceil(B) for B = -log 2 / log(1 - epsilon), or a step more where log alpha comes so near to -log 2 that
    rounding decides: the program adds log(1 - epsilon) up in float64, in n steps wrong by n UNIT, and log(1 - alpha)
    by far less than 8 UNIT.
    """
    with localcontext(prec=400):
        lost = -(1 - Decimal(epsilon)).ln() - UNIT
        return ceil((Decimal(2).ln() + 8 * UNIT) / lost) if lost > 0 else NEVER


def least_stop(epsilon: float, step: int) -> float:
    """Return 1 - (1 - epsilon)^step, below p(stop) at step 1, 2, ..."""
    return -expm1(step * log1p(-epsilon))


def log_endless(epsilon: float, steps: int, first: int = 1, rounding: float = 0.0) -> float:
    """Return a bound on log P(no stop in `steps` tokens) of sampling, where stop is open from step `first` on.

    At step n stop is not drawn with at most (1 - epsilon)^n, but for `rounding` (a share of it) and what draws miss.
    """
    going = (exp(step * log1p(-epsilon)) * (1 + rounding) + DRAW for step in range(first, steps + 1))
    return sum(log(chance) for chance in going if chance < 1)


def log_endless_at(log_stop: float, steps: int) -> float:
    """Return a bound on log P(no stop in `steps` draws) where p(stop) never lies below exp(log_stop)."""
    drawn = exp(log_stop) - DRAW
    return steps * log1p(-drawn) if drawn > 0 else 0.0


def power_of_ten(log_number: float, up: bool) -> str:
    """Return exp(log_number) to two digits, rounded `up` or down, such as `3.2e-489`, which no float could hold."""
    if log_number == -inf:
        return "0"
    exponent = log_number / log(10)
    whole = floor(exponent)
    tenths = (ceil if up else floor)(10 ** (exponent - whole + 1))  # 10 to 100
    if tenths == 100:
        tenths, whole = 10, whole + 1
    return f"{tenths * 10.0 ** (whole - 1):g}" if abs(whole) < 3 else f"{tenths / 10}e{whole:+03d}"
