"""The digest of all code behind the parts of a computation, and the files and libraries that this code uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from hashlib import sha256
from importlib import metadata
from importlib.metadata import Distribution, PackageNotFoundError
from typing import NamedTuple

from code_digests.definitions import ALL, DATA, Codebase, Definition

_READS_DOCSTRINGS = {"__doc__", "inspect.getdoc"}
_READS_ANNOTATIONS = {
    "__annotations__", "inspect.get_annotations", "inspect.signature", "typing.get_type_hints",
}  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """Which asides of definitions the code of a computation reads: docstrings, annotations."""

    docstrings: bool = False
    annotations: bool = False

    def __or__(self, other: Reading) -> Reading:
        return Reading(self.docstrings or other.docstrings, self.annotations or other.annotations)


class Covered(NamedTuple):
    """What the digests of several roots cover: modules, their files, data beside them, libraries by module."""

    modules: frozenset[str]
    files: frozenset[str]
    data: frozenset[str]
    libraries: frozenset[str]


@dataclass
class CodeDigests:
    """Digests by roots, each computed once. A root is `module:name`."""

    code: Codebase
    ignored_libraries: frozenset[str] = frozenset()  # distributions whose version decides no result
    _closures: dict[tuple[str, ...], frozenset[Definition]] = field(default_factory=dict)
    _readings: dict[tuple[str, ...], Reading] = field(default_factory=dict)
    _digests: dict[tuple[tuple[str, ...], Reading], str] = field(default_factory=dict)
    _libraries: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    _covered: dict[frozenset[tuple[str, ...]], Covered] = field(default_factory=dict)

    def closure(self, roots: tuple[str, ...]) -> frozenset[Definition]:
        """Return all definitions behind roots."""
        if roots not in self._closures:
            self._closures[roots] = frozenset(self.code.closure(self.code.roots(roots)))
        return self._closures[roots]

    def of_parts(self, parts: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """Return the digest of each part of a computation, given its roots; what one part reads counts in all."""
        reading = reduce(Reading.__or__, map(self._reading, parts.values()), Reading())
        return {name: self.digest(roots, reading) for name, roots in parts.items()}

    def digest(self, roots: tuple[str, ...], reading: Reading) -> str:
        """Return the digest of the code behind roots, with the asides that the code of the computation reads."""
        if (roots, reading) not in self._digests:
            marks = [self.code.digest(target) for target in self.code.roots(roots)]
            asides = sorted(self._asides(self.closure(roots), reading))
            self._digests[roots, reading] = sha256("\n".join([*marks, *asides]).encode()).hexdigest()
        return self._digests[roots, reading]

    def listing(self, roots: tuple[str, ...]) -> dict[str, str]:
        """Return the digest of the text of each definition behind roots, by name."""
        return {str(place): self.code.mark(place)[:16] for place in sorted(self.closure(roots)) if place.name != ALL}

    def covered(self, parts: frozenset[tuple[str, ...]]) -> Covered:
        """Return the modules and files that the digests of several roots cover, as far as code uses them."""
        if parts not in self._covered:
            places = frozenset().union(*map(self.closure, parts))
            modules = self.code.imported(places)
            data = {
                str(path) for place in places if place.name == DATA for path in self.code.data_files(place.module)
            }
            files = frozenset(map(str, modules.values()))
            libraries = frozenset(self.code.libraries(places))
            self._covered[parts] = Covered(frozenset(modules), files, frozenset(data), libraries)
        return self._covered[parts]

    def libraries(self, roots: tuple[str, ...]) -> frozenset[str]:
        """Return the installed distributions that the code behind roots names."""
        if roots not in self._libraries:
            named = (distributions(module) for module in self.code.libraries(self.closure(roots)))
            self._libraries[roots] = frozenset().union(*named) - self.ignored_libraries
        return self._libraries[roots]

    def _reading(self, roots: tuple[str, ...]) -> Reading:
        if roots not in self._readings:
            found = Reading()
            for place in self.closure(roots):
                text = self.code.text(place)
                names = {target for _, target in self.code.uses(place)} | text.attributes | text.strings
                found |= Reading(bool(names & _READS_DOCSTRINGS), bool(names & _READS_ANNOTATIONS))
            self._readings[roots] = found
        return self._readings[roots]

    def _asides(self, places: Iterable[Definition], reading: Reading) -> Iterable[str]:
        for place in places:
            text = self.code.text(place)
            yield from (f"docstring {one}" for one in (text.docstrings if reading.docstrings else ()))
            yield from (f"annotation {one}" for one in (text.annotations if reading.annotations else ()))


@cache
def distributions(module: str) -> frozenset[str]:
    """Return the installed distributions that provide a top-level module."""
    try:
        metadata.distribution(module)
    except PackageNotFoundError:
        return frozenset(one.name for one in _installed() if _provides(one, module))
    return frozenset({module})


@cache
def _installed() -> list[Distribution]:
    return [*metadata.distributions()]


def _provides(one: Distribution, module: str) -> bool:
    """Return whether a distribution has a top-level module, by its files alone, as metadata are slow to read."""
    if (tops := one.read_text("top_level.txt")) is not None:
        return module in tops.split()
    files = one.read_text("RECORD") or ""
    return any(line.startswith((f"{module}/", f"{module}.py,")) for line in files.splitlines())
