"""The source of a module: the names that it binds and imports, and its effects on import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from code_digests.canonical_form import (
    CanonicalText,
    Writer,
    dotted_name,
    has_effect,
    import_targets,
    is_for_type_checkers,
    is_idle,
)

IMPORT = "import"  #: name for the effects of importing a module

_COMPOUND = (ast.If, ast.Try, ast.TryStar, ast.With, ast.For, ast.While, ast.Match)
#: Names of functions with side effects, which count even in an assignment.
_CHANGES = re.compile(r"(add|append|disable|enable|install|patch|register|seed|set|update|use)(_\w+)?|manual_seed")
#: Names of functions that do not store their arguments.
_PURE = frozenset({
    "cache", "cached_property", "classmethod", "dict", "field", "frozenset", "list", "lru_cache", "map", "namedtuple",
    "partial", "partialmethod", "property", "set", "singledispatch", "sorted", "staticmethod", "tuple", "vmap", "zip",
})  # fmt: skip
_PLAIN_TARGETS = (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)


@dataclass
class SourceModule:
    """The top level of a module."""

    name: str
    path: Path
    silent: bool = False  # whether its error messages are left out
    imports: dict[str, set[str]] = field(default_factory=dict)  # name -> possible targets; see `import_targets`
    lazy: dict[str, set[str]] = field(default_factory=dict)  # imports for type checkers, resolved by `__getattr__`
    bound: dict[str, list[ast.stmt]] = field(default_factory=dict)  # name -> the statements that bind it
    effects: list[ast.stmt] = field(default_factory=list)  # statements with side effects
    _texts: dict[str, CanonicalText] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str, path: Path, source: str, silent: bool = False) -> SourceModule:
        """Return the parsed module; raise SyntaxError for invalid source."""
        return _parse(name, path, source, silent)

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    def text(self, name: str) -> CanonicalText:
        """Return the text of all statements that bind a name, or of the import effects for `IMPORT`."""
        if name not in self._texts:
            writer = Writer(self.package, self.silent)
            writer.statements(self.effects if name == IMPORT else self.bound[name])
            self._texts[name] = writer.text
        return self._texts[name]

    def _collect(self, body: Iterable[ast.stmt], whole: ast.stmt | None = None) -> None:
        """Collect statements; names bound inside a compound statement are bound to the `whole` statement."""
        for statement in body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                _bind_imports(self.imports, statement, self.package)
            elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._bind([statement.name], whole or statement)
                if has_effect(statement):
                    self.effects.append(whole or statement)
            elif isinstance(statement, ast.If) and is_for_type_checkers(statement):
                for inner in statement.body:
                    if isinstance(inner, ast.Import | ast.ImportFrom):
                        _bind_imports(self.lazy, inner, self.package)
                self._collect(statement.orelse, whole)
            elif isinstance(statement, _COMPOUND):
                self._collect_compound(statement, whole or statement)
            elif not is_idle(statement):
                self._collect_simple(statement, whole or statement)

    def _collect_compound(self, statement: ast.stmt, whole: ast.stmt) -> None:
        if isinstance(statement, ast.If) and "__main__" in ast.dump(statement.test):
            return  # not executed on import
        self._bind(_assigned_names(statement), whole)
        if not _only_imports(statement):
            self.effects.append(whole)
        self._collect((inner for inner in ast.iter_child_nodes(statement) if isinstance(inner, ast.stmt)), whole)
        for block in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            self._collect(block.body, whole)

    def _collect_simple(self, statement: ast.stmt, whole: ast.stmt) -> None:
        """Collect an assignment; any other statement counts as an effect."""
        targets = getattr(statement, "targets", None) or [
            getattr(statement, "target", None) or getattr(statement, "name", None)
        ]
        nodes = [node for target in targets if target is not None for node in ast.walk(target)]
        assigns = (
            isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign)
            or type(statement).__name__ == "TypeAlias"
        )
        plain = assigns and all(isinstance(node, _PLAIN_TARGETS) for node in nodes)
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        if not plain or any(_changes(node) or self._may_register(node) for node in calls):
            self.effects.append(whole)
        self._bind(_assigned_names(statement), whole)

    def _may_register(self, node: ast.Call) -> bool:
        """Return whether a call may store a function or class that it receives; calls of classes do not count."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func)
        nodes = [
            inner
            for argument in (*node.args, *(word.value for word in node.keywords))
            for inner in ast.walk(argument)
        ]
        names = {inner.id for inner in nodes if isinstance(inner, ast.Name)}
        return not (name in _PURE or name[:1].isupper()) and any(
            isinstance(binding, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            for binding in (statement for other in names for statement in self.bound.get(other, ()))
        )

    def _bind(self, names: Iterable[str], statement: ast.stmt) -> None:
        for name in names:
            if statement not in (statements := self.bound.setdefault(name, [])):
                statements.append(statement)


@lru_cache(maxsize=4096)  # several codebases share the modules of the core
def _parse(name: str, path: Path, source: str, silent: bool) -> SourceModule:
    module = SourceModule(name, path, silent)
    module._collect(ast.parse(source, str(path)).body)
    return module


def _changes(node: ast.Call) -> bool:
    """Return whether a call has side effects, judged by the name of the function; `set` itself has none."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func)
    return name != "set" and bool(_CHANGES.fullmatch(name))


def _bind_imports(names: dict[str, set[str]], statement: ast.Import | ast.ImportFrom, package: str) -> None:
    for name, target in import_targets(statement, package):
        names.setdefault(name, set()).add(target)


def _assigned_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds, including assignment expressions."""
    names = {
        node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names |= {
        node.name for node in ast.walk(statement) if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name
    }
    return names | {node.rest for node in ast.walk(statement) if isinstance(node, ast.MatchMapping) and node.rest}


def _only_imports(statement: ast.stmt) -> bool:
    inner = [node for node in ast.walk(statement) if isinstance(node, ast.stmt) and node is not statement]
    return all(isinstance(node, ast.Import | ast.ImportFrom | ast.Pass) for node in inner)
