"""The canonical text of Python code: independent of layout, comments and the version of Python.

Docstrings and annotations of functions and variables are stored separately, because they have no effect unless code
reads them. The types of class fields are part of the text because dataclasses read them. A writer can leave out
error messages.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

#: Decorators that do not read annotations.
_NOT_READING_ANNOTATIONS = {
    "abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "final", "hookimpl", "hookspec",
    "lru_cache", "no_grad", "overload", "override", "property", "setter", "staticmethod", "wraps",
}  # fmt: skip
#: Decorators without side effects.
_WITHOUT_SIDE_EFFECTS = _NOT_READING_ANNOTATIONS | {
    "dataclass",
    "inference_mode",
    "runtime_checkable",
    "total_ordering",
}
#: Irrelevant fields of syntax trees.
_SILENT = {"ctx", "kind", "type_comment", "type_ignores", "type_params"}
_ALL_MODULES = {"sys.modules.items", "sys.modules.values"}
_WITH_LOOKUPS = (ast.AugAssign, ast.Call, ast.FunctionDef, ast.Subscript)
_BLOCKS = {"body", "finalbody", "orelse"}
_FIELDS: dict[type[ast.AST], list[str]] = {}
_FAULT = "Fault"  #: name of the annotation for parts of error messages in silent packages
_ERROR_SUFFIXES = ("Error", "warn")  # suffixes of functions and classes that take error messages
_RESULTS = (ast.Return, ast.Yield, ast.YieldFrom)
#: Fields of expressions that select an error message without being part of it.
_SELECTING = {"comparators", "ifs", "keys", "slice", "test"}


@dataclass
class CanonicalText:
    """The canonical text of statements, and the names in it."""

    words: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # including dotted names such as `torch.nn.Linear`
    attributes: set[str] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)  # may name a module or "module:name"
    imports: dict[str, set[str]] = field(default_factory=dict)  # inside functions; see `import_targets`
    lookups: set[str] = field(default_factory=set)  # lookups of definitions by computed names
    docstrings: list[str] = field(default_factory=list)
    annotations: list[str] = field(default_factory=list)

    @property
    def form(self) -> str:
        """The canonical text."""
        return "".join(self.words)


class Writer:
    """Writes the canonical text of syntax trees.

    Empty fields are left out and other fields are sorted by name, so that new fields of later Python versions have no
    effect until they are used. Text is ASCII because the set of printable characters depends on the version. If
    `silent`, error messages and texts of functions and variables annotated as `Fault` are left out, but names in
    them are followed.
    """

    def __init__(self, package: str, silent: bool = False) -> None:
        self.package, self.silent, self.text = package, silent, CanonicalText()
        self.in_error = self.in_fault = False  # inside an error message; inside a function that returns a Fault

    def add(self, word: str) -> None:
        """Append a word to the text."""
        self.text.words.append(word)

    def statements(self, body: Iterable[ast.stmt], of_class: bool = False, documented: bool = False) -> None:
        """Write a block; if `documented`, its first statement may be a docstring."""
        for place, write_statement in enumerate(body):
            if documented and place == 0 and isinstance(write_statement, ast.Expr) and is_text(write_statement.value):
                self.text.docstrings.append(write_statement.value.value)  # type: ignore[attr-defined]
            elif not is_idle(write_statement):
                self.write_statement(write_statement, of_class)

    def write_statement(self, node: ast.stmt, of_class: bool = False) -> None:
        """Write a statement; imports are stored separately, and blocks for type checkers are left out."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, target in import_targets(node, self.package):
                self.text.imports.setdefault(name, set()).add(target)
        elif isinstance(node, ast.AnnAssign) and not of_class:
            self.annotation(node.annotation)
            self.in_error = self.silent and _is_fault(node.annotation)
            if node.value is not None:
                self.node(ast.Assign(targets=[node.target], value=node.value))
            self.in_error = False
        elif isinstance(node, ast.If) and is_for_type_checkers(node):
            self.statements(node.orelse)
        else:
            self.node(node)

    def annotation(self, node: ast.AST | None) -> None:
        """Store an annotation separately; names in it are not followed."""
        if node is not None:
            outer, self.text = self.text, CanonicalText()
            self.node(node)
            outer.annotations.append(self.text.form)
            self.text = outer

    def message(self, node: ast.AST) -> None:
        """Write a placeholder for a text; names in it are followed."""
        words, self.in_error = [*self.text.words, "text "], False
        self.node(node)
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
            self.f_string(node)
        else:
            if isinstance(node, _WITH_LOOKUPS):
                self.note(node)
            before = self.in_error, self.in_fault
            self.in_error |= self.silent and (_is_error(node) or (self.in_fault and isinstance(node, _RESULTS)))
            self.in_fault = _is_fault(node.returns) if isinstance(node, ast.FunctionDef) else self.in_fault
            self.fields(node)
            self.in_error, self.in_fault = before

    def attribute(self, node: ast.Attribute) -> None:
        """Write `a.b.c`, as a name if `a` is a name."""
        self.text.attributes.add(node.attr)
        if dotted := dotted_name(node):
            self.text.names.add(dotted)
            self.add(f"${dotted} ")
        else:
            self.node(node.value)
            self.add(f".{node.attr} ")

    def f_string(self, node: ast.JoinedStr) -> None:
        """Write an f-string with adjacent texts joined, because their boundaries depend on the Python version."""
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
        typed = function and not decorators(node) <= _NOT_READING_ANNOTATIONS
        documented = function or isinstance(node, ast.ClassDef)
        for name in _fields(node.__class__):
            value = getattr(node, name, None)
            if (
                value is None or value == [] or (name == "format_spec" and not value.values)
            ):  # present in some versions
                continue
            if name == "returns" and not typed:
                self.annotation(value)
                continue
            self.add(f"{name}=")
            before, compared = self.in_error, isinstance(node, ast.Compare)
            self.in_error |= self.silent and name == "msg"  # message of an assertion
            self.in_error &= name not in _SELECTING and not compared
            if name in _BLOCKS and isinstance(value, list):
                self.statements(value, isinstance(node, ast.ClassDef), documented and name == "body")
            elif isinstance(value, ast.arguments):
                self.arguments(value, typed)
            else:
                for item in value if isinstance(value, list) else [value]:
                    self.value(item)
            self.in_error = before
        self.add(")")

    def arguments(self, signature: ast.arguments, typed: bool) -> None:
        """Write the arguments of a function, with annotations only if a decorator may read them."""
        for name in ("posonlyargs", "args", "vararg", "kwonlyargs", "kw_defaults", "kwarg", "defaults"):
            value = getattr(signature, name)
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
            self.write_statement(value)
        elif isinstance(value, ast.AST):
            self.node(value)
        else:
            self.add(constant(value))

    def note(self, node: ast.AST) -> None:
        """Record lookups by computed names."""
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
    """Return the relevant fields of a node type, sorted by name."""
    if kind not in _FIELDS:
        _FIELDS[kind] = sorted({*kind._fields} - _SILENT)
    return _FIELDS[kind]


def _is_error(node: ast.AST) -> bool:
    """Return whether an expression or statement creates an error or a warning."""
    return isinstance(node, ast.Raise) or (
        isinstance(node, ast.Call) and dotted_name(node.func).endswith(_ERROR_SUFFIXES)
    )


def _is_fault(annotation: ast.AST | None) -> bool:
    """Return whether an annotation marks texts for error messages."""
    return annotation is not None and any(dotted_name(node) == _FAULT for node in ast.walk(annotation))


def constant(value: object) -> str:
    """Return a constant with its type in ASCII; integers are hexadecimal because decimal digits are limited."""
    text = hex(value) if isinstance(value, int) and not isinstance(value, bool) else ascii(value)
    return f"{type(value).__name__}:{text} "


def is_text(node: ast.AST) -> bool:
    """Return whether an expression is a string constant."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_idle(statement: ast.stmt) -> bool:
    """Return whether a statement does nothing: `pass`, or a constant such as `...`."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def dotted_name(node: ast.AST) -> str:
    """Return `a.b.c` for attributes of a name, else ""."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


def decorators(node: ast.AST) -> set[str]:
    """Return the last names of a definition's decorators; "" for computed decorators."""
    called = (item.func if isinstance(item, ast.Call) else item for item in getattr(node, "decorator_list", ()))
    return {dotted_name(item).rpartition(".")[2] for item in called}


def has_effect(node: ast.AST) -> bool:
    """Return whether a decorator of a definition may have side effects, such as registering the definition."""
    return not decorators(node) <= _WITHOUT_SIDE_EFFECTS


def is_for_type_checkers(statement: ast.If) -> bool:
    """Return whether a condition is `TYPE_CHECKING`."""
    return dotted_name(statement.test).rpartition(".")[2] == "TYPE_CHECKING"


def import_targets(statement: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds with their targets: a module, or `module:name`.

    `import a.b` binds `a`; the import of `a.b` itself is yielded under the name "import a.b".
    """
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
            if not alias.asname and "." in alias.name:
                yield f"import {alias.name}", alias.name
        return
    module = statement.module or ""
    if statement.level:
        parents = package.split(".")
        module = ".".join([*parents[: len(parents) - statement.level + 1], *([module] if module else [])])
    for alias in statement.names:
        yield ("*" if alias.name == "*" else alias.asname or alias.name), f"{module}:{alias.name}"
