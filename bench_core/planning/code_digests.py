"""The digests of the code behind stages: of the function of each kind of stage, and of the parts that take part."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, reduce
from hashlib import sha256
from importlib import metadata
from importlib.metadata import Distribution
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from bench_core.config import Config
from bench_core.files import digest
from bench_core.planning import cache_keys as keys
from bench_core.planning.definitions import ALL, DATA, Codebase, Definition
from bench_core.registry import installed, stage_kind, stage_kinds

ISOLATION = "bench_core.computing.isolation:isolated"  #: in which all kinds of stage execute

#: Modules that execute in stages and whose code is in no key, as they decide no result.
CARRYING: Mapping[str, str] = {
    "bench_core.commands": "the command line",
    "bench_core.computing.laws": "names the laws of results",
    "bench_core.computing.metric_look": "refuses metrics that measure the same otherwise",
    "bench_core.computing.second_look": "refuses results that are others at a second look",
    "bench_core.computing.task_look": "refuses tasks that say the same otherwise",
    "bench_core.computing.context": "what stages have access to",
    "bench_core.computing.stage_runner": "calls the function of a kind of stage",
    "bench_core.entry_points": "finds distributions",
    "bench_core.execution": "sends requests, and starts processes",
    "bench_core.files": "digests files",
    "bench_core.hooks": "declares hooks",
    "bench_core.input_events": "observes what stages read",
    "bench_core.observed_inputs": "observes what stages read",
    "bench_core.whose_code": "tells which code reads",
    "bench_core.wrapped_readers": "observes what stages read",
    "bench_core.observer": "declares what observers hear of",
    "bench_core.planning": "makes keys, and puts paths in place of digests",
    "bench_core.registry": "finds parts by their names",
    "bench_core.runs": "writes and reads runs",
    "bench_core.storage.artifact": "writes and reads artifacts",
    "bench_core.storage.checkpoints": "finds checkpoints",
    "bench_core.storage.code_listings": "writes and reads listings of code",
    "bench_core.storage.contents": "lists the files of artifacts",
    "bench_core.storage.costs": "remembers what stages cost",
    "bench_core.storage.dependencies": "compares what stages have read",
    "bench_core.storage.file_formats": "refuses damaged files",
    "bench_core.storage.garbage": "cleans stores",
    "bench_core.storage.locks": "waits for other processes",
    "bench_core.storage.store": "finds artifacts",
    "bench_core.stage_kinds": "says which function performs a stage",
    "bench_core.terminal": "prints",
}

#: Libraries whose version decides no result: settings are in keys as they are validated, files by their digests.
CARRYING_LIBRARIES = frozenset({"pluggy", "pooch", "pydantic", "ruamel.yaml", "safetensors", "typing_extensions"})

#: What looks up a definition by a computed name: one of a root of the stage.
LOOKUPS = ("bench_core.computing.part_class:_loaded", "bench_core.config:Config")

_READS_DOCSTRINGS = {"__doc__", "inspect.getdoc"}
_READS_ANNOTATIONS = {
    "__annotations__", "inspect.get_annotations", "inspect.signature", "typing.get_type_hints",
}  # fmt: skip


def is_followed(module: str) -> bool:
    """Return whether the code of a module of ours counts."""
    return not any(f"{module}.".startswith(f"{one}.") for one in carrying())


def carrying() -> dict[str, str]:
    """Return the modules that execute in stages and whose code is in no key, each with the reason."""
    return dict(CARRYING) | {name: why for kind in stage_kinds().values() for name, why in kind.carrying.items()}


def code_digests() -> CodeDigests:
    """Return the digests of the core, of all plugins, and of what is not installed in site-packages."""
    plugins = installed().manager.list_name_plugin()
    return _code_digests(
        tuple(sorted({str(getattr(module, "__name__", "")) for _, module in plugins if module is not None}))
    )


@cache
def _code_digests(plugins: tuple[str, ...]) -> CodeDigests:
    own = {"bench_core", *(name.partition(".")[0] for name in plugins)}
    silent = frozenset({"bench_core", *(name.partition(".")[0] for name in plugins if _is_silent(name))})
    names = chain(LOOKUPS, *(kind.lookups for kind in stage_kinds().values()))
    lookups = frozenset(Definition(*one.split(":")) for one in names)
    return CodeDigests(
        Codebase(cache(is_followed), lookups, frozenset(own), silent, plugins, content=_content_digest)
    )


def _is_silent(plugin: str) -> bool:
    """Return whether a plugin says that no code reads the texts of its errors, which are then in no key."""
    return bool(getattr(sys.modules.get(plugin), "silent", False))


#: Files of data beside modules -> their digests when they were first read, which are in keys.
content_digests: dict[str, str] = {}


def _content_digest(path: Path) -> str:
    found = digest(path)
    content_digests.setdefault(str(path), found)
    return found


def forget_code() -> None:
    """Read sources again for the next digest, for tests that edit these."""
    _code_digests.cache_clear()
    content_digests.clear()


def roots_of(config: type[Config]) -> tuple[str, ...]:
    """Return the roots of a part: its Config, and the class that this builds."""
    roots = [f"{config.__module__}:{config.__qualname__}"]
    target = getattr(config, "target", "")
    return tuple([*roots, target] if target else roots)


def roots_of_stage(kind: str) -> tuple[str, ...]:
    """Return the roots of a kind of stage."""
    return stage_kind(kind).function, ISOLATION


@dataclass(frozen=True)
class Reading:
    """Which asides of definitions the code of a stage reads: docstrings, annotations."""

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
    """Digests by roots, each computed once."""

    code: Codebase
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

    def of_stage(self, parts: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """Return the digest of all that takes part in a stage, given their roots: its own function, and parts."""
        with without_garbage_collection():
            reading = reduce(Reading.__or__, map(self._reading, parts.values()), Reading())
            return {name: self.digest(roots, reading) for name, roots in parts.items()}

    def digest(self, roots: tuple[str, ...], reading: Reading) -> str:
        """Return the digest of the code behind roots, with the asides that the code of the stage reads."""
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
            self._libraries[roots] = frozenset().union(*named) - CARRYING_LIBRARIES
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


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Do not look for garbage among many small objects that all stay, such as syntax trees."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.freeze()
            gc.unfreeze()  # which makes all objects old: none of them is looked at now
            gc.enable()


@cache
def distributions(module: str) -> frozenset[str]:
    """Return the installed distributions that provide a top-level module."""
    if keys.library(module) != "not installed":
        return frozenset({module})
    return frozenset(one.name for one in _installed() if _provides(one, module))


@cache
def _installed() -> list[Distribution]:
    return [*metadata.distributions()]


def _provides(one: Distribution, module: str) -> bool:
    """Return whether a distribution has a top-level module, by its files alone, as metadata are slow to read."""
    if (tops := one.read_text("top_level.txt")) is not None:
        return module in tops.split()
    files = one.read_text("RECORD") or ""
    return any(line.startswith((f"{module}/", f"{module}.py,")) for line in files.splitlines())
