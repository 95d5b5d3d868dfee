"""Describes the settings of a class: types with limits and choices, defaults, and meanings from comments.

Used by `bench describe` and the reference in docs/.
"""

import ast
import inspect
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bench_core.config import Config

TOOL_COMMENTS = ("noqa", "fmt:", "type:")  # prefixes of comments for tools
TYPE_NAMES = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "`true` or `false`",
    type(None): "`null`",
    Path: "path",
}
BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
TAGS = ("name", "kind")  # keys that select among the mappings of a setting


@dataclass(frozen=True)
class Setting:
    """The description of a setting; choices and literal values are in backticks."""

    name: str  # name in suites
    type: str  # such as `whole number > 0`
    default: str  # in suite syntax; "required", or "" for null
    meaning: str  # comment in the source


@dataclass(frozen=True)
class SettingGroup:
    """A mapping that is a possible value of a setting."""

    place: str  # dotted path, such as `corpus.tokenizer`
    tags: Mapping[str, str]  # keys with a fixed value, which select this mapping
    about: str  # docstring
    settings: Sequence[Setting]  # other keys

    @property
    def shape(self) -> str:
        """Return the keys of the mapping, such as `corpus: {kind: own, train, valid}`."""
        tags = [f"{key}: {value}" for key, value in self.tags.items()]
        return f"{self.place}: {{{', '.join([*tags, *(setting.name for setting in self.settings)])}}}"


def settings(config: type[BaseModel]) -> list[Setting]:
    """Return the settings of a class."""
    return [
        Setting(field.alias or name, _type(field.annotation, field.metadata), _default(field), meaning(config, name))
        for name, field in config.model_fields.items()
    ]


def groups(config: type[BaseModel]) -> list[SettingGroup]:
    """Return the mappings that settings may have as values, including nested mappings, each at its first place."""
    return [group for name, field in config.model_fields.items() for group in _groups(name, field)]


def about(config: type) -> str:
    """Return the docstring of a class."""
    return inspect.cleandoc(config.__doc__ or "")


def meaning(config: type[BaseModel], name: str) -> str:
    """Return the comment of a field in the source of the class or the base class that defines it."""
    for owner in config.__mro__:
        path = inspect.getsourcefile(owner) if name in inspect.get_annotations(owner) else None
        if path is not None:
            return _comments(path).get((owner.__name__, name), "")
    return ""


@cache
def _comments(path: str) -> Mapping[tuple[str, str], str]:
    """Return the comments of annotated names in the classes of a module, by class and name."""
    lines, tree = comments(path), ast.parse(Path(path).read_text(encoding="utf-8"))
    return {
        (node.name, field.target.id): beside(field, lines)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


@cache
def comments(path: str) -> Mapping[int, str]:
    """Return the comments of a file, unprocessed, by line; comments for tools are excluded."""
    tokens = tokenize.generate_tokens(StringIO(Path(path).read_text(encoding="utf-8")).readline)
    texts = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
    return {line: text for line, text in texts.items() if not text.lstrip("#: ").startswith(TOOL_COMMENTS)}


def beside(node: ast.stmt, lines: Mapping[int, str]) -> str:
    """Return the comments on the lines of a statement."""
    places = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return " ".join(lines[line].lstrip("#: ") for line in places if line in lines)


def _groups(name: str, field: FieldInfo) -> Iterator[SettingGroup]:
    places: dict[type[BaseModel], str] = {}
    for mapping, place in _mappings(field.annotation, name):
        places.setdefault(mapping, place)
    for mapping, place in places.items():
        tags = {key: value for key in TAGS if (value := _constant(mapping, key))}
        yield SettingGroup(place, tags, about(mapping), [item for item in settings(mapping) if item.name not in tags])


def _mappings(annotation: Any, place: str) -> Iterator[tuple[type[BaseModel], str]]:
    """Yield the settings classes in a type with their dotted paths, outer classes first."""
    if isinstance(annotation, type) and issubclass(annotation, Config):  # a part, described separately
        return
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, place
        for name, field in annotation.model_fields.items():
            yield from _mappings(field.annotation, f"{place}.{name}")
    else:
        for inner in get_args(annotation):
            yield from _mappings(inner, place)


def _constant(config: type[BaseModel], name: str) -> str:
    """Return the only possible value of a key, or the empty string."""
    field = config.model_fields.get(name)
    choices = get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()
    return str(choices[0]) if len(choices) == 1 else ""


def _type(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """Return a readable description of a type, such as `whole number > 0`."""
    origin, inside, text = get_origin(annotation), get_args(annotation), any(map(_takes_text, metadata))
    if origin is Annotated:
        return _type(inside[0], [*metadata, *inside[1:]])
    if origin is Literal:
        words = [f"`{choice}`" for choice in inside]
    elif origin in (Union, UnionType):
        words = [_type(option, () if text else metadata) for option in inside if option is not type(None)]
    elif origin in (list, tuple):
        words = [f"list of {' and '.join(dict.fromkeys(_type(item) for item in inside if item is not ...))}"]
    else:
        words = [" ".join([_word(annotation, origin), *(_bounds(metadata) if annotation in (int, float) else ())])]
    return " or ".join(dict.fromkeys([*(["text"] if text else []), *words]))


def _word(annotation: Any, origin: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return f"[{annotation.name}](#{annotation.name}s)"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "mapping"
    return TYPE_NAMES.get(annotation, "anything")


def _bounds(metadata: Sequence[Any]) -> Iterator[str]:
    for constraint in metadata:
        for name, sign in BOUNDS.items():
            if isinstance(bound := getattr(constraint, name, None), int | float):
                yield f"{sign} {bound:g}"


def _takes_text(validator: Any) -> bool:
    """Return whether a validator also accepts plain text instead of a mapping."""
    return str in get_args(getattr(validator, "json_schema_input_type", None))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if value is None else _flow(value)


def _flow(value: Any) -> str:
    """Return a value in the syntax of suites."""
    if isinstance(value, BaseModel):
        return _flow(value.model_dump(mode="json", exclude_none=True))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
