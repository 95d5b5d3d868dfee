"""Generate the API reference in docs/ from source, docstrings and comments, with the examples of the template.

Run `python tools/api_reference.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Any

import split_pages
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from reference import table
from split_pages import anchor

from bench_authors.settings_words import beside, comments
from bench_authors.testing import Contract

ROOT = Path(__file__).parent.parent
TEMPLATE = Path(__file__).parent / "templates" / "api.md.j2"
MODULES = (
    "bench_core.kit",
    "bench_core",
    "bench_notebook",
    "bench_decoders.plugin",
    "bench_text.api",
    "bench_authors.testing",
)
WITHOUT_ALL = {"bench_decoders.plugin": ["ProcessorConfig", "Processors"]}  # modules without `__all__`
MAX_LINE_CHARACTERS = 100  # characters; longer signatures take several lines, longer constants are omitted
MAX_DEFAULT = 40  # characters; longer defaults are omitted
HEADING = re.compile(r"^## (.+)$|^\{\{ entry\(\"(\w+)\"\) \}\}$", re.MULTILINE)
SHAPE = re.compile(r"(?<![\w`\]])\[(?:(?:[A-Z]|\*)[^\[\]`]*)?\](?!\()")
DEFAULTS = {"dict": "{}", "list": "[]", "State": "State()"}  # default values by `default_factory`


@dataclass(frozen=True)
class PublicName:
    """A public name, its value and the statement that defines it."""

    name: str
    module: str
    value: Any
    path: Path  # the defining file
    node: ast.stmt | None  # None: a module

    @property
    def body(self) -> list[ast.stmt]:
        """All statements of the defining file."""
        return syntax_of(self.path).body


def pages() -> dict[str, str]:
    """Return the index docs/api.md, and a page in docs/api/ for each section."""
    return split_pages.split(page(), "api")


def page() -> str:
    """Return the reference as a single page."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE.parent), undefined=StrictUndefined, autoescape=False,
        keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template(TEMPLATE.name).render(contents=contents, entry=entry)


def contents() -> str:
    """Return a table of the sections in the template, with links to their names."""
    rows: list[tuple[str, list[str]]] = []
    for title, name in HEADING.findall(TEMPLATE.read_text(encoding="utf-8")):
        if title:
            rows.append((f"[{title}](#{anchor(title)})", []))
        else:
            rows[-1][1].append(f"[`{name}`](#{anchor(name)})")
    return table(["section", "names"], [(title, ", ".join(names)) for title, names in rows])


def entry(name: str) -> str:
    """Return the description of a public name, as Markdown."""
    symbol = public()[name]
    home = symbol.path.relative_to(ROOT).as_posix()
    head = [f"### {name}", f"`from {symbol.module} import {name}`, defined in [{home}](../{home})"]
    return "\n\n".join([*head, *(_add_links(text, name) for text in _description(symbol) if text)])


@cache
def public() -> Mapping[str, PublicName]:
    """Return all public names."""
    return {name: _public_name(name, module) for module in MODULES for name in names(module)}


def names(module: str) -> list[str]:
    """Return the public names of a module."""
    public_names: list[str] = WITHOUT_ALL.get(module) or import_module(module).__all__
    return public_names


def meaning(symbol: PublicName) -> str:
    """Return the docstring of a name, or the `#:` comment above or beside its definition."""
    if symbol.node is None:
        return ast.get_docstring(syntax_of(symbol.path)) or ""
    if isinstance(symbol.node, ast.ClassDef | ast.FunctionDef):
        return ast.get_docstring(symbol.node) or ""
    return _comment(symbol.node, symbol.path, "#:")


@cache
def syntax_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def _public_name(name: str, module: str) -> PublicName:
    value = getattr(import_module(module), name)
    if isinstance(value, ModuleType):
        return PublicName(name, module, value, Path(str(value.__file__)), None)
    spec = find_spec(_defining_modules(module)[name])
    path = Path(str(spec and spec.origin))
    return PublicName(name, module, value, path, next(node for node in syntax_of(path).body if name in _names(node)))


@cache
def _defining_modules(module: str) -> Mapping[str, str]:
    """Return the modules from which a module imports its names, by name."""
    tree = syntax_of(Path(str(import_module(module).__file__)))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def _names(node: ast.stmt) -> list[str]:
    """Return the names defined by a statement."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = (
        node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    )
    several = [target.elts if isinstance(target, ast.Tuple) else [target] for target in targets]
    return [name.id for group in several for name in group if isinstance(name, ast.Name)]


def _description(symbol: PublicName) -> Iterator[str]:
    """Yield the parts of a description: signature, docstring, fields, methods, aliases."""
    node = symbol.node
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        yield _code(
            _class(node) if isinstance(node, ast.ClassDef) else f"def {_signature(node, MAX_LINE_CHARACTERS)}"
        )
    yield _constant(symbol) if isinstance(node, ast.Assign | ast.AnnAssign) else _prose(meaning(symbol))
    if node is None:
        yield _definitions(symbol.body)
    elif isinstance(node, ast.ClassDef):
        yield _fields(node, symbol.path)
        yield _definitions(node.body)
        yield _aliases(symbol)
    elif isinstance(node, ast.FunctionDef):
        yield _aliases(symbol)
    elif isinstance(symbol.value, tuple) and all(isinstance(each, Contract) for each in symbol.value):
        yield "\n".join(f"- `{each}`: {_flat(each.check.__doc__)}" for each in symbol.value)


def _constant(item: PublicName) -> str:
    """Return the definition of a constant or type, if it is short, and its comment."""
    value = _source(item.node.value) if isinstance(item.node, ast.Assign | ast.AnnAssign) and item.node.value else ""
    shown = _source(ast.Constant(item.value)) if isinstance(item.value, str | int) else value
    text = meaning(item)
    fits = len(shown) <= MAX_LINE_CHARACTERS and not re.search(r"\b(_|globals\b)", shown)
    return "\n\n".join([*([_code(f"{item.name} = {shown}")] if fits else []), _prose(text[:1].upper() + text[1:])])


def _class(node: ast.ClassDef) -> str:
    """Return the head of a class, with its constructor if the class defines it."""
    inits = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
    lines = [*(f"@{_source(item)}" for item in node.decorator_list), f"class {node.name}{bases}"]
    return "\n".join(
        [*lines, *(indent(f"def {_signature(item, MAX_LINE_CHARACTERS, with_self=True)}", "    ") for item in inits)]
    )


def _signature(node: ast.FunctionDef, width: int = 10**6, with_self: bool = False) -> str:
    """Return name, parameters and result of a function, on several lines if it is longer than `width` characters.

    `self` and `cls` are omitted unless `with_self`.
    """
    first = [parameter for parameter in node.args.args[:1] if parameter.arg in ("self", "cls") and not with_self]
    parameters = _parameters(_source(node.args))[len(first) :]
    result = f" -> {_source(node.returns)}" if node.returns else ""
    line = f"{node.name}({', '.join(parameters)}){result}"
    if len(line) <= width:
        return line
    return "\n".join([f"{node.name}(", *(f"    {parameter}," for parameter in parameters), f"){result}"])


def _parameters(parameters: str) -> list[str]:
    """Split parameters; add spaces around the = of typed defaults, and remove quotes around types."""
    depth, parts = 0, [""]
    for sign in parameters:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [
        re.sub(r"^(\*{0,2}\w+: [^=]*)=", r"\1 = ", re.sub(r': "(\w+)"', r": \1", part.strip()))
        for part in parts
        if part
    ]


def _fields(node: ast.ClassDef, path: Path) -> str:
    """Return a table of the fields and class attributes: name, type, default and meaning."""
    is_enum = any("Enum" in _source(base) for base in node.bases)
    rows = [
        (f"`{name}`", _kind(field), _default(field.value), _flat(_comment(field, path)))
        for field in node.body
        if isinstance(field, ast.Assign | ast.AnnAssign)
        for name in _names(field)
        if isinstance(field, ast.AnnAssign) or is_enum or _comment(field, path)
    ]
    heads = ["name", "", "value", "meaning"] if is_enum else ["field", "type", "default", "meaning"]
    used = [place for place in range(4) if any(row[place] for row in rows)]
    return table([heads[place] for place in used], [[row[place] for place in used] for row in rows]) if rows else ""


def _kind(field: ast.Assign | ast.AnnAssign) -> str:
    """Return the type of a field, as in the source."""
    if isinstance(field, ast.Assign):
        return ""
    text = _source(field.annotation)
    return f"`{text.removeprefix('ClassVar[').removesuffix(']') if text.startswith('ClassVar') else text}`"


def _default(value: ast.expr | None) -> str:
    if value is None:
        return ""
    factories = [keyword.value for keyword in getattr(value, "keywords", ()) if keyword.arg == "default_factory"]
    text = DEFAULTS[_source(factories[0])] if factories else _source(value)
    return f"`{text}`" if len(text) <= MAX_DEFAULT else ""


def _definitions(body: Iterable[ast.stmt]) -> str:
    """Return a list of the public functions and classes with docstrings, except hooks."""
    return "\n".join(
        f"- {_kind_of(node)}: {_flat(ast.get_docstring(node))}"
        for node in body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_" and ast.get_docstring(node)
        if not any("hook" in _source(mark) for mark in node.decorator_list)
    )


def _kind_of(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the signature of a method, and whether it is abstract."""
    marks = [_source(decorator) for decorator in node.decorator_list]
    if isinstance(node, ast.ClassDef):
        return f"`{node.name}`"
    if any("property" in mark for mark in marks):
        return f"`{node.name}: {_source(node.returns) if node.returns else 'Any'}`"
    return f"`{_signature(node)}`{', abstract' if 'abstractmethod' in marks else ''}"


def _aliases(symbol: PublicName) -> str:
    """Return the non-public types that occur in the signatures of a name and are defined in its file."""
    used = {name for type_ in _types(symbol.node) for name in re.findall(r"\w+", _source(type_))}
    return "\n\n".join(
        f"`{name}`{text}"
        for node in symbol.body
        for name in _names(node)
        if name in used and name not in public() and (text := _alias(node, symbol.path))
    )


def _types(node: ast.stmt | None) -> Iterator[ast.expr]:
    """Yield the types of a function's parameters and result, or of the public members of a class."""
    if isinstance(node, ast.FunctionDef):
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        yield from filter(None, [*(parameter.annotation for parameter in parameters), node.returns])
    elif isinstance(node, ast.AnnAssign):
        yield node.annotation
    elif isinstance(node, ast.ClassDef):
        for inner in node.body:
            if not any(name[0] == "_" for name in _names(inner)):
                yield from _types(inner)


def _alias(node: ast.stmt, path: Path) -> str:
    """Return the docstring of a class, with its fields if it is a dataclass, or the definition of a type alias."""
    if isinstance(node, ast.ClassDef):
        fields = [f"`{name}`" for field in node.body if isinstance(field, ast.AnnAssign) for name in _names(field)]
        listing = f" Fields: {', '.join(fields)}." if node.decorator_list and fields else ""
        return f": {_flat(ast.get_docstring(node))}{listing}"
    if not isinstance(node, ast.AnnAssign) or _source(node.annotation) != "TypeAlias" or not node.value:
        return ""
    text = _source(node.value).replace('"', "")
    return f" is `{text}`: {_flat(_comment(node, path))}."


def _source(node: ast.AST) -> str:
    """Return the source of a node, with double quotes; default settings look as if they were validated."""
    return ast.unparse(node).replace("'", '"').replace(".model_construct(", "(")


def _comment(node: ast.stmt, path: Path, mark: str = "#") -> str:
    """Return the comment beside a statement that starts with `mark`, else the `#:` comment above it."""
    texts = comments(str(path))
    inline = beside(node, {line: text for line, text in texts.items() if text.startswith(mark)})
    source, first = path.read_text(encoding="utf-8").splitlines(), node.lineno
    while source[first - 2].strip().startswith("#:"):
        first -= 1
    return inline or " ".join(texts[line].lstrip("#: ") for line in range(first, node.lineno))


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _prose(doc: str) -> str:
    """Return a docstring or comment as Markdown, with examples and shapes as code."""
    parts = doc.split("\n\n")
    return "\n\n".join(_code(part) if part.startswith(">>>") else _shapes(part) for part in parts)


def _flat(doc: str | None) -> str:
    """Return a docstring or comment on one line."""
    return _shapes(" ".join((doc or "").split()))


def _shapes(text: str) -> str:
    """Format shapes as code unless they are inside code."""
    return "".join(
        part if place % 2 else SHAPE.sub(r"`\g<0>`", part) for place, part in enumerate(re.split(r"(`[^`]*`)", text))
    )


def _add_links(text: str, name: str) -> str:
    """Link the first mention of every other public name."""
    if text.startswith("```"):
        return text
    seen = {name}

    def link(match: re.Match[str]) -> str:
        if match[1] in seen or match[1] not in public() or match[1].islower():
            return match[0]
        seen.add(match[1])
        return f"[{match[0]}](#{anchor(match[1])})"

    return re.sub(r"(?<!- )`(\w+)`", link, text)


if __name__ == "__main__":
    split_pages.write(pages())
