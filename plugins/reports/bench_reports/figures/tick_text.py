"""Numbers as they stand on axes."""

from __future__ import annotations

from math import floor, log10

FROM, TO = 1e-4, 1e7  #: numbers that are written out; smaller and larger ones have powers of ten
EXACT = 12  #: significant digits of a number that a suite gives


def tick_text(value: float, digits: int = 6, powers: bool = False) -> str:
    """Return a number with some significant digits as text, such as `10,000`, `0.5` or `2×10⁸`."""
    text = f"{value:.{digits}g}"
    if not value or (FROM <= abs(value) < TO and not powers):
        plain = f"{float(text):,.12f}".rstrip("0").rstrip(".")
        return plain.replace("-", "−") if value else "0"
    power = floor(log10(abs(float(text))))
    factor = f"{float(text) / 10.0**power if power > -300 else float(text) * 1e300 / 10.0 ** (power + 300):.{digits}g}"
    exponent = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ("" if factor == "1" else f"{factor}×").replace("-", "−") + f"10{exponent}"
