"""The expression language of claims, parsed by a whitelist over `ast`; nothing is evaluated here."""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.suites.axes import AXES, Axis

MAX_CHARACTERS, MAX_DEPTH, MAX_TERMS = 4_000, 40, 5_000  # characters, levels, terms once comprehensions are unrolled
MAX_EXPONENT, MAX_PROBLEMS = 8, 20
MIN_ARGUMENTS = {"mean": 1, "min": 1, "max": 1, "all": 1, "any": 1}  # functions of several terms
QUANTIFIER = "in_every_training"
FUNCTIONS = ("v", "ratio", "abs", *MIN_ARGUMENTS, QUANTIFIER)
ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
LANGUAGE = (
    "A claim consists of v('metric', axis='name'), numbers, + - * / **, comparisons, and, or, not, "
    "mean, ratio, abs, min, max, all, any, and in_every_training."
)

Bound: TypeAlias = Mapping[str, "str | float"]  # values of the variables of comprehensions


@dataclass(frozen=True)
class Query:
    """The value of a `v(...)`: a metric of the cells with these names."""

    metric: str
    axes: tuple[tuple[Axis, str], ...] = ()  # ordered as AXES
    chosen: str = ""  # id of the choice that selects the model or the decoder

    def __str__(self) -> str:
        names = [*self.axes, *([("chosen", self.chosen)] if self.chosen else [])]
        return f"v({', '.join([repr(self.metric), *(f'{axis}={name!r}' for axis, name in names)])})"


@dataclass(frozen=True)
class Term:
    """A node of a checked expression, with comprehensions unrolled."""

    operation: str  # v, number, an operator or a function
    parts: tuple[Term, ...] = ()
    number: float = 0.0
    query: Query | None = None
    source: ast.expr | None = None

    def __str__(self) -> str:
        return str(self.query) if self.query else ast.unparse(self.source) if self.source else self.operation

    def walk(self) -> Iterator[Term]:
        """Yield the term and every term inside it."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True)
class Expression:
    """The parsed expression of a claim, or its problems."""

    term: Term | None  # None if it is invalid
    queries: Sequence[Query]  # unique, in order of appearance
    problems: Sequence[str]


@lru_cache(maxsize=1024)  # profiles of a suite share expressions
def read(text: str) -> Expression:
    """Parse an expression, and collect every problem."""
    reader = _Reader()
    try:
        term = reader.truth(_parse(text), {})
    except SuiteError as error:
        reader.problems.append(str(error))
    if not reader.queries and not reader.problems:
        reader.problems.append("a claim must contain a value, such as v('perplexity', model='lstm').")
    problems = list(dict.fromkeys(reader.problems))
    return Expression(None if problems else term, list(reader.queries), problems)


def _parse(text: str) -> ast.expr:
    if len(text) > MAX_CHARACTERS:
        raise SuiteError(
            f"the expression has {len(text):,} characters; at most {MAX_CHARACTERS:,} are allowed. Split the claim."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(f"({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise SuiteError(f"not a valid expression: {_problem(error)}. {LANGUAGE}") from None
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise SuiteError(f"the expression is more than {MAX_DEPTH} levels deep. Split the claim.")


def _problem(error: BaseException) -> str:
    """Describe a parse error; the parsed text had an opening parenthesis in front."""
    if not isinstance(error, SyntaxError):
        return str(error) or "it is nested too deeply"
    place = (error.offset or 1) - (error.lineno == 1)
    return f"{error.msg}, at character {place} of line {error.lineno}"


@dataclass
class _Reader:
    """Converts a syntax tree to terms by the expected type: a truth value, a number or a name."""

    problems: list[str] = field(default_factory=list)
    queries: dict[Query, None] = field(default_factory=dict)
    term_count: int = 0

    def truth(self, node: ast.expr, bound: Bound) -> Term:
        match node:
            case ast.BoolOp():
                word = "and" if isinstance(node.op, ast.And) else "or"
                return self._term(word, [self.truth(value, bound) for value in node.values], node)
            case ast.UnaryOp(op=ast.Not()):
                return self._term("not", [self.truth(node.operand, bound)], node)
            case ast.Compare():
                return self._comparison(node, bound)
            case ast.Call(func=ast.Name(id="all" | "any" as name)):
                return self._term(name, self._several(name, node, self.truth, bound), node)
            case ast.Call(func=ast.Name(id=name)) if name == QUANTIFIER:
                return self._quantifier(node, bound)
        return self._wrong(node, "a comparison", bound)

    def _quantifier(self, node: ast.Call, bound: Bound) -> Term:
        """Read a condition that must hold in every training run."""
        if len(node.args) != 1 or node.keywords:
            self._note(f"{_excerpt(node)}: {QUANTIFIER} takes one condition, such as a comparison.")
            return self._term(QUANTIFIER, (), node)
        before = len(self.problems)
        condition = self.truth(node.args[0], bound)
        inside = {term.operation for term in condition.walk()}
        if QUANTIFIER in inside:
            self._note(f"{_excerpt(node)}: {QUANTIFIER} cannot be nested. Write one around the whole condition.")
        elif "v" not in inside and len(self.problems) == before:
            self._note(f"{_excerpt(node)}: the condition contains no measured value, `v(...)`.")
        return self._term(QUANTIFIER, [condition], node)

    def number(self, node: ast.expr, bound: Bound) -> Term:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float()):
                return self._term("number", (), node, self._finite(node.value))
            case ast.Name() if isinstance(value := bound.get(node.id), float):
                return self._term("number", (), node, value)
            case ast.UnaryOp(op=ast.USub()):
                return self._term("negative", [self.number(node.operand, bound)], node)
            case ast.BinOp() if type(node.op) in ARITHMETIC:
                return self._arithmetic(ARITHMETIC[type(node.op)], node, bound)
            case ast.Call(func=ast.Name(id="v")):
                return self._value(node, bound)
            case ast.Call(func=ast.Name(id="abs")):
                return self._term("abs", self._arguments(node, 1, bound), node)
            case ast.Call(func=ast.Name(id="ratio")):
                return self._term("/", self._arguments(node, 2, bound), node)
            case ast.Call(func=ast.Name(id="mean" | "min" | "max" as name)):
                if len(node.args) == 1 and _calls(node.args[0], "v"):
                    self._note(
                        f"{_excerpt(node)}: a value is already a mean over seeds; {name} takes several values."
                    )
                return self._term(name, self._several(name, node, self.number, bound), node)
        return self._wrong(node, "a number", bound)

    def name(self, node: ast.expr, bound: Bound) -> str:
        match node:
            case ast.Constant(value=str()):
                return str(node.value)
            case ast.Name() if isinstance(value := bound.get(node.id), str):
                return value
            case ast.BinOp(op=ast.Add()):
                return self.name(node.left, bound) + self.name(node.right, bound)
        self._wrong(node, "a quoted name", bound)
        return ""

    def _comparison(self, node: ast.Compare, bound: Bound) -> Term:
        terms = [self.number(operand, bound) for operand in (node.left, *node.comparators)]
        pairs = zip(node.ops, terms[:-1], terms[1:], strict=True)
        for operator in node.ops:
            if type(operator) not in COMPARISONS:
                return self._wrong(node, "a comparison", bound)
        comparisons = [self._term(COMPARISONS[type(operator)], pair, node) for operator, *pair in pairs]
        return self._term("and", comparisons, node)

    def _arithmetic(self, sign: str, node: ast.BinOp, bound: Bound) -> Term:
        parts = [self.number(node.left, bound), self.number(node.right, bound)]
        if sign == "**" and not _is_small(parts[1]):
            self._note(
                f"{_excerpt(node)}: an exponent must be a whole number from -{MAX_EXPONENT} to {MAX_EXPONENT}."
            )
        return self._term(sign, parts, node)

    def _value(self, node: ast.Call, bound: Bound) -> Term:
        if len(node.args) != 1:
            self._note(f"{_excerpt(node)}: v takes one metric, and axes such as model='lstm'.")
            return self._term("v", (), node)
        before = len(self.problems)
        metric = self.name(node.args[0], bound)
        names: dict[str, str] = {}
        for keyword in node.keywords:
            if keyword.arg not in (*AXES[:-1], "chosen") or keyword.arg in names:
                self._note(f"{_excerpt(node)}: {_axis_problem(keyword.arg, names)}")
            else:
                names[keyword.arg] = self.name(keyword.value, bound)
        if max(map(len, [metric, *names.values()])) > MAX_CHARACTERS:
            self._note("a name in the expression is too long.")
        axes = tuple((axis, names[axis]) for axis in AXES if axis in names)
        self._count()
        query = Query(metric, axes, names.get("chosen", ""))
        if len(self.problems) == before:
            self.queries[query] = None
        return Term("v", query=query, source=node)

    def _arguments(self, node: ast.Call, count: int, bound: Bound) -> list[Term]:
        if len(node.args) != count or node.keywords:
            self._note(f"{_excerpt(node)}: this function takes {count} number{'s' if count > 1 else ''}.")
        return [self.number(argument, bound) for argument in node.args]

    def _several(
        self, name: str, node: ast.Call, read: Callable[[ast.expr, Bound], Term], bound: Bound
    ) -> list[Term]:
        """Read the arguments of a function, or the items of its one list or comprehension."""
        terms = []
        match node.args:
            case [ast.List(elts=items) | ast.Tuple(elts=items)]:
                terms = [read(item, bound) for item in items]
            case [ast.GeneratorExp() | ast.ListComp() as comprehension]:
                terms = [read(comprehension.elt, inner) for inner in self._unroll(comprehension.generators, bound)]
            case items:
                terms = [read(item, bound) for item in items]
        if node.keywords or len(terms) < MIN_ARGUMENTS[name]:
            self._note(f"{_excerpt(node)}: {name} needs {MIN_ARGUMENTS[name]} argument or more, and no keywords.")
        return terms

    def _unroll(self, loops: Sequence[ast.comprehension], bound: Bound) -> Iterator[Bound]:
        if not loops:
            yield bound
            return
        target, items = loops[0].target, loops[0].iter
        if loops[0].ifs or loops[0].is_async or not isinstance(target, ast.Name) or target.id in FUNCTIONS:
            self._note("write a comprehension as `... for x in ['a', 'b']`, with one variable and no condition.")
        elif not isinstance(items, (ast.List, ast.Tuple)):
            self._note(f"{_excerpt(items)}: a comprehension must iterate over a list of names or numbers.")
        else:
            for item in items.elts:
                self._count()
                yield from self._unroll(loops[1:], {**bound, target.id: self._constant(item)})

    def _constant(self, node: ast.expr) -> str | float:
        match node:
            case ast.Constant(value=str()):
                return str(node.value)
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return self._finite(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -self._finite(value)
        self._note(f"{_excerpt(node)}: a comprehension must iterate over quoted names or numbers.")
        return ""

    def _finite(self, value: Any) -> float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self._note("a number in the expression is too large.")
        return number

    def _wrong(self, node: ast.expr, wanted: str, bound: Bound) -> Term:
        known = [*bound, *FUNCTIONS]
        if isinstance(node, ast.Name) and node.id not in known:
            self._note(f"unknown name {node.id!r}. {suggestion(node.id, known)} {LANGUAGE}")
        elif isinstance(node, ast.Call) and not _calls(node, *FUNCTIONS):
            name = ast.unparse(node.func)
            self._note(f"unknown function {name[:60]!r}. {suggestion(name, list(FUNCTIONS))} {LANGUAGE}")
        else:
            self._note(f"expected {wanted}, found {_excerpt(node)}. {LANGUAGE}")
        return self._term("number", (), node)

    def _term(self, operation: str, parts: Sequence[Term], source: ast.expr, number: float = 0.0) -> Term:
        self._count()
        return Term(operation, tuple(parts), number, source=source)

    def _note(self, text: str) -> None:
        self.problems.append(text)
        if len(self.problems) == MAX_PROBLEMS:
            raise SuiteError("there may be more problems in this expression.")

    def _count(self) -> None:
        self.term_count += 1
        if self.term_count > MAX_TERMS:
            raise SuiteError(f"the expression has more than {MAX_TERMS:,} terms once unrolled. Split the claim.")


def _calls(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _is_small(term: Term) -> bool:
    """Return whether a term is a small whole number."""
    inner = term.parts[0] if term.operation == "negative" else term
    return inner.operation == "number" and inner.number in range(MAX_EXPONENT + 1)


def _axis_problem(name: str | None, given: Mapping[str, str]) -> str:
    if name == "seed":
        return "results are averaged over seeds; leave the axis out."
    if name in given:
        return f"the axis {name!r} appears twice."
    return f"unknown axis {name!r}. {suggestion(str(name), [*AXES[:-1], 'chosen'], 'Axes')}"


def _excerpt(node: ast.expr) -> str:
    text = ast.unparse(node)
    return f"`{text if len(text) <= 60 else text[:60] + ' …'}`"
