"""Mutants of code that executes in stages, and the keys that they change; no mutant is run."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import CodeType

from bench_authors.testing.executed_code import MADE_UP, MODULE, TracedExecution
from bench_core.planning.code_digests import code_digests, is_followed, without_garbage_collection
from code_digests import Codebase, CodeDigests

OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.Lt: ">=", ast.Gt: "<=", ast.LtE: ">", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in",
}  # fmt: skip

Roots = tuple[tuple[str, tuple[str, ...]], ...]
Where = tuple[str, int, str]  # file, first line and name of a function


@dataclass(frozen=True)
class Mutant:
    """A changed module."""

    path: Path
    source: str
    change: str  # the line before and after


@dataclass
class Drill:
    """The stages of some suites by what takes part in them, with the functions that executed there."""

    digests: CodeDigests = field(default_factory=code_digests)
    executed: dict[Roots, set[Where]] = field(default_factory=lambda: defaultdict(set))
    modules: dict[str, str] = field(default_factory=dict)  # file -> module
    keys: dict[Roots, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, execution: TracedExecution) -> Drill:
        """Return the drill of stages that were recorded."""
        drill = cls()
        for key, stage in execution.stages.items():
            roots = tuple(sorted(stage.roots.items()))
            for code, module in execution.code[key].items():
                if drill._counts(code, module):
                    drill.executed[roots].add((code.co_filename, code.co_firstlineno, code.co_name))
                    drill.modules[code.co_filename] = module
        drill.keys = drill._keys(drill.digests)
        return drill

    def _counts(self, code: CodeType, module: str) -> bool:
        own = is_followed(module) and code.co_filename[:1] != MADE_UP and self.digests.code.module(module) is not None
        return own and code.co_name not in (MODULE, "__getattr__") and not module.startswith("bench_authors.testing")

    def _keys(self, digests: CodeDigests) -> dict[Roots, dict[str, str]]:
        with without_garbage_collection():
            return {roots: digests.of_parts(dict(roots)) for roots in self.executed}

    def functions(self) -> list[Where]:
        """Return all functions that executed."""
        return sorted(set[Where]().union(*self.executed.values()))

    def others(self) -> list[Where]:
        """Return functions that did not execute: of plugins, and of modules of the core in which others did."""
        known, found, code = {*self.functions()}, [], self.digests.code
        packages = {name.partition(".")[0] for name in code.always}
        plugins = (code.path(name) for package in packages for name in code._modules_of(package))
        for file in sorted({*self.modules, *map(str, plugins)}):
            for node in functions(Path(file).read_text(encoding="utf-8")):
                where = (file, first_line(node), node.name)
                found += [where] if where not in known else []
        return found

    def executes(self, where: Where) -> set[Roots]:
        """Return the stages in which a function executed."""
        return {roots for roots, found in self.executed.items() if where in found}

    def changed(self, change: Callable[[Path, str], str]) -> set[Roots]:
        """Return the stages whose keys a change of sources changes."""
        new = self._keys(self.with_sources(change))
        return {roots for roots, keys in self.keys.items() if new[roots] != keys}

    def with_sources(self, change: Callable[[Path, str], str]) -> CodeDigests:
        """Return the digests of changed sources; what is not changed is parsed once."""
        old = self.digests.code
        new = Codebase(
            old.followed, old.installed, old.silent, lambda path: change(path, path.read_text("utf-8")),
            no_data=old.no_data, lookups=old.lookups, always=old.always,
        )  # fmt: skip
        new._homes = old._homes
        for name, module in old._modules.items():
            text = "" if module is None else module.path.read_text(encoding="utf-8")
            if module is None or change(module.path, text) == text:
                new._modules[name] = module
        return CodeDigests(new)


@dataclass
class Rates:
    """What the mutants of some functions changed."""

    missed: list[str] = field(default_factory=list)
    mutants: int = 0
    needless: int = 0  # stages with a new key in which the function did not execute
    others: int = 0  # all stages in which it did not

    def __str__(self) -> str:
        share = f"{100 * self.needless / self.others:.1f} %" if self.others else "none"
        return (
            f"{self.mutants} mutants, {len(self.missed)} missed, needless {self.needless} of {self.others} ({share})"
        )


def try_mutants(drill: Drill, functions: list[Where], number: int | None, random: Random) -> Rates:
    """Change functions, as many as asked for, one at a time, and compare keys."""
    rates = Rates()
    for where in random.sample(functions, len(functions)):
        if rates.mutants == number:
            break
        if (mutant := mutated(where, random)) is None:
            continue
        must, changed = drill.executes(where), drill.changed(_edit({mutant.path: mutant.source}))
        rates.mutants += 1
        rates.needless += len(changed - must)
        rates.others += len(drill.keys) - len(must)
        rates.missed += [f"{where[0]}:{where[1]} {where[2]}: {mutant.change}"] if must - changed else []
    return rates


def _edit(sources: Mapping[Path, str]) -> Callable[[Path, str], str]:
    return lambda path, text: sources.get(path, text)


def functions(source: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return all functions of a module, those inside of classes and functions too."""
    found = (node for node in ast.walk(ast.parse(source)))
    return [node for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the line that the code object of a function has as its first."""
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def mutated(where: Where, random: Random) -> Mutant | None:
    """Return a mutant of a function: a constant or an operator is changed; None if it has neither."""
    path = Path(where[0])
    source = path.read_text(encoding="utf-8")
    node = next((one for one in functions(source) if (first_line(one), one.name) == where[1:]), None)
    edits = [*_edits(node.body, node.args)] if node else []
    for row, start, end, text in random.sample(edits, len(edits)):
        lines = source.splitlines(keepends=True)
        line = lines[row - 1].encode()
        lines[row - 1] = (line[:start] + text.encode() + line[end:]).decode()
        new = "".join(lines)
        try:
            if ast.dump(ast.parse(new)) != ast.dump(ast.parse(source)):
                return Mutant(path, new, f"{line.decode().strip()}  ->  {lines[row - 1].strip()}")
        except SyntaxError:
            continue
    return None


def _edits(body: list[ast.stmt], arguments: ast.arguments) -> Iterator[tuple[int, int, int, str]]:
    """Yield line, columns and new text of what can be changed, but for docstrings, annotations, messages and warnings."""
    for default in [*arguments.defaults, *(one for one in arguments.kw_defaults if one)]:
        yield from _of_node(default)
    for statement in body:
        yield from _of_node(statement)


def _of_node(node: ast.AST) -> Iterator[tuple[int, int, int, str]]:
    if isinstance(node, ast.Raise | ast.JoinedStr) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ):
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn"):
        return
    if isinstance(node, ast.Constant) and node.lineno == node.end_lineno:
        value = node.value
        new = (
            repr(not value) if isinstance(value, bool) else repr(value + 1) if isinstance(value, int | float) else ""
        )
        new = repr(value + "~") if isinstance(value, str) else new
        if new and node.end_col_offset is not None:
            yield node.lineno, node.col_offset, node.end_col_offset, new
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield from _between(node.left, node.right, OPERATORS[type(node.op)])
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        yield from _between(node.left, node.comparators[0], OPERATORS[type(node.ops[0])])
    for name, child in ast.iter_fields(node):
        if name not in ("annotation", "returns"):
            for item in child if isinstance(child, list) else [child]:
                yield from _of_node(item) if isinstance(item, ast.AST) else ()


def _between(left: ast.expr, right: ast.expr, operator: str) -> Iterator[tuple[int, int, int, str]]:
    if left.end_lineno == right.lineno and left.end_col_offset is not None:
        yield right.lineno, left.end_col_offset, right.col_offset, f" {operator} "
