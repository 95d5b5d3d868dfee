"""Describes a line of Python in English by rules, one phrase per syntactic form.

A phrase tells all of its line, so that equal phrases are of equal lines: what is inside of a phrase stands in
brackets if it could be read in another way without. Words, signs and brackets are separated by single spaces.
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
DEEPEST = 4  # phrases inside of one another
MOST_DIGITS = 20
MOST_LETTERS = 60  # of a string


class UnsaidError(Exception):
    """No rule knows this shape."""


@dataclass(frozen=True)
class Decorator:
    """The line of a decorator."""

    value: ast.expr


@dataclass(frozen=True)
class ElseIf:
    """The line of an `elif`."""

    test: ast.expr


#: A statement or handler, of a block its header; or all of a line.
Line: TypeAlias = ast.AST | Decorator | ElseIf | str

BARE = {"else :": "otherwise ,", "finally :": "in any case ,"}


def said(tree: ast.AST) -> Iterator[tuple[str, Line]]:
    """Yield pseudo-code and line of all that the rules know: statements, and the headers of blocks."""
    left_out: set[int] = set()  # those that stand in a line of another shape
    for node in ast.walk(tree):
        if isinstance(node, ast.TryStar):
            left_out |= {id(each) for each in node.handlers}
        for line in _lines(node):
            if isinstance(line, ElseIf) and isinstance(node, ast.If):
                left_out.add(id(node.orelse[0]))
            if id(line) not in left_out:
                try:
                    yield _phrase(line), line
                except UnsaidError:
                    continue


def _lines(node: ast.AST) -> Iterator[Line]:
    """Yield what makes lines of its own: the statement or handler itself, its decorators, and bare headers."""
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


def python(line: Line) -> str:
    """Return the line of Python; of a block, its header."""
    if isinstance(line, str):
        return line
    if isinstance(line, Decorator):
        return f"@ {ast.unparse(line.value)}"
    if isinstance(line, ElseIf):
        return f"elif {ast.unparse(line.test)}:"
    if hasattr(line, "body"):
        return ast.unparse(_emptied(line)).strip().partition("\n")[0]
    return ast.unparse(line)


def _emptied(block: ast.AST) -> ast.AST:
    """Return a block with `pass` alone inside, so that printing its header prints nothing else."""
    fields = {name: getattr(block, name) for name in block._fields if hasattr(block, name)}
    for name in ("orelse", "finalbody", "handlers", "decorator_list"):
        if name in fields:
            fields[name] = []
    return ast.fix_missing_locations(type(block)(**{**fields, "body": [ast.Pass()]}))


def _phrase(line: Line) -> str:
    """Return the English of a line; raise UnsaidError where no rule knows its shape."""
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
            return f"with {' , '.join(map(_opened, items))} ,"
        case ast.FunctionDef(name=name, args=args, returns=None):
            return f"define the function {name} {_parameters(args)}"
        case ast.ClassDef(name=name, bases=bases, keywords=[]):
            return f"define the class {name}" + (f" derived from {_listed(bases)}" if bases else "")
        case ast.Try():
            return "try ,"
        case ast.ExceptHandler(type=None):
            return "if any exception is caught ,"
        case ast.ExceptHandler(type=kind, name=name) if kind is not None:
            return f"if {_part(kind)} is caught" + (f" as {name} ," if name else " ,")
        case ast.stmt():
            return _statement(line)
    raise UnsaidError


def _statement(line: ast.stmt) -> str:
    """Return the English of a statement without a block."""
    match line:
        case ast.Assign(targets=[target], value=value):
            return f"set {_target(target)} to {_expression(value)}"
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in UPDATES:
            return UPDATES[type(op)].format(_part(target), _expression(value))
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in OPERATORS:
            return f"update {_part(target)} to itself {OPERATORS[type(op)]} {_part(value)}"
        case ast.Expr(value=ast.Call() as call):
            return f"call {_called(call, 0)}"
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
            return f"delete {_listed(targets)}"
        case ast.Import(names=names):
            return f"import {_imported(names)}"
        case ast.ImportFrom(module=str(module), names=names, level=0):
            return f"from {_dotted(module)} import {_imported(names)}"
        case ast.Global(names=names):
            return f"use the global {' , '.join(names)}"
        case ast.Pass():
            return "do nothing"
        case ast.Break():
            return "leave the loop"
        case ast.Continue():
            return "go on with the next turn of the loop"
    raise UnsaidError


def _target(node: ast.expr) -> str:
    """Return what is assigned to; the names of a tuple stand one after the other."""
    return _listed(node.elts) if isinstance(node, ast.Tuple) and len(node.elts) > 1 else _part(node)


def _opened(item: ast.withitem) -> str:
    return _part(item.context_expr) + (f" as {_part(item.optional_vars)}" if item.optional_vars else "")


def _parameters(args: ast.arguments) -> str:
    """Return the parameters of a function, defaults among them; no annotations, none by position only."""
    every = [*args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
    if args.posonlyargs or any(each.annotation for each in every):
        raise UnsaidError
    defaults = [None] * (len(args.args) - len(args.defaults)) + [*args.defaults]
    found = [_parameter(arg, default) for arg, default in zip(args.args, defaults, strict=True)]
    if args.vararg:
        found.append(f"the others as {args.vararg.arg}")
    pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    found += [f"only by name {_parameter(arg, default)}" for arg, default in pairs]
    if args.kwarg:
        found.append(f"the other names as {args.kwarg.arg}")
    return f"of {' , '.join(found)}" if found else "without parameters"


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    return f"{arg.arg} by default {_part(default)}" if default else arg.arg


def _imported(names: Iterable[ast.alias]) -> str:
    return " , ".join(_dotted(each.name) + (f" as {each.asname}" if each.asname else "") for each in names)


def _dotted(name: str) -> str:
    return name.replace(".", " . ")


def _expression(node: ast.expr, depth: int = 0) -> str:
    """Return the English of a value; raise UnsaidError where no rule knows its shape, or it goes too deep."""
    if depth > DEEPEST:
        raise UnsaidError
    deeper = depth + 1
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=value, kind=None):
            return _constant(value)
        case ast.Attribute(value=owner, attr=name):
            return f"the {name} of {_part(owner, deeper)}"
        case ast.Call():
            return f"the result of {_called(node, depth)}"
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
    """Return the English of a list, tuple, set, dictionary, or a comprehension of one loop."""
    match node:
        case ast.List(elts=values) | ast.Tuple(elts=values) | ast.Set(elts=values):
            name = type(node).__name__.lower()
            return f"a {name} of {_listed(values, depth)}" if values else f"an empty {name}"
        case ast.Dict(keys=[], values=[]):
            return "an empty dictionary"
        case ast.Dict(keys=keys, values=values) if all(keys):
            pairs = zip(keys, values, strict=True)
            told = [f"{_part(key, depth)} for {_part(value, depth)}" for key, value in pairs if key]
            return f"a dictionary with {' , '.join(told)}"
        case ast.ListComp(elt=value, generators=[loop]):
            return f"the list of {_part(value, depth)} {_loop(loop, depth)}"
        case ast.SetComp(elt=value, generators=[loop]):
            return f"the set of {_part(value, depth)} {_loop(loop, depth)}"
        case ast.GeneratorExp(elt=value, generators=[loop]):
            return f"every {_part(value, depth)} {_loop(loop, depth)}"
        case ast.DictComp(key=key, value=value, generators=[loop]):
            return f"the dictionary with {_part(key, depth)} for {_part(value, depth)} {_loop(loop, depth)}"
    raise UnsaidError


def _loop(loop: ast.comprehension, depth: int) -> str:
    if loop.is_async or len(loop.ifs) > 1:
        raise UnsaidError
    condition = f" if {_part(loop.ifs[0], depth)}" if loop.ifs else ""
    return f"for each {_target(loop.target)} in {_part(loop.iter, depth)}{condition}"


def _slice(part: ast.Slice, depth: int) -> str:
    bounds = zip(("from", "to", "by"), (part.lower, part.upper, part.step), strict=True)
    return "".join(f" {word} {_part(bound, depth)}" for word, bound in bounds if bound)


def _called(node: ast.Call, depth: int) -> str:
    """Return a function or method and its arguments."""
    func, deeper = node.func, depth + 1
    name = f"{func.attr} of {_part(func.value, deeper)}" if isinstance(func, ast.Attribute) else _part(func, deeper)
    given = [_part(each, deeper) for each in node.args]
    for each in node.keywords:
        value = _part(each.value, deeper)
        given.append(f"{each.arg} being {value}" if each.arg else f"all names of {value}")
    return f"{name} with {' , '.join(given)}" if given else name


def _listed(values: Sequence[ast.expr], depth: int = 0) -> str:
    return " , ".join(_part(each, depth) for each in values)


def _part(node: ast.expr, depth: int = 0) -> str:
    """Return a phrase inside of another, in brackets unless it is a name, a constant or an attribute of those."""
    phrase = _expression(node, depth)
    return phrase if _is_plain(node) else f"( {phrase} )"


def _is_plain(node: ast.expr) -> bool:
    """Return whether a phrase has nothing that could be read apart."""
    if isinstance(node, ast.Attribute):
        return _is_plain(node.value)
    is_empty = isinstance(node, ast.List | ast.Tuple) and not node.elts
    return isinstance(node, ast.Name | ast.Constant) or is_empty or (isinstance(node, ast.Dict) and not node.keys)


def _constant(value: object) -> str:
    """Return a constant; strings are told by their letters, numbers by their digits."""
    match value:
        case None | True | False:
            return str(value).lower()
        case str() | bytes() if len(repr(value)) <= MOST_LETTERS and repr(value) == " ".join(repr(value).split()):
            return f"the {'string' if isinstance(value, str) else 'bytes'} {value!r}"
        case int() if abs(value) < 10**MOST_DIGITS:
            return f"number {value}"
        case float() if math.isfinite(value):
            return f"number {value!r}"
    raise UnsaidError
