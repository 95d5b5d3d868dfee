"""The settings of a class in words: types with their limits and choices, defaults, and meanings from comments.

`bench describe` and the reference in docs/ print them.
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

NO_MEANING = ("noqa", "fmt:", "type:")  # how comments begin that are for tools
PLAIN = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "`true` or `false`",
    type(None): "`null`",
    Path: "path",
}
BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
TAGS = ("name", "kind")  # keys that tell the mappings of one setting apart


@dataclass(frozen=True)
class Setting:
    """A setting in words; choices and literal values are in backticks."""

    name: str  # as in a suite
    type: str  # such as `whole number > 0`
    default: str  # as in a suite, "required", or "" for null
    meaning: str  # the comment beside it


@dataclass(frozen=True)
class Group:
    """A mapping that a setting may be."""

    place: str  # the keys that lead to it, such as `corpus.tokenizer`
    tags: Mapping[str, str]  # the keys with one value, which tell it from others at this place
    about: str  # its docstring
    settings: Sequence[Setting]  # the other keys

    @property
    def shape(self) -> str:
        """Return its keys, such as `corpus: {kind: own, train, valid}`."""
        inside = [*(f"{key}: {value}" for key, value in self.tags.items()), *(one.name for one in self.settings)]
        return f"{self.place}: {{{', '.join(inside)}}}"


def settings(config: type[BaseModel]) -> list[Setting]:
    """Return the settings of a class."""
    return [
        Setting(field.alias or name, _type(field.annotation, field.metadata), _default(field), meaning(config, name))
        for name, field in config.model_fields.items()
    ]


def groups(config: type[BaseModel]) -> list[Group]:
    """Return the mappings that its settings may be, and those inside of them, each at the first place it has."""
    return [one for name, field in config.model_fields.items() for one in _groups(name, field)]


def about(config: type) -> str:
    """Return the docstring of a class."""
    return inspect.cleandoc(config.__doc__ or "")


def meaning(config: type[BaseModel], name: str) -> str:
    """Return the comment beside a field in the source, which may be that of a class it inherits from."""
    for one in config.__mro__:
        path = inspect.getsourcefile(one) if name in inspect.get_annotations(one) else None
        if path is not None:
            return _comments(path).get((one.__name__, name), "")
    return ""


@cache
def _comments(path: str) -> Mapping[tuple[str, str], str]:
    """Return the comments beside the annotated names of every class of a module, by class and name."""
    lines = comments(path)
    classes = [
        node for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)
    ]
    return {
        (node.name, field.target.id): beside(field, lines)
        for node in classes
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


@cache
def comments(path: str) -> Mapping[int, str]:
    """Return the comments of a file by line, as they stand there, but for those that are for tools."""
    tokens = tokenize.generate_tokens(StringIO(Path(path).read_text(encoding="utf-8")).readline)
    found = {one.start[0]: one.string for one in tokens if one.type == tokenize.COMMENT}
    return {line: text for line, text in found.items() if not text.lstrip("#: ").startswith(NO_MEANING)}


def beside(node: ast.stmt, lines: Mapping[int, str]) -> str:
    """Return the comment beside a statement."""
    places = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return " ".join(lines[line].lstrip("#: ") for line in places if line in lines)


def _groups(name: str, field: FieldInfo) -> Iterator[Group]:
    found: dict[type[BaseModel], str] = {}
    for one, place in _mappings(field.annotation, name):
        found.setdefault(one, place)
    for one, place in found.items():
        tags = {key: value for key in TAGS if (value := _constant(one, key))}
        yield Group(place, tags, about(one), [each for each in settings(one) if each.name not in tags])


def _mappings(annotation: Any, place: str) -> Iterator[tuple[type[BaseModel], str]]:
    """Yield the classes of settings in a type with the keys that lead to them, those inside of others after them."""
    if isinstance(annotation, type) and issubclass(annotation, Config):  # a part, which is described by itself
        return
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, place
        for name, field in annotation.model_fields.items():
            yield from _mappings(field.annotation, f"{place}.{name}")
    else:
        for inner in get_args(annotation):
            yield from _mappings(inner, place)


def _constant(config: type[BaseModel], name: str) -> str:
    """Return the one value that a key may have; nothing where there is no such key or no such value."""
    field = config.model_fields.get(name)
    choices = get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()
    return str(choices[0]) if len(choices) == 1 else ""


def _type(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """Return a type in the words of those who write suites, such as `whole number > 0`."""
    origin, inside, text = get_origin(annotation), get_args(annotation), any(map(_takes_text, metadata))
    if origin is Annotated:
        return _type(inside[0], [*metadata, *inside[1:]])
    if origin is Literal:
        words = [f"`{one}`" for one in inside]
    elif origin in (Union, UnionType):
        words = [_type(one, () if text else metadata) for one in inside if one is not type(None)]
    elif origin in (list, tuple):
        words = [f"list of {' and '.join(dict.fromkeys(_type(one) for one in inside if one is not ...))}"]
    else:
        words = [" ".join([_word(annotation, origin), *(_bounds(metadata) if annotation in (int, float) else ())])]
    return " or ".join(dict.fromkeys([*(["text"] if text else []), *words]))


def _word(annotation: Any, origin: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return f"[{annotation.name}](#{annotation.name}s)"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "mapping"
    return PLAIN.get(annotation, "anything")


def _bounds(metadata: Sequence[Any]) -> Iterator[str]:
    for one in metadata:
        for name, sign in BOUNDS.items():
            if isinstance(bound := getattr(one, name, None), int | float):
                yield f"{sign} {bound:g}"


def _takes_text(validator: Any) -> bool:
    """Return whether a validator also takes a bare word for a mapping."""
    return str in get_args(getattr(validator, "json_schema_input_type", None))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if value is None else _flow(value)


def _flow(value: Any) -> str:
    """Return a value as it would stand in a suite."""
    if isinstance(value, BaseModel):
        return _flow(value.model_dump(mode="json", exclude_none=True))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
