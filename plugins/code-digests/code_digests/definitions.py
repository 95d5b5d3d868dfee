"""Digests of definitions: each covers its canonical text and everything that it names, directly or indirectly.

A definition is a name bound at the top level of a module: a function, a class with all its methods, a constant.
Names are followed through imports into all followed packages: packages outside site-packages, and packages in
`Codebase.installed`. For other packages, only the names in use count. Sources are read but never imported.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeAlias

from code_digests.canonical_form import CanonicalText
from code_digests.once import Once
from code_digests.source_module import IMPORT, SourceModule
from code_digests.sources import SourceTree, spec_of

ALL = "*"  #: all names of a module; used if a module is a value in code
PACKAGE = "**"  #: all modules of a package; used for lookups by computed names
DATA = "data"  #: the data files next to a module; used if code reads `__file__`
SOURCES = "sources"  #: the files of all modules of a package; used if code reads line numbers

_LOOKUPS = {"__import__", "eval", "exec", "globals"}
_RESOURCES = {"importlib.resources", "pkgutil", "importlib_resources"}
_OWN_PLACE = {"__name__", "__package__", "__spec__"}
_LINES = {"co_firstlineno", "co_lines", "co_linetable", "co_lnotab", "co_positions"}


class Definition(NamedTuple):
    """A definition: its module and its name."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


#: Meaning of a name: a followed definition, or the dotted name of something else.
Target: TypeAlias = Definition | str


@dataclass
class Codebase(SourceTree):
    """The sources of all followed packages, and the digests of their definitions."""

    lookups: frozenset[Definition] = frozenset()  # definitions whose lookups are covered by other means
    always: Sequence[str] = ()  # modules that every process imports
    _digests: dict[Definition, str] = field(default_factory=dict)

    def root(self, name: str) -> Target:
        """Return the target of `module:name`, or the name itself if there is no such definition in the sources."""
        module, _, inside = name.partition(":")
        if self.module(module) is None:
            return f"={name}"
        (first, *_) = self.resolve(module, inside.partition(".")[0])
        return first if isinstance(first, Definition) and first.name != ALL else f"={name}"

    def roots(self, names: Iterable[str]) -> list[Target]:
        """Return the targets of `names`, and the import effects of the modules that every process imports."""
        effects = {Definition(module, IMPORT) for name in self.always for module in self.effective(name)}
        return [*map(self.root, names), *sorted(effects)]

    def closure(self, roots: Iterable[Target]) -> set[Definition]:
        """Return all definitions that roots use, directly or indirectly."""
        waiting = [root for root in roots if isinstance(root, Definition)]
        reached = set(waiting)
        while waiting:
            for _, target in self.uses(waiting.pop()):
                if isinstance(target, Definition) and target not in reached:
                    reached.add(target)
                    waiting.append(target)
        return reached

    def imported_files(self, places: Iterable[Definition]) -> dict[str, Path]:
        """Return the files of the modules of definitions and of all modules that they import, by module name."""
        waiting, files = sorted({place.module for place in places}), dict[str, Path]()
        while waiting:
            name = waiting.pop()
            if name not in files and (path := self.path(name)) is not None:
                files[name] = path
                waiting += self._direct_imports(name) - files.keys()
        return files

    @Once
    def _direct_imports(self, name: str) -> set[str]:
        """Return the package of a module, and the names of the modules that it imports."""
        names = {name.rpartition(".")[0]} if "." in name else set()
        for target in _targets(self.module(name)):
            names.add(target.partition(":")[0])
            names |= {
                definition.module for definition in self._follow(target, "") if isinstance(definition, Definition)
            }
        return names

    def libraries(self, places: Iterable[Definition]) -> set[str]:
        """Return the top-level modules that definitions use but that are not followed, excluding Python's own."""
        targets = (target for place in places for _, target in self.uses(place) if isinstance(target, str))
        tops = {target.partition(".")[0] for target in targets if not target.startswith("=")}
        return {top for top in tops if top not in sys.stdlib_module_names and not self.homes(top)}

    def digest(self, target: Target) -> str:
        """Return the digest of a definition and everything it uses; a cycle of definitions is digested as a whole."""
        if isinstance(target, str):
            return _hash(target)
        if target not in self._digests:
            for component in _components(target, self._below):
                self._digest_component(component)
        return self._digests[target]

    def _below(self, place: Definition) -> list[Definition]:
        return [
            target
            for _, target in sorted(self.uses(place), key=str)
            if isinstance(target, Definition) and target not in self._digests
        ]

    def _digest_component(self, component: Sequence[Definition]) -> None:
        """Digest definitions that use each other, refining their text digests by their uses until stable."""
        finer = {place: self.mark(place) for place in component}
        marks: dict[Definition, str] = {}
        while len({*finer.values()}) > len({*marks.values()}):
            marks = finer
            finer = {place: _hash(marks[place], *self._marks_of_uses(place, marks)) for place in component}
        marks = finer
        whole = sorted(marks.values()) if len(component) > 1 else []
        self._digests |= {place: _hash(mark, *whole) for place, mark in marks.items()}

    def _marks_of_uses(self, place: Definition, marks: Mapping[Definition, str]) -> list[str]:
        known = self._digests
        return sorted(
            f"{name}={target if isinstance(target, str) else marks[target] if target in marks else known[target]}"
            for name, target in self.uses(place)
        )

    @Once
    def mark(self, place: Definition) -> str:
        """Return the digest of a definition's own text."""
        return _hash(self.form(place))

    def form(self, place: Definition) -> str:
        """Return the canonical text of a definition, or its substitute."""
        if place.name == DATA:
            return "".join(f"{path.name} {self.content(path)}\n" for path in self.data_files(place.module))
        if place.name == SOURCES:
            paths = (self.path(name) for name in self.modules_of(place.module))
            return "".join(f"{path.name} {self.content(path)}\n" for path in paths if path)
        return place.name if place.name in (ALL, PACKAGE) else self.text(place).form

    def text(self, place: Definition) -> CanonicalText:
        """Return the canonical text of a definition and its names; empty for pseudo-definitions."""
        module = self.module(place.module)
        return (
            module.text(place.name) if module and place.name not in (ALL, PACKAGE, DATA, SOURCES) else CanonicalText()
        )

    @Once
    def uses(self, place: Definition) -> frozenset[tuple[str, Target]]:
        """Return (name, target) pairs for the names in a definition."""
        return frozenset(self._find_uses(place))

    def _find_uses(self, place: Definition) -> Iterator[tuple[str, Target]]:
        module = self.module(place.module)
        if module is None or place.name in (DATA, SOURCES):
            return
        if place.name == ALL:
            yield from ((name, Definition(module.name, name)) for name in module.bound)
            for name in module.imports:
                yield from ((name, target) for target in self._meanings(module, name, ""))
        elif place.name == PACKAGE:
            yield from ((name, Definition(name, ALL)) for name in self.modules_of(module.name))
        else:
            yield from self._uses_in_text(module, module.text(place.name), place)
        for name in self.effective(module.name):
            if Definition(name, IMPORT) != place:
                yield IMPORT, Definition(name, IMPORT)

    def _uses_in_text(
        self, module: SourceModule, text: CanonicalText, place: Definition
    ) -> Iterator[tuple[str, Target]]:
        top = module.name.partition(".")[0]
        if (
            text.lookups or text.names & _LOOKUPS or "__subclasses__" in text.attributes
        ) and place not in self.lookups:
            yield PACKAGE, Definition(top, PACKAGE)
        for dotted in text.names:
            first, _, rest = dotted.partition(".")
            for target in text.imports.get(first, ()):
                yield from ((dotted, followed) for followed in self._follow(target, rest))
            for meaning in self._meanings(module, first, rest):
                if meaning != place:
                    yield dotted, meaning
            if first == "__file__":
                yield dotted, Definition(module.name, DATA)
            elif first in _OWN_PLACE:
                yield dotted, f"={module.name}"
        for name, targets in text.imports.items():
            if name.startswith("import "):
                yield from ((name, followed) for target in targets for followed in self._follow(target, ""))
        yield from self._uses_in_strings(text)
        if _LINES & (text.attributes | text.strings):
            yield SOURCES, Definition(top, SOURCES)
        if self._reads_resources(module, text):
            yield DATA, Definition(top, DATA)

    def _meanings(self, module: SourceModule, name: str, rest: str, seen: tuple[str, ...] = ()) -> Iterator[Target]:
        """Yield the possible targets of a name with attributes `rest` in a module; skip modules in `seen`."""
        if name in module.bound:
            yield Definition(module.name, name)
        for target in module.imports.get(name, ()):
            yield from self._follow(target, rest)
        if name not in module.bound and name not in module.imports:
            for target in module.imports.get(ALL, ()):
                source = self.module(target.partition(":")[0])
                if source and source.name not in seen:
                    yield from self._meanings(source, name, rest, (*seen, module.name))

    def _uses_in_strings(self, text: CanonicalText) -> Iterator[tuple[str, Target]]:
        """Yield the targets of strings that name a definition ("module:Class", as in Configs) or a module."""
        for string in text.strings:
            source, colon, name = string.partition(":")
            if not source.replace(".", "").isidentifier() or not (colon or "." in source):
                continue
            if self.module(source):
                targets = self.resolve(source, name.partition(".")[0]) if name else [Definition(source, ALL)]
                yield from ((string, target) for target in targets)
            elif colon and name.isidentifier() and self._is_library(source.partition(".")[0]):
                yield string, f"{source}.{name}"

    def _is_library(self, top: str) -> bool:
        return not self.homes(top) and spec_of(top) is not None

    def _reads_resources(self, module: SourceModule, text: CanonicalText) -> bool:
        tops = {name.partition(".")[0] for name in text.names}
        targets = {target for top in tops for source in (text, module) for target in source.imports.get(top, ())}
        return any(target.replace(":", ".").startswith(resource) for target in targets for resource in _RESOURCES)

    def _follow(self, target: str, rest: str) -> Iterator[Target]:
        """Yield the possible targets of an import with attributes `rest`."""
        source, _, name = target.partition(":")
        names = [*([name] if name else []), *(rest.split(".") if rest else [])]
        while names and names[0] != ALL and self.is_module(f"{source}.{names[0]}"):
            source = f"{source}.{names.pop(0)}"
        if self.module(source) is None:
            yield self._outside(source, *names)
        elif names and names[0] != ALL:
            yield from self.resolve(source, names[0], ".".join(names[1:]))
        else:
            yield Definition(source, ALL)

    def resolve(self, source: str, name: str, rest: str = "") -> list[Target]:
        """Return the possible targets of a name with attributes `rest` in a module; by default the module."""
        module = self.module(source)
        assert module is not None
        if name in module.bound:
            return [Definition(source, name)]
        if self.is_module(f"{source}.{name}"):
            inner = f"{source}.{name}"
            return [Definition(inner, ALL) if self.module(inner) else self._outside(inner)]
        targets = module.imports.get(name) or (module.lazy.get(name) if "__getattr__" in module.bound else None)
        meanings = [meaning for target in targets or () for meaning in self._follow(target, rest)]
        return meanings or [*self._meanings(module, name, rest)] or [Definition(source, ALL)]

    def _outside(self, module: str, *names: str) -> str:
        """Return the dotted name of a target that is not followed; for compiled modules, the digest of the file."""
        path = self.path(module)
        return f"={module} {self.content(path)}" if path and path.suffix != ".py" else ".".join([module, *names])

    @Once
    def effective(self, name: str) -> list[str]:
        """Return the modules with import effects among a module and all modules that it imports."""
        loaded, waiting = {name}, [name]
        while waiting:
            new = self._loaded_with(waiting.pop()) - loaded
            loaded |= new
            waiting += new
        return sorted(module for module in loaded if (source := self.module(module)) and source.effects)

    @Once
    def _loaded_with(self, name: str) -> set[str]:
        """Return the names of the modules that a module imports directly, and of their packages."""
        names = set()
        for target in _targets(self.module(name)):
            source, _, inner = target.partition(":")
            parts = source.split(".")
            names |= {".".join(parts[: end + 1]) for end in range(len(parts))} | {f"{source}.{inner}"}
        return {module for module in names if self.module(module)}


def _targets(module: SourceModule | None) -> set[str]:
    return {target for targets in module.imports.values() for target in targets} if module else set()


def _components(root: Definition, below: Callable[[Definition], list[Definition]]) -> Iterator[list[Definition]]:
    """Yield the strongly connected components reachable from a root, dependencies first (Tarjan, 1972)."""
    index: dict[Definition, int] = {}
    low: dict[Definition, int] = {}
    path: list[Definition] = []
    inside: set[Definition] = set()
    stack: list[tuple[Definition, Iterator[Definition]]] = []

    def enter(place: Definition) -> None:
        index[place] = low[place] = len(index)
        path.append(place)
        inside.add(place)
        stack.append((place, iter(below(place))))

    enter(root)
    while stack:
        place, rest = stack[-1]
        for neighbor in rest:
            if neighbor not in index:
                enter(neighbor)
                break
            if neighbor in inside:
                low[place] = min(low[place], index[neighbor])
        else:
            stack.pop()
            if stack:
                parent = stack[-1][0]
                low[parent] = min(low[parent], low[place])
            if low[place] == index[place]:
                start = path.index(place)
                component = path[start:]
                del path[start:]
                inside.difference_update(component)
                yield component


def _hash(*texts: str) -> str:
    return sha256("\n".join(texts).encode()).hexdigest()
