"""Digests of the code behind stages: the function of each kind of stage, and the parts that it uses."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path

from bench_core.config import Config
from bench_core.files import digest
from bench_core.optional import AUTHORS, package
from bench_core.registry import installed, stage_kind, stage_kinds
from bench_core.whose_code import PACKAGES
from code_digests import Codebase, CodeDigests, Definition

ISOLATION = "bench_core.computing.isolation:apart"  #: wraps the function of every kind of stage

#: Modules that run in stages but are not part of keys, because they do not affect results -> their purposes.
CARRYING: Mapping[str, str] = {
    f"{package(AUTHORS)}.looks": "rejects results that differ when computed again",
    "bench_core.commands": "the command line",
    "bench_core.computing.hidden_targets": "hides targets from decoders",
    "bench_core.computing.laws": "names the laws of results",
    "bench_core.computing.looks": "has results computed again",
    "bench_core.computing.context": "gives stages access to inputs",
    "bench_core.computing.stage_runner": "calls the function of a kind of stage",
    "bench_core.entry_points": "finds distributions",
    "bench_core.execution": "sends requests, and starts processes",
    "bench_core.files": "digests files",
    "bench_core.hooks": "declares hooks",
    "bench_core.observed_inputs": "declares the observed inputs of stages",
    "bench_core.whose_code": "lists the packages of the core",
    "bench_core.wrapped_readers": "reports imports",
    "code_digests": "computes digests of code",
    "process_watch": "observes what stages read and replace",
    "bench_core.optional": "names packages to install",
    "bench_core.observer": "declares the events for observers",
    "bench_core.planning": "computes keys, and replaces digests by paths",
    "bench_core.registry": "finds parts by name",
    "bench_core.runs": "writes and reads runs",
    "bench_core.storage.artifact": "writes and reads artifacts",
    "bench_core.storage.checkpoints": "finds checkpoints",
    "bench_core.storage.code_listings": "writes and reads listings of code",
    "bench_core.storage.contents": "lists the files of artifacts",
    "bench_core.storage.costs": "records the cost of stages",
    "input_digests": "compares the inputs of stages",
    "bench_core.storage.file_formats": "rejects damaged files",
    "bench_core.storage.locks": "waits for other processes",
    "bench_core.storage.store": "finds artifacts",
    "bench_core.stage_kinds": "maps kinds of stage to functions",
    "bench_core.terminal": "prints",
}

#: Libraries whose version does not affect results: keys contain validated settings, and digests of files.
CARRYING_LIBRARIES = frozenset({"pluggy", "pooch", "pydantic", "ruamel.yaml", "safetensors", "typing_extensions"})

#: Definitions that look up other definitions by computed names; the latter are all roots of the stage.
LOOKUPS = ("bench_core.computing.part_class:_loaded", "bench_core.config:Config")

#: Names of files for type checkers or people, which lie next to modules and do not affect results.
NO_DATA = frozenset({"py.typed", "citations.bib"})


def is_followed(module: str) -> bool:
    """Return whether the code of one of our modules is part of keys."""
    return not any(f"{module}.".startswith(f"{name}.") for name in carrying())


def carrying() -> dict[str, str]:
    """Return the modules that run in stages but are not part of keys, each with its purpose."""
    return dict(CARRYING) | {name: why for kind in stage_kinds().values() for name, why in kind.carrying.items()}


def code_digests() -> CodeDigests:
    """Return the digests of the core, all plugins, and code outside of site-packages."""
    modules = (module for _, module in installed().manager.list_name_plugin() if module is not None)
    return _code_digests(tuple(sorted({str(getattr(module, "__name__", "")) for module in modules})))


@cache
def _code_digests(plugins: tuple[str, ...]) -> CodeDigests:
    packages = {*PACKAGES, *(name.partition(".")[0] for name in plugins)}
    names = chain(LOOKUPS, *(kind.lookups for kind in stage_kinds().values()))
    lookups = frozenset(Definition(*name.split(":")) for name in names)
    code = Codebase(
        cache(is_followed), frozenset(packages), frozenset(PACKAGES), content=_content_digest, no_data=NO_DATA,
        lookups=lookups, always=plugins,
    )  # fmt: skip
    return CodeDigests(code, CARRYING_LIBRARIES)


def stage_digests(roots: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the digest of the code behind each name (a kind of stage, part or class), given their roots."""
    with without_garbage_collection():
        return code_digests().of_parts(roots)


#: Data files next to modules -> their digests when first read, which are part of keys.
content_digests: dict[str, str] = {}


def _content_digest(path: Path) -> str:
    content_digest = digest(path)
    content_digests.setdefault(str(path), content_digest)
    return content_digest


def forget_code() -> None:
    """Read all sources again for the next digest; for tests that edit them."""
    _code_digests.cache_clear()
    content_digests.clear()


def roots_of(config: type[Config]) -> tuple[str, ...]:
    """Return the roots of a part: its Config, and the class that it builds."""
    root, target = f"{config.__module__}:{config.__qualname__}", getattr(config, "target", "")
    return (root, target) if target else (root,)


def roots_of_stage(kind: str) -> tuple[str, ...]:
    """Return the roots of a kind of stage."""
    return stage_kind(kind).function, ISOLATION


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause garbage collection in a block that creates many permanent objects, such as syntax trees."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.freeze()
            gc.unfreeze()  # moves all objects to the oldest generation, so that they are not scanned now
            gc.enable()
