"""Describes a line of Python in English by rules, one phrase per syntactic form.

A phrase determines its line: subphrases are bracketed where they would be ambiguous. Words, punctuation and brackets
are separated by single spaces.
"""

import ast
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "plus",
    ast.Sub: "minus",
    ast.Mult: "times",
    ast.Div: "divided by",
    ast.FloorDiv: "divided without remainder by",
    ast.Mod: "modulo",
    ast.Pow: "to the power of",
    ast.LShift: "shifted left by",
    ast.RShift: "shifted right by",
    ast.BitOr: "bitwise or",
    ast.BitAnd: "bitwise and",
    ast.BitXor: "bitwise exclusive or",
}
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "equals",
    ast.NotEq: "differs from",
    ast.Lt: "is less than",
    ast.LtE: "is at most",
    ast.Gt: "is greater than",
    ast.GtE: "is at least",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "is in",
    ast.NotIn: "is not in",
}
SIGNS: dict[type[ast.unaryop], str] = {
    ast.Not: "not",
    ast.USub: "minus",
    ast.UAdd: "plus",
    ast.Invert: "the complement of",
}
UPDATES: dict[type[ast.operator], str] = {
    ast.Add: "increase {} by {}",
    ast.Sub: "decrease {} by {}",
    ast.Mult: "multiply {} by {}",
    ast.Div: "divide {} by {}",
}
MAX_DEPTH = 4  # maximum nesting of phrases
MAX_DIGITS = 20
MAX_LITERAL = 60  # characters of a string or bytes literal


class UnsupportedError(Exception):
    """No rule covers this syntax."""


@dataclass(frozen=True)
class Decorator:
    """The line of a decorator."""

    value: ast.expr


@dataclass(frozen=True)
class ElseIf:
    """The line of an `elif`."""

    test: ast.expr


#: A statement or handler (for a block, its header), a decorator, an `elif`, or another header as text.
Line: TypeAlias = ast.AST | Decorator | ElseIf | str

BARE = {"else :": "otherwise ,", "finally :": "in any case ,"}


def describe(tree: ast.AST) -> Iterator[tuple[str, Line]]:
    """Yield the pseudo-code and line of each statement and block header that the rules cover."""
    skipped: set[int] = set()  # ids of nodes that belong to other lines
    for node in ast.walk(tree):
        if isinstance(node, ast.TryStar):
            skipped |= {id(each) for each in node.handlers}
        for line in _lines(node):
            if isinstance(line, ElseIf) and isinstance(node, ast.If):
                skipped.add(id(node.orelse[0]))
            if id(line) not in skipped:
                try:
                    yield _phrase(line), line
                except UnsupportedError:
                    continue


def _lines(node: ast.AST) -> Iterator[Line]:
    """Yield the lines of a node: its decorators, the statement or handler itself, and bare headers."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from map(Decorator, node.decorator_list)
    if isinstance(node, ast.stmt | ast.excepthandler):
        yield node
    if isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        yield ElseIf(node.orelse[0].test)
    elif isinstance(node, ast.If | ast.For | ast.While | ast.Try) and node.orelse:
        yield "else :"
    if isinstance(node, ast.Try) and node.finalbody:
        yield "finally :"


def to_python(line: Line) -> str:
    """Return a line as Python code; for a block, its header."""
    if isinstance(line, str):
        return line
    if isinstance(line, Decorator):
        return f"@ {ast.unparse(line.value)}"
    if isinstance(line, ElseIf):
        return f"elif {ast.unparse(line.test)}:"
    if hasattr(line, "body"):
        return ast.unparse(_without_body(line)).strip().partition("\n")[0]
    return ast.unparse(line)


def _without_body(block: ast.AST) -> ast.AST:
    """Return a block with the body `pass` and no other parts, so that its first line is its header."""
    fields = {name: getattr(block, name) for name in block._fields if hasattr(block, name)}
    for name in ("orelse", "finalbody", "handlers", "decorator_list"):
        if name in fields:
            fields[name] = []
    return ast.fix_missing_locations(type(block)(**{**fields, "body": [ast.Pass()]}))


def _phrase(line: Line) -> str:
    """Describe a line; raise UnsupportedError if no rule covers it."""
    match line:
        case str():
            return BARE[line]
        case Decorator(value=value):
            return f"decorate with {_part(value)}"
        case ElseIf(test=test):
            return f"otherwise if {_expression(test)} ,"
        case ast.If(test=test):
            return f"if {_expression(test)} ,"
        case ast.While(test=test):
            return f"while {_expression(test)} ,"
        case ast.For(target=target, iter=values):
            return f"for each {_target(target)} in {_expression(values)} ,"
        case ast.With(items=items):
            return f"with {' , '.join(map(_with_item, items))} ,"
        case ast.FunctionDef(name=name, args=args, returns=None):
            return f"define the function {name} {_parameters(args)}"
        case ast.ClassDef(name=name, bases=bases, keywords=[]):
            return f"define the class {name}" + (f" derived from {_join(bases)}" if bases else "")
        case ast.Try():
            return "try ,"
        case ast.ExceptHandler(type=None):
            return "if any exception is caught ,"
        case ast.ExceptHandler(type=kind, name=name) if kind is not None:
            return f"if {_part(kind)} is caught" + (f" as {name} ," if name else " ,")
        case ast.stmt():
            return _statement(line)
    raise UnsupportedError


def _statement(line: ast.stmt) -> str:
    """Describe a statement without a block."""
    match line:
        case ast.Assign(targets=[target], value=value):
            return f"set {_target(target)} to {_expression(value)}"
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in UPDATES:
            return UPDATES[type(op)].format(_part(target), _expression(value))
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in OPERATORS:
            return f"update {_part(target)} to itself {OPERATORS[type(op)]} {_part(value)}"
        case ast.Expr(value=ast.Call() as call):
            return f"call {_call(call, 0)}"
        case ast.Expr(value=ast.Yield(value=value)):
            return f"yield {_expression(value)}" if value else "yield"
        case ast.Return(value=value):
            return f"return {_expression(value)}" if value else "return"
        case ast.Raise(exc=error, cause=cause):
            what = f" {_part(error)}" if error else " again"
            return f"raise{what}" + (f" because of {_part(cause)}" if cause else "")
        case ast.Assert(test=test, msg=message):
            return f"make sure that {_part(test)}" + (f" , or say {_part(message)}" if message else "")
        case ast.Delete(targets=targets):
            return f"delete {_join(targets)}"
        case ast.Import(names=names):
            return f"import {_aliases(names)}"
        case ast.ImportFrom(module=str(module), names=names, level=0):
            return f"from {_space_dots(module)} import {_aliases(names)}"
        case ast.Global(names=names):
            return f"use the global {' , '.join(names)}"
        case ast.Pass():
            return "do nothing"
        case ast.Break():
            return "leave the loop"
        case ast.Continue():
            return "go on with the next turn of the loop"
    raise UnsupportedError


def _target(node: ast.expr) -> str:
    """Describe the target of an assignment; the names of a tuple are listed."""
    return _join(node.elts) if isinstance(node, ast.Tuple) and len(node.elts) > 1 else _part(node)


def _with_item(item: ast.withitem) -> str:
    return _part(item.context_expr) + (f" as {_part(item.optional_vars)}" if item.optional_vars else "")


def _parameters(args: ast.arguments) -> str:
    """Describe parameters and defaults; raise UnsupportedError for annotations and positional-only parameters."""
    parameters = [*args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
    if args.posonlyargs or any(each.annotation for each in parameters):
        raise UnsupportedError
    defaults = [None] * (len(args.args) - len(args.defaults)) + [*args.defaults]
    phrases = [_parameter(arg, default) for arg, default in zip(args.args, defaults, strict=True)]
    if args.vararg:
        phrases.append(f"the others as {args.vararg.arg}")
    pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    phrases += [f"only by name {_parameter(arg, default)}" for arg, default in pairs]
    if args.kwarg:
        phrases.append(f"the other names as {args.kwarg.arg}")
    return f"of {' , '.join(phrases)}" if phrases else "without parameters"


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    return f"{arg.arg} by default {_part(default)}" if default else arg.arg


def _aliases(names: Iterable[ast.alias]) -> str:
    return " , ".join(_space_dots(each.name) + (f" as {each.asname}" if each.asname else "") for each in names)


def _space_dots(name: str) -> str:
    return name.replace(".", " . ")


def _expression(node: ast.expr, depth: int = 0) -> str:
    """Describe an expression; raise UnsupportedError if no rule covers it or its nesting is too deep."""
    if depth > MAX_DEPTH:
        raise UnsupportedError
    deeper = depth + 1
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=value, kind=None):
            return _constant(value)
        case ast.Attribute(value=owner, attr=name):
            return f"the {name} of {_part(owner, deeper)}"
        case ast.Call():
            return f"the result of {_call(node, depth)}"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return f"{_part(left, deeper)} {OPERATORS[type(op)]} {_part(right, deeper)}"
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            return f"{_part(left, deeper)} {COMPARISONS[type(op)]} {_part(right, deeper)}"
        case ast.BoolOp(op=joint, values=values):
            return (" and " if isinstance(joint, ast.And) else " or ").join(_part(each, deeper) for each in values)
        case ast.UnaryOp(op=sign, operand=operand):
            return f"{SIGNS[type(sign)]} {_part(operand, deeper)}"
        case ast.IfExp(test=test, body=body, orelse=other):
            return f"{_part(body, deeper)} if {_part(test, deeper)} otherwise {_part(other, deeper)}"
        case ast.Subscript(value=value, slice=ast.Slice() as part):
            return f"the elements of {_part(value, deeper)}{_slice(part, deeper)}"
        case ast.Subscript(value=value, slice=index):
            return f"element {_part(index, deeper)} of {_part(value, deeper)}"
        case ast.Starred(value=value):
            return f"all of {_part(value, deeper)}"
    return _collection(node, deeper)


def _collection(node: ast.expr, depth: int) -> str:
    """Describe a list, tuple, set, dictionary, or a comprehension with one loop."""
    match node:
        case ast.List(elts=values) | ast.Tuple(elts=values) | ast.Set(elts=values):
            name = type(node).__name__.lower()
            return f"a {name} of {_join(values, depth)}" if values else f"an empty {name}"
        case ast.Dict(keys=[], values=[]):
            return "an empty dictionary"
        case ast.Dict(keys=keys, values=values) if all(keys):
            pairs = zip(keys, values, strict=True)
            entries = [f"{_part(key, depth)} for {_part(value, depth)}" for key, value in pairs if key]
            return f"a dictionary with {' , '.join(entries)}"
        case ast.ListComp(elt=value, generators=[loop]):
            return f"the list of {_part(value, depth)} {_loop(loop, depth)}"
        case ast.SetComp(elt=value, generators=[loop]):
            return f"the set of {_part(value, depth)} {_loop(loop, depth)}"
        case ast.GeneratorExp(elt=value, generators=[loop]):
            return f"every {_part(value, depth)} {_loop(loop, depth)}"
        case ast.DictComp(key=key, value=value, generators=[loop]):
            return f"the dictionary with {_part(key, depth)} for {_part(value, depth)} {_loop(loop, depth)}"
    raise UnsupportedError


def _loop(loop: ast.comprehension, depth: int) -> str:
    if loop.is_async or len(loop.ifs) > 1:
        raise UnsupportedError
    condition = f" if {_part(loop.ifs[0], depth)}" if loop.ifs else ""
    return f"for each {_target(loop.target)} in {_part(loop.iter, depth)}{condition}"


def _slice(part: ast.Slice, depth: int) -> str:
    bounds = zip(("from", "to", "by"), (part.lower, part.upper, part.step), strict=True)
    return "".join(f" {word} {_part(bound, depth)}" for word, bound in bounds if bound)


def _call(node: ast.Call, depth: int) -> str:
    """Describe a function or method and its arguments."""
    func, deeper = node.func, depth + 1
    name = f"{func.attr} of {_part(func.value, deeper)}" if isinstance(func, ast.Attribute) else _part(func, deeper)
    arguments = [_part(each, deeper) for each in node.args]
    for each in node.keywords:
        value = _part(each.value, deeper)
        arguments.append(f"{each.arg} being {value}" if each.arg else f"all names of {value}")
    return f"{name} with {' , '.join(arguments)}" if arguments else name


def _join(values: Sequence[ast.expr], depth: int = 0) -> str:
    return " , ".join(_part(each, depth) for each in values)


def _part(node: ast.expr, depth: int = 0) -> str:
    """Describe a subexpression, in brackets unless it is unambiguous."""
    phrase = _expression(node, depth)
    return phrase if _is_plain(node) else f"( {phrase} )"


def _is_plain(node: ast.expr) -> bool:
    """Return whether a phrase is unambiguous: a name, a constant, an attribute of these, or an empty collection."""
    if isinstance(node, ast.Attribute):
        return _is_plain(node.value)
    is_empty = isinstance(node, ast.List | ast.Tuple) and not node.elts
    return isinstance(node, ast.Name | ast.Constant) or is_empty or (isinstance(node, ast.Dict) and not node.keys)


def _constant(value: object) -> str:
    """Describe a constant by its literal."""
    match value:
        case None | True | False:
            return str(value).lower()
        case str() | bytes() if len(repr(value)) <= MAX_LITERAL and repr(value) == " ".join(repr(value).split()):
            return f"the {'string' if isinstance(value, str) else 'bytes'} {value!r}"
        case int() if abs(value) < 10**MAX_DIGITS:
            return f"number {value}"
        case float() if math.isfinite(value):
            return f"number {value!r}"
    raise UnsupportedError
