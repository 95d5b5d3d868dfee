"""Former settings of codebooks, read for one release with a warning."""

import warnings
from collections.abc import Mapping
from typing import Any

FORMER = ("order", "vectors", "vector_size")


def with_codes(settings: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return settings of `ecoc-lm` with `codes` in place of `order`, `vectors` and `vector_size`; warn of these.

    Raises ValueError if both are set.
    """
    former = {key: settings[key] for key in FORMER if key in settings}
    if not former:
        return settings
    names = " and ".join(f"`{key}`" for key in former)
    if "codes" in settings:
        raise ValueError(
            f"{names} is the former form of settings of `codes`, which is also set. Move it into `codes`"
        )
    codes = _codes(former)
    text = f"{names} of ecoc-lm will not be read in the next release. Write `codes: {_flow(codes)}` instead."
    warnings.warn(text, FutureWarning, stacklevel=2)
    return {**{key: value for key, value in settings.items() if key not in former}, "codes": codes}


def _codes(former: Mapping[str, Any]) -> dict[str, Any]:
    if former.get("order") == "identity":  # it ignored `vector_size`, and refused `vectors`
        return {"kind": "identity", **{key: former[key] for key in ("vectors",) if former.get(key) is not None}}
    return {"kind": "gray-walk", **former}


def _flow(codes: Mapping[str, Any]) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in codes.items())}}}"
