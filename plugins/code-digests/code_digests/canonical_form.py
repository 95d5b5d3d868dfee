"""The canonical text of Python code: independent of layout, comments and the version of Python.

Docstrings and annotations of functions and variables are kept apart: they decide nothing unless code reads them. The
types of a class's fields are part of the text, as dataclasses read them. A writer can leave out error messages.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

#: Decorators that do not read annotations.
_PLAIN = {
    "abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "final", "hookimpl", "hookspec",
    "lru_cache", "no_grad", "overload", "override", "property", "setter", "staticmethod", "wraps",
}  # fmt: skip
#: Decorators that have no effect besides what they return.
_WITHOUT_EFFECT = _PLAIN | {"dataclass", "inference_mode", "runtime_checkable", "total_ordering"}
#: Fields of syntax trees that decide nothing.
_SILENT = {"ctx", "kind", "type_comment", "type_ignores", "type_params"}
_ALL_MODULES = {"sys.modules.items", "sys.modules.values"}
_NOTED = (ast.AugAssign, ast.Call, ast.FunctionDef, ast.Subscript)
_BLOCKS = {"body", "finalbody", "orelse"}
_FIELDS: dict[type[ast.AST], list[str]] = {}
_FAULT = "Fault"  #: the name of the type by which silent packages annotate pieces of error messages
_MAKERS = ("Error", "warn")  # what the names of those who take such texts end with
_RESULTS = (ast.Return, ast.Yield, ast.YieldFrom)
#: Fields of expressions that decide which text an error has, and are no part of it.
_DECIDING = {"comparators", "ifs", "keys", "slice", "test"}


@dataclass
class Text:
    """The canonical text of some statements, and what they mention."""

    words: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # also dotted ones, such as `torch.nn.Linear`
    attributes: set[str] = field(default_factory=set)  # of whatever object
    strings: set[str] = field(default_factory=set)  # that may name a module, or "module:name"
    imports: dict[str, set[str]] = field(default_factory=dict)  # inside functions; see `imported`
    lookups: set[str] = field(default_factory=set)  # ways to find a definition by a computed name
    docstrings: list[str] = field(default_factory=list)
    annotations: list[str] = field(default_factory=list)

    @property
    def form(self) -> str:
        """Return the canonical text."""
        return "".join(self.words)


class Writer:
    """Writes the canonical text of syntax trees.

    Empty fields are left out, and the others are sorted by name, so that a field which a later version of Python adds
    has no effect until it is used. Text is ASCII, as which letters are printable differs by version.
    If `silent`, texts of errors are left out, and those of functions and variables annotated as `Fault`; names in
    them are followed.
    """

    def __init__(self, package: str, silent: bool = False) -> None:
        self.package, self.silent, self.text = package, silent, Text()
        self.in_error = self.in_fault = False  # whether texts are those of an error; results those of a Fault

    def add(self, word: str) -> None:
        """Append to the text."""
        self.text.words.append(word)

    def statements(self, body: Iterable[ast.stmt], of_class: bool = False, documented: bool = False) -> None:
        """Write a block; the first statement of a `documented` one may be its docstring."""
        for place, one in enumerate(body):
            if documented and place == 0 and isinstance(one, ast.Expr) and is_text(one.value):
                self.text.docstrings.append(one.value.value)  # type: ignore[attr-defined]
            elif not is_idle(one):
                self.statement(one, of_class)

    def statement(self, one: ast.stmt, of_class: bool = False) -> None:
        """Write a statement; imports are kept apart, and blocks for type checkers left out."""
        if isinstance(one, ast.Import | ast.ImportFrom):
            for name, target in imported(one, self.package):
                self.text.imports.setdefault(name, set()).add(target)
        elif isinstance(one, ast.AnnAssign) and not of_class:
            self.annotation(one.annotation)
            self.in_error = self.silent and _is_fault(one.annotation)
            if one.value is not None:
                self.node(ast.Assign(targets=[one.target], value=one.value))
            self.in_error = False
        elif isinstance(one, ast.If) and is_for_type_checkers(one):
            self.statements(one.orelse)
        else:
            self.node(one)

    def annotation(self, one: ast.AST | None) -> None:
        """Keep an annotation apart; names in it are not followed."""
        if one is not None:
            kept, self.text = self.text, Text()
            self.node(one)
            kept.annotations.append(self.text.form)
            self.text = kept

    def message(self, one: ast.AST) -> None:
        """Write that there is a text; names in it are followed."""
        words, self.in_error = [*self.text.words, "text "], False
        self.node(one)
        self.text.words, self.in_error = words, True

    def node(self, node: ast.AST) -> None:
        """Write an expression or a compound statement."""
        if self.in_error and (isinstance(node, ast.JoinedStr) or (is_text(node) and node.value != "")):  # type: ignore[attr-defined]
            self.message(node)
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Store):
                self.text.names.add(node.id)
            self.add(f"${node.id} ")
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self.text.strings.add(node.value)
            self.add(constant(node.value))
        elif isinstance(node, ast.Attribute):
            self.attribute(node)
        elif isinstance(node, ast.JoinedStr):
            self.joined(node)
        else:
            if isinstance(node, _NOTED):
                self.note(node)
            before = self.in_error, self.in_fault
            self.in_error |= self.silent and (_is_error(node) or (self.in_fault and isinstance(node, _RESULTS)))
            self.in_fault = _is_fault(node.returns) if isinstance(node, ast.FunctionDef) else self.in_fault
            self.fields(node)
            self.in_error, self.in_fault = before

    def attribute(self, node: ast.Attribute) -> None:
        """Write `a.b.c`, which is a name if `a` is one."""
        self.text.attributes.add(node.attr)
        if dotted := dotted_name(node):
            self.text.names.add(dotted)
            self.add(f"${dotted} ")
        else:
            self.node(node.value)
            self.add(f".{node.attr} ")

    def joined(self, node: ast.JoinedStr) -> None:
        """Write an f-string with adjacent texts joined: where they are cut differs by version."""
        self.add("(JoinedStr ")
        text = ""
        for part in [*node.values, None]:
            if part is not None and is_text(part):
                text += part.value  # type: ignore[attr-defined]
                continue
            self.add(f"{text!a} " if text else "")
            text = ""
            if part is not None:
                self.node(part)
        self.add(")")

    def fields(self, node: ast.AST) -> None:
        """Write the kind of a node and its fields."""
        self.add(f"({type(node).__name__} ")
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        typed = function and not decorators(node) <= _PLAIN
        documented = function or isinstance(node, ast.ClassDef)
        for name in _fields(node.__class__):
            value = getattr(node, name, None)
            if value is None or value == [] or (name == "format_spec" and not value.values):  # some versions have it
                continue
            if name == "returns" and not typed:
                self.annotation(value)
                continue
            self.add(f"{name}=")
            before, compared = self.in_error, isinstance(node, ast.Compare)
            self.in_error |= self.silent and name == "msg"  # of an assertion
            self.in_error &= name not in _DECIDING and not compared
            if name in _BLOCKS and isinstance(value, list):
                self.statements(value, isinstance(node, ast.ClassDef), documented and name == "body")
            elif isinstance(value, ast.arguments):
                self.arguments(value, typed)
            else:
                for item in value if isinstance(value, list) else [value]:
                    self.value(item)
            self.in_error = before
        self.add(")")

    def arguments(self, one: ast.arguments, typed: bool) -> None:
        """Write the arguments of a function; their annotations only if a decorator may read these."""
        for name in ("posonlyargs", "args", "vararg", "kwonlyargs", "kw_defaults", "kwarg", "defaults"):
            value = getattr(one, name)
            for item in value if isinstance(value, list) else [value] if value else []:
                if isinstance(item, ast.arg):
                    self.add(f"{name}:{item.arg} ")
                    if item.annotation and typed:
                        self.node(item.annotation)
                    else:
                        self.annotation(item.annotation)
                else:
                    self.add(f"{name}=")
                    self.value(item)

    def value(self, value: object) -> None:
        """Write an item of a field."""
        if isinstance(value, ast.stmt):
            self.statement(value)
        elif isinstance(value, ast.AST):
            self.node(value)
        else:
            self.add(constant(value))

    def note(self, node: ast.AST) -> None:
        """Note lookups by computed names."""
        if isinstance(node, ast.Call):
            called = dotted_name(node.func)
            computed = called.rpartition(".")[2] == "import_module" or called == "sys.modules.get"
            if called in _ALL_MODULES or (computed and not all(map(is_text, node.args[:1]))):
                self.text.lookups.add(called)
        elif isinstance(node, ast.Subscript) and dotted_name(node.value) == "sys.modules" and not is_text(node.slice):
            self.text.lookups.add("sys.modules")
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.text.names.add(node.target.id)
        elif isinstance(node, ast.FunctionDef) and node.name == "__init_subclass__":
            self.text.lookups.add(node.name)


def _fields(kind: type[ast.AST]) -> list[str]:
    """Return the fields of a kind of node that may decide something, sorted by name."""
    if kind not in _FIELDS:
        _FIELDS[kind] = sorted({*kind._fields} - _SILENT)
    return _FIELDS[kind]


def _is_error(node: ast.AST) -> bool:
    """Return whether an expression or statement makes an error, or warns."""
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and dotted_name(node.func).endswith(_MAKERS))


def _is_fault(annotation: ast.AST | None) -> bool:
    """Return whether an annotation tells of texts for errors."""
    return annotation is not None and any(dotted_name(one) == _FAULT for one in ast.walk(annotation))


def constant(value: object) -> str:
    """Return a constant with its type in ASCII; integers in hexadecimal, as decimal digits have a limit."""
    text = hex(value) if isinstance(value, int) and not isinstance(value, bool) else ascii(value)
    return f"{type(value).__name__}:{text} "


def is_text(node: ast.AST) -> bool:
    """Return whether an expression is a string constant."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_idle(one: ast.stmt) -> bool:
    """Return whether a statement does nothing: `pass`, or a constant such as `...`."""
    return isinstance(one, ast.Pass) or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))


def dotted_name(node: ast.AST) -> str:
    """Return `a.b.c` for attributes of a name, else ""."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


def decorators(node: ast.AST) -> set[str]:
    """Return the last names of a definition's decorators; "" for one that is computed."""
    called = (one.func if isinstance(one, ast.Call) else one for one in getattr(node, "decorator_list", ()))
    return {dotted_name(one).rpartition(".")[2] for one in called}


def has_effect(node: ast.AST) -> bool:
    """Return whether a decorator of a definition may do more than return it, such as enter it in a table."""
    return not decorators(node) <= _WITHOUT_EFFECT


def is_for_type_checkers(one: ast.If) -> bool:
    """Return whether a condition is `TYPE_CHECKING`."""
    return dotted_name(one.test).rpartition(".")[2] == "TYPE_CHECKING"


def imported(one: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, each with what they stand for: a module, or `module:name`.

    `import a.b` binds `a`; that it imports `a.b` is yielded under the name "import a.b".
    """
    if isinstance(one, ast.Import):
        for alias in one.names:
            yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
            if not alias.asname and "." in alias.name:
                yield f"import {alias.name}", alias.name
        return
    module = one.module or ""
    if one.level:
        parents = package.split(".")
        module = ".".join([*parents[: len(parents) - one.level + 1], *([module] if module else [])])
    for alias in one.names:
        yield ("*" if alias.name == "*" else alias.asname or alias.name), f"{module}:{alias.name}"
