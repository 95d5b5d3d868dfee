"""Finds the variables of a module: names that its code assigns, or whose content it changes."""

import ast
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

#: Methods that modify an object in place, in addition to names ending with "_" (tensors).
MUTATING = {
    "appendleft", "clear", "discard", "extendleft", "insert", "load_state_dict", "move_to_end", "pop", "popitem",
    "popleft", "remove", "reverse", "rotate", "sort", "update",
}  # fmt: skip
#: Functions whose results contain the items of their arguments.
PASSING_THROUGH = {"enumerate", "filter", "iter", "next", "reversed", "sorted", "zip"}


@cache
def assigned_names(module: str) -> frozenset[str]:
    """Return the names that functions of a module assign, as globals or as attributes of any object."""
    names_assigned = set[str]()
    for node in _in_functions(module):
        match node:
            case ast.Global(names) | ast.Nonlocal(names):
                names_assigned.update(names)
            case ast.Attribute(_, name, ast.Store() | ast.Del()):
                names_assigned.add(name)
    return frozenset(names_assigned)


@cache
def variables(module: str) -> frozenset[str]:
    """Return the names that functions of a module assign, or whose content they change.

    Aliases are followed: `row[0] = 1` in `for row in TABLE` changes `TABLE`.
    """
    names, sources = {*assigned_names(module)}, dict[str, set[str]]()
    for node in _in_functions(module):
        names.update(_mutated_names(node))
    for target, value in (pair for node in ast.walk(_tree(module)) for pair in _bindings(node)):
        for name in _roots(target):
            sources.setdefault(name, set()).update(_roots(value))
    pending = [*names]
    while pending:
        aliases = sources.get(pending.pop(), set()) - names
        names |= aliases
        pending += aliases
    return frozenset(names)


def _in_functions(module: str) -> Iterator[ast.AST]:
    """Yield the syntax nodes inside functions of a module; other code runs only once, on import."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from ast.walk(node)


def _tree(module: str) -> ast.AST:
    """Return the syntax tree of a module; an empty tree if it has no source."""
    with suppress(Exception):
        return ast.parse(Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8"))
    return ast.Module(body=[], type_ignores=[])


def _mutated_names(node: ast.AST) -> Iterator[str]:
    """Yield the names whose content a statement or an expression changes."""
    match node:
        case ast.Attribute(value, _, ast.Store() | ast.Del()) if not isinstance(value, ast.Name):
            yield from _roots(value)
        case ast.Subscript(value, _, ast.Store() | ast.Del()):
            yield from _roots(value)
        case ast.Call(ast.Attribute(value, name), arguments) if name in MUTATING or _is_in_place(name):
            for owner in (value, *arguments[:1]) if _is_in_place(name) else (value,):
                yield from _roots(owner)
        case ast.keyword("out", value):
            yield from _roots(value)


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield (target, value) pairs that a statement binds."""
    match node:
        case ast.Assign(targets, value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target, _, ast.expr() as value) | ast.NamedExpr(target, value):
            yield target, value
        case ast.For(target, value) | ast.comprehension(target, value):
            yield target, value


def _roots(node: ast.AST) -> Iterator[str]:
    """Yield the names through which an expression is accessed: `a`, `b` for `a.b["c"]`."""
    match node:
        case ast.Name(name):
            yield name
        case ast.Attribute(value, name):
            yield name
            yield from _roots(value)
        case ast.Subscript(value) | ast.Starred(value):
            yield from _roots(value)
        case ast.Call(ast.Name(name), arguments) if name in PASSING_THROUGH:
            for argument in arguments:
                yield from _roots(argument)
        case ast.Call(ast.Attribute(value)):
            yield from _roots(value)
        case ast.Tuple(elements) | ast.List(elements):
            for element in elements:
                yield from _roots(element)
