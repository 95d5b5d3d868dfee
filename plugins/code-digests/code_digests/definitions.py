"""Digests of definitions: each covers its canonical text and all that it names, directly or through others.

A definition is what a module binds at its top level: a function, a class with all its methods, a constant. Names are
followed through imports into all packages whose code counts: those outside site-packages, and those of
`Codebase.own`. Everything else counts by the names that are used of it. Nothing is imported, sources alone are read.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeAlias

from code_digests.canonical_form import Text
from code_digests.once import Once
from code_digests.source_module import IMPORT, SourceModule
from code_digests.sources import SourceTree, spec_of

ALL = "*"  #: all that a module binds, where code has a module as a value
PACKAGE = "**"  #: all modules of a package, where code looks up a name that it computes
DATA = "data"  #: the files beside a module, where code asks for its `__file__`
SOURCES = "sources"  #: the files of all modules of a package, where code asks on which line something is

_LOOKUPS = {"__import__", "eval", "exec", "globals"}
_RESOURCES = {"importlib.resources", "pkgutil", "importlib_resources"}
_OWN_PLACE = {"__name__", "__package__", "__spec__"}
_LINES = {"co_firstlineno", "co_lines", "co_linetable", "co_lnotab", "co_positions"}


class Definition(NamedTuple):
    """The name of a definition, and the module that binds it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


#: What a name means: a definition that is followed, or the dotted name of something else.
Target: TypeAlias = Definition | str


@dataclass
class Codebase(SourceTree):
    """The sources of all packages whose code counts, and the digests of what they define."""

    lookups: frozenset[Definition] = frozenset()  # that look up what is followed by other ways
    always: Sequence[str] = ()  # modules that every process imports
    _digests: dict[Definition, str] = field(default_factory=dict)

    def root(self, name: str) -> Target:
        """Return what `module:name` is; its text alone if there is no such definition in the sources."""
        module, _, inside = name.partition(":")
        if self.module(module) is None:
            return f"={name}"
        (first, *_) = self.resolve(module, inside.partition(".")[0])
        return first if isinstance(first, Definition) and first.name != ALL else f"={name}"

    def roots(self, names: Iterable[str]) -> list[Target]:
        """Return what `names` are, and what the modules do that every process imports."""
        effects = {Definition(one, IMPORT) for name in self.always for one in self.effective(name)}
        return [*map(self.root, names), *sorted(effects)]

    def closure(self, roots: Iterable[Target]) -> set[Definition]:
        """Return all definitions that roots name, directly or through others."""
        waiting = [one for one in roots if isinstance(one, Definition)]
        found = set(waiting)
        while waiting:
            for _, target in self.uses(waiting.pop()):
                if isinstance(target, Definition) and target not in found:
                    found.add(target)
                    waiting.append(target)
        return found

    def imported(self, places: Iterable[Definition]) -> dict[str, Path]:
        """Return the files of all modules that hold definitions, or that these modules import, in turn, by name."""
        waiting, found = sorted({place.module for place in places}), dict[str, Path]()
        while waiting:
            name = waiting.pop()
            if name not in found and (path := self.path(name)) is not None:
                found[name] = path
                waiting += self._imported_by(name) - found.keys()
        return found

    @Once
    def _imported_by(self, name: str) -> set[str]:
        """Return the package of a module, and the names of the modules that it imports."""
        names = {name.rpartition(".")[0]} if "." in name else set()
        for target in _targets(self.module(name)):
            names.add(target.partition(":")[0])
            names |= {one.module for one in self._follow(target, "") if isinstance(one, Definition)}
        return names

    def libraries(self, places: Iterable[Definition]) -> set[str]:
        """Return the top-level modules that definitions name and whose code does not count, without Python's own."""
        targets = (target for place in places for _, target in self.uses(place) if isinstance(target, str))
        tops = {target.partition(".")[0] for target in targets if not target.startswith("=")}
        return {top for top in tops if top not in sys.stdlib_module_names and not self.homes(top)}

    def digest(self, target: Target) -> str:
        """Return the digest of a definition and of all that it names; definitions in a cycle are digested as one."""
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
        """Digest definitions that name each other: by their texts, refined by what they name until stable."""
        finer = {place: self.mark(place) for place in component}
        marks: dict[Definition, str] = {}
        while len({*finer.values()}) > len({*marks.values()}):
            marks = finer
            finer = {place: _hash(marks[place], *self._named(place, marks)) for place in component}
        marks = finer
        whole = sorted(marks.values()) if len(component) > 1 else []
        self._digests |= {place: _hash(mark, *whole) for place, mark in marks.items()}

    def _named(self, place: Definition, marks: Mapping[Definition, str]) -> list[str]:
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
        """Return the canonical text of a definition, or what there is in place of it."""
        if place.name == DATA:
            return "".join(f"{path.name} {self.content(path)}\n" for path in self.data_files(place.module))
        if place.name == SOURCES:
            paths = (self.path(name) for name in self.modules_of(place.module))
            return "".join(f"{path.name} {self.content(path)}\n" for path in paths if path)
        return place.name if place.name in (ALL, PACKAGE) else self.text(place).form

    def text(self, place: Definition) -> Text:
        """Return the text of a definition with what it mentions; empty for what is none by itself."""
        module = self.module(place.module)
        return module.text(place.name) if module and place.name not in (ALL, PACKAGE, DATA, SOURCES) else Text()

    @Once
    def uses(self, place: Definition) -> frozenset[tuple[str, Target]]:
        """Return what a definition names: each name as it stands there, and what it means."""
        return frozenset(self._find_uses(place))

    def _find_uses(self, place: Definition) -> Iterator[tuple[str, Target]]:
        module = self.module(place.module)
        if module is None or place.name in (DATA, SOURCES):
            return
        if place.name == ALL:
            yield from ((name, Definition(module.name, name)) for name in module.bound)
            for name in module.imports:
                yield from ((name, one) for one in self._meant(module, name, ""))
        elif place.name == PACKAGE:
            yield from ((name, Definition(name, ALL)) for name in self.modules_of(module.name))
        else:
            yield from self._named_in(module, module.text(place.name), place)
        for name in self.effective(module.name):
            if Definition(name, IMPORT) != place:
                yield IMPORT, Definition(name, IMPORT)

    def _named_in(self, module: SourceModule, text: Text, place: Definition) -> Iterator[tuple[str, Target]]:
        top = module.name.partition(".")[0]
        if (
            text.lookups or text.names & _LOOKUPS or "__subclasses__" in text.attributes
        ) and place not in self.lookups:
            yield PACKAGE, Definition(top, PACKAGE)
        for dotted in text.names:
            first, _, rest = dotted.partition(".")
            for target in text.imports.get(first, ()):
                yield from ((dotted, one) for one in self._follow(target, rest))
            for one in self._meant(module, first, rest):
                if one != place:
                    yield dotted, one
            if first == "__file__":
                yield dotted, Definition(module.name, DATA)
            elif first in _OWN_PLACE:
                yield dotted, f"={module.name}"
        for name, targets in text.imports.items():
            if name.startswith("import "):
                yield from ((name, one) for target in targets for one in self._follow(target, ""))
        yield from self._named_by_strings(text)
        if _LINES & (text.attributes | text.strings):
            yield SOURCES, Definition(top, SOURCES)
        if self._asks_for_resources(module, text):
            yield DATA, Definition(top, DATA)

    def _meant(self, module: SourceModule, name: str, rest: str, seen: tuple[str, ...] = ()) -> Iterator[Target]:
        """Yield what a name of a module, followed by attributes, may mean; `seen` are modules that were asked."""
        if name in module.bound:
            yield Definition(module.name, name)
        for target in module.imports.get(name, ()):
            yield from self._follow(target, rest)
        if name not in module.bound and name not in module.imports:
            for target in module.imports.get(ALL, ()):
                source = self.module(target.partition(":")[0])
                if source and source.name not in seen:
                    yield from self._meant(source, name, rest, (*seen, module.name))

    def _named_by_strings(self, text: Text) -> Iterator[tuple[str, Target]]:
        """Yield what strings name: "module:Class", as the target of a Config, or a module."""
        for string in text.strings:
            source, colon, name = string.partition(":")
            if not source.replace(".", "").isidentifier() or not (colon or "." in source):
                continue
            if self.module(source):
                found = self.resolve(source, name.partition(".")[0]) if name else [Definition(source, ALL)]
                yield from ((string, one) for one in found)
            elif colon and name.isidentifier() and self._is_library(source.partition(".")[0]):
                yield string, f"{source}.{name}"

    def _is_library(self, top: str) -> bool:
        return not self.homes(top) and spec_of(top) is not None

    def _asks_for_resources(self, module: SourceModule, text: Text) -> bool:
        tops = {name.partition(".")[0] for name in text.names}
        named = {one for top in tops for found in (text, module) for one in found.imports.get(top, ())}
        return any(target.replace(":", ".").startswith(one) for target in named for one in _RESOURCES)

    def _follow(self, target: str, rest: str) -> Iterator[Target]:
        """Yield what an import stands for, followed by attributes."""
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
        """Return what a name of a module, followed by attributes, may mean; all of the module if it is not found."""
        module = self.module(source)
        assert module is not None
        if name in module.bound:
            return [Definition(source, name)]
        if self.is_module(f"{source}.{name}"):
            inner = f"{source}.{name}"
            return [Definition(inner, ALL) if self.module(inner) else self._outside(inner)]
        targets = module.imports.get(name) or (module.lazy.get(name) if "__getattr__" in module.bound else None)
        found = [one for target in targets or () for one in self._follow(target, rest)]
        return found or [*self._meant(module, name, rest)] or [Definition(source, ALL)]

    def _outside(self, module: str, *names: str) -> str:
        """Return the dotted name of what is not followed; the digest of a compiled module instead of names in it."""
        path = self.path(module)
        return f"={module} {self.content(path)}" if path and path.suffix != ".py" else ".".join([module, *names])

    @Once
    def effective(self, name: str) -> list[str]:
        """Return the modules that have effects when they are imported: of a module and those that it imports."""
        found, waiting = {name}, [name]
        while waiting:
            new = self._loaded_with(waiting.pop()) - found
            found |= new
            waiting += new
        return sorted(one for one in found if (own := self.module(one)) and own.effects)

    @Once
    def _loaded_with(self, name: str) -> set[str]:
        """Return the names of the modules, with their packages, that importing a module imports at once."""
        names = set()
        for target in _targets(self.module(name)):
            source, _, inner = target.partition(":")
            parts = source.split(".")
            names |= {".".join(parts[: end + 1]) for end in range(len(parts))} | {f"{source}.{inner}"}
        return {one for one in names if self.module(one)}


def _targets(module: SourceModule | None) -> set[str]:
    return {one for targets in module.imports.values() for one in targets} if module else set()


def _components(root: Definition, below: Callable[[Definition], list[Definition]]) -> Iterator[list[Definition]]:
    """Yield the strongly connected components reached from a root, those that others name first (Tarjan, 1972)."""
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
        for one in rest:
            if one not in index:
                enter(one)
                break
            if one in inside:
                low[place] = min(low[place], index[one])
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
