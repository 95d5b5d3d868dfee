"""The reference of public names in docs/, from source, docstrings and comments; its examples are in the template.

`python tools/api_reference.py` writes it.
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
FACES = (
    "bench_core.kit",
    "bench_core",
    "bench_notebook",
    "bench_decoders.plugin",
    "bench_text.api",
    "bench_authors.testing",
)
FOR_AUTHORS = {"bench_decoders.plugin": ["ProcessorConfig", "Processors"]}  # of a module without `__all__`
WIDTH = 100  # characters of a signature on one line
LONGEST = 40  # characters of a default that is shown
HEADING = re.compile(r"^## (.+)$|^\{\{ entry\(\"(\w+)\"\) \}\}$", re.MULTILINE)
SHAPE = re.compile(r"(?<![\w`\]])\[(?:(?:[A-Z]|\*)[^\[\]`]*)?\](?!\()")
DEFAULTS = {"dict": "{}", "list": "[]", "State": "State()"}  # by what makes them


@dataclass(frozen=True)
class Public:
    """A public name, what it is, and the statement that defines it."""

    name: str
    face: str
    value: Any
    path: Path  # of the file that defines it
    node: ast.stmt | None  # None for a module

    @property
    def body(self) -> list[ast.stmt]:
        """The statements beside the one that defines it; those inside, for a module."""
        return parsed(self.path).body


def pages() -> dict[str, str]:
    """Return docs/api.md, an index, and a page in docs/api/ for each section."""
    return split_pages.split(page(), "api")


def page() -> str:
    """Return the whole reference as one page."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE.parent), undefined=StrictUndefined, autoescape=False,
        keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template(TEMPLATE.name).render(contents=contents, entry=entry)


def contents() -> str:
    """Return a table of the sections of the template, with links to all names of each."""
    rows: list[tuple[str, list[str]]] = []
    for title, name in HEADING.findall(TEMPLATE.read_text(encoding="utf-8")):
        if title:
            rows.append((f"[{title}](#{anchor(title)})", []))
        else:
            rows[-1][1].append(f"[`{name}`](#{anchor(name)})")
    return table(["section", "names"], [(title, ", ".join(names)) for title, names in rows])


def entry(name: str) -> str:
    """Return all that is known of a public name, as Markdown."""
    one = public()[name]
    home = one.path.relative_to(ROOT).as_posix()
    head = [f"### {name}", f"`from {one.face} import {name}`, defined in [{home}](../{home})"]
    return "\n\n".join([*head, *(_linked(text, name) for text in _described(one) if text)])


@cache
def public() -> Mapping[str, Public]:
    """Return all public names."""
    return {name: _public(name, face) for face in FACES for name in names(face)}


def names(face: str) -> list[str]:
    """Return the public names of a module."""
    known: list[str] = FOR_AUTHORS.get(face) or import_module(face).__all__
    return known


def meaning(one: Public) -> str:
    """Return what a name means: its docstring, or the comment with `#:` above or beside its definition."""
    if one.node is None:
        return ast.get_docstring(parsed(one.path)) or ""
    if isinstance(one.node, ast.ClassDef | ast.FunctionDef):
        return ast.get_docstring(one.node) or ""
    return _comment(one.node, one.path, "#:")


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def _public(name: str, face: str) -> Public:
    value = getattr(import_module(face), name)
    if isinstance(value, ModuleType):
        return Public(name, face, value, Path(str(value.__file__)), None)
    spec = find_spec(_homes(face)[name])
    path = Path(str(spec and spec.origin))
    return Public(name, face, value, path, next(node for node in parsed(path).body if name in _names(node)))


@cache
def _homes(face: str) -> Mapping[str, str]:
    """Return the module from which a face imports each name."""
    tree = parsed(Path(str(import_module(face).__file__)))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in found for alias in node.names}


def _names(node: ast.stmt) -> list[str]:
    """Return the names that a statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = (
        node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    )
    several = [target.elts if isinstance(target, ast.Tuple) else [target] for target in targets]
    return [one.id for group in several for one in group if isinstance(one, ast.Name)]


def _described(one: Public) -> Iterator[str]:
    """Yield what is shown of a name: signature, docstring, fields, methods."""
    node = one.node
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        yield _code(_class(node) if isinstance(node, ast.ClassDef) else f"def {_signature(node, WIDTH)}")
    yield _constant(one) if isinstance(node, ast.Assign | ast.AnnAssign) else _prose(meaning(one))
    if node is None:
        yield _definitions(one.body)
    elif isinstance(node, ast.ClassDef):
        yield _fields(node, one.path)
        yield _definitions(node.body)
        yield _aliases(one)
    elif isinstance(node, ast.FunctionDef):
        yield _aliases(one)
    elif isinstance(one.value, tuple) and all(isinstance(each, Contract) for each in one.value):
        yield "\n".join(f"- `{each}`: {_flat(each.check.__doc__)}" for each in one.value)


def _constant(one: Public) -> str:
    """Return the definition of a constant or type, if it is short, and what it means."""
    value = _source(one.node.value) if isinstance(one.node, ast.Assign | ast.AnnAssign) and one.node.value else ""
    shown = _source(ast.Constant(one.value)) if isinstance(one.value, str | int) else value
    text = meaning(one)
    fits = len(shown) <= WIDTH and not re.search(r"\b(_|globals\b)", shown)
    return "\n\n".join([*([_code(f"{one.name} = {shown}")] if fits else []), _prose(text[:1].upper() + text[1:])])


def _class(node: ast.ClassDef) -> str:
    """Return the head of a class, with its constructor if that is its own."""
    own = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
    lines = [*(f"@{_source(one)}" for one in node.decorator_list), f"class {node.name}{bases}"]
    return "\n".join([*lines, *(indent(f"def {_signature(one, WIDTH, own=True)}", "    ") for one in own)])


def _signature(node: ast.FunctionDef, width: int = 10**6, own: bool = False) -> str:
    """Return name, parameters and result of a function, on several lines where `width` is too small.

    `self` is shown if `own`.
    """
    first = [one for one in node.args.args[:1] if one.arg in ("self", "cls") and not own]
    parameters = _parameters(_source(node.args))[len(first) :]
    result = f" -> {_source(node.returns)}" if node.returns else ""
    line = f"{node.name}({', '.join(parameters)}){result}"
    if len(line) <= width:
        return line
    return "\n".join([f"{node.name}(", *(f"    {one}," for one in parameters), f"){result}"])


def _parameters(parameters: str) -> list[str]:
    """Return parameters one by one, with spaces around the = of a default that has a type."""
    depth, parts = 0, [""]
    for sign in parameters:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [re.sub(r"^(\*{0,2}\w+: [^=]*)=", r"\1 = ", part.strip()) for part in parts if part]


def _fields(node: ast.ClassDef, path: Path) -> str:
    """Return the fields and class attributes of a class as a table: type, default and meaning of each."""
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
    """Return the type of a field, as it stands in the source."""
    if isinstance(field, ast.Assign):
        return ""
    text = _source(field.annotation)
    return f"`{text.removeprefix('ClassVar[').removesuffix(']') if text.startswith('ClassVar') else text}`"


def _default(value: ast.expr | None) -> str:
    if value is None:
        return ""
    made = [one.value for one in getattr(value, "keywords", ()) if one.arg == "default_factory"]
    text = DEFAULTS[_source(made[0])] if made else _source(value)
    return f"`{text}`" if len(text) <= LONGEST else ""


def _definitions(body: Iterable[ast.stmt]) -> str:
    """Return a list of the public functions and classes among statements that have a docstring."""
    return "\n".join(
        f"- {_kind_of(one)}: {_flat(ast.get_docstring(one))}"
        for one in body
        if isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name[0] != "_" and ast.get_docstring(one)
        if not any("hook" in _source(mark) for mark in one.decorator_list)
    )


def _kind_of(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the signature of a method, and what kind of method it is."""
    marks = [_source(one) for one in node.decorator_list]
    if isinstance(node, ast.ClassDef):
        return f"`{node.name}`"
    if any("property" in mark for mark in marks):
        return f"`{node.name}: {_source(node.returns) if node.returns else 'Any'}`"
    return f"`{_signature(node)}`{', abstract' if 'abstractmethod' in marks else ''}"


def _aliases(one: Public) -> str:
    """Return the types of its file that its signatures name and that are not public."""
    used = {name for type_ in _types(one.node) for name in re.findall(r"\w+", _source(type_))}
    return "\n\n".join(
        f"`{name}`{text}"
        for node in one.body
        for name in _names(node)
        if name in used and name not in public() and (text := _alias(node, one.path))
    )


def _types(node: ast.stmt | None) -> Iterator[ast.expr]:
    """Yield the types of a function's parameters and result, or of all that is public in a class."""
    if isinstance(node, ast.FunctionDef):
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        yield from filter(None, [*(one.annotation for one in parameters), node.returns])
    elif isinstance(node, ast.AnnAssign):
        yield node.annotation
    elif isinstance(node, ast.ClassDef):
        for inner in node.body:
            if not any(name[0] == "_" for name in _names(inner)):
                yield from _types(inner)


def _alias(node: ast.stmt, path: Path) -> str:
    """Return what a class is, with its fields if it is a dataclass, or what a type stands for."""
    if isinstance(node, ast.ClassDef):
        fields = [f"`{name}`" for one in node.body if isinstance(one, ast.AnnAssign) for name in _names(one)]
        listed = f" Fields: {', '.join(fields)}." if node.decorator_list and fields else ""
        return f": {_flat(ast.get_docstring(node))}{listed}"
    if not isinstance(node, ast.AnnAssign) or _source(node.annotation) != "TypeAlias" or not node.value:
        return ""
    text = _source(node.value).replace('"', "")
    return f" is `{text}`: {_flat(_comment(node, path))}."


def _source(node: ast.AST) -> str:
    """Return the source of a node, with double quotes."""
    return ast.unparse(node).replace("'", '"')


def _comment(node: ast.stmt, path: Path, mark: str = "#") -> str:
    """Return the comment beside a statement that begins with `mark`, else that with `#:` on the lines above it."""
    known = comments(str(path))
    told = beside(node, {line: text for line, text in known.items() if text.startswith(mark)})
    source, first = path.read_text(encoding="utf-8").splitlines(), node.lineno
    while source[first - 2].strip().startswith("#:"):
        first -= 1
    return told or " ".join(known[line].lstrip("#: ") for line in range(first, node.lineno))


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _prose(doc: str) -> str:
    """Return a docstring or comment as Markdown: its examples as code, and so are shapes."""
    parts = doc.split("\n\n")
    return "\n\n".join(_code(part) if part.startswith(">>>") else _shapes(part) for part in parts)


def _flat(doc: str | None) -> str:
    """Return a docstring or comment on one line."""
    return _shapes(" ".join((doc or "").split()))


def _shapes(text: str) -> str:
    """Return a text with its shapes as code, but for those within code."""
    return "".join(
        part if place % 2 else SHAPE.sub(r"`\g<0>`", part) for place, part in enumerate(re.split(r"(`[^`]*`)", text))
    )


def _linked(text: str, name: str) -> str:
    """Return a text in which the first mention of every other public name is a link."""
    if text.startswith("```"):
        return text
    seen = {name}

    def link(found: re.Match[str]) -> str:
        if found[1] in seen or found[1] not in public() or found[1].islower():
            return found[0]
        seen.add(found[1])
        return f"[{found[0]}](#{anchor(found[1])})"

    return re.sub(r"(?<!- )`(\w+)`", link, text)


if __name__ == "__main__":
    split_pages.write(pages())
