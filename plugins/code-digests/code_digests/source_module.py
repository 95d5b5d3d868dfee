"""A module as its source defines it: what it binds, what it imports, and what it does when it is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from code_digests.canonical_form import (
    Text,
    Writer,
    dotted_name,
    has_effect,
    imported,
    is_for_type_checkers,
    is_idle,
)

IMPORT = "import"  #: the name under which a module has what it does when it is imported

_COMPOUND = (ast.If, ast.Try, ast.TryStar, ast.With, ast.For, ast.While, ast.Match)
#: Names of functions that change something, which count as an effect in an assignment, too.
_CHANGES = re.compile(r"(add|append|disable|enable|install|patch|register|seed|set|update|use)(_\w+)?|manual_seed")
#: Names of functions that keep nothing of what they are given.
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
    silent: bool = False  # whether texts of its errors are left out
    imports: dict[str, set[str]] = field(default_factory=dict)  # name -> what it may stand for; see `imported`
    lazy: dict[str, set[str]] = field(default_factory=dict)  # what type checkers see, as a `__getattr__` gives it
    bound: dict[str, list[ast.stmt]] = field(default_factory=dict)  # name -> the statements that bind it
    effects: list[ast.stmt] = field(default_factory=list)  # statements that do something besides
    _texts: dict[str, Text] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str, path: Path, source: str, silent: bool = False) -> SourceModule:
        """Return the module called `name`; raise SyntaxError if it has no valid source."""
        return _parsed(name, path, source, silent)

    @property
    def package(self) -> str:
        """Return the package that relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    def text(self, name: str) -> Text:
        """Return the text of all that binds a name, or, for `IMPORT`, of what importing the module does."""
        if name not in self._texts:
            writer = Writer(self.package, self.silent)
            writer.statements(self.effects if name == IMPORT else self.bound[name])
            self._texts[name] = writer.text
        return self._texts[name]

    def _read(self, body: Iterable[ast.stmt], whole: ast.stmt | None = None) -> None:
        """Read statements; those inside of a compound one bind their names to the `whole` of it."""
        for one in body:
            if isinstance(one, ast.Import | ast.ImportFrom):
                _bind_imports(self.imports, one, self.package)
            elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._bind([one.name], whole or one)
                if has_effect(one):
                    self.effects.append(whole or one)
            elif isinstance(one, ast.If) and is_for_type_checkers(one):
                for inner in one.body:
                    if isinstance(inner, ast.Import | ast.ImportFrom):
                        _bind_imports(self.lazy, inner, self.package)
                self._read(one.orelse, whole)
            elif isinstance(one, _COMPOUND):
                self._read_compound(one, whole or one)
            elif not is_idle(one):
                self._read_simple(one, whole or one)

    def _read_compound(self, one: ast.stmt, whole: ast.stmt) -> None:
        if isinstance(one, ast.If) and "__main__" in ast.dump(one.test):
            return  # only done where the module is a program
        self._bind(_stored(one), whole)
        if not _only_imports(one):
            self.effects.append(whole)
        self._read((inner for inner in ast.iter_child_nodes(one) if isinstance(inner, ast.stmt)), whole)
        for block in (*getattr(one, "handlers", ()), *getattr(one, "cases", ())):
            self._read(block.body, whole)

    def _read_simple(self, one: ast.stmt, whole: ast.stmt) -> None:
        """Read an assignment, or another statement, which is an effect."""
        targets = getattr(one, "targets", None) or [getattr(one, "target", None) or getattr(one, "name", None)]
        nodes = [node for target in targets if target is not None for node in ast.walk(target)]
        assigns = isinstance(one, ast.Assign | ast.AnnAssign | ast.AugAssign) or type(one).__name__ == "TypeAlias"
        plain = assigns and all(isinstance(node, _PLAIN_TARGETS) for node in nodes)
        calls = [node for node in ast.walk(one) if isinstance(node, ast.Call)]
        if not plain or any(_changes(node) or self._may_register(node) for node in calls):
            self.effects.append(whole)
        self._bind(_stored(one), whole)

    def _may_register(self, node: ast.Call) -> bool:
        """Return whether a call is given a function or class of the module, and may keep it; classes only hold it."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func)
        given = [inner for one in (*node.args, *(word.value for word in node.keywords)) for inner in ast.walk(one)]
        names = {inner.id for inner in given if isinstance(inner, ast.Name)}
        return not (name in _PURE or name[:1].isupper()) and any(
            isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            for one in (statement for other in names for statement in self.bound.get(other, ()))
        )

    def _bind(self, names: Iterable[str], one: ast.stmt) -> None:
        for name in names:
            if one not in (statements := self.bound.setdefault(name, [])):
                statements.append(one)


@lru_cache(maxsize=4096)  # other plugins, as of each call in a notebook, have the same modules of the core
def _parsed(name: str, path: Path, source: str, silent: bool) -> SourceModule:
    module = SourceModule(name, path, silent)
    module._read(ast.parse(source, str(path)).body)
    return module


def _changes(node: ast.Call) -> bool:
    """Return whether a call changes something, by the name of what is called; `set` builds a set."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func)
    return name != "set" and bool(_CHANGES.fullmatch(name))


def _bind_imports(names: dict[str, set[str]], one: ast.Import | ast.ImportFrom, package: str) -> None:
    for name, target in imported(one, package):
        names.setdefault(name, set()).add(target)


def _stored(one: ast.stmt) -> set[str]:
    """Return the names that a statement binds, by assignments inside of expressions too."""
    names = {node.id for node in ast.walk(one) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.name for node in ast.walk(one) if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name}
    return names | {node.rest for node in ast.walk(one) if isinstance(node, ast.MatchMapping) and node.rest}


def _only_imports(one: ast.stmt) -> bool:
    inner = [node for node in ast.walk(one) if isinstance(node, ast.stmt) and node is not one]
    return all(isinstance(node, ast.Import | ast.ImportFrom | ast.Pass) for node in inner)
