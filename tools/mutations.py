"""Mutations of Python code, as edits of the source text, and stratified samples of them.

Code whose changes tests cannot or should not detect is excluded: docstrings, annotations, decorators, assertions,
texts of messages, imports for type checkers and `if __name__ == "__main__"`.
"""

from __future__ import annotations

import ast
import hashlib
import random
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MODULE = "<module>"
COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"), ast.Eq: ("!=",),
    ast.NotEq: ("==",), ast.Is: ("is not",), ast.IsNot: ("is",), ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
OPPOSITES = {
    name: opposite
    for pair in (
        "min max", "any all", "argmin argmax", "amin amax", "floor ceil", "startswith endswith", "cumsum cumprod",
        "zeros ones", "zeros_like ones_like", "logical_and logical_or", "union intersection",
    )
    for name, opposite in (pair.split(), pair.split()[::-1])
}  # fmt: skip
SYMMETRIC = {"min", "max", "isclose", "allclose", "equal", "gcd", "maximum", "minimum", "logical_and", "logical_or"}
UNSEEN_KEYWORDS = {"encoding", "strict", "flush", "exist_ok", "parents", "stacklevel", "daemon", "slots"}
UNCHANGED_CALLS = {
    "say",
    "warn",
    "warning",
    "print",
    "debug",
    "info",
    "cast",
    "TypeVar",
    "NewType",
}  # names of functions whose calls are not changed


@dataclass(frozen=True)
class Mutation:
    """A change of a file: replace `old` at byte `start` by `new`; `unit` is the enclosing function or class."""

    path: str
    line: int
    unit: str
    operator: str
    start: int
    old: str
    new: str

    @property
    def key(self) -> str:
        """Return a short unique identifier."""
        text = f"{self.path}\0{self.start}\0{self.old}\0{self.new}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def words(self) -> set[str]:
        """Return the words in the names of the folder, file and function."""
        return words_of(" ".join([*self.path.removesuffix(".py").split("/")[-2:], self.unit]))

    def apply(self, source: bytes) -> bytes:
        """Return the changed source; raise ValueError if `old` is not at `start`."""
        old, end = self.old.encode(), self.start + len(self.old.encode())
        if source[self.start : end] != old:
            raise ValueError(f"{self.path} has changed: {self.old!r} is not at byte {self.start}.")
        return source[: self.start] + self.new.encode() + source[end:]

    def changes(self, source: bytes) -> bool:
        """Return whether the changed source parses to different code."""
        try:
            return ast.dump(ast.parse(self.apply(source))) != ast.dump(ast.parse(source))
        except SyntaxError:
            return False


def words_of(name: str) -> set[str]:
    """Return the words of a name, without plural endings."""
    return {word.removesuffix("s") for word in re.findall("[a-z]{3,}", name.lower())} - {"test", "bench"}


def mutations(path: str, source: bytes) -> list[Mutation]:
    """Return all mutations of a file; some may not parse (see `Mutation.changes`)."""
    return list(_File(path, source).visit(ast.parse(source), ()))


Edit = tuple[str, int, int, str]  # operator, start, end, new text


class _File:
    """The source of a file, and the edits of its syntax nodes."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.lines = [0, *(newline.end() for newline in re.finditer(rb"\n", source))]

    def visit(self, node: ast.AST, scope: tuple[str, ...]) -> Iterator[Mutation]:
        """Yield the mutations of a node and its descendants; `scope` has the names of enclosing definitions."""
        if _is_excluded(node):
            return
        scope = _inner(node, scope)
        for rule in RULES.get(type(node), ()):
            for operator, start, end, new in rule(self, node):
                old = self.source[start:end].decode()
                yield Mutation(self.path, bisect_right(self.lines, start), _unit(scope), operator, start, old, new)
        for child in _children(node):
            yield from self.visit(child, scope)

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        assert node.end_lineno
        assert node.end_col_offset is not None
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def replacement(self, operator: str, node: ast.expr | ast.stmt, new: str) -> Edit:
        return operator, self.start(node), self.end(node), new

    def between(self, operator: str, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Edit]:
        """Yield the replacement of an operator between two expressions."""
        begin = self.end(left)
        pattern = re.escape(old).replace(r"\ ", r"\s+").encode()
        match = re.search(pattern, self.source[begin : self.start(right)])
        if match:
            yield operator, begin + match.start(), begin + match.end(), new


def _comparison(file: _File, node: ast.Compare) -> Iterator[Edit]:
    words = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
             ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}  # fmt: skip
    for left, kind, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
        for new in COMPARISONS[type(kind)]:
            yield from file.between("comparison", left, right, words[type(kind)], new)


def _boolean(file: _File, node: ast.BoolOp) -> Iterator[Edit]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        yield from file.between("boolean", left, right, old, new)


def _arithmetic(file: _File, node: ast.BinOp) -> Iterator[Edit]:
    textual = any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in (node.left, node.right))
    if type(node.op) in ARITHMETIC and not textual:
        yield from file.between("arithmetic", node.left, node.right, *ARITHMETIC[type(node.op)])


def _sign(file: _File, node: ast.UnaryOp) -> Iterator[Edit]:
    if isinstance(node.op, ast.USub | ast.Not):
        name = "sign" if isinstance(node.op, ast.USub) else "condition"
        yield file.replacement(name, node, f"({file.text(node.operand)})")


def _condition(file: _File, node: ast.If | ast.While | ast.IfExp) -> Iterator[Edit]:
    if not isinstance(node.test, ast.UnaryOp | ast.Compare):  # these have their own rules
        yield file.replacement("condition", node.test, f"not ({file.text(node.test)})")


def _filter(file: _File, node: ast.comprehension) -> Iterator[Edit]:
    for test in node.ifs:
        yield file.replacement("filter", test, "True")


def _constant(file: _File, node: ast.Constant) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, bool):
        yield file.replacement("constant", node, str(not value))
    elif isinstance(value, int):
        yield from (file.replacement("constant", node, str(new)) for new in (value + 1, value - 1) if new >= 0)
    elif isinstance(value, float):
        yield file.replacement("constant", node, repr(2 * value or 1.0))


def _return(file: _File, node: ast.Return) -> Iterator[Edit]:
    if node.value and not isinstance(node.value, ast.Constant):
        yield file.replacement("return", node.value, "None")


def _removal(file: _File, node: ast.stmt) -> Iterator[Edit]:
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name | ast.Tuple):
        yield file.replacement("removal", node, "pass")


def _jump(file: _File, node: ast.Break | ast.Continue) -> Iterator[Edit]:
    yield file.replacement("jump", node, "continue" if isinstance(node, ast.Break) else "break")


def _call(file: _File, node: ast.Call) -> Iterator[Edit]:
    name = _function_name(node)
    if name in OPPOSITES:
        end = file.end(node.func)
        yield "opposite", end - len(name.encode()), end, OPPOSITES[name]
    if (
        len(node.args) > 1
        and name not in SYMMETRIC
        and not any(isinstance(argument, ast.Starred) for argument in node.args[:2])
    ):
        first, second = node.args[:2]
        comma = file.source[file.end(first) : file.start(second)].decode()
        yield "arguments", file.start(first), file.end(second), f"{file.text(second)}{comma}{file.text(first)}"
    before: list[ast.expr | ast.keyword] = list(node.args)
    for number, keyword in enumerate(node.keywords):
        if keyword.arg and keyword.arg not in UNSEEN_KEYWORDS:
            after = node.keywords[number + 1 :]
            start = file.end(before[-1]) if before else file.start(keyword)
            end = file.start(after[0]) if after and not before else file.end(keyword)
            yield "keyword", start, end, ""
        before.append(keyword)


Rule = Callable[[_File, Any], Iterator[Edit]]
RULES: dict[type[ast.AST], tuple[Rule, ...]] = {
    ast.Compare: (_comparison,), ast.BoolOp: (_boolean,), ast.BinOp: (_arithmetic,), ast.UnaryOp: (_sign,),
    ast.If: (_condition,), ast.While: (_condition,), ast.IfExp: (_condition,), ast.comprehension: (_filter,),
    ast.Constant: (_constant,), ast.Return: (_return,), ast.Break: (_jump,), ast.Continue: (_jump,),
    ast.Expr: (_removal,), ast.Raise: (_removal,), ast.Assign: (_removal,), ast.AugAssign: (_removal,),
    ast.Delete: (_removal,), ast.Call: (_call,),
}  # fmt: skip


def _function_name(node: ast.Call) -> str:
    """Return the last name of the called expression."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_excluded(node: ast.AST) -> bool:
    """Return whether a node and its descendants are excluded."""
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
            return True
        case ast.Call():
            return _function_name(node) in UNCHANGED_CALLS
        case ast.Expr():  # docstrings, `...`, messages
            return isinstance(node.value, ast.Constant) or (
                isinstance(node.value, ast.Call) and _is_excluded(node.value)
            )
        case ast.Raise():
            return "NotImplementedError" in ast.dump(node)
        case ast.If():
            return any(name in ast.dump(node.test) for name in ("'TYPE_CHECKING'", "'__main__'", "version_info"))
        case ast.FunctionDef():
            return any("overload" in ast.dump(each) for each in node.decorator_list) or node.name == "__repr__"
        case ast.Assign():
            return all(isinstance(target, ast.Name) and target.id.startswith("__") for target in node.targets)
    return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node that may be changed: not annotations, decorators or arguments of exceptions."""
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases", "pattern", "format_spec"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _inner(node: ast.AST, scope: tuple[str, ...]) -> tuple[str, ...]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return (*scope, node.name, "<locals>")
        case ast.ClassDef():
            return (*scope, node.name)
    return scope


def _unit(scope: tuple[str, ...]) -> str:
    """Return the qualified name of the function or class of a scope."""
    return ".".join(scope).removesuffix(".<locals>") or MODULE


def folder(path: str) -> str:
    """Return the stratum of a file: a folder of the core, or a plugin."""
    first, second, *_ = path.split("/")
    return f"{first}/{second}" if not second.endswith(".py") else first


def sample(sources: dict[str, bytes], count: int, seed: int) -> list[Mutation]:
    """Sample mutations from each folder in proportion to its lines, in an order with balanced prefixes.

    Lines are sampled first, then a mutation of each line, so lines with many mutations have no extra weight.
    """
    lines: dict[str, dict[tuple[str, int], list[Mutation]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(sources):
        for mutation in mutations(path, sources[path]):
            lines[folder(path)][path, mutation.line].append(mutation)
    sizes = {name: len(places) for name, places in sorted(lines.items())}
    ranked: list[tuple[float, Mutation]] = []
    for name, share in _shares(sizes, count).items():
        rng = random.Random(f"{seed} {name}")
        places = rng.sample(sorted(lines[name]), sizes[name])
        candidates = (_changing_mutation(lines[name][place], sources[place[0]], rng) for place in places)
        chosen = [mutation for mutation, _ in zip(filter(None, candidates), range(share), strict=False)]
        ranked += [((rank + rng.random()) / len(chosen), mutation) for rank, mutation in enumerate(chosen)]
    return [mutation for _, mutation in sorted(ranked, key=lambda pair: pair[0])]


def _changing_mutation(choices: list[Mutation], source: bytes, rng: random.Random) -> Mutation | None:
    return next((mutation for mutation in rng.sample(choices, len(choices)) if mutation.changes(source)), None)


def _shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Divide a count in proportion to sizes, by largest remainders, with at least 1 each."""
    exact = {name: count * size / sum(sizes.values()) for name, size in sizes.items()}
    shares = {name: max(1, int(share)) for name, share in exact.items()}
    rest = sorted(exact, key=lambda name: shares[name] - exact[name])
    for name in rest[: max(0, count - sum(shares.values()))]:
        shares[name] += 1
    return shares
