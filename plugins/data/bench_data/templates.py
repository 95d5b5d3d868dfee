"""Fields of records, and texts made of several: `answer`, `{question} ({year})`.

A template replaces names between braces by what the record has under them, and does nothing else: no attributes, no
formats, no code. `{{` and `}}` are braces.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from math import isfinite
from typing import Any

PARTS = re.compile(r"(\{\{|\}\}|\{[^{}]*\}|[{}])")


class FieldError(Exception):
    """What a record lacks, or has in another form; `field` is what is wrong, where that alone tells its file."""

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


@cache
def parts(template: str) -> tuple[tuple[str, bool], ...]:
    """Return literal texts, and names of fields marked with True; raise ValueError for braces that do not match.

    A template without braces is the name of a field.
    """
    if "{" not in template and "}" not in template:
        return ((template, True),)
    found = []
    for part in filter(None, PARTS.split(template)):
        if part in ("{{", "}}"):
            found.append((part[0], False))
        elif len(part) > 2 and part[0] == "{":
            found.append((part[1:-1], True))
        elif part in ("{", "}", "{}"):
            raise ValueError(f"a brace does not belong to a name: write {{name}}, or {{{{ for a brace: {template}")
        else:
            found.append((part, False))
    return tuple(found)


def names(template: str) -> list[str]:
    """Return the fields that a template names."""
    return [text for text, is_name in parts(template) if is_name]


def value(record: Mapping[str, Any], name: str) -> Any:
    """Return a field, or by `a.b` the field `b` of the object `a`; raise FieldError if there is none."""
    if name in record:
        return record[name]
    found: Any = record
    for step in name.split("."):
        if not isinstance(found, Mapping) or step not in found:
            known = ", ".join(map(repr, record)) or "no field"
            raise FieldError(f"has no field {name!r}; it has {known}")
        found = found[step]
    return found


def as_text(found: Any, name: str) -> str:
    """Return a text, or a number or truth value as JSON writes it; raise FieldError for anything else."""
    if isinstance(found, bool | int | float) and isfinite(found):
        return json.dumps(found)
    if not isinstance(found, str):
        what = "null" if found is None else f"{found!r:.60}"
        raise FieldError(f"has {what} as {name!r}, which must be a text")
    try:
        found.encode()
    except UnicodeEncodeError as error:
        sign = found[error.start]
        raise FieldError(f"has half of a pair of surrogates, {sign!r}, in {name!r}, which is no text") from None
    return found


def filled(record: Mapping[str, Any], template: str) -> str:
    """Return the text that a template makes of a record; raise FieldError for a field that is missing or no text."""
    return "".join(as_text(value(record, text), text) if is_name else text for text, is_name in parts(template))
