"""The reference in docs/: what can stand in a suite, and the settings of every installed part, from their classes."""

from __future__ import annotations

import ast
import inspect
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from io import StringIO
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bench_core.config import Config
from bench_core.registry import Part, kinds, parts
from bench_core.suites import figure_schema, published, schema, training
from bench_core.suites.axes import AXES

HOME = Path(__file__).parent
LONGEST = 80  # characters of a default that is shown
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
FACTS = ("capabilities", "needs", "sources", "source", "likelihoods", "about")


def page(name: Literal["suites", "parts"]) -> str:
    """Return docs/suites.md or docs/parts.md."""
    templates = Environment(
        loader=FileSystemLoader(HOME / "templates"), undefined=StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    known = {kind: [*parts(kind).values()] for kind in kinds()}
    return templates.get_template(f"{name}.md.j2").render(
        keys=keys, about=about, axes=AXES, parts=known, part=described, overview=overview,
        costs=figure_schema.COSTS, of_all_stages=figure_schema.OF_ALL_STAGES,
    )  # fmt: skip


def about(name: str) -> str:
    """Return what the docstring of a mapping of suites says."""
    return _doc(_mapping(name))


def keys(name: str) -> str:
    """Return the keys of a mapping of suites as a Markdown table."""
    return settings(_mapping(name), "key")


def overview(known: Sequence[Part]) -> str:
    """Return the parts of a kind as a Markdown table, each with a link to what is said of it below."""
    rows = [
        (f"[`{one.config.name}`](#{one.kind}-{one.config.name})", _doc(one.config).partition("\n")[0], _home(one))
        for one in known
    ]
    return table(["name", "what it is", "from"], rows)


def described(part: Part) -> str:
    """Return all that is known of a part's face, as Markdown."""
    known = [f"{name}: {fact}" for name in FACTS if (fact := _fact(part.config, name))]
    inside = [line for name, field in part.config.model_fields.items() for line in _inside(name, field)]
    own = settings(part.config, "setting") if part.config.model_fields else "No settings."
    told = [_doc(part.config), "; ".join([f"From {_home(part)}", *known]) + ".", own, "\n".join(inside)]
    return "\n\n".join(filter(None, told))


def settings(config: type[BaseModel], what: str) -> str:
    """Return the fields of a class as a Markdown table: type, default and meaning of each."""
    rows = [
        (
            f"`{field.alias or name}`",
            _type(field.annotation, field.metadata),
            _default(name, field),
            meaning(config, name),
        )
        for name, field in config.model_fields.items()
    ]
    return table([what, "type", "default", "meaning"], rows)


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


def _mapping(name: str) -> type[BaseModel]:
    found: type[BaseModel] = next(
        getattr(one, name) for one in (schema, figure_schema, published, training) if hasattr(one, name)
    )
    return found


def _doc(config: type) -> str:
    return inspect.cleandoc(config.__doc__ or "")


def _home(part: Part) -> str:
    """Return the distribution of a part, with a link where its README is in this repository."""
    folder = f"plugins/{part.distribution.removeprefix('bench-')}"
    there = (HOME.parent / folder / "README.md").is_file()
    return f"[{part.distribution}](../{folder}/README.md)" if there else part.distribution


def _fact(config: Any, name: str) -> str:
    """Return what a Config says of its class besides its settings."""
    value = getattr(config, name, None)
    if isinstance(value, property):
        return "by its settings"
    if isinstance(value, Mapping):
        return ", ".join(f"`{one}` ({kind})" for one, kind in value.items())
    if isinstance(value, frozenset | set):
        return ", ".join(sorted(getattr(one, "__name__", str(one)) for one in value))
    return "" if value is None else str(getattr(value, "__name__", value))


def _inside(name: str, field: FieldInfo) -> Iterator[str]:
    """Yield a line for each mapping that a setting may be, or that may stand in one of those."""
    found: dict[type[BaseModel], str] = {}
    for one, place in _mappings(field.annotation, name):
        found.setdefault(one, place)
    for one, place in found.items():
        tags = {key: value for key in TAGS if (value := _constant(one, key))}
        rest = {key: each for key, each in one.model_fields.items() if key not in tags}
        shown = ", ".join([*(f"{key}: {value}" for key, value in tags.items()), *rest])
        told = [_setting(one, key, each) for key, each in rest.items()]
        yield f"- `{place}: {{{shown}}}`: {_doc(one)}{' ' if told else ''}{'; '.join(told)}{'.' if told else ''}"


def _setting(config: type[BaseModel], name: str, field: FieldInfo) -> str:
    """Return a setting inside of another in a few words."""
    words = [_type(field.annotation, field.metadata), _default(name, field), meaning(config, name)]
    return f"`{name}` ({', '.join(filter(None, words))})"


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
        told = [f"`{one}`" for one in inside]
    elif origin in (Union, UnionType):
        told = [_type(one, () if text else metadata) for one in inside if one is not type(None)]
    elif origin in (list, tuple):
        told = [f"list of {' and '.join(dict.fromkeys(_type(one) for one in inside if one is not ...))}"]
    else:
        told = [" ".join([_word(annotation, origin), *(_bounds(metadata) if annotation in (int, float) else ())])]
    return " or ".join(dict.fromkeys([*(["text"] if text else []), *told]))


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


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    shown = "" if value is None else _flow(value)
    if len(shown) > LONGEST:
        return f"see [{name}](#{name})"
    return f"`{shown}`" if shown else ""


def _flow(value: Any) -> str:
    """Return a value as it would stand in a suite."""
    if isinstance(value, BaseModel):
        return _flow(value.model_dump(mode="json", exclude_none=True))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, as narrow as it can be: a changed row changes no other."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [" | ".join(row) for row in [headings, ["---"] * len(headings), *escaped]]
    return "\n".join(f"| {line} |".replace("  ", " ") for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page("suites" if sys.argv[1:] == ["suites"] else "parts"))
