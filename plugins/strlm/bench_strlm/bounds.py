"""What is proven about termination (Welleck et al., 2020, arXiv:2002.02492); numbers only, no model."""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import ceil, expm1, floor, inf, log, log1p


def half_life(epsilon: float) -> float:
    """Return B = -log 2 / log(1 - epsilon): the steps after which p(stop) must exceed one half."""
    return -log(2) / log1p(-epsilon)


def greedy_steps(epsilon: float) -> int:
    """Return ceil(B), the last step at which greedy decoding emits stop (Theorem 4.2, made exact).

    In as many digits as tell 1 - epsilon from 1: a float takes some B for the integer beside it.
    """
    with localcontext(prec=400):
        return ceil(Decimal(2).ln() / -(1 - Decimal(epsilon)).ln())


def beam_steps(epsilon: float, finished: int) -> int:
    """Return the last step of a beam that needs so many finished hypotheses: one ends at every step from ceil(B)."""
    return greedy_steps(epsilon) + finished - 1


def least_stop(epsilon: float, step: int) -> float:
    """Return 1 - (1 - epsilon)^step, below p(stop) at step 1, 2, ..."""
    return -expm1(step * log1p(-epsilon))


def log_endless(epsilon: float, steps: int, first: int = 1) -> float:
    """Return a bound on log P(no stop in `steps` tokens) of sampling, where stop is open from step `first` on.

    With p(continue) <= (1 - epsilon)^n at step n, the product over n = first, ..., steps.
    """
    terms = steps * (steps + 1) / 2 - first * (first - 1) / 2 if steps >= first else 0
    return terms * log1p(-epsilon)


def log_least_stop_of_softmax(radius: float, norm: float, bias: float, stop_bias: float, tokens: int) -> float:
    """Return the bound of Lemma 3.2 on log p(stop): -(2 radius norm + bias - stop_bias + log tokens).

    `radius` bounds the p-norm of the hidden units, `norm` the q-norm of every row of the output matrix, with
    1/p + 1/q = 1; `bias` is the greatest output bias.
    """
    return -(2 * radius * norm + bias - stop_bias + log(tokens))


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
