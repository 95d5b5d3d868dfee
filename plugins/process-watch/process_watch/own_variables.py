"""Finds the variables of a module: the names that its code assigns, or whose content it changes."""

import ast
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

#: Methods that modify an object in place, besides those whose names end with "_", as for tensors.
CHANGING = {
    "appendleft", "clear", "discard", "extendleft", "insert", "load_state_dict", "move_to_end", "pop", "popitem",
    "popleft", "remove", "reverse", "rotate", "sort", "update",
}  # fmt: skip
#: Functions whose results contain the items of their arguments.
PASSING = {"enumerate", "filter", "iter", "next", "reversed", "sorted", "zip"}


@cache
def assigned_names(module: str) -> frozenset[str]:
    """Return the names that functions of a module assign, as its globals or as attributes of anything."""
    found = set[str]()
    for node in _in_functions(module):
        match node:
            case ast.Global(names) | ast.Nonlocal(names):
                found.update(names)
            case ast.Attribute(_, name, ast.Store() | ast.Del()):
                found.add(name)
    return frozenset(found)


@cache
def variables(module: str) -> frozenset[str]:
    """Return the names that functions of a module assign, or whose content they change.

    Aliases are followed: `row[0] = 1` in `for row in TABLE` changes `TABLE`.
    """
    names, sources = {*assigned_names(module)}, dict[str, set[str]]()
    for node in _in_functions(module):
        names.update(_changed(node))
    for target, value in (pair for node in ast.walk(_tree(module)) for pair in _bindings(node)):
        for name in _roots(target):
            sources.setdefault(name, set()).update(_roots(value))
    due = [*names]
    while due:
        found = sources.get(due.pop(), set()) - names
        names |= found
        due += found
    return frozenset(names)


def _in_functions(module: str) -> Iterator[ast.AST]:
    """Yield the syntax nodes inside the functions of a module; its other code runs only once, on import."""
    for one in ast.walk(_tree(module)):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from ast.walk(one)


def _tree(module: str) -> ast.AST:
    """Return the syntax tree of a module; an empty one if it has no source."""
    with suppress(Exception):
        return ast.parse(Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8"))
    return ast.Module(body=[], type_ignores=[])


def _changed(node: ast.AST) -> Iterator[str]:
    """Yield the names whose content a statement or an expression changes."""
    match node:
        case ast.Attribute(value, _, ast.Store() | ast.Del()) if not isinstance(value, ast.Name):
            yield from _roots(value)
        case ast.Subscript(value, _, ast.Store() | ast.Del()):
            yield from _roots(value)
        case ast.Call(ast.Attribute(value, name), arguments) if name in CHANGING or _is_in_place(name):
            for one in (value, *arguments[:1]) if _is_in_place(name) else (value,):
                yield from _roots(one)
        case ast.keyword("out", value):
            yield from _roots(value)


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the targets that a statement binds, each with the value that it takes."""
    match node:
        case ast.Assign(targets, value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target, _, ast.expr() as value) | ast.NamedExpr(target, value):
            yield target, value
        case ast.For(target, value) | ast.comprehension(target, value):
            yield target, value


def _roots(node: ast.AST) -> Iterator[str]:
    """Yield the names that an expression is reached by: `a`, `b` for `a.b["c"]`."""
    match node:
        case ast.Name(name):
            yield name
        case ast.Attribute(value, name):
            yield name
            yield from _roots(value)
        case ast.Subscript(value) | ast.Starred(value):
            yield from _roots(value)
        case ast.Call(ast.Name(name), arguments) if name in PASSING:
            for one in arguments:
                yield from _roots(one)
        case ast.Call(ast.Attribute(value)):
            yield from _roots(value)
        case ast.Tuple(several) | ast.List(several):
            for one in several:
                yield from _roots(one)
