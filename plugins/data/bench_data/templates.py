"""Fields of records, and texts with several fields: `answer`, `{question} ({year})`.

A template replaces field names in braces by the record's values, and supports nothing else: no attributes, formats or
code. `{{` and `}}` are literal braces.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from math import isfinite
from typing import Any

PARTS = re.compile(r"(\{\{|\}\}|\{[^{}]*\}|[{}])")


class FieldError(Exception):
    """A record lacks a field or has a value of the wrong type; `field` names it if fields have separate files."""

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


@cache
def parts(template: str) -> tuple[tuple[str, bool], ...]:
    """Return literal texts, and names of fields marked with True; raise ValueError for unmatched braces.

    A template without braces is the name of a field.
    """
    if "{" not in template and "}" not in template:
        return ((template, True),)
    pieces = []
    for part in filter(None, PARTS.split(template)):
        if part in ("{{", "}}"):
            pieces.append((part[0], False))
        elif len(part) > 2 and part[0] == "{":
            pieces.append((part[1:-1], True))
        elif part in ("{", "}", "{}"):
            raise ValueError(f"a brace without a field name: write {{name}}, or {{{{ for a literal brace: {template}")
        else:
            pieces.append((part, False))
    return tuple(pieces)


def names(template: str) -> list[str]:
    """Return the field names in a template."""
    return [text for text, is_name in parts(template) if is_name]


def value(record: Mapping[str, Any], name: str) -> Any:
    """Return a field, or with `a.b` the field `b` of the object `a`; raise FieldError if it is missing."""
    if name in record:
        return record[name]
    current: Any = record
    for step in name.split("."):
        if not isinstance(current, Mapping) or step not in current:
            known = ", ".join(map(repr, record)) or "no field"
            raise FieldError(f"has no field {name!r}; it has {known}")
        current = current[step]
    return current


def as_text(value: Any, name: str) -> str:
    """Return a text unchanged, or a number or boolean in JSON notation; raise FieldError for other values."""
    if isinstance(value, bool | int | float) and isfinite(value):
        return json.dumps(value)
    if not isinstance(value, str):
        what = "null" if value is None else f"{value!r:.60}"
        raise FieldError(f"has {what} as {name!r}, which must be text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        sign = value[error.start]
        raise FieldError(f"has an unpaired surrogate, {sign!r}, in {name!r}, which is not valid text") from None
    return value


def fill(record: Mapping[str, Any], template: str) -> str:
    """Fill a template with the values of a record; raise FieldError for a field that is missing or not text."""
    return "".join(as_text(value(record, text), text) if is_name else text for text, is_name in parts(template))
