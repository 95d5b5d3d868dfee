"""Signatures of classes, read from the source of their modules: importing these may load torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from bench_core.errors import Fault, SuiteError

NOTHING = object()  #: the default of a parameter that has none


@dataclass(frozen=True)
class Parameter:
    """A parameter of a constructor."""

    annotation: str = ""  # as it is written
    default: object = NOTHING  # a constant, or its text


@dataclass(frozen=True)
class Signature:
    """The parameters of a constructor by name, without `self`; and whether it takes others."""

    parameters: Mapping[str, Parameter]
    more: bool = False


@cache
def source_of(module: str) -> ast.Module | None:
    """Return the parsed source of a module; None if it is not installed, or is no Python source.

    No package is imported on the way. Raises SuiteError for a source that Python cannot read.
    """
    spec, path = None, None
    for end, word in enumerate(words := module.split("."), 1):
        try:
            spec = find_spec(word) if end == 1 else PathFinder.find_spec(".".join(words[:end]), path)
        except ValueError:  # of a module that was not imported from a file, such as `__main__`
            return None
        if spec is None:
            return None
        path = spec.submodule_search_locations
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        return ast.parse(Path(spec.origin).read_bytes())
    except (SyntaxError, ValueError) as error:
        line: Fault = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise SuiteError(f"{spec.origin}{line}: Python cannot read it: {error.args[0]}. Correct it.") from None


def classes(module: str) -> Iterator[str]:
    """Yield the names of classes that a module defines or imports, as far as they begin with a capital letter."""
    tree = source_of(module)
    for node in tree.body if tree else ():
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (name for alias in node.names if (name := alias.asname or alias.name)[:1].isupper())


@cache
def signature(module: str, name: str) -> Signature | None:
    """Return the signature of a class; None if its source does not show it."""
    for kind, place in _lineage(module, name):
        for node in kind.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                found = _signature(node)
                inherited = signature_of_base(place, kind) if found.more else None
                if inherited is None:
                    return found
                return Signature({**inherited.parameters, **found.parameters}, inherited.more)
    return None


def signature_of_base(module: str, kind: ast.ClassDef) -> Signature | None:
    """Return the signature of the first base class that has one; it is what `**kwargs` may hold."""
    for base in kind.bases:
        if isinstance(base, ast.Name) and (found := signature(module, base.id)):
            return found
    return None


def has_method(module: str, name: str, method: str) -> bool | None:
    """Return whether a class or one of its bases defines a method; None if that cannot be seen."""
    kinds = [*_lineage(module, name)]
    if any(isinstance(node, ast.FunctionDef) and node.name == method for kind, _ in kinds for node in kind.body):
        return True
    return None if not kinds or _unseen_base(*kinds[-1]) else False


def _unseen_base(kind: ast.ClassDef, module: str) -> bool:
    return any(not isinstance(base, ast.Name) or base.id != "object" for base in kind.bases)


def _lineage(module: str, name: str) -> Iterator[tuple[ast.ClassDef, str]]:
    """Yield a class and its first bases, as far as sources show them, with their modules."""
    seen: set[tuple[str, str]] = set()
    while (module, name) not in seen:
        seen.add((module, name))
        tree = source_of(module)
        found = _bound(tree, name) if tree else None
        if isinstance(found, tuple):
            module, name = found
        elif found is not None:
            yield found, module
            name = next((base.id for base in found.bases if isinstance(base, ast.Name)), "")


def _bound(tree: ast.Module, name: str) -> ast.ClassDef | tuple[str, str] | None:
    """Return what a name of a module is bound to: a class, or a name of another module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return node.module, alias.name
    return None


def _signature(node: ast.FunctionDef) -> Signature:
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + [*given.defaults]
    pairs = [*zip(positional, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    parameters = {one.arg: Parameter(_text(one.annotation), _constant(default)) for one, default in pairs[1:]}
    return Signature(parameters, given.kwarg is not None)


def _text(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return "" if node is None else ast.unparse(node)


def _constant(node: ast.expr | None) -> object:
    if node is None:
        return NOTHING
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)
