"""Digests of definitions: each covers its canonical text and all that it names, directly or through others.

A definition is what a module binds at its top level: a function, a class with all its methods, a constant. Names are
followed through imports into all packages whose code counts: those outside site-packages, and those of
`Codebase.own`. Everything else counts by the names that are used of it. Nothing is imported, sources alone are read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import file_digest, sha256
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeAlias

from code_digests.canonical_form import Text
from code_digests.source_module import IMPORT, SourceModule

ALL = "*"  #: all that a module binds, where code has a module as a value
PACKAGE = "**"  #: all modules of a package, where code looks up a name that it computes
DATA = "data"  #: the files beside a module, where code asks for its `__file__`
SOURCES = "sources"  #: the files of all modules of a package, where code asks on which line something is

_LOOKUPS = {"__import__", "eval", "exec", "globals"}
_RESOURCES = {"importlib.resources", "pkgutil", "importlib_resources"}
_OWN_PLACE = {"__name__", "__package__", "__spec__"}
_LINES = {"co_firstlineno", "co_lines", "co_linetable", "co_lnotab", "co_positions"}
_SITE = {"site-packages", "dist-packages"}


class Definition(NamedTuple):
    """The name of a definition, and the module that binds it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


Target: TypeAlias = (
    Definition | str
)  #: what a name means: a definition that is followed, or the dotted name of something else


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


@dataclass
class Codebase:
    """The sources of all packages whose code counts, and the digests of what they define."""

    followed: Callable[[str], bool] = lambda module: True  # whether the code of a module counts
    lookups: frozenset[Definition] = frozenset()  # that look up what is followed by other ways
    own: frozenset[str] = frozenset()  # packages in site-packages whose code counts
    silent: frozenset[str] = frozenset()  # packages whose error messages do not count
    always: Sequence[str] = ()  # modules that every process imports
    read: Callable[[Path], str] = lambda path: path.read_text(encoding="utf-8")
    content: Callable[[Path], str] = sha256_of
    no_data: frozenset[str] = frozenset({"py.typed"})  # names of files beside modules that decide nothing
    _modules: dict[str, SourceModule | None] = field(default_factory=dict)
    _homes: dict[str, list[Path]] = field(default_factory=dict)
    _uses: dict[Definition, frozenset[tuple[str, Target]]] = field(default_factory=dict)
    _digests: dict[Definition, str] = field(default_factory=dict)
    _effective: dict[str, list[str]] = field(default_factory=dict)
    _listed: dict[str, frozenset[str]] = field(default_factory=dict)
    _paths: dict[str, Path | None] = field(default_factory=dict)
    _marks: dict[Definition, str] = field(default_factory=dict)
    _imported: dict[str, frozenset[str]] = field(default_factory=dict)
    _loaded: dict[str, frozenset[str]] = field(default_factory=dict)

    def root(self, name: str) -> Target:
        """Return what `module:name` is; its text alone if there is no such definition in the sources."""
        module, _, inside = name.partition(":")
        if self.module(module) is None:
            return f"={name}"
        (first, *_) = self.resolve(module, inside.partition(".")[0])
        return first if isinstance(first, Definition) and first.name != ALL else f"={name}"

    def roots(self, names: Iterable[str]) -> list[Target]:
        """Return what `names` are, and what the modules do that every process imports."""
        return [*map(self.root, names), *self._imported_by_all]

    @cached_property
    def _imported_by_all(self) -> list[Target]:
        effects = {Definition(one, IMPORT) for name in self.always for one in self.effective(name)}
        return [*sorted(effects)]

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

    def _imported_by(self, name: str) -> frozenset[str]:
        """Return the package of a module, and the names of the modules that it imports."""
        if name not in self._imported:
            names = {name.rpartition(".")[0]} if "." in name else set()
            for target in _targets(self.module(name)):
                names.add(target.partition(":")[0])
                names |= {one.module for one in self._follow(target, "") if isinstance(one, Definition)}
            self._imported[name] = frozenset(names)
        return self._imported[name]

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

    def mark(self, place: Definition) -> str:
        """Return the digest of a definition's own text."""
        if place not in self._marks:
            self._marks[place] = _hash(self.form(place))
        return self._marks[place]

    def form(self, place: Definition) -> str:
        """Return the canonical text of a definition, or what there is in place of it."""
        if place.name == DATA:
            return "".join(f"{path.name} {self.content(path)}\n" for path in self.data_files(place.module))
        if place.name == SOURCES:
            paths = (self.path(name) for name in self._modules_of(place.module))
            return "".join(f"{path.name} {self.content(path)}\n" for path in paths if path)
        return place.name if place.name in (ALL, PACKAGE) else self.text(place).form

    def text(self, place: Definition) -> Text:
        """Return the text of a definition with what it mentions; empty for what is none by itself."""
        module = self.module(place.module)
        return module.text(place.name) if module and place.name not in (ALL, PACKAGE, DATA, SOURCES) else Text()

    def uses(self, place: Definition) -> frozenset[tuple[str, Target]]:
        """Return what a definition names: each name as it stands there, and what it means."""
        if place not in self._uses:
            self._uses[place] = frozenset(self._find_uses(place))
        return self._uses[place]

    def _find_uses(self, place: Definition) -> Iterator[tuple[str, Target]]:
        module = self.module(place.module)
        if module is None or place.name in (DATA, SOURCES):
            return
        if place.name == ALL:
            yield from ((name, Definition(module.name, name)) for name in module.bound)
            for name in module.imports:
                yield from ((name, one) for one in self._meant(module, name, ""))
        elif place.name == PACKAGE:
            yield from ((name, Definition(name, ALL)) for name in self._modules_of(module.name))
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
            elif colon and name.isidentifier() and not self.homes(source.partition(".")[0]) and _is_library(source):
                yield string, f"{source}.{name}"

    def _asks_for_resources(self, module: SourceModule, text: Text) -> bool:
        named = {target for name in text.names for target in self._imports_of(module, text, name.partition(".")[0])}
        return any(target.replace(":", ".").startswith(one) for target in named for one in _RESOURCES)

    def _imports_of(self, module: SourceModule, text: Text, name: str) -> set[str]:
        return text.imports.get(name, set()) | module.imports.get(name, set())

    def _follow(self, target: str, rest: str) -> Iterator[Target]:
        """Yield what an import stands for, followed by attributes."""
        source, _, name = target.partition(":")
        names = [*([name] if name else []), *(rest.split(".") if rest else [])]
        while names and names[0] != ALL and self._is_module(f"{source}.{names[0]}"):
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
        if self._is_module(f"{source}.{name}"):
            inner = f"{source}.{name}"
            return [Definition(inner, ALL) if self.module(inner) else self._outside(inner)]
        targets = module.imports.get(name) or (module.lazy.get(name) if "__getattr__" in module.bound else None)
        found = [one for target in targets or () for one in self._follow(target, rest)]
        return found or [*self._meant(module, name, rest)] or [Definition(source, ALL)]

    def effective(self, name: str) -> list[str]:
        """Return the modules that have effects when they are imported: of a module and those that it imports."""
        if name not in self._effective:
            found, waiting = {name}, [name]
            while waiting:
                new = self._loaded_with(waiting.pop()) - found
                found |= new
                waiting += new
            self._effective[name] = sorted(one for one in found if (own := self.module(one)) and own.effects)
        return self._effective[name]

    def _loaded_with(self, name: str) -> frozenset[str]:
        """Return the names of the modules, with their packages, that importing a module imports at once."""
        if name not in self._loaded:
            names = set()
            for target in _targets(self.module(name)):
                source, _, inner = target.partition(":")
                parts = source.split(".")
                names |= {".".join(parts[: end + 1]) for end in range(len(parts))} | {f"{source}.{inner}"}
            self._loaded[name] = frozenset(one for one in names if self.module(one))
        return self._loaded[name]

    def files(self) -> list[Path]:
        """Return the files of the modules that were looked up so far and whose code counts."""
        return sorted(one.path for one in self._modules.values() if one is not None)

    def module(self, name: str) -> SourceModule | None:
        """Return a module whose code counts; None for any other."""
        if name not in self._modules:
            path = self.path(name) if self.followed(name) else None
            source = path is not None and path.suffix == ".py"
            silent = name.partition(".")[0] in self.silent
            self._modules[name] = SourceModule.parse(name, path, self.read(path), silent) if path and source else None
        return self._modules[name]

    def _is_module(self, name: str) -> bool:
        return self.module(name) is not None or self.path(name) is not None

    def _outside(self, module: str, *names: str) -> str:
        """Return the dotted name of what is not followed; the digest of a compiled module instead of names in it."""
        path = self.path(module)
        return f"={module} {self.content(path)}" if path and path.suffix != ".py" else ".".join([module, *names])

    def path(self, name: str) -> Path | None:
        """Return the file of a module of a package whose code counts; it is not imported."""
        if name not in self._paths:
            self._paths[name] = self._find_path(name)
        return self._paths[name]

    def _find_path(self, name: str) -> Path | None:
        top, _, rest = name.partition(".")
        for home in self.homes(top):
            if home.is_file():
                return home if not rest else None
            base = os.path.join(home, *rest.split(".")) if rest else str(home)
            if "__init__.py" in self._names_in(base):
                return Path(base, "__init__.py")
            folder, last = os.path.split(base)
            for suffix in (".py", *EXTENSION_SUFFIXES) if rest else ():
                if last + suffix in self._names_in(folder):
                    return Path(base + suffix)
        return None

    def _names_in(self, folder: str) -> frozenset[str]:
        """Return the names in a folder, listed once; none if it is no folder."""
        if folder not in self._listed:
            try:
                self._listed[folder] = frozenset(os.listdir(folder))
            except OSError:
                self._listed[folder] = frozenset()
        return self._listed[folder]

    def homes(self, top: str) -> list[Path]:
        """Return the folders, or the file, of a top-level module whose code counts; none of any other."""
        if top not in self._homes:
            self._homes[top] = self._find_homes(top)
        return self._homes[top]

    def _find_homes(self, top: str) -> list[Path]:
        if not top.isidentifier() or top in sys.stdlib_module_names or top in sys.builtin_module_names:
            return []
        try:
            spec = find_spec(top)
        except (ImportError, ValueError):  # a module without one, such as `__main__`
            return []
        if spec is None:
            return []
        places = [*map(Path, spec.submodule_search_locations or [])] or [Path(spec.origin or "")]
        return [place for place in places if place.exists() and (top in self.own or not _SITE & {*place.parts})]

    def _modules_of(self, top: str) -> Iterator[str]:
        """Yield the names of all modules of a package."""
        for home in self.homes(top):
            for path in sorted(home.rglob("*.py") if home.is_dir() else ()):
                parts = path.relative_to(home).with_suffix("").parts
                name = ".".join([top, *(parts[:-1] if parts[-1] == "__init__" else parts)])
                if self.module(name):
                    yield name

    def data_files(self, name: str) -> Iterator[Path]:
        """Yield the files beside a module that are not Python's, and those in folders there that are no packages."""

        def below(folder: Path) -> Iterator[Path]:
            for path in sorted(folder.iterdir()):
                if path.name.startswith(".") or path.name.endswith("~"):
                    continue
                if path.is_dir():
                    if path.name != "__pycache__" and not (path / "__init__.py").exists():
                        yield from below(path)
                elif path.suffix not in (".py", ".pyc", ".pyi") and path.name not in self.no_data:
                    yield path

        path = self.path(name)
        yield from below(path.parent) if path else ()


def _targets(module: SourceModule | None) -> set[str]:
    return {one for targets in module.imports.values() for one in targets} if module else set()


def _is_library(source: str) -> bool:
    try:
        return find_spec(source.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


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
