"""Turns pydantic errors into plain sentences."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias, get_args

from pydantic import BaseModel

ErrorDetails: TypeAlias = Mapping[str, Any]  #: an item of `ValidationError.errors()`

WHOLE, NUMBER, TEXT, LIST = "a whole number", "a number", "text", "a list"
EXPECTED: Mapping[str, str] = {
    "int_type": WHOLE,
    "int_parsing": WHOLE,
    "int_from_float": WHOLE,
    "int_parsing_size": WHOLE,
    "float_type": NUMBER,
    "float_parsing": NUMBER,
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": TEXT,
    "path_type": "a path",
    "none_required": "null",
    "list_type": LIST,
    "tuple_type": LIST,
    "set_type": LIST,
    "frozen_set_type": LIST,
    "iterable_type": LIST,
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "mapping_type": "a mapping",
}  #: error type -> expected value
BOUNDS = {
    "greater_than": ("gt", "greater than"), "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"), "less_than_equal": ("le", "at most"),
}  #: error type -> key of its bound, and words for it  # fmt: skip
SIZE_LIMITS = {"too_short": ("min_length", "least"), "too_long": ("max_length", "most")}
MAX_VALUE_CHARACTERS = 80


def sentence(errors: Sequence[ErrorDetails], schema: type[BaseModel], way: Sequence[str | int]) -> str:
    """Return a sentence for the errors of the value at `way`: one error, or one per alternative type."""
    error = errors[0]
    loc, kind, context = error["loc"] or ("",), error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown key {loc[-1]!r}. {suggestion(str(loc[-1]), fields(schema, loc[:-1]))}"
    if kind == "missing":
        return f"the key {loc[-1]!r} is missing."
    subject, finding = _subject(way), _describe_value(error.get("input"))
    if kind in ("literal_error", "enum"):
        return _choice(errors, subject)
    if kind in EXPECTED:
        shapes = dict.fromkeys(EXPECTED[details["type"]] for details in errors if details["type"] in EXPECTED)
        return f"{subject} must be {' or '.join(shapes)}{finding}."
    if kind in BOUNDS:
        key, words = BOUNDS[kind]
        return f"{subject} must be {words} {context[key]:g}{finding}."
    if kind in SIZE_LIMITS and isinstance(context.get(SIZE_LIMITS[kind][0]), int):
        key, words = SIZE_LIMITS[kind]
        return f"{subject} must have at {words} {context[key]} entr{'y' if context[key] == 1 else 'ies'}{finding}."
    if kind == "string_pattern_mismatch":
        return f"{subject} has invalid characters (allowed pattern: {context['pattern']}){finding}."
    if kind == "union_tag_invalid":
        return (
            f"{subject}: {_unknown_value(str(context['tag']), quoted_words(str(context['expected_tags'])), 'Known')}"
        )
    if kind == "union_tag_not_found":
        return f"{subject}: the key {context['discriminator']} is missing."
    finding = "" if isinstance(error.get("input"), Mapping) else finding
    text = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    subject = f"{subject}: " if way and isinstance(way[-1], str) else ""
    return f"{subject}{text[:1].lower() + text[1:].rstrip('.')}{finding}."


def suggestion(name: str, known: list[str], what: str = "Known") -> str:
    """Return a question with the most similar known names or, if no name is similar, a list of all known names."""
    near = get_close_matches(name, known, n=3)
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else f"{what}: {', '.join(known) or 'none'}."


def fields(schema: type[BaseModel], way: Iterable[str | int]) -> list[str]:
    """Return the keys allowed at `way` in `schema`; tags or class names select alternatives of a union."""
    kinds = [schema]
    for step in way:
        field = next((kind.model_fields[step] for kind in kinds if step in kind.model_fields), None)
        if field is not None:
            kinds = _mappings(field.annotation) or kinds
        elif isinstance(step, str):
            kinds = [kind for kind in kinds if step == kind.__name__ or step in _tags(kind)] or kinds
    return [field.alias or name for name, field in kinds[0].model_fields.items()]


def _tags(schema: type[BaseModel]) -> set[object]:
    """Return the literal values of the fields of a schema."""
    return {value for field in schema.model_fields.values() for value in get_args(field.annotation)}


def quoted_words(text: str) -> list[str]:
    """Return the words in single quotes."""
    return re.findall(r"'([^']*)'", text)


def _choice(errors: Sequence[ErrorDetails], subject: str) -> str:
    """Return the sentence for an unknown value or key."""
    error, shapes = errors[0], [EXPECTED[details["type"]] for details in errors if details["type"] in EXPECTED]
    known = [word for details in errors for word in quoted_words(str(details.get("ctx", {}).get("expected", "")))]
    if error["loc"] and error["loc"][-1] == "[key]":
        return f"{error['input']!r} is not a key of {subject}. {suggestion(str(error['input']), known)}"
    if not isinstance(error.get("input"), str):
        shapes = [f"one of {', '.join(known)}", *shapes]
        return f"{subject} must be {' or '.join(dict.fromkeys(shapes))}{_describe_value(error.get('input'))}."
    return f"{subject}: {_unknown_value(error['input'], known, 'Known')}" + (f" Or {shapes[0]}." if shapes else "")


def _unknown_value(name: str, known: list[str], what: str) -> str:
    return f"unknown value {name!r}. {suggestion(name, known, what)}"


def _subject(way: Sequence[str | int]) -> str:
    """Return the name of a value in a sentence."""
    if way and isinstance(way[-1], str):
        return repr(way[-1])
    names = [step for step in way if isinstance(step, str)]
    return f"an entry of {names[-1]!r}" if names else "it"


def _describe_value(value: Any) -> str:
    if not isinstance(value, str | int | float | bool | type(None) | list):
        return " (found a mapping)" if isinstance(value, Mapping) else ""
    literal = {True: "true", False: "false"}[value] if isinstance(value, bool) else "null" if value is None else value
    text = f" (found {literal if isinstance(value, bool | None) else repr(literal)})"
    return text if len(text) < MAX_VALUE_CHARACTERS else ""


def _mappings(annotation: Any) -> list[type[BaseModel]]:
    """Return the settings classes in a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [kind for item in get_args(annotation) for kind in _mappings(item)]
