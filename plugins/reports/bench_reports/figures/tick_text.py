"""Numbers as printed on axes."""

from math import isfinite

FROM, TO = 1e-4, 1e7  #: magnitudes that are written out; smaller and larger numbers use powers of ten
EXACT = 12  #: significant digits of a number in the suite


def tick_text(value: float, digits: int = 6, powers: bool = False) -> str:
    """Return a number as text with `digits` significant digits, such as `10,000`, `0.5` or `2×10⁸`.

    With `powers`, every number is a multiple of a power of ten; infinite numbers have no text.
    """
    if not isfinite(value):
        return ""
    if not value or (FROM <= abs(value) < TO and not powers):
        plain = f"{float(f'{value:.{digits}g}'):,.12f}".rstrip("0").rstrip(".")
        return plain.replace("-", "−") if value else "0"
    factor, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    factor = factor.rstrip("0").rstrip(".")
    power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ("" if factor == "1" else f"{factor}×").replace("-", "−") + f"10{power}"
