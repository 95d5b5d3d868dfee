"""Digests of all code behind the parts of a computation, and the files and libraries that this code uses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import metadata
from importlib.metadata import Distribution, PackageNotFoundError
from typing import NamedTuple

from code_digests.definitions import ALL, DATA, Codebase, Definition
from code_digests.once import Once

#: Kind of aside (docstring or annotation) -> names of its readers.
_READERS = {
    "docstring": {"__doc__", "inspect.getdoc"},
    "annotation": {"__annotations__", "inspect.get_annotations", "inspect.signature", "typing.get_type_hints"},
}


class Covered(NamedTuple):
    """The modules, their files, data files next to them, and libraries (by module) covered by digests."""

    modules: frozenset[str]
    files: frozenset[str]
    data: frozenset[str]
    libraries: frozenset[str]


@dataclass
class CodeDigests:
    """Digests of roots `module:name`, each computed once."""

    code: Codebase
    ignored_libraries: frozenset[str] = frozenset()  # distributions whose version does not affect results

    @Once
    def closure(self, roots: tuple[str, ...]) -> frozenset[Definition]:
        """Return all definitions behind roots."""
        return frozenset(self.code.closure(self.code.roots(roots)))

    def of_parts(self, parts: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """Return the digest of each part of a computation from its roots; asides read by one part count in all."""
        reading = frozenset().union(*map(self._reading, parts.values()))
        return {name: self.digest(roots, reading) for name, roots in parts.items()}

    @Once
    def digest(self, roots: tuple[str, ...], reading: frozenset[str]) -> str:
        """Return the digest of the code behind roots, including the asides that the computation reads."""
        marks = [self.code.digest(target) for target in self.code.roots(roots)]
        asides = sorted(self._asides(self.closure(roots), reading))
        return sha256("\n".join([*marks, *asides]).encode()).hexdigest()

    def listing(self, roots: tuple[str, ...]) -> dict[str, str]:
        """Return the text digest of each definition behind roots, by name."""
        return {str(place): self.code.mark(place)[:16] for place in sorted(self.closure(roots)) if place.name != ALL}

    @Once
    def covered(self, parts: frozenset[tuple[str, ...]]) -> Covered:
        """Return the modules and files covered by the digests of several roots."""
        places = frozenset().union(*map(self.closure, parts))
        modules = self.code.imported_files(places)
        data = {str(path) for place in places if place.name == DATA for path in self.code.data_files(place.module)}
        files = frozenset(map(str, modules.values()))
        return Covered(frozenset(modules), files, frozenset(data), frozenset(self.code.libraries(places)))

    @Once
    def libraries(self, roots: tuple[str, ...]) -> frozenset[str]:
        """Return the installed distributions named by the code behind roots."""
        distributions_of_modules = (distributions(module) for module in self.code.libraries(self.closure(roots)))
        return frozenset().union(*distributions_of_modules) - self.ignored_libraries

    @Once
    def _reading(self, roots: tuple[str, ...]) -> set[str]:
        """Return the kinds of asides that the code behind roots reads."""
        asides = set[str]()
        for place in self.closure(roots):
            text = self.code.text(place)
            names = {target for _, target in self.code.uses(place)} | text.attributes | text.strings
            asides |= {aside for aside, readers in _READERS.items() if names & readers}
        return asides

    def _asides(self, places: Iterable[Definition], reading: frozenset[str]) -> Iterable[str]:
        for place in places:
            text = self.code.text(place)
            asides = {"docstring": text.docstrings, "annotation": text.annotations}
            yield from (f"{sort} {text}" for sort in reading for text in asides[sort])


@cache
def distributions(module: str) -> frozenset[str]:
    """Return the installed distributions that provide a top-level module."""
    try:
        metadata.distribution(module)
    except PackageNotFoundError:
        return frozenset(
            distribution.name for distribution in _installed_distributions() if _provides(distribution, module)
        )
    return frozenset({module})


@cache
def _installed_distributions() -> list[Distribution]:
    return [*metadata.distributions()]


def _provides(distribution: Distribution, module: str) -> bool:
    """Return whether a distribution has a top-level module; reads only its file lists, because metadata are slow."""
    if (tops := distribution.read_text("top_level.txt")) is not None:
        return module in tops.split()
    files = distribution.read_text("RECORD") or ""
    return any(line.startswith((f"{module}/", f"{module}.py,")) for line in files.splitlines())
